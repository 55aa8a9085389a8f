"""Agreement of judges, correspondence of measures, and costs of systems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.stats.correlation import pearson, spearman
from levelfield.stats.kappa import kappa_of_labels
from levelfield.stats.measures import why_undefined
from levelfield.stats.weighted import printed_ranks
from levelfield.study.aggregate.control import ControlData
from levelfield.study.aggregate.means import TableEntries
from levelfield.study.aggregate.results import (
    Correspondence,
    CostSummary,
    JudgeAgreement,
    MeanPair,
    places,
)
from levelfield.study.cells import passes_per_token
from levelfield.study.observations import ALL, AVERAGE, MAJORITY, Measure, Observations, Observed


def agreements(observations: Observations) -> tuple[JudgeAgreement, ...]:
    """Returns the agreement of each attribute that two judges or more judge.

    Empty outputs are left out: they are wrong under every judge, and none has read them.
    """
    by_name = {o.measure.name: o for o in observations.observed}
    return tuple(
        _agreement(attribute, judges, by_name, ~observations.empty)
        for attribute, judges in observations.attributes.items()
        if len(judges) > 1
    )


def _agreement(
    attribute: str, judges: tuple[str, ...], by_name: Mapping[str, Observed], read: Bools
) -> JudgeAgreement:
    texts = [by_name[j].texts if j in by_name else None for j in judges]
    votes = [t[read] for t in texts if t is not None]
    rates_only = len(votes) < len(texts)
    columns = _rates(judges, by_name) if rates_only else votes
    pairs = [[_kappa_r_n(x, y, rates_only) for y in columns] for x in columns]
    return JudgeAgreement(
        attribute=attribute,
        judges=judges,
        kappa=tuple(tuple(kappa for kappa, _, _ in row) for row in pairs),
        r=tuple(tuple(r for _, r, _ in row) for row in pairs),
        n=tuple(tuple(n for _, _, n in row) for row in pairs),
        of_rates=rates_only,
    )


def _rates(judges: Sequence[str], by_name: Mapping[str, Observed]) -> list[Floats]:
    """Returns each judge's rates by cell and requested value, or by cell if values are unknown."""
    cells = {j: by_name[j].cells if j in by_name else {} for j in judges}
    every = dict.fromkeys(place for judge_cells in cells.values() for place in judge_cells)
    single = [place for place in every if place[1] != ALL] or list(every)
    return [
        np.array([fmean(rates) if (rates := places.get(place)) else math.nan for place in single])
        for places in cells.values()
    ]


def _kappa_r_n(x: Floats, y: Floats, rates_only: bool) -> tuple[float, float, int]:
    """Returns κ, r and n of two judges over the texts that both judged.

    They are undefined (NaN) for fewer than two texts, and if one judge finds all texts right or all
    wrong (κ only if both do, in the same way).
    """
    judged = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[judged], y[judged]
    r = math.nan if why_undefined("pearson", x, y) else pearson(x, y)
    kappa = math.nan if rates_only or x.size < 2 else kappa_of_labels(x > 0, y > 0)
    return kappa, r, int(x.size)


_PERPLEXITIES = ("fluency.perplexity", "fluency.corpus-perplexity")


def correspondences(control: ControlData, entries: TableEntries) -> tuple[Correspondence, ...]:
    """Returns average against majority, and perplexity against SLOR, if both are known."""
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
    means = {
        system: (x_entry.mean, y_entry.mean)
        for system in control.systems
        if (x_entry := entries.get((system, x.name, ALL, ALL)))
        and (y_entry := entries.get((system, y.name, ALL, ALL)))
        and not (math.isnan(x_entry.mean) or math.isnan(y_entry.mean))
    }
    x_ranks, y_ranks = (
        printed_ranks(
            {system: pair[n] for system, pair in means.items()},
            places([e for e in entries.values() if e.measure == measure.name]),
            direction=measure.direction,
        )
        for n, measure in enumerate((x, y))
    )
    rows = [
        MeanPair(s, means[s][0], x_ranks[s], means[s][1], y_ranks[s])
        for s in sorted(means, key=lambda s: x_ranks[s])
    ]
    a, b = [row.x for row in rows], [row.y for row in rows]
    reason = "fewer than three systems" if len(rows) < 3 else why_undefined("pearson", a, b)
    a_ranks, b_ranks = [row.x_rank for row in rows], [row.y_rank for row in rows]
    return Correspondence(
        x=x.name,
        y=y.name,
        systems=tuple(rows),
        pearson=math.nan if reason else pearson(a, b),
        spearman=math.nan if reason else spearman(a_ranks, b_ranks),
        why=reason,
    )


def cost_summaries(control: ControlData) -> Iterator[CostSummary]:
    """Yields the costs of each system that has any."""
    cells = control.observations.cells
    for system in control.systems:
        costs = [c for i in control.positions[system, ALL] if (c := cells[i].cost)]
        if not costs:
            continue
        seconds = [c.wall_s / c.texts for c in costs if c.texts]
        counted = [(c.tokens, c.wall_s) for c in costs if c.tokens is not None and c.wall_s > 0]
        peaks = [c.peak_bytes for c in costs if c.peak_bytes is not None]
        tokens, counted_s = sum(t for t, _ in counted), sum(s for _, s in counted)
        yield CostSummary(
            system=system,
            seconds=fmean(seconds) if seconds else math.nan,
            deviation=float(np.std(seconds)) if seconds else math.nan,
            tokens_per_second=tokens / counted_s if counted else math.nan,
            peak_bytes=max(peaks, default=None),
            cells=len(costs),
            passes_per_token=passes_per_token(costs),
        )
