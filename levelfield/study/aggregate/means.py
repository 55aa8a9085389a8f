"""Means of cells with their deviations, intervals and ranks: the entries of a study's tables."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.undefined import NO_COMPLETE_SEEDS, OF_CORPUS, ONE_PROMPT, ONE_SEED, ONLY_CELLS
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.seeds import Contrast
from levelfield.stats.shares import share_ends, votes_of
from levelfield.stats.weighted import mean_and_deviation, printed_ranks
from levelfield.study.aggregate.control import ControlData, MeasuredTexts, weights_of_mean
from levelfield.study.aggregate.results import SpreadBetween, TableEntry, places
from levelfield.study.observations import ALL, Observed


def _ends_of_share(
    c: Contrast, weights: Floats, cluster_weights: Floats, votes: int, level: float
) -> tuple[float, float]:
    """Returns the ends in percent, from the weights of texts and of clusters, which sum to 1."""
    low, high = share_ends(
        min(max(c.value / 100, 0.0), 1.0),
        c.variance / 100**2,
        n=_effective(weights),
        clusters=_effective(cluster_weights),
        level=level,
        df=c.df,
        votes=votes,
    )
    return 100 * low, 100 * high


def _effective(weights: Floats) -> float:
    """Returns the effective number of texts for weights that sum to 1 (Kish 1965)."""
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
            direction=o.measure.direction,
        )
        for key, rank in ranks.items():
            entries[key] = replace(overall[key], rank=rank)
    return entries


def _votes(o: Observed) -> int:
    """Returns the number of votes that all values are shares of, in percent; 0 if they are not."""
    if o.texts is None or not o.measure.percent:
        return 0
    return votes_of(o.texts[~np.isnan(o.texts)] / 100)


def _entries_of_system(
    control: ControlData, system: str, votes: Mapping[str, int]
) -> Iterator[TableEntry]:
    for o in control.observations.observed:
        name = o.measure.name
        texts = (
            None
            if o.texts is None
            else MeasuredTexts.of(control, o.texts, control.positions[system, ALL])
        )
        places = itertools.product((ALL, *control.datasets), (ALL, *control.values))
        for dataset, value in places:
            positions = control.positions.get((system, dataset), ())
            cells = _Cells(control, o, [i for i in positions if (i, value) in o.cells], value)
            if not cells.positions:
                continue
            mean, deviation = cells.mean_and_deviation()
            overall = dataset == value == ALL
            yield TableEntry(
                system,
                name,
                dataset,
                value,
                mean,
                deviation,
                rank=None,
                n=cells.n,
                undefined=sum(o.undefined[i, value] for i in cells.positions),
                interval=cells.interval(texts, mean, votes[name]),
                between_seeds=cells.between_seeds() if overall else SpreadBetween(),
                between_prompts=cells.between_prompts() if overall else SpreadBetween(),
            )


@dataclass(frozen=True)
class _Cells:
    """Cells of one system over which the mean of a measure is taken.

    Attributes:
        control: their kind of control.
        o: the measure.
        positions: of the cells.
        value: the requested value, or `ALL`.
    """

    control: ControlData
    o: Observed
    positions: Sequence[int]
    value: str

    @property
    def n(self) -> int:
        """The number of values that the mean rests on."""
        return sum(self.o.n[i, self.value] for i in self.positions)

    @property
    def no_texts(self) -> str:
        """Why the measure is not known for single texts, where it is not."""
        return OF_CORPUS if self.o.measure.kind == "corpus" else ONLY_CELLS

    def mean_and_deviation(self) -> tuple[float, float]:
        weights = self.control.cell_weights
        pairs = [(x, weights[i]) for i in self.positions for x in self.o.cells[i, self.value]]
        return mean_and_deviation([x for x, _ in pairs], [w for _, w in pairs])

    def interval(self, texts: MeasuredTexts | None, mean: float, votes: int) -> Estimate:
        """Returns the interval of the weighted mean.

        It is that of `stats.seeds.contrast`, of shares that of `share_ends` with its variance. With
        one seed it holds for this run. It ends at 0 where no text of any system has a value below
        0, and at 100 percent. No interval where only cells are known or no dataset has two
        prompts.

        Args:
            texts: of the system with a value of the measure; None if only cells are known.
            mean: of the measure.
            votes: of how many votes the values are shares, in percent; 0 if they are none.
        """
        estimate = functools.partial(estimate_of_mean, mean, n=self.n)
        if texts is None:
            return estimate(math.nan, math.nan, clusters=0, why_no_interval=self.no_texts)
        w = weights_of_mean(self.control, self.o, texts, self.positions, self.value)
        cluster_weights = np.bincount(texts.clusters[texts.inputs], w).astype(np.float64)
        clusters = int(np.count_nonzero(cluster_weights))
        c = texts.mean(w)
        if c is None:
            reason = ONE_PROMPT if clusters else ONLY_CELLS
            return estimate(math.nan, math.nan, clusters=clusters, why_no_interval=reason)
        level = self.control.resampling.level
        low, high = _ends_of_share(c, w, cluster_weights, votes, level) if votes else c.ends(level)
        if self.o.measure.percent:
            high = min(high, 100.0)
        if self.o.is_never_negative:
            low = max(low, 0.0)
        return estimate(low, high, clusters=clusters)

    def between_seeds(self) -> SpreadBetween:
        """Returns the deviation of the weighted means of seeds."""
        keys = {i: self.control.observations.cells[i].key for i in self.positions}
        datasets = {key.dataset for key in keys.values()}
        seeds = dict.fromkeys(key.seed for key in keys.values())
        means = []
        for seed in seeds:
            positions = [i for i, key in keys.items() if key.seed == seed]
            if {keys[i].dataset for i in positions if self.o.cells[i, ALL]} == datasets:
                means.append(replace(self, positions=positions).mean_and_deviation()[0])
        if len(means) < 2:
            reason = ONE_SEED if len(seeds) == 1 else NO_COMPLETE_SEEDS
            return SpreadBetween(n=len(means), why=reason)
        return SpreadBetween(float(np.std(means, ddof=1)), len(means))

    def between_prompts(self) -> SpreadBetween:
        """Returns the deviation of the means of prompts within datasets."""
        observations, texts = self.control.observations, self.o.texts
        if texts is None:
            return SpreadBetween(why=self.no_texts)
        rows = np.flatnonzero(np.isin(observations.cell, self.positions) & ~np.isnan(texts))
        if not rows.size:
            return SpreadBetween(why="no values")
        prompts, k = np.unique(observations.prompt[rows], return_inverse=True)
        means = np.bincount(k, texts[rows]) / np.bincount(k)
        by_dataset: dict[str, list[float]] = {}
        for prompt, mean in zip(prompts.tolist(), means.tolist(), strict=True):
            by_dataset.setdefault(observations.prompts[prompt][0], []).append(mean)
        variances = {d: float(np.var(v, ddof=1)) for d, v in by_dataset.items() if len(v) > 1}
        if not variances:
            return SpreadBetween(n=len(prompts), why=ONE_PROMPT)
        weights = [self.control.weights[dataset] for dataset in variances]
        variance = np.average([*variances.values()], weights=weights)
        return SpreadBetween(float(np.sqrt(variance)), len(prompts))
