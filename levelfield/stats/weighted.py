"""Means over runs of unequal weight, their ranks, and tests of many such means at once.

A run is one system on one dataset under one seed; its weight is that of the dataset. These are the
numbers of the tables of Lorandi and Belz (2026), "A Comparative Study of Controlled Text Generation
Systems Using Level-Playing-Field Evaluation Principles", section 7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.permutation import paired_permutation

Key = TypeVar("Key")

_TIE = 1e-10
"""Sums nearer to each other than this share of their largest possible size are equal."""

_CHUNK = 1 << 22
"""Signs held at a time: 32 MB, so that one product of matrices does much of the work."""


class MeanAndDeviation(NamedTuple):
    """A weighted mean and the weighted deviation of the values around it."""

    mean: float
    deviation: float


def mean_and_deviation(v: npt.ArrayLike, w: npt.ArrayLike) -> MeanAndDeviation:
    """`m = Σ w v / Σ w` and `s = √(Σ w (v − m)² / Σ w)`, as the study prints them (section 7).

    s is the deviation of the runs' values, over datasets as much as over seeds; it is no standard
    error, and says nothing of how sure m is.

    >>> mean_and_deviation([80.0, 90.0], [1, 3])
    MeanAndDeviation(mean=87.5, deviation=4.330127018922194)

    Args:
        v: (n,) values; NaN is left out with its weight.
        w: (n,) weights, above 0.

    Undefined (NaN): no values.
    """
    values, weights = np.asarray(v, dtype=np.float64), np.asarray(w, dtype=np.float64)
    defined = ~np.isnan(values)
    values, weights = values[defined], weights[defined]
    if not values.size:
        return MeanAndDeviation(math.nan, math.nan)
    m = float(np.average(values, weights=weights))
    return MeanAndDeviation(m, float(np.sqrt(np.average((values - m) ** 2, weights=weights))))


def printed_ranks(
    values: Mapping[Key, float], places: int, *, higher_is_better: bool
) -> dict[Key, int]:
    """Ranks of values as they are printed: the best is 1, and those printed alike share the better.

    >>> printed_ranks({"a": 12.961, "b": 12.958, "c": 13.0}, 2, higher_is_better=True)
    {'a': 2, 'b': 2, 'c': 1}

    Args:
        values: NaN has no rank.
        places: decimals that are printed.
    """
    sign = 1 if higher_is_better else -1
    printed = {key: sign * round(v, places) for key, v in values.items() if not math.isnan(v)}
    return {key: 1 + sum(other > own for other in printed.values()) for key, own in printed.items()}


def sign_flip_p(S: Floats, *, permutations: int, seed: int = 0) -> Floats:
    """`significance.paired_permutation` of many comparisons over the same clusters, at once.

    Every column is tested by `|Σ_k g_k S_k|` under the same random signs g, which leaves each p as
    it is and makes the work one product of matrices. A column with so few clusters that all sign
    patterns can be tried is tested exactly.

    Args:
        S: (clusters, comparisons) sums of the (weighted) differences of each cluster.

    Returns:
        (comparisons,) two-sided p; 1 where no cluster differs.
    """
    size = np.abs(S).sum(axis=0)
    active = np.abs(S) > _TIE * size
    few = active.sum(axis=0) < permutations.bit_length()
    p = np.full(S.shape[1], np.nan)
    for column in np.flatnonzero(few):
        mine = np.flatnonzero(active[:, column])
        p[column] = paired_permutation(S[mine, column], mine) if mine.size else 1.0
    many = np.flatnonzero(~few)
    if many.size:
        S = S[:, many]
        total = S.sum(axis=0)
        reached = np.abs(total) - _TIE * size[many]
        b = np.zeros(many.size)
        K, rng = S.shape[0], np.random.default_rng(seed)
        step = max(1, _CHUNK // K)
        for start in range(0, permutations, step):
            m = min(step, permutations - start)
            bits = np.frombuffer(rng.bytes(-(-m * K // 8)), np.uint8)
            plus = np.unpackbits(bits, count=m * K).reshape(m, K).astype(np.float64)
            b += (np.abs(2 * (plus @ S) - total) >= reached).sum(axis=0)
        p[many] = (b + 1) / (permutations + 1)
    return p
