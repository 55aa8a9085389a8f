"""What a test can detect: the power of t tests, the smallest difference, equivalence, sizes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import scipy

from levelfield.core.arrays import Floats
from levelfield.stats.resampling import Correction

POWER = 0.8
"""A difference is detectable if so large a share of studies shows it."""

MOST = 10**7
"""A study of more is not planned."""


def t_power(noncentrality: float, df: float, alpha: float) -> float:
    """Returns the power of a two-sided t test at `alpha`: the chance that |T| exceeds its critical
    value.

    T has Student's noncentral t distribution with `df` degrees of freedom, the noncentrality being
    the true difference over its standard error (Cohen 1988, section 2.2).

    >>> round(t_power(0.0, 20, 0.05), 3), round(t_power(2.9, 20, 0.05), 3)
    (0.05, 0.788)
    """
    return float(_powers(np.array([abs(noncentrality)]), df, alpha)[0])


def _powers(noncentralities: Floats, df: float, alpha: float) -> Floats:
    t = scipy.special.stdtrit(df, 1 - alpha / 2)
    below, contrary = (
        scipy.special.nctdtr(df, noncentralities, t),
        scipy.special.nctdtr(df, noncentralities, -t),
    )
    # where scipy has none of them, each is 0 in float64 but for rounding
    return np.asarray(1 - np.nan_to_num(below) + np.nan_to_num(contrary))


@functools.lru_cache(maxsize=4096)
def detectable_shift(df: float, alpha: float, power: float = POWER) -> float:
    """Returns the noncentrality at which `t_power` is `power`; infinite if none is."""
    return _shift(np.ones(1), df, alpha, power)


_SHARES = (np.arange(32) + 0.5) / 32


@functools.lru_cache(maxsize=4096)
def repeated_shift(df: float, error_df: float, alpha: float, power: float = POWER) -> float:
    """Returns the shift in estimated standard errors at which the mean `t_power` is `power`.

    The estimate is √(χ²_ν / ν) times the true standard error, ν = `error_df`. A study that
    underestimates its error names too small a difference, and one that overestimates it does not
    make up for that, so this is more than `detectable_shift`.
    """
    return _shift(np.sqrt(scipy.special.chdtri(error_df, _SHARES) / error_df), df, alpha, power)


def _shift(estimates: Floats, df: float, alpha: float, power: float) -> float:
    """Returns k at which the mean power of k times the estimates is `power`."""
    if not (df > 0 and 0 < alpha < power < 1):
        return math.inf if df <= 0 else 0.0

    def lacking(k: float) -> float:
        return float(_powers(k * estimates, df, alpha).mean()) - power

    low = high = float(scipy.special.stdtrit(df, 1 - alpha / 2))
    while lacking(high) < 0:
        high *= 2
    low = 0.0 if high == low else high / 2
    return float(scipy.optimize.brentq(lacking, low, high, xtol=1e-9))


def detectable_difference(
    se: float,
    df: float,
    *,
    alpha: float = 0.05,
    power: float = POWER,
    error_df: float | None = None,
) -> float:
    """Returns the minimum detectable difference of a two-sided t test.

    A true difference of this size is shown, at the level `alpha`, in the share `power` of studies
    (Bloom 1995). A permutation test of several dozen clusters has the power of the t test.

    Args:
        se: standard error of the difference.
        df: degrees of freedom of the standard error.
        alpha: the level after any correction for several comparisons, see `level_of_family`.
        error_df: degrees of freedom of `se` as an estimate, where that has few: the power is then
            that of repetitions, whose estimates are others. None takes `se` as the true one.

    Undefined (NaN): no standard error, or one of 0; no degrees of freedom.
    """
    if not (se > 0 and df > 0 and math.isfinite(se)):
        return math.nan
    if error_df is None:
        return se * detectable_shift(df, alpha, power)
    return se * repeated_shift(df, error_df, alpha, power)


def level_of_family(
    p_adjusted: Iterable[float],
    *,
    alpha: float = 0.05,
    correction: Correction | Literal["fdr"] = "holm",
) -> float:
    """Returns the level that a comparison without a verdict had to reach.

    Bonferroni: α / m for m comparisons with a p. Holm: α / (m − r), r of which are shown: that is
    the threshold at which the procedure stopped. For the false discovery rate: α (r + 1) / m, the
    threshold if no other p falls.
    """
    p = [value for value in p_adjusted if not math.isnan(value)]
    shown = sum(value <= alpha for value in p)
    if correction == "fdr":
        return alpha * min(1.0, (shown + 1) / max(1, len(p)))
    return alpha / max(1, len(p) - (shown if correction == "holm" else 0))


def alike_p(difference: float, se: float, df: float, margin: float) -> float:
    """Returns p of "the two differ by `margin` or more": two one-sided tests (Schuirmann 1987).

    It is the larger of the two, `P(T ≤ (|d| − margin) / se)`. At 5 %, it is at most 0.05 exactly
    where the 90 % interval of the difference lies within ± margin.

    Undefined (NaN): no standard error, or one of 0: where nothing varies, nothing says how far
    the next inputs differ.
    """
    if not (se > 0 and df > 0):
        return math.nan
    return float(scipy.special.stdtr(df, (abs(difference) - margin) / se))


def fewest(enough: Callable[[int], bool], least: int, most: int = MOST) -> int | None:
    """Returns the smallest n from `least` to `most` that is enough; None if none is.

    Args:
        enough: once true, it stays true for larger n.

    >>> fewest(lambda n: n * n >= 50, 2)
    8
    """
    high = least
    while not enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = max(least, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
