"""Is everything there: cells, texts, wanted values?"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import product
from statistics import median, multimode

from levelfield.core.continuation import letters
from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    only,
    p_of_more,
    percent,
    share_found,
    shown,
)
from levelfield.study.audit.texts import Text, wants_words
from levelfield.study.cells import Cell, CellKey, value_name


def missing_cells(study: AuditedStudy) -> list[Finding]:
    """Cells that the grid has and the study has not, and cells that failed.

    The grid is what was expected, or else every combination of the systems, datasets and seeds seen
    with a kind of control. Serious if the system lacks a dataset altogether, or a cell failed:
    means over datasets then are means of different things. A warning for single seeds.
    """
    findings = []
    there = {
        cell.key
        for cell in study.cells
        if cell.samples or cell.rates or cell.groups or cell.failure or cell.asked == 0
    }
    holes = grouped(
        (key for key in _grid(study) if key not in there), lambda key: (key.system, key.control)
    )
    for (system, control), missing in holes.items():
        lacking = grouped(missing, lambda key: key.dataset)
        own = {k.dataset for k in there if (k.system, k.control) == (system, control)}
        severity: Severity = "serious" if lacking.keys() - own else "warning"
        of = len(missing) + sum((k.system, k.control) == (system, control) for k in there)
        names = "; ".join(f"{d}: {_seeds(keys)}" for d, keys in lacking.items())
        what = f"{len(missing)} of {of} cells are missing ({names})"
        where = (system, only(lacking), control, None)
        findings.append(Finding("missing-cell", severity, *where, what, len(missing), of))
    for cell in study.cells:
        if cell.failure:
            what = f"the cell failed: {cell.failure}"
            findings.append(Finding("missing-cell", "serious", *_where(cell), what, 1, 1))
    return findings


def _grid(study: AuditedStudy) -> list[CellKey]:
    if study.expected:
        return list(dict.fromkeys(study.expected))
    grid = []
    for control, cells in study.controls.items():
        axes = (
            dict.fromkeys(getattr(cell.key, name) for cell in cells)
            for name in ("system", "dataset", "seed")
        )
        grid += [
            CellKey(system, dataset, control, seed) for system, dataset, seed in product(*axes)
        ]
    return grid


def _seeds(keys: Iterable[CellKey]) -> str:
    return "seeds " + ", ".join(str(key.seed) for key in keys)


def missing_texts(study: AuditedStudy) -> list[Finding]:
    """Fewer texts than were asked for, or than most cells have for the same value.

    A warning; serious if a cell lacks 10 % or more. What was wrong with answers is a warning too.
    Cells that have results only are one note: no check of texts saw them.
    """
    findings = []
    limits = Limits(0.1, 0)
    usual = _usual_numbers(study)
    for (system, control), cells in study.systems.items():
        values: dict[str, set[str]] = {}
        for cell in cells:
            values.setdefault(cell.key.dataset, set()).update(_numbers(cell))
        short = {
            cell.key: lacking
            for cell in cells
            if (lacking := _lacking(cell, usual, values[cell.key.dataset]))
        }
        if short:
            n = sum(short.values())
            of = n + sum(len(cell.samples) for cell in cells if cell.key in short)
            shares = (
                short[c.key] / (short[c.key] + len(c.samples)) for c in cells if c.key in short
            )
            severity = limits.severity(max(shares)) or "warning"
            what = f"{n:,} of {of:,} texts are missing, in {len(short)} of {len(cells)} cells"
            dataset = only({key.dataset for key in short})
            seed = next(iter(short)).seed if len(short) == 1 else None
            where = (system, dataset, control, seed)
            findings.append(Finding("missing-texts", severity, *where, what, n, of))
        problems = [f"{cell.key}: {problem}" for cell in cells for problem in cell.problems]
        if problems:
            n = len(problems)
            more = f" and {n - EXAMPLES} more" if n > EXAMPLES else ""
            what = f"answers were not as they should be: {'; '.join(problems[:EXAMPLES])}{more}"
            where = (system, "", control, None)
            findings.append(Finding("missing-texts", "warning", *where, what, n, n))
    bare = [c for c in study.cells if (c.rates or c.groups) and not (c.samples or c.failure)]
    if bare:
        n, of = len(bare), len(study.cells)
        what = f"{n:,} of {of:,} cells have results only; checks of texts could not see them"
        findings.append(Finding("missing-texts", "note", "", "", "", None, what, n, of))
    return findings


def _lacking(cell: Cell, usual: Mapping[tuple[str, str, str], int], values: Iterable[str]) -> int:
    """How many texts a cell has less than it should; a cell that failed has said so.

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
    """Dataset, kind of control, value -> the number of texts that most cells have."""
    numbers_of_cells: dict[tuple[str, str, str], list[int]] = {}
    for cell in study.cells:
        for value, n in _numbers(cell).items():
            numbers_of_cells.setdefault((cell.key.dataset, cell.key.control, value), []).append(n)
    return {key: max(multimode(numbers)) for key, numbers in numbers_of_cells.items()}


