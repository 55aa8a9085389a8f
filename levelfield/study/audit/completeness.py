"""Is everything there: cells, texts, wanted values?"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from statistics import median, multimode

from levelfield.core.continuation import letters
from levelfield.core.sample import Sample
from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Fault,
    Faults,
    Limits,
    Severity,
    Share,
    StudyPart,
    check,
    only,
    p_of_more,
    percent,
)
from levelfield.study.audit.texts import Text, wants_words
from levelfield.study.cells import Cell, CellKey, grouped, value_name


@check("missing-cell", per="study")
def missing_cells(part: StudyPart) -> Faults:
    """Cells of the grid that the study lacks, and cells that failed.

    The grid is what was expected, or else every combination of the systems, datasets and seeds seen
    with a kind of control. Serious if the system lacks a dataset altogether, or a cell failed:
    means over datasets then are means of different things. A warning for single seeds.
    """
    study = part.study
    present = {
        cell.key
        for cell in study.cells
        if cell.samples or cell.rates or cell.groups or cell.failure or cell.asked == 0
    }
    holes = grouped(
        (key for key in _grid(study) if key not in present), lambda key: (key.system, key.control)
    )
    for (system, control), missing in holes.items():
        lacking = grouped(missing, lambda key: key.dataset)
        similar = [k for k in present if (k.system, k.control) == (system, control)]
        severity: Severity = (
            "serious" if lacking.keys() - {key.dataset for key in similar} else "warning"
        )
        total = len(missing) + len(similar)
        names = "; ".join(f"{d}: {_seeds(keys)}" for d, keys in lacking.items())
        text = f"{len(missing)} of {total} cells are missing ({names})"
        yield Fault(severity, text, len(missing), total, (), system, only(lacking), control)
    for cell in study.cells:
        if cell.failure:
            yield Fault("serious", f"the cell failed: {cell.failure}", 1, 1, (), *cell.key)


def _grid(study: AuditedStudy) -> Iterator[CellKey]:
    yield from dict.fromkeys(study.expected)
    for part in study.parts("control") if not study.expected else ():
        axes = (
            dict.fromkeys(getattr(cell.key, name) for cell in part.cells)
            for name in ("system", "dataset", "seed")
        )
        for system, dataset, seed in product(*axes):
            yield CellKey(system, dataset, part.control, seed)


def _seeds(keys: Iterable[CellKey]) -> str:
    return "seeds " + ", ".join(str(key.seed) for key in keys)


@check("missing-texts", per="system", limits=Limits(0.1, 0))
def missing_texts(part: StudyPart) -> Faults:
    """Fewer texts than were asked for, or than most cells have for the same value.

    A warning; serious if a cell lacks 10 % or more. What was wrong with answers is a warning too.
    """
    usual = part.study.fact(_usual_numbers)
    datasets = grouped(part.cells, lambda cell: cell.key.dataset)
    values = {dataset: set(chain(*map(_numbers, cells))) for dataset, cells in datasets.items()}
    short = [
        (cell, lacking)
        for cell in part.cells
        if (lacking := _lacking(cell, usual, values[cell.key.dataset]))
    ]
    if short:
        n = sum(lacking for _, lacking in short)
        total = n + sum(len(cell.samples) for cell, _ in short)
        share = max(lacking / (lacking + len(cell.samples)) for cell, lacking in short)
        text = f"{n:,} of {total:,} texts are missing, in {len(short)} of {len(part.cells)} cells"
        dataset = only(cell.key.dataset for cell, _ in short)
        seed = short[0][0].key.seed if len(short) == 1 else None
        yield Fault(share, text, n, total, dataset=dataset, seed=seed)
    problems = [f"{cell.key}: {problem}" for cell in part.cells for problem in cell.problems]
    if problems:
        n = len(problems)
        more = f" and {n - EXAMPLES} more" if n > EXAMPLES else ""
        text = f"answers have problems: {'; '.join(problems[:EXAMPLES])}{more}"
        yield Fault("warning", text, n, n)


@check("missing-texts", per="study")
def results_only(part: StudyPart) -> Faults:
    """Cells that have results only, in one note: no check of texts saw them."""
    bare = [c for c in part.cells if (c.rates or c.groups) and not (c.samples or c.failure)]
    if bare:
        n, total = len(bare), len(part.cells)
        text = f"{n:,} of {total:,} cells have results only; checks of texts skip them"
        yield Fault("note", text, n, total)


def _lacking(cell: Cell, usual: Mapping[tuple[str, str, str], int], values: Iterable[str]) -> int:
    """Returns the number of texts that a cell lacks; a failed cell has reported itself.

    Values are those that any seed of the system was asked for.
    """
    if cell.failure or not (cell.samples or cell.missing):
        return 0
    _, dataset, control, _ = cell.key
    numbers = _numbers(cell)
    below = sum(max(0, usual[dataset, control, value] - numbers[value]) for value in values)
    return max(len(cell.missing), (cell.asked or 0) - len(cell.samples), below)


def _numbers(cell: Cell) -> Counter[str]:
    return Counter(value_name(sample.control) for sample in cell.samples)


def _usual_numbers(study: AuditedStudy) -> dict[tuple[str, str, str], int]:
    """Returns dataset, kind of control, value -> the number of texts that most cells have."""
    numbers_of_cells: dict[tuple[str, str, str], list[int]] = {}
    for cell in study.cells:
        for value, n in _numbers(cell).items():
            numbers_of_cells.setdefault((cell.key.dataset, cell.key.control, value), []).append(n)
    return {key: max(multimode(numbers)) for key, numbers in numbers_of_cells.items()}


@check("label-sets-differ", per="control")
def label_sets_differ(part: StudyPart) -> Faults:
    """Systems that were given fewer values of a control than others.

    Serious: to be right on one of four topics is another task than on all four, and a mean over
    what each was asked for does not compare. One finding a kind of control. Silent for controls
    that want words in the text, and where most values are asked once a cell: what a system lacks
    of these are texts.
    """
    values_of = {
        system: set().union(*map(values_asked, cells))
        for system, cells in part.cells_of_systems.items()
    }
    numbers = [n for cell in part.cells for n in _numbers(cell).values()]
    if (numbers and median(numbers) == 1) or any(
        wants_words(sample.control) for cell in part.cells for sample in cell.samples
    ):
        return
    every = set().union(*values_of.values())
    # published values of several attributes at once may be named attribute by attribute
    fewer = {s: every - values for s, values in values_of.items() if values and values < every}
    if fewer:
        lacks = "; ".join(
            f"{system} only {', '.join(sorted(values_of[system]))}"
            if len(values_of[system]) < len(lacking)
            else f"{system} not {', '.join(sorted(lacking))}"
            for system, lacking in fewer.items()
        )
        text = f"{len(fewer)} of {len(values_of)} systems were given fewer values: {lacks}"
        yield Fault("serious", text, len(fewer), len(values_of), (), only(fewer))


def values_asked(cell: Cell) -> set[str]:
    """Returns the requested values of a cell's texts, or else of its rates or groups."""
    texts = {value_name(sample.control) for sample in cell.samples}
    rates = {rate.value for rate in cell.rates if rate.value}
    return texts or rates or {group.value_asked for group in cell.groups if group.value_asked}


