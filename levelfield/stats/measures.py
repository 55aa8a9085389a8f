"""The statistics of agreement between a metric and ratings: their names and when they have none.

Each takes the metric's values x and the ratings y of the same n samples. Pairs of samples are
counted as

    C  concordant: x and y order the pair alike        D  discordant: they order it contrarily
    T_x  tied in x only     T_y  tied in y only        T_xy  tied in both
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.estimands import Statistic
from levelfield.stats.estimate import too_few

CORRELATIONS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall", "tau-like")
OF_PAIRS: tuple[Statistic, ...] = ("kendall", "tau-like", "accuracy")


OF_DISTANCES: tuple[Statistic, ...] = ("pearson", "calibrated")
"""What takes differences of values, and so has none with an infinite one."""

INFINITE = "infinite values, which have ranks only"
"""Why a statistic of differences is undefined."""


class PairCounts(NamedTuple):
    """The pairs of n samples by how two variables order them; they add up to n (n − 1) / 2."""

    concordant: int
    discordant: int
    tied_metric: int
    tied_rating: int
    tied_both: int


def pair_statistics(
    C: Floats, D: Floats, T_x: Floats, T_y: Floats, T_xy: Floats
) -> dict[Statistic, Floats]:
    """Returns the (r,) statistics from counts of pairs, each (r,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        tau_like = (C - D - T_x) / (C + D + T_x)
        return {
            "kendall": (C - D) / np.sqrt((C + D + T_x) * (C + D + T_y)),
            # a constant metric would otherwise have the tau-like −1, by no merit of its order
            "tau-like": np.where(C + D + T_y > 0, tau_like, np.nan),
            "accuracy": (C + T_xy) / (C + D + T_x + T_y + T_xy),
        }


def why_undefined(statistic: Statistic, x: npt.ArrayLike, y: npt.ArrayLike) -> str:
    """Returns why a statistic is NaN for these values; empty if it is not."""
    x, y = defined_pair(x, y)
    if few := too_few(x.size):
        return few
    if statistic in OF_DISTANCES and not (np.isfinite(x).all() and np.isfinite(y).all()):
        return INFINITE
    if statistic in ("accuracy", "calibrated"):
        return ""
    same = [name for name, v in (("metric", x), ("rating", y)) if constant(v)]
    return f"constant {' and '.join(same)}" if same else ""


def constant(v: Floats) -> bool:
    """Returns whether all values are equal."""
    return bool(np.all(v == v[0]))


def finite_pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Values and ratings as arrays.

    Raises:
        ValueError: they are not of one length, or not finite.
    """
    x, y = defined_pair(x, y)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("values and ratings must be finite; leave out undefined ones")
    return x, y


def defined_pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Values and ratings as arrays; they may be infinite.

    Raises:
        ValueError: they are not of one length, or NaN.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"expected one rating per value, got {y.shape} for {x.shape}")
    if np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("values and ratings must not be NaN; leave out undefined ones")
    return x, y


def ordered_pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Returns finite values in the same order: ranks if one is infinite."""
    x, y = defined_pair(x, y)
    if np.isfinite(x).all() and np.isfinite(y).all():
        return x, y
    from scipy.stats import rankdata

    x, y = (v if np.isfinite(v).all() else np.asarray(rankdata(v), np.float64) for v in (x, y))
    return x, y
