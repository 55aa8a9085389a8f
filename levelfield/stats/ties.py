"""Tie calibration: how near two values of a metric must be to count as a tie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.clusters import cluster_draws, coded
from levelfield.stats.estimands import TieChoice
from levelfield.stats.estimate import ONE_CLUSTER, Estimate, estimate_from_draws, too_few, undefined
from levelfield.stats.measures import finite_pair
from levelfield.stats.resampling import DEFAULT, Resampling

MOST_CALIBRATED = 2000
"""Of more samples than these, tie calibration takes whole clusters at random until it has these."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Pairwise accuracy after tie calibration.

    Attributes:
        estimate: the accuracy on held-out pairs.
        thresholds: used on the two halves, each chosen on the other; NaN where undefined.
    """

    estimate: Estimate
    thresholds: tuple[float, float]


def best_threshold(
    d: Floats,
    concordant: Bools,
    tied: Bools,
    weights: Floats | None = None,
) -> float:
    """Returns the ε >= 0 with the most pairs right when |x_i − x_j| <= ε counts as a tie of the
    metric.

    Args:
        d: (p,) |x_i − x_j|. concordant, tied: (p,) the metric orders the pair as the ratings do;
            the ratings tie it. weights: (p,) of the pairs, 1 if none.

    Of several equally good ones the smallest. Tried are 0 and every difference there is.
    """
    w = np.ones(d.size) if weights is None else weights
    order = np.argsort(d, kind="stable")
    d, gain = d[order], (w * (tied.astype(np.float64) - concordant))[order]
    last = np.flatnonzero(np.r_[d[1:] != d[:-1], True])
    total = np.cumsum(gain)[last]
    candidates = d[last]
    if candidates[0] > 0:
        candidates, total = np.r_[0.0, candidates], np.r_[0.0, total]
    return float(candidates[np.flatnonzero(total >= total.max() - _ROUNDING * w.sum())[0]])


def calibrated(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    ties: TieChoice = "held-out",
    resampling: Resampling = DEFAULT,
) -> Calibrated:
    """Returns pairwise accuracy with ties after tie calibration, on pairs that did not choose the
    tie.

    A metric with continuous values never ties, people on a scale of five often do. Deutsch,
    Foster and Freitag 2023 (section 5) call a pair tied by the metric if `|x_i − x_j| <= ε` and
    take the ε with the highest accuracy. Chosen and evaluated on the same pairs that is too good;
    so the clusters are split into two halves at random, ε is chosen on the pairs of each and used
    on the pairs of the other, and the accuracy is over the pairs of both.

    With ties `in-sample`, ε is chosen and used on all pairs, as WMT's `acc*eq` has it; this has no
    interval.

    Undefined: fewer than two clusters, or a half without a pair. If there are more than
    `MOST_CALIBRATED` samples, clusters are drawn at random up to that number; the note says so.
    """
    x, y = finite_pair(x, y)
    K, code = coded(clusters)
    n, nan = x.size, math.nan
    if ties == "in-sample":
        return _in_sample(x, y, K, resampling.seed)
    rng = np.random.default_rng(resampling.seed)
    shuffled = rng.permutation(K)
    sizes = np.bincount(code, minlength=K)[shuffled]
    sampled = shuffled[: max(2, int(np.searchsorted(np.cumsum(sizes), MOST_CALIBRATED, "right")))]
    note = ""
    if sampled.size < K:
        used = int(np.isin(code, sampled).sum())
        note = f"calibrated on {used:,} of {n:,} samples, drawn at random"
    halves = [np.sort(sampled[: sampled.size // 2]), np.sort(sampled[sampled.size // 2 :])]
    tables = [_HalfPairs(x, y, code, half) for half in halves]
    if K < 2 or not all(t.n > 1 for t in tables):
        reason = too_few(n) or (ONE_CLUSTER if K < 2 else "too few samples to hold pairs out")
        return Calibrated(undefined(reason, n=n, clusters=K), (nan, nan))
    thresholds = (tables[1].threshold(), tables[0].threshold())
    right = [t.right(e) for t, e in zip(tables, thresholds, strict=True)]
    ones = [np.ones((1, half.size)) for half in halves]

    def accuracy(counts: Sequence[Floats]) -> Floats:
        good = np.zeros(counts[0].shape[0])
        every = np.zeros(counts[0].shape[0])
        for table, matrix, c in zip(tables, right, counts, strict=True):
            good += np.einsum("rk,rk->r", c @ matrix, c)
            every += (c @ table.sizes) ** 2 - (c * c) @ table.sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(good / every)

    value = float(accuracy(ones)[0])
    # each half is resampled by itself, so that every resample holds as many clusters of each
    draws = zip(
        *(cluster_draws(h.size, resampling.resamples, resampling.seed + i, width=sampled.size)
          for i, h in enumerate(halves)),
        strict=True,
    )  # fmt: skip
    drawn = np.concatenate([accuracy(counts) for counts in draws])
    estimate = estimate_from_draws(value, drawn, n=n, clusters=K, level=resampling.level)
    fixed = f"tie thresholds {thresholds[0]:.3g} and {thresholds[1]:.3g}"
    notes = "; ".join(filter(None, (fixed, note, estimate.note)))
    return Calibrated(replace(estimate, note=notes), thresholds)


def _in_sample(x: Floats, y: Floats, K: int, seed: int) -> Calibrated:
    """Returns the accuracy on the pairs that choose the threshold."""
    n, nan = x.size, math.nan
    if reason := too_few(n):
        return Calibrated(undefined(reason, n=n, clusters=K), (nan, nan))
    rows, note = np.arange(n), ""
    if n > MOST_CALIBRATED:
        rows = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_CALIBRATED])
        note = f"; calibrated on {rows.size:,} of {n:,} samples, drawn at random"
    table = _HalfPairs(x[rows], y[rows], np.zeros(rows.size, np.intp), np.array([0]))
    ε = table.threshold()
    value = float(table.right(ε).sum() / (rows.size * (rows.size - 1)))
    reason = "its threshold is chosen on the same pairs"
    note = f"tie threshold {ε:.3g}{note}"
    return Calibrated(Estimate(value, nan, nan, n, K, "", reason, note), (ε, ε))


class _HalfPairs:
    """All pairs of the samples in some clusters. sizes: (k,) samples of each cluster."""

    def __init__(self, x: Floats, y: Floats, code: Codes, clusters: Codes) -> None:
        rows = np.flatnonzero(np.isin(code, clusters))
        rows = rows[np.argsort(code[rows], kind="stable")]
        self.n = rows.size
        self._x, self._y = x[rows], y[rows]
        counts = np.unique(code[rows], return_counts=True)[1]
        self._starts = np.r_[0, np.cumsum(counts)[:-1]].astype(np.intp)
        self.sizes = counts.astype(np.float64)

    def threshold(self) -> float:
        i, j = np.triu_indices(self.n, k=1)
        dx, dy = self._x[i] - self._x[j], self._y[i] - self._y[j]
        return best_threshold(np.abs(dx), dx * dy > 0, dy == 0)

    def right(self, threshold: float) -> Floats:
        """Returns how many ordered pairs between two clusters the metric gets right: (k, k)."""
        dx = self._x[:, None] - self._x
        sign = np.where(np.abs(dx) <= threshold, 0, np.sign(dx))
        good = (sign == np.sign(self._y[:, None] - self._y)).astype(np.float64)
        np.fill_diagonal(good, 0.0)
        rows = np.add.reduceat(good, self._starts, axis=0)
        return np.asarray(np.add.reduceat(rows, self._starts, axis=1))


def calibrated_within(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    ties: TieChoice = "held-out",
    seed: int = 0,
) -> tuple[dict[object, float], tuple[float, float]]:
    """Returns calibrated accuracy among the samples of each group, e.g. the outputs for one source.

    Half of the groups choose the threshold for the other half and the other way round; in the
    choice every group weighs the same. With ties `in-sample`, all groups choose one threshold for
    all, as WMT's `acc*eq` with items as groups. Returns the accuracy of each group with at least
    one pair, and the two thresholds.
    """
    x, y = finite_pair(x, y)
    names, code = np.unique(np.asarray(groups), return_inverse=True)
    differences: list[tuple[Floats, Floats]] = []
    paired = np.flatnonzero(np.bincount(code, minlength=names.size) > 1).tolist()
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(names.size + 1))
    if len(paired) < 2:
        return {}, (math.nan, math.nan)
    for k in paired:
        rows = order[starts[k] : starts[k + 1]]
        i, j = np.triu_indices(rows.size, k=1)
        differences.append((x[rows][i] - x[rows][j], y[rows][i] - y[rows][j]))
    shuffled = np.random.default_rng(seed).permutation(len(paired))
    halves = (shuffled[: len(paired) // 2], shuffled[len(paired) // 2 :])
    if ties == "in-sample":
        halves = (shuffled, shuffled)
    chosen = []
    for half in halves:
        dx = np.concatenate([differences[k][0] for k in half])
        dy = np.concatenate([differences[k][1] for k in half])
        weights = np.concatenate(
            [np.full(differences[k][0].size, 1 / differences[k][0].size) for k in half]
        )
        chosen.append(best_threshold(np.abs(dx), dx * dy > 0, dy == 0, weights))
    accuracy: dict[object, float] = {}
    for half, threshold in zip(halves, reversed(chosen), strict=True):
        for k in half:
            dx, dy = differences[k]
            sign = np.where(np.abs(dx) <= threshold, 0, np.sign(dx))
            accuracy[names[paired[k]].item()] = float(np.mean(sign == np.sign(dy)))
    return accuracy, (chosen[1], chosen[0])
