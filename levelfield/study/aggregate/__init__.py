"""From the cells of a study to its tables: means, ranks, intervals, comparisons.

Formulas follow Lorandi and Belz (2026), sections 6.2, 6.3 and 7; intervals and tests are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelfield.core.errors import UserError
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.study.aggregate.agreement import agreements, correspondences, cost_summaries
from levelfield.study.aggregate.comparisons import comparisons
from levelfield.study.aggregate.completeness import incomplete_systems, notes
from levelfield.study.aggregate.control import ControlData, dataset_weights
from levelfield.study.aggregate.means import table_entries
from levelfield.study.aggregate.results import ControlSummary, StudySummary
from levelfield.study.cells import Cell


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
    run. Measures known for whole cells only have none.

    Two systems are compared under every measure known for single texts, except single judges, on
    the requests that they share: their values are averaged over seeds, and the difference is
    weighted by dataset as the means are. Systems that have texts everywhere are compared on the
    requests that all of these have a value for (listwise); one that lacks a dataset or a value of
    the control is compared pairwise, on the requests of both. If either has two seeds or more, the
    test and the interval are those of `stats.seeds.contrast`; with one seed each the test flips the
    signs of whole prompts. p is adjusted by Holm over the comparisons under one measure, with
    `resampling.family="run"` over all of a kind of control.

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
    by_control: dict[str, list[Cell]] = {}
    signatures: dict[str, dict[str, None]] = {}
    for cell in cells:
        by_control.setdefault(cell.key.control, []).append(cell)
        for metric, signature in cell.signatures.items():
            signatures.setdefault(metric, {})[signature] = None
    return StudySummary(
        controls=tuple(
            _summary(ControlData.of(own, weight, resampling)) for own in by_control.values()
        ),
        weights=weight,
        weights_from=source,
        signatures={metric: tuple(of_metric) for metric, of_metric in signatures.items()},
        resampling=resampling,
    )


def _summary(control: ControlData) -> ControlSummary:
    entries = table_entries(control)
    incomplete = incomplete_systems(control)
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
        comparisons=comparisons(control),
        agreements=agreements(control.observations),
        correspondences=correspondences(control, entries),
        costs=cost_summaries(control),
        notes=tuple(notes(control, incomplete)),
    )
