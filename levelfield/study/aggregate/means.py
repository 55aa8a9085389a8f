"""Means of cells with their deviations, intervals and ranks: the entries of a study's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.undefined import (
    NO_COMPLETE_SEEDS,
    OF_CORPUS,
    ONE_PROMPT,
    ONE_SEED,
    ONLY_CELLS,
)
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.seeds import Contrast
from levelfield.stats.shares import share_ends, votes_of
from levelfield.stats.weighted import mean_and_deviation, printed_ranks
from levelfield.study.aggregate.control import ControlData, MeasuredTexts, weights_of_mean
from levelfield.study.aggregate.results import SpreadBetween, TableEntry, places
from levelfield.study.observations import ALL, Observed


def interval_of_mean(
    control: ControlData,
    o: Observed,
    texts: MeasuredTexts | None,
    positions: Sequence[int],
    *,
    mean: float,
    n: int,
    value: int,
    votes: int,
) -> Estimate:
    """Returns the interval of a weighted mean.

    It is that of `stats.seeds.contrast`, of shares that of `share_ends` with its variance. With one
    seed it holds for this run. No interval where only cells are known or no dataset has two
    prompts.

    Args:
        o: the measure.
        texts: of the system with a value of the measure; None if only cells are known.
        positions: of the cells that the mean is taken over.
        mean: of the measure.
        n: number of values it rests on.
        value: 0 for all values of the control together, else 1 and the position of one.
        votes: of how many votes the values are shares, in percent; 0 if they are none.
    """
    if texts is None:
        why = OF_CORPUS if o.measure.kind == "corpus" else ONLY_CELLS
        return estimate_of_mean(mean, math.nan, math.nan, n=n, clusters=0, why_no_interval=why)
    w = weights_of_mean(control, o, texts, positions, value)
    of_clusters = np.bincount(texts.clusters[texts.inputs], w).astype(np.float64)
    clusters = int(np.count_nonzero(of_clusters))
    c = texts.mean(w)
    if c is None:
        why = ONE_PROMPT if clusters else ONLY_CELLS
        return estimate_of_mean(
            mean, math.nan, math.nan, n=n, clusters=clusters, why_no_interval=why
        )
    level = control.resampling.level
    low, high = _ends_of_share(c, w, of_clusters, votes, level) if votes else c.ends(level)
    if o.measure.percent:
        low, high = max(low, 0.0), min(high, 100.0)
    return estimate_of_mean(mean, low, high, n=n, clusters=clusters)


def _ends_of_share(
    c: Contrast, weights: Floats, of_clusters: Floats, votes: int, level: float
) -> tuple[float, float]:
    """Returns the ends in percent, from the weights of texts and of clusters, which sum to 1."""
    low, high = share_ends(
        min(max(c.value / 100, 0.0), 1.0),
        c.variance / 100**2,
        n=_effective(weights),
        clusters=_effective(of_clusters),
        level=level,
        df=c.df,
        votes=votes,
    )
    return 100 * low, 100 * high


def _effective(weights: Floats) -> float:
    """Returns how many equal weights tell as much as these, which sum to 1 (Kish 1965)."""
    return round(1 / float(weights @ weights), 6)


TableEntries = dict[tuple[str, str, str, str], TableEntry]
"""(system, measure, dataset, value) -> entry."""


def table_entries(control: ControlData) -> TableEntries:
    """Returns every entry of the tables of a kind of control."""
    votes = {o.measure.name: _votes(o) for o in control.observations.observed}
    entries = {
        (e.system, e.measure, e.dataset, e.value): e
        for system in control.systems
        for e in _entries_of_system(control, system, votes)
    }
    for o in control.observations.observed:
        name = o.measure.name
        overall = {k: e for k, e in entries.items() if k[1:] == (name, ALL, ALL)}
        ranks = printed_ranks(
            {key: e.mean for key, e in overall.items()},
            places([e for e in entries.values() if e.measure == name]),
            higher_is_better=o.measure.higher_is_better,
        )
        for key, rank in ranks.items():
            entries[key] = replace(overall[key], rank=rank)
    return entries


def _votes(o: Observed) -> int:
    """Of how many votes the values of all systems' texts are shares, in percent; 0 if none."""
    if o.texts is None or not o.measure.percent:
        return 0
    return votes_of(o.texts[~np.isnan(o.texts)] / 100)


