"""Means over runs of unequal weight, and their ranks.

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

from levelfield.core.direction import SIGNS, Direction

Key = TypeVar("Key")


class MeanAndDeviation(NamedTuple):
    """A weighted mean and the weighted deviation of the values around it."""

    mean: float
    deviation: float


def mean_and_deviation(v: npt.ArrayLike, w: npt.ArrayLike) -> MeanAndDeviation:
    """Returns `m = Σ w v / Σ w` and `s = √(Σ w (v − m)² / Σ w)`, as in section 7 of the study.

    s is the deviation of the runs' values, over datasets as much as over seeds. It is not a
    standard error: it does not say how certain m is.

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
    values: Mapping[Key, float], places: int, *, direction: Direction
) -> dict[Key, int]:
    """Ranks of values as they are printed: the best is 1, and those printed alike share the better.

    There are none where no end of the values is better.

    >>> printed_ranks({"a": 12.961, "b": 12.958, "c": 13.0}, 2, direction="higher")
    {'a': 2, 'b': 2, 'c': 1}

    Args:
        values: NaN has no rank.
        places: decimals that are printed.
    """
    sign = SIGNS[direction]
    if not sign:
        return {}
    printed = {key: sign * round(v, places) for key, v in values.items() if not math.isnan(v)}
    return {
        key: 1 + sum(other > value for other in printed.values()) for key, value in printed.items()
    }
