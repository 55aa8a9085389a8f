"""Intervals of means over cells, with prompts as a sample, and seeds if there are several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.undefined import OF_CORPUS, ONLY_CELLS
from levelfield.stats.estimate import Estimate, estimate_of_mean, percentile_ends
from levelfield.stats.shares import are_shares, share_ends
from levelfield.stats.stratified import resampled_means
from levelfield.study.aggregate.control import ControlData
from levelfield.study.aggregate.seeds import MeasuredTexts, weights_of_mean
from levelfield.study.observations import Observed


class ResampledCells(NamedTuple):
    """Resampled means of the cells of a system on a dataset.

    Attributes:
        prompts: their number.
        means: column -> (resamples, cells, `ALL` and the values).
    """

    prompts: int
    means: Mapping[int, Floats]


def resampled_cells(control: ControlData, system: str, dataset: str) -> ResampledCells:
    """Returns the means of all cells of a system on a dataset over resampled prompts."""
    observations = control.observations
    cells = np.array(control.positions[system, dataset])
    rows = np.flatnonzero(np.isin(observations.cell, cells))
    prompts, k = np.unique(observations.prompt[rows], return_inverse=True)
    K, C, V = len(prompts), len(cells), max(1, len(control.values))
    if not K:
        return ResampledCells(0, {})
    at = (k * C + np.searchsorted(cells, observations.cell[rows])) * V + observations.value[rows]
    columns = {j: o.texts for j, o in enumerate(observations.observed) if o.texts is not None}
    S = np.zeros((len(columns), K, C, 1 + V))
    n = np.zeros_like(S)
    for m, texts in enumerate(columns.values()):
        x = texts[rows]
        defined = ~np.isnan(x)
        size = K * C * V
        S[m, ..., 1:] = np.bincount(at[defined], x[defined], size).reshape(K, C, V)
        n[m, ..., 1:] = np.bincount(at[defined], minlength=size).reshape(K, C, V)
    S[..., 0], n[..., 0] = S[..., 1:].sum(axis=-1), n[..., 1:].sum(axis=-1)
    if not columns:
        return ResampledCells(K, {})
    means = resampled_means(
        S, n, resamples=control.resampling.resamples, seed=control.draw_seed(dataset)
    )
    return ResampledCells(K, dict(zip(columns, means, strict=True)))


def interval_of_mean(
    control: ControlData,
    o: Observed,
    texts: MeasuredTexts | None,
    positions: Sequence[int],
    resampled: Mapping[str, ResampledCells],
    *,
    mean: float,
    n: int,
    column: int,
    value: int,
) -> Estimate:
    """Returns the interval of a weighted mean.

    With two seeds or more it is that of `stats.seeds.contrast`; with one seed it is drawn from
    resampled prompts and holds for this run. Shares have that of `share_ends` in either case.

    Args:
        o: the measure, at position `column`.
        texts: of the system with a value of the measure; None if only cells are known.
        positions: of the cells that the mean is taken over.
        resampled: dataset -> the system's cells on it.
        mean: of the measure.
        n: number of values it rests on.
        value: 0 for all values of the control together, else 1 and the position of one.
    """
    clusters = sum(cells.prompts for cells in resampled.values())

    def no_interval(why: str) -> Estimate:
        nan = math.nan
        return estimate_of_mean(mean, nan, nan, n=n, clusters=clusters, why_no_interval=why)

    if o.texts is None or texts is None:
        why = OF_CORPUS if o.measure.kind == "corpus" else ONLY_CELLS
        return no_interval(why)
    total = np.zeros(control.resampling.resamples)
    weight = np.zeros(control.resampling.resamples)
    for dataset, cells in resampled.items():
        if column in cells.means:
            v = cells.means[column][:, :, value]  # (resamples, cells)
            w = control.weights[dataset]
            total += w * np.nansum(v, axis=1)
            weight += w * (~np.isnan(v)).sum(axis=1)
    if not weight.any():
        return no_interval(ONLY_CELLS)
    if all(cells.prompts < 2 for cells in resampled.values()):
        return no_interval("one prompt a dataset")
    ends = _sampled_ends(control, o, texts, positions, value)
    if ends is not None:
        return estimate_of_mean(mean, *ends, n=n, clusters=clusters)
    means = total[weight > 0] / weight[weight > 0]
    low, high = percentile_ends(means, control.resampling.level, clusters)
    return estimate_of_mean(mean, low, high, n=n, clusters=clusters)


def _sampled_ends(
    control: ControlData, o: Observed, texts: MeasuredTexts, positions: Sequence[int], value: int
) -> tuple[float, float] | None:
    """Returns the ends that follow from a variance; None if they are drawn."""
    w = weights_of_mean(control, o, texts, positions, value)
    mean, level = texts.mean(w), control.resampling.level
    if mean is None:
        return None
    if o.measure.percent and are_shares(texts.values / 100):
        of_clusters = np.bincount(texts.clusters[texts.inputs], w).astype(np.float64)
        low, high = share_ends(
            min(max(mean.value / 100, 0.0), 1.0),
            mean.variance / 100**2,
            n=_effective(w),
            clusters=_effective(of_clusters),
            level=level,
            df=mean.df,
        )
        return 100 * low, 100 * high
    if not mean.of_seeds:
        return None
    low, high = mean.ends(level)
    return (max(low, 0.0), min(high, 100.0)) if o.measure.percent else (low, high)


def _effective(weights: Floats) -> float:
    """Returns how many equal weights tell as much as these, which sum to 1 (Kish 1965)."""
    return round(1 / float(weights @ weights), 6)
