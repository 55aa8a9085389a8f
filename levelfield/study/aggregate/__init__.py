"""Tables of a study from its cells: means, ranks, intervals, comparisons.

Formulas follow Lorandi and Belz (2026), sections 6.2, 6.3 and 7; intervals and tests are ours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from levelfield.core.errors import UserError
from levelfield.core.scores import tie_note
from levelfield.scoring.comparison import Comparison
from levelfield.scoring.seeds import seeds_in_words
from levelfield.scoring.sensitivity import sensitivity_notes
from levelfield.scoring.standing import Scale
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.study.aggregate.agreement import agreements, correspondences, cost_summaries
from levelfield.study.aggregate.comparisons import comparisons
from levelfield.study.aggregate.control import ControlData, dataset_weights
from levelfield.study.aggregate.means import table_entries
from levelfield.study.aggregate.results import (
    ControlSummary,
    StudySummary,
    TableEntry,
    places,
)
from levelfield.study.cells import Cell, grouped
from levelfield.study.observations import ALL


def aggregate(
    cells: Sequence[Cell],
    *,
    weights: Mapping[str, float] | None = None,
    resampling: Resampling = DEFAULT,
) -> StudySummary:
    """Returns the tables of a study.

    Every cell weighs as much as its dataset, so all seeds count alike. Prompts, and with two seeds
    or more of a system seeds, are samples: the interval of its mean is that of
    `stats.seeds.contrast`, of shares Wilson's with its variance. With one seed it holds for this
    run. Where each text has a draw of its own, prompts alone are a sample, and the texts of
    several seeds repeat them. Measures known for whole cells only have none.

    Two systems are compared under every measure known for single texts, except single judges, on
    the requests that they share: their values are averaged over seeds, and the difference is
    weighted by dataset as the means are. Only requests that both have a value for count; two
    systems that share next to none are compared as independent texts. If either has two seeds or
    more, the test and the interval are those of `stats.seeds.contrast`; with one seed each the test
    flips the signs of whole prompts. p is adjusted by Holm over the comparisons under one measure,
    with `resampling.family="run"` over all of a kind of control.

    Args:
        cells: of any kinds of control; several with one key count as several runs.
        weights: dataset -> weight; by default the number of its prompts: the texts asked for a
            value, else the different prompts seen; equal weights if neither is known.
        resampling: the level of intervals, how tests are drawn, and the family of comparisons.

    Raises:
        UserError: no cells, or a weight is missing or not above 0.
    """
    if not cells:
        raise UserError("no cells to report on; expected at least one that has texts or results")
    weight, source = dataset_weights(cells, weights)
    signatures: dict[str, dict[str, None]] = {}
    for cell in cells:
        for metric, signature in cell.signatures.items():
            signatures.setdefault(metric, {})[signature] = None
    groups = grouped(cells, lambda cell: cell.key.control).values()
    controls = tuple(_summary(ControlData.of(group, weight, resampling)) for group in groups)
    resampling.check_metrics(list({name: None for c in controls for name in c.comparisons}))
    return StudySummary(
        controls=controls,
        weights=weight,
        weights_from=source,
        signatures={metric: tuple(names) for metric, names in signatures.items()},
        resampling=resampling,
    )


def _summary(control: ControlData) -> ControlSummary:
    entries = table_entries(control)
    incomplete = incomplete_systems(control)
    compared = comparisons(control)
    return ControlSummary(
        control=control.observations.cells[0].key.control,
        systems=control.systems,
        datasets=control.datasets,
        values=control.values,
        seeds=control.seeds,
        seeds_of_systems=control.seeds_of_systems,
        measures=tuple(o.measure for o in control.observations.observed),
        entries=entries,
        incomplete=incomplete,
        comparisons=compared,
        agreements=agreements(control.observations),
        correspondences=correspondences(control, entries),
        costs=tuple(cost_summaries(control)),
        notes=(*notes(control, incomplete), *_could_show(compared, entries.values())),
    )


def _could_show(
    compared: Mapping[str, Sequence[Comparison]], entries: Iterable[TableEntry]
) -> Iterator[str]:
    """Yields notes on differences that are not shown but could have been."""
    measure_entries: dict[str, list[TableEntry]] = {}
    for entry in entries:
        measure_entries.setdefault(entry.measure, []).append(entry)
    scales = {name: Scale(places(measure_entries[name]), scientific=False) for name in compared}
    for note in sensitivity_notes({n: (c, scales[n]) for n, c in compared.items()}):
        yield note[:1].upper() + note[1:]


def incomplete_systems(control: ControlData) -> dict[str, str]:
    """Returns system -> what it lacks that any system has, in words."""
    measured: dict[str, set[tuple[str, str]]] = {system: set() for system in control.systems}
    for i, cell in enumerate(control.observations.cells):
        for o in control.observations.observed:
            for value in (ALL, *control.values):
                if o.cells.get((i, value)):
                    measured[cell.key.system].add((cell.key.dataset, value))
    everywhere = set().union(*measured.values())
    lacking = {s: _lacks(control, places, everywhere) for s, places in measured.items()}
    return {system: words for system, words in lacking.items() if words}


def _lacks(
    control: ControlData, places: set[tuple[str, str]], everywhere: set[tuple[str, str]]
) -> str:
    whole = [d for d in control.datasets if (d, ALL) in everywhere - places]
    elsewhere = {place for place in everywhere if place[0] not in whole}
    by_value: dict[str, list[str]] = {}
    for dataset, value in sorted(elsewhere - places):
        by_value.setdefault(value, []).append(dataset)
    words = [f"dataset {', '.join(whole)}"] if whole else []
    left = len(control.datasets) - len(whole)
    nowhere = [value for value, on in by_value.items() if len(on) == left]
    if nowhere:
        words.append(f"value {', '.join(nowhere)}")
    words += [f"{v} on {', '.join(on)}" for v, on in by_value.items() if v not in nowhere]
    return " and ".join(words)


def infinite_notes(cells: Iterable[Cell]) -> Iterator[str]:
    """Yields how many values of a metric are infinite."""
    infinite: Counter[str] = Counter()
    for cell in cells:
        for metric, scores in cell.scores.items():
            infinite[metric] += sum(map(math.isinf, scores.values()))
        for group in cell.groups:
            infinite[group.metric] += math.isinf(group.value)
    for metric, n in infinite.items():
        if n:
            yield f"{metric}: {n:,} values are infinite; means and comparisons leave them out"


def notes(control: ControlData, incomplete: Mapping[str, str]) -> Iterator[str]:
    """Yields the notes that a reader needs, in sentences."""
    cells = control.observations.cells
    for system, lacks in incomplete.items():
        yield (
            f"Incomplete: {system} has nothing for {lacks}; its means rest on different requests "
            "from those of the others, so its ranks say less"
        )
    if failed := [cell for cell in cells if cell.failure]:
        more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        yield f"Incomplete texts: {failed[0].key}: {failed[0].failure}{more}"
    if unmeasured := [c for c in cells if c.samples and not (c.scores or c.groups)]:
        more = f"; and {len(unmeasured) - 1} more" if len(unmeasured) > 1 else ""
        yield f"Not measured yet: {unmeasured[0].key}{more}; `levelfield study run` measures it"
    if missing := sum(len(cell.missing) for cell in cells):
        yield f"Missing: {missing:,} requests have no answer and are not counted"
    if control.observations.many_values:
        yield f"Not split by the {control.observations.many_values:,} values asked for"
    if control.valueless:
        yield f"Left out because no text has a value: {', '.join(control.valueless)}"
    tied: Counter[str] = Counter()
    for cell in cells:
        tied.update(cell.ties)
    for metric, n in tied.items():
        yield tie_note(metric, n, sum(len(c.samples) for c in cells if metric in c.scores))
    yield from infinite_notes(cells)
    independent = control.draws_of_texts
    if independent and any(o.texts is not None for o in control.observations.observed):
        whose = "" if independent == control.systems else f" of {', '.join(independent)}"
        yield (
            f"Each text{whose} has a draw of its own: several seeds are several texts of a prompt, "
            "and intervals and tests treat prompts as the sample"
        )
    seeds = {s: n for s, n in control.seeds_of_systems.items() if s not in independent}
    if not seeds:
        return
    if max(seeds.values()) == 1:
        yield (
            "One seed: how much another seed would change the numbers is unknown; claims are about "
            "this run"
        )
    elif any(o.texts is not None for o in control.observations.observed):
        single = [system for system, n in seeds.items() if n == 1]
        single_run = f"; what is said of {', '.join(single)} holds for this run" if single else ""
        words = seeds_in_words(seeds)
        yield f"{words}: intervals and tests treat prompts and seeds as samples{single_run}"