def _where(cell: Cell) -> tuple[str, str, str, int]:
    return (cell.key.system, cell.key.dataset, cell.key.control, cell.key.seed)


def label_sets_differ(study: AuditedStudy) -> list[Finding]:
    """Systems that were asked for fewer values of a control than others.

    Serious: to be right on one of four topics is another task than on all four, and a mean over
    what each was asked for does not compare. One finding a kind of control. Silent for controls
    that want words in the text, and where most values are asked once a cell: what a system lacks
    of these are texts.
    """
    findings = []
    for control, cells in study.controls.items():
        values_of = {
            system: set().union(*map(values_asked, own))
            for system, own in grouped(cells, lambda cell: cell.key.system).items()
        }
        numbers = [n for cell in cells for n in _numbers(cell).values()]
        if (numbers and median(numbers) == 1) or any(
            wants_words(sample.control) for cell in cells for sample in cell.samples
        ):
            continue
        every = set().union(*values_of.values())
        # published values of several attributes at once may be named attribute by attribute
        fewer = {s: every - own for s, own in values_of.items() if own and own < every}
        if fewer:
            lacks = "; ".join(
                f"{system} only {', '.join(sorted(values_of[system]))}"
                if len(values_of[system]) < len(lacking)
                else f"{system} not {', '.join(sorted(lacking))}"
                for system, lacking in fewer.items()
            )
            what = f"{len(fewer)} of {len(values_of)} systems were asked for fewer values: {lacks}"
            where = (only(fewer), "", control, None)
            counts = (len(fewer), len(values_of))
            findings.append(Finding("label-sets-differ", "serious", *where, what, *counts))
    return findings


def values_asked(cell: Cell) -> set[str]:
    """The values a cell's texts were asked for; from its rates or groups if it has no texts."""
    texts = {value_name(sample.control) for sample in cell.samples}
    rates = {rate.value for rate in cell.rates if rate.value}
    return texts or rates or {group.value_asked for group in cell.groups if group.value_asked}


_LEVEL = 1e-5
_UNEVEN = 1.2
_REPEATED = 0.1
_FEW = 3


def labels_unbalanced(study: AuditedStudy) -> list[Finding]:
    """Values of a control that were asked for more often than others on a dataset.

    Shares found right over all texts then are those of the frequent value, and a system that
    always writes it is rewarded. Counted: the requests of a dataset, which systems and seeds have
    in common. A warning where one value has 1.2 times as many as another, and 10 % of the
    prompts (3 or more) were asked for with several values, so that the difference is no chance;
    with one value a prompt, where a binomial test has p < 1e-5 besides. One finding a kind of
    control, for the dataset where it is worst.
    """
    findings = []
    for control, cells in study.controls.items():
        worst: tuple[float, str, Counter[str]] = (0.0, "", Counter())
        for dataset, of_set in grouped(cells, lambda cell: cell.key.dataset).items():
            # the cell with most texts stands for the others; what they lack is missing
            cell = max(of_set, key=lambda cell: len(cell.samples))
            counts = Counter(value_name(sample.control) for sample in cell.samples)
            if len(counts) < 2:
                continue
            most, least = max(counts.values()), min(counts.values())
            prompts = grouped(cell.samples, lambda sample: sample.prompt).values()
            several = sum(len({value_name(s.control) for s in of}) > 1 for of in prompts)
            crossed = several >= max(_FEW, _REPEATED * len(prompts))
            chance = p_of_more(most, most + least, 0.5) >= _LEVEL
            if most >= _UNEVEN * least and (crossed or not chance):
                worst = max(worst, (most / least, dataset, counts), key=lambda one: one[0])
        factor, dataset, counts = worst
        if factor:
            order = counts.most_common()
            told = ", ".join(f"{value} {n:,}" for value, n in [*order[:3], *order[3:][-1:]])
            what = f"values are asked for {factor:.1f} times as often as others: {told} requests"
            where = ("", dataset, control, None)
            numbers = (what, order[0][1] - order[-1][1], counts.total())
            findings.append(Finding("labels-unbalanced", "warning", *where, *numbers))
    return findings