_LEVEL = 1e-5
_UNEVEN = 1.2
_REPEATED = 0.1
_FEW = 3


@check("requests-differ", per="system", limits=Limits(0.05, 0))
def requests_differ(part: StudyPart) -> Faults:
    """Systems whose requests differ from those of the rest of the study.

    Two things are compared within a dataset and kind of control. A prompt is strange if no other
    system has it there; white space, quotes and case do not count. Where all that others have is
    there too, it is they who lack texts. With one system, a prompt of one seed is strange if all
    that the other seeds have is shared: seeds may draw their prompts. A request is strange if its
    id stands for another prompt or other wanted values in more of the cells. Serious
    from 5 % of the texts on: they answer other questions; a warning from the first.
    """
    place = (part.system, part.control)
    for predicate, hits in zip(
        (
            "continue a prompt that no other system has on this dataset",
            "have a different prompt or value from the same request in other cells",
        ),
        part.study.fact(_odd_requests),
        strict=True,
    ):
        yield Share(predicate, hits.get(place, []), part.texts)


def _odd_requests(study: AuditedStudy) -> Sequence[Mapping[tuple[str, str], Sequence[Text]]]:
    """Returns the texts of strange prompts, and of changed requests, by system and control."""
    strange: dict[tuple[str, str], list[Text]] = {}
    changed: dict[tuple[str, str], list[Text]] = {}
    for texts in (part.texts for part in study.parts("dataset")):
        alone = len({text.key.system for text in texts}) == 1
        meanings = [_meaning(text.sample) for text in texts]
        owners: dict[str, set[Hashable]] = {}
        prompts: dict[tuple[str, int], set[str]] = {}
        by_id: dict[str, Counter[Hashable]] = {}
        for text, meaning in zip(texts, meanings, strict=True):
            prompts.setdefault((text.key.system, text.key.seed), set()).add(meaning[0])
            owners.setdefault(meaning[0], set()).add(text.key.seed if alone else text.key.system)
            if "request" in text.sample.extra:
                by_id.setdefault(str(text.sample.extra["request"]), Counter())[meaning] += 1
        single = {seed for seeds in owners.values() if len(seeds) == 1 for seed in seeds}
        draws = alone and len(single) > 1
        odd = {source for source in prompts if not draws and _lacks_some(source, prompts)}
        for text, meaning in zip(texts, meanings, strict=True):
            place = (text.key.system, text.key.control)
            if len(owners[meaning[0]]) == 1 and (text.key.system, text.key.seed) in odd:
                strange.setdefault(place, []).append(text)
            counts = by_id.get(str(text.sample.extra.get("request", "")))
            if counts and counts[meaning] < max(counts.values()):
                changed.setdefault(place, []).append(text)
    return strange, changed


