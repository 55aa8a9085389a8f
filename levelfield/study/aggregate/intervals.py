"""Intervals of means over cells, from resampled prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.undefined import OF_CORPUS, ONLY_CELLS
from levelfield.stats.estimate import Estimate, estimate_of_mean, percentile_ends
from levelfield.stats.stratified import resampled_means
from levelfield.study.aggregate.control import ControlData
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
    resampled: Mapping[str, ResampledCells],
    *,
    mean: float,
    n: int,
    column: int,
    value: int,
) -> Estimate:
    """Returns the interval of a weighted mean.

    Args:
        o: the measure, at position `column`.
        resampled: dataset -> the system's cells on it.
        mean: of the measure.
        n: number of values it rests on.
        value: 0 for all values of the control together, else 1 and the position of one.
    """
    clusters = sum(cells.prompts for cells in resampled.values())

    def no_interval(why: str) -> Estimate:
        nan = math.nan
        return estimate_of_mean(mean, nan, nan, n=n, clusters=clusters, why_no_interval=why)

    if o.texts is None:
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
    means = total[weight > 0] / weight[weight > 0]
    low, high = percentile_ends(means, control.resampling.level, clusters)
    return estimate_of_mean(mean, low, high, n=n, clusters=clusters)
