"""A statistic with its confidence interval, and why there may be neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from levelfield.core.arrays import Floats
from levelfield.core.documents import Document

FEWEST_CLUSTERS = 5
"""A value from fewer independent clusters has no interval."""

_ROUNDING = 1e-12
"""An interval narrower than this share of its ends has no width but by rounding."""

FEW_CLUSTERS = f"fewer than {FEWEST_CLUSTERS} independent inputs"
"""Why a value has no interval: ends from so few hold it too rarely, or are too far apart."""

NO_WIDTH = "nothing varies, so nothing shows how far other inputs would differ"
"""Why a value has no interval: its ends would be one number."""

NO_END = "one end would be infinite"

ONE_CLUSTER = "one cluster"
"""Why a value has no interval: nothing shows how clusters differ."""


@dataclass(frozen=True, slots=True)
class Estimate(Document):
    """A statistic with its confidence interval.

    An interval always has a width and finite ends.

    Attributes:
        value: NaN where `why_undefined` gives a reason.
        low, high: ends of the interval; NaN where `why_no_interval` gives a reason.
        n: number of samples (of a mean: values; at system level: systems).
        clusters: number of independent clusters that they form.
        why_no_interval: the same reason where the value is undefined.
        note: what a reader must know about the numbers; may be empty.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    why_undefined: str = ""
    why_no_interval: str = ""
    note: str = ""

    _entries = "value low high n clusters why_undefined? why_no_interval? note?"

    def __post_init__(self) -> None:
        if self.why_no_interval or math.isnan(self.low) or math.isnan(self.high):
            return
        width = self.high - self.low
        flat = width <= _ROUNDING * max(abs(self.low), abs(self.high))
        if reason := NO_END if math.isinf(width) else NO_WIDTH if flat else "":
            for name, value in (("low", math.nan), ("high", math.nan), ("why_no_interval", reason)):
                object.__setattr__(self, name, value)


def defined(value: float) -> float | None:
    """Returns a number as tables of numbers have it; None for NaN."""
    return None if math.isnan(value) else value


def finite(value: float) -> float | None:
    """Returns a number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None


def undefined(reason: str, *, n: int, clusters: int) -> Estimate:
    """Returns an estimate without a value."""
    return Estimate(math.nan, math.nan, math.nan, n, clusters, reason, reason)


def too_few_clusters(clusters: int) -> str:
    """Returns why a value of this number of clusters has no interval; empty if it may have one.

    >>> too_few_clusters(1), too_few_clusters(2), too_few_clusters(5)
    ('one cluster', 'fewer than 5 independent inputs', '')
    """
    return ONE_CLUSTER if clusters == 1 else FEW_CLUSTERS if clusters < FEWEST_CLUSTERS else ""


def estimate_of_mean(
    value: float, low: float, high: float, *, n: int, clusters: int, why_no_interval: str = ""
) -> Estimate:
    """Returns a mean with its interval.

    Undefined without a value. No interval from one value, from `too_few_clusters`, or for the
    reason given.
    """
    if n == 0:
        return Estimate(value, low, high, n, clusters, "no values", "no values")
    reason = "one value" if n == 1 else why_no_interval or too_few_clusters(clusters)
    if reason:
        low = high = math.nan
    return Estimate(value, low, high, n, clusters, why_no_interval=reason)


def estimate_from_draws(
    value: float,
    drawn: Floats | None,
    *,
    n: int,
    clusters: int,
    reason: str = "",
    level: float = 0.95,
    unit: str = "samples",
) -> Estimate:
    """Returns a statistic with the expanded percentile interval of its resamples.

    Args:
        value: of the statistic.
        drawn: (resamples,) its values on the resamples, NaN where undefined; None without any.
        reason: reason for which the statistic is undefined; empty if it is defined.
        level: share of the resamples inside the interval.
        unit: name of what `n` counts.
    """
    if reason:
        return undefined(reason, n=n, clusters=clusters)
    nan = math.nan
    note = f"two {unit}: only the ends of its range are possible" if n == 2 else ""
    few = ONE_CLUSTER if drawn is None else too_few_clusters(clusters)
    if n == 2 and clusters == 2:
        few = f"two {unit}"
    if drawn is None or few:
        return Estimate(value, nan, nan, n, clusters, "", few, note)
    defined = drawn[~np.isnan(drawn)]
    lost = drawn.size - defined.size
    if lost > drawn.size // 2:
        why_not = f"undefined in {lost:,} of {drawn.size:,} resamples"
        return Estimate(value, nan, nan, n, clusters, "", why_not, note)
    if lost:
        left = f"{lost:,} of {drawn.size:,} resamples are undefined and left out of the interval"
        note = "; ".join(filter(None, (note, left)))
    return Estimate(value, *percentile_ends(defined, level, clusters), n, clusters, note=note)


def estimates_from_draws(
    values: Floats,
    drawn: Floats | None,
    *,
    n: Sequence[int],
    clusters: int,
    reasons: Sequence[str],
    level: float = 0.95,
) -> list[Estimate]:
    """Returns `estimate_from_draws` of several statistics with the same number of clusters.

    Args:
        values: (statistics,).
        drawn: (statistics, resamples).
        n, reasons: of each.
    """
    whole = np.zeros(len(values), dtype=np.bool_)  # those with nothing to report
    ends = np.full((2, len(values)), math.nan)
    if drawn is not None and not too_few_clusters(clusters):
        whole = ~np.isnan(drawn).any(axis=1) & (np.asarray(n) > 2) & (np.asarray(reasons) == "")
        ends[:, whole] = np.quantile(drawn[whole], _expanded(level, clusters), axis=1)
    return [
        Estimate(float(value), low, high, n[i], clusters)
        if whole[i]
        else estimate_from_draws(
            float(value),
            None if drawn is None else drawn[i],
            n=n[i],
            clusters=clusters,
            reason=reasons[i],
            level=level,
        )
        for i, (value, low, high) in enumerate(zip(values, *ends.tolist(), strict=True))
    ]


def percentile_ends(drawn: Floats, level: float, clusters: int) -> tuple[float, float]:
    """Returns the ends of the expanded percentile interval of a statistic (Hesterberg 2015).

    They are the quantiles at q and 1 − q of the resamples, with
    `q = Φ(−√(n / (n − 1)) t)`, n the number of clusters and t the quantile at (1 + level) / 2 of
    Student's distribution with n − 1 degrees of freedom. The plain percentile, q = (1 − level) / 2,
    is too short for few clusters: resamples vary by (n − 1) / n of the variance, and by how much is
    not known but estimated. Many clusters make the two equal.

    Args:
        drawn: (resamples,) values of the statistic; with few clusters the ends are those of all of
            them.
        clusters: how many were drawn from; two or more.
    """
    low, high = np.quantile(drawn, _expanded(level, clusters))
    return float(low), float(high)


def _expanded(level: float, clusters: int) -> list[float]:
    t = scipy.special.stdtrit(clusters - 1, (1 + level) / 2)
    q = float(scipy.special.ndtr(-math.sqrt(clusters / (clusters - 1)) * t))
    return [q, 1 - q]


def too_few(n: int, unit: str = "sample") -> str:
    """Returns why a statistic of two or more is undefined for n; empty if it is not.

    >>> too_few(0), too_few(1)
    ('no samples', 'one sample')
    """
    return "" if n > 1 else f"one {unit}" if n else f"no {unit}s"