def _entries_of_system(
    control: ControlData, system: str, votes: Mapping[str, int]
) -> list[TableEntry]:
    entries = []
    for o in control.observations.observed:
        texts = (
            None
            if o.texts is None
            else MeasuredTexts.of(control, o.texts, control.positions[system, ALL])
        )
        for dataset in (ALL, *control.datasets):
            for v, value in enumerate((ALL, *control.values)):
                positions = [
                    i for i in control.positions.get((system, dataset), ()) if (i, value) in o.cells
                ]
                if not positions:
                    continue
                mean, deviation = _mean_and_deviation(control, o, positions, value)
                n = sum(o.n[i, value] for i in positions)
                overall = dataset == value == ALL
                entries.append(
                    TableEntry(
                        system=system,
                        measure=o.measure.name,
                        dataset=dataset,
                        value=value,
                        mean=mean,
                        deviation=deviation,
                        rank=None,
                        n=n,
                        undefined=sum(o.undefined[i, value] for i in positions),
                        interval=interval_of_mean(
                            control,
                            o,
                            texts,
                            positions,
                            mean=mean,
                            n=n,
                            value=v,
                            votes=votes[o.measure.name],
                        ),
                        between_seeds=(
                            _between_seeds(control, o, positions) if overall else SpreadBetween()
                        ),
                        between_prompts=(
                            _between_prompts(control, o, positions) if overall else SpreadBetween()
                        ),
                    )
                )
    return entries


def _mean_and_deviation(
    control: ControlData, o: Observed, positions: Sequence[int], value: str
) -> tuple[float, float]:
    pairs = [(x, control.cell_weights[i]) for i in positions for x in o.cells[i, value]]
    return mean_and_deviation([x for x, _ in pairs], [w for _, w in pairs])


def _between_seeds(control: ControlData, o: Observed, positions: Sequence[int]) -> SpreadBetween:
    """Returns the deviation of the weighted means of seeds."""
    keys = {i: control.observations.cells[i].key for i in positions}
    seeds = dict.fromkeys(key.seed for key in keys.values())
    datasets = {key.dataset for key in keys.values()}
    means = []
    for seed in seeds:
        own = [i for i, key in keys.items() if key.seed == seed]
        if {keys[i].dataset for i in own if o.cells[i, ALL]} == datasets:
            means.append(_mean_and_deviation(control, o, own, ALL)[0])
    if len(means) < 2:
        why = ONE_SEED if len(seeds) == 1 else NO_COMPLETE_SEEDS
        return SpreadBetween(n=len(means), why=why)
    return SpreadBetween(float(np.std(means, ddof=1)), len(means))


def _between_prompts(control: ControlData, o: Observed, positions: Sequence[int]) -> SpreadBetween:
    """Returns the deviation of the means of prompts within datasets."""
    if o.texts is None:
        return SpreadBetween(why=OF_CORPUS if o.measure.kind == "corpus" else ONLY_CELLS)
    observations = control.observations
    rows = np.flatnonzero(np.isin(observations.cell, positions) & ~np.isnan(o.texts))
    if not rows.size:
        return SpreadBetween(why="no values")
    prompts, k = np.unique(observations.prompt[rows], return_inverse=True)
    means = np.bincount(k, o.texts[rows]) / np.bincount(k)
    by_dataset: dict[str, list[float]] = {}
    for prompt, mean in zip(prompts.tolist(), means.tolist(), strict=True):
        by_dataset.setdefault(observations.prompts[prompt][0], []).append(mean)
    variances = {d: float(np.var(v, ddof=1)) for d, v in by_dataset.items() if len(v) > 1}
    if not variances:
        return SpreadBetween(n=len(prompts), why=ONE_PROMPT)
    variance = np.average([*variances.values()], weights=[control.weights[d] for d in variances])
    return SpreadBetween(float(np.sqrt(variance)), len(prompts))