def requests_differ(study: AuditedStudy) -> list[Finding]:
    """Systems that were asked for other texts than the rest of the study.

    Two things are compared within a dataset and kind of control. A prompt is strange if no other
    system has it there; white space, quotes and case do not count. Where all that others have is
    there too, it is they who lack texts. With one system, a prompt of one seed is strange if all
    that the other seeds have is shared: seeds may draw their prompts. A request is strange if its
    id stands for another prompt or other wanted values in more of the cells. Serious
    from 5 % of the texts on: they answer other questions; a warning from the first.
    """
    findings = []
    strange: dict[tuple[str, str], list[Text]] = {}
    changed: dict[tuple[str, str], list[Text]] = {}
    for cells in grouped(study.cells, lambda cell: (cell.key.control, cell.key.dataset)).values():
        texts = study.of_system(cells)
        one = len({text.key.system for text in texts}) == 1
        asked = [(_prompt(text.sample.prompt), value_name(text.sample.control)) for text in texts]
        owners: dict[str, set[Hashable]] = {}
        prompts: dict[tuple[str, int], set[str]] = {}
        meanings: dict[str, Counter[Hashable]] = {}
        for text, meaning in zip(texts, asked, strict=True):
            prompts.setdefault((text.key.system, text.key.seed), set()).add(meaning[0])
            owners.setdefault(meaning[0], set()).add(text.key.seed if one else text.key.system)
            if "request" in text.sample.extra:
                id = str(text.sample.extra["request"])
                meanings.setdefault(id, Counter())[meaning] += 1
        draws = one and len({seed for of in owners.values() if len(of) == 1 for seed in of}) > 1
        odd = {own for own in prompts if not draws and _lacks_some(own, prompts)}
        for text, meaning in zip(texts, asked, strict=True):
            where = (text.key.system, text.key.control)
            if len(owners[meaning[0]]) == 1 and (text.key.system, text.key.seed) in odd:
                strange.setdefault(where, []).append(text)
            counts = meanings.get(str(text.sample.extra.get("request", "")))
            if counts and counts[meaning] < max(counts.values()):
                changed.setdefault(where, []).append(text)
    for where, of_system in study.systems.items():
        texts = study.of_system(of_system)
        what = "continue a prompt that no other system has on this dataset"
        limits = Limits(0.05, 0)
        findings += share_found("requests-differ", limits, what, strange.get(where, []), texts)
        what = "stand for another prompt or value than the same request has in other cells"
        findings += share_found("requests-differ", limits, what, changed.get(where, []), texts)
    return findings


def _lacks_some(own: tuple[str, int], prompts: Mapping[tuple[str, int], set[str]]) -> bool:
    """Whether a system and seed lacks prompts that others have: in its seed, if any have that."""
    others = [of for of in prompts if of[0] != own[0]] or [of for of in prompts if of != own]
    others = [of for of in others if of[1] == own[1]] or others
    return any(prompts[of] - prompts[own] for of in others)


@functools.lru_cache(maxsize=4096)
def _prompt(prompt: str) -> str:
    return letters(prompt)


def requests_repeated(study: AuditedStudy) -> list[Finding]:
    """Requests that are there more often than others, and samples that share an id.

    A prompt that stands twice in a dataset is counted twice in every mean, and what follows it is
    no observation of its own. A warning where 10 % of the requests of a dataset (prompt and wanted
    value), and 3 or more, are there more often than most are. Samples of one id are serious, since
    scores and votes of one are then taken for those of the other.
    """
    findings = []
    for (control, dataset), cells in grouped(
        study.cells, lambda cell: (cell.key.control, cell.key.dataset)
    ).items():
        cell = max(cells, key=lambda cell: len(cell.samples))
        counts = Counter((_prompt(s.prompt), value_name(s.control)) for s in cell.samples)
        # without prompts, requests of one value are alike by design
        if len({prompt for prompt, _ in counts}) < 2:
            continue
        usual = Counter(counts.values()).most_common(1)[0][0]
        more = sum(n > usual for n in counts.values())
        if more >= max(_FEW, _REPEATED * len(counts)):
            share = percent(more, len(counts))
            what = f"{more} of {len(counts)} requests ({share}) are there more often than others"
            where = ("", dataset, control, None)
            findings.append(
                Finding("requests-repeated", "warning", *where, what, more, len(counts))
            )
    ids = Counter(sample.id for cell in study.cells for sample in cell.samples)
    if repeated := [id for id, n in ids.items() if n > 1]:
        hits = [t for texts in study.texts.values() for t in texts if ids[t.sample.id] > 1]
        what = f"{len(hits):,} samples share an id with another, e.g. {repeated[0]!r}"
        examples = shown(hits[:EXAMPLES])
        where = ("", "", only(text.key.control for text in hits), None)
        numbers = (what, len(hits), ids.total(), examples)
        findings.append(Finding("requests-repeated", "serious", *where, *numbers))
    return findings
