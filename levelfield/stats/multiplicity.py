"""Many comparisons at once: adjusted p-values, and what they leave told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.resampling import Correction, Family

FAMILY_NAMES: Mapping[Family, str] = {"metric": "a metric", "run": "the run", "fdr": "the run"}
"""Whose comparisons a family holds, in words."""


def adjustment(family: Family, names: Mapping[Family, str] = FAMILY_NAMES) -> str:
    """Returns the words for what adjusts p, and over what.

    >>> adjustment("metric")
    'Holm over the comparisons of a metric'
    """
    method = "Benjamini–Hochberg" if family == "fdr" else "Holm"
    return f"{method} over the comparisons of {names[family]}"


def holm(p_values: npt.ArrayLike) -> Floats:
    """p-values adjusted for the number of comparisons (Holm 1979).

    With the m defined p-values in rising order, `p~_(i) = max_{j<=i} min(1, (m - j + 1) p_(j))`.
    The chance of any false claim stays at the level, however the comparisons depend on each other.

    Args:
        p_values: (n,); NaN stays NaN and does not count as a comparison.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]  # NaN sorts last
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * p[order]))
    return adjusted


def bonferroni(p_values: npt.ArrayLike) -> Floats:
    """`min(1, m p)`, m the number of defined p-values; NaN stays NaN.

    >>> bonferroni([0.01, 0.4, 0.9]).tolist()
    [0.03, 1.0, 1.0]
    """
    p = np.asarray(p_values, dtype=np.float64)
    return np.minimum(1.0, p * int((~np.isnan(p)).sum()))


def false_discovery_rate(p_values: npt.ArrayLike) -> Floats:
    """p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995).

    With the m defined p-values in rising order, `p~_(i) = min_{j>=i} min(1, m p_(j) / j)`. Of the
    comparisons with p~ <= α, a share of α at most is false, on average over runs, where comparisons
    are independent or depend on each other positively. Those of every two systems do neither
    strictly, and keep it all the same (Yekutieli 2008; `benchmarks/false_discoveries.py`).

    Args:
        p_values: (n,); NaN stays NaN and does not count as a comparison.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]  # NaN sorts last
    scaled = order.size * p[order] / np.arange(1, order.size + 1)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return adjusted


def adjusted(p_values: npt.ArrayLike, correction: Correction) -> Floats:
    """p-values adjusted for their number."""
    return holm(p_values) if correction == "holm" else bonferroni(p_values)


def adjusted_by_family(
    p_values: Sequence[Sequence[float]], family: Family, correction: Correction = "holm"
) -> list[list[float]]:
    """p-values of each metric, adjusted for the number in their family.

    >>> adjusted_by_family([[0.01, 0.04], [0.02]], "metric")
    [[0.02, 0.04], [0.02]]
    >>> adjusted_by_family([[0.01, 0.04], [0.02]], "run")
    [[0.03, 0.04], [0.04]]
    >>> adjusted_by_family([[0.01, 0.04], [0.02]], "fdr")
    [[0.03, 0.04], [0.03]]
    """
    if family == "metric":
        return [adjusted(p, correction).tolist() for p in p_values]
    whole = [p for metric_p in p_values for p in metric_p]
    adjusted_p = false_discovery_rate(whole) if family == "fdr" else adjusted(whole, correction)
    p = iter(adjusted_p.tolist())
    return [[next(p) for _ in metric_p] for metric_p in p_values]


def rank_clusters(names: Sequence[str], better: Callable[[str, str], bool]) -> list[list[str]]:
    """Metrics that can't be told apart, best cluster first, as WMT ranks systems.

    Args:
        names: in falling order of their correlations.
        better: whether the first is shown to agree better than the second.

    A line is drawn after a metric if every metric above the line is shown better than every one
    below it. So in two clusters every difference is shown; within one, not every difference is
    missing: A may beat C while neither is told from B.

    >>> rank_clusters("abc", lambda x, y: (x, y) != ("b", "c"))
    [['a'], ['b', 'c']]
    """
    clusters: list[list[str]] = []
    start = 0
    for end in range(1, len(names) + 1):
        if all(better(above, below) for above in names[start:end] for below in names[end:]):
            # what is above `start` is better than all that follows already
            clusters.append(list(names[start:end]))
            start = end
    return clusters
