"""Correspondence of two measures of the same thing (Tables 8 and 9 of the study)."""

from __future__ import annotations

import math

from levelfield.stats.correlation import pearson, spearman
from levelfield.stats.measures import why_undefined
from levelfield.stats.weighted import printed_ranks
from levelfield.study.aggregate.control import ControlData
from levelfield.study.aggregate.means import TableEntries
from levelfield.study.aggregate.results import Correspondence, MeanPair, places
from levelfield.study.observations import ALL, AVERAGE, MAJORITY, Measure

_PERPLEXITIES = ("fluency.perplexity", "fluency.corpus-perplexity")


def correspondences(control: ControlData, entries: TableEntries) -> tuple[Correspondence, ...]:
    """Returns average against majority, and perplexity against SLOR, as far as both are known."""
    measures = {o.measure.name: o.measure for o in control.observations.observed}
    perplexity = next((name for name in _PERPLEXITIES if name in measures), "")
    return tuple(
        _correspondence(control, measures[x], measures[y], entries)
        for x, y in ((AVERAGE, MAJORITY), (perplexity, "fluency.slor"))
        if x in measures and y in measures
    )


def _correspondence(
    control: ControlData, x: Measure, y: Measure, entries: TableEntries
) -> Correspondence:
    x_means, y_means = (
        {
            system: entry.mean
            for system in control.systems
            if (entry := entries.get((system, measure.name, ALL, ALL)))
            and not math.isnan(entry.mean)
        }
        for measure in (x, y)
    )
    both = [system for system in x_means if system in y_means]
    x_ranks, y_ranks = (
        printed_ranks(
            {system: means[system] for system in both},
            places([e for e in entries.values() if e.measure == measure.name]),
            higher_is_better=measure.higher_is_better,
        )
        for measure, means in ((x, x_means), (y, y_means))
    )
    rows = [
        MeanPair(s, x_means[s], x_ranks[s], y_means[s], y_ranks[s])
        for s in sorted(both, key=lambda s: x_ranks[s])
    ]
    a, b = [row.x for row in rows], [row.y for row in rows]
    why = "fewer than three systems" if len(rows) < 3 else why_undefined("pearson", a, b)
    a_ranks, b_ranks = [row.x_rank for row in rows], [row.y_rank for row in rows]
    return Correspondence(
        x=x.name,
        y=y.name,
        systems=tuple(rows),
        pearson=math.nan if why else pearson(a, b),
        spearman=math.nan if why else spearman(a_ranks, b_ranks),
        why=why,
    )