def _lacks_some(source: tuple[str, int], prompts: Mapping[tuple[str, int], set[str]]) -> bool:
    """Returns whether a system and seed lack prompts of others, in that seed if any has it."""
    system, seed = source
    others = [s for s in prompts if s[0] != system] or [s for s in prompts if s != source]
    others = [s for s in others if s[1] == seed] or others
    return any(prompts[other] - prompts[source] for other in others)


_letters = functools.lru_cache(maxsize=4096)(letters)


def _meaning(sample: Sample) -> tuple[str, str]:
    """Returns prompt and requested values of a sample, without white space, quotes and case."""
    return _letters(sample.prompt), value_name(sample.control)


@check("requests-repeated", per="dataset")
def requests_repeated(part: StudyPart) -> Faults:
    """Requests that occur more often than others.

    A prompt that is in a dataset twice is counted twice in every mean, and its second texts are not
    observations of their own. A warning where 10 % of the requests of a dataset (prompt and wanted
    value), and 3 or more, occur more often than most.
    """
    cell = max(part.cells, key=lambda cell: len(cell.samples))
    counts = Counter(map(_meaning, cell.samples))
    # without prompts, requests of one value are alike by design
    if len({prompt for prompt, _ in counts}) < 2:
        return
    usual = Counter(counts.values()).most_common(1)[0][0]
    more, n = sum(k > usual for k in counts.values()), len(counts)
    if more >= max(_FEW, _REPEATED * n):
        text = f"{more} of {n} requests ({percent(more, n)}) occur more often than others"
        yield Fault("warning", text, more, n)


@check("requests-repeated", per="study")
def ids_repeated(part: StudyPart) -> Faults:
    """Samples that share an id, so that scores and votes of each are taken for the other's."""
    ids = Counter(sample.id for cell in part.cells for sample in cell.samples)
    if repeated := [id for id, n in ids.items() if n > 1]:
        hits = [t for texts in part.study.texts.values() for t in texts if ids[t.sample.id] > 1]
        text = f"{len(hits):,} samples share an id with another, e.g. {repeated[0]!r}"
        control = only(text.key.control for text in hits)
        yield Fault("serious", text, len(hits), ids.total(), hits[:EXAMPLES], control=control)


@check("labels-unbalanced", per="control")
def labels_unbalanced(part: StudyPart) -> Faults:
    """Values of a control that are requested more often than others on a dataset.

    Shares found right over all texts then are those of the frequent value, and a system that
    always writes it is rewarded. Counted: the requests of a dataset, which systems and seeds have
    in common. A warning where one value has 1.2 times as many as another, and 10 % of the
    prompts (3 or more) were asked for with several values, so that the difference is not by chance;
    with one value per prompt, where a binomial test has p < 1e-5 besides. One finding a kind of
    control, for the dataset where it is worst.
    """
    worst: tuple[float, str, Counter[str]] = (0.0, "", Counter())
    for dataset, cells in grouped(part.cells, lambda cell: cell.key.dataset).items():
        # the cell with most texts represents the others; what they lack is missing
        cell = max(cells, key=lambda cell: len(cell.samples))
        counts = _numbers(cell)
        if len(counts) < 2:
            continue
        most, least = max(counts.values()), min(counts.values())
        prompts = grouped(cell.samples, lambda sample: sample.prompt).values()
        several = sum(len({value_name(s.control) for s in samples}) > 1 for samples in prompts)
        crossed = several >= max(_FEW, _REPEATED * len(prompts))
        chance = p_of_more(most, most + least, 0.5) >= _LEVEL
        if most >= _UNEVEN * least and (crossed or not chance):
            worst = max(worst, (most / least, dataset, counts), key=lambda item: item[0])
    factor, dataset, counts = worst
    if factor:
        order = counts.most_common()
        listing = ", ".join(f"{value} {n:,}" for value, n in [*order[:3], *order[3:][-1:]])
        text = f"values are requested {factor:.1f} times as often as others: {listing} requests"
        n = order[0][1] - order[-1][1]
        yield Fault("warning", text, n, counts.total(), dataset=dataset)
