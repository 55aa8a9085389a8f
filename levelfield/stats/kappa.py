"""Cohen's κ."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.reliability import (
    OfDraws,
    checked_ratings,
    ratio,
    resampled,
    scaled,
    value_counts,
)
from levelfield.stats.resampling import DEFAULT, Resampling

KappaWeights = Literal["none", "quadratic"]


def kappa_of_labels(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Cohen's κ without weights or interval, `(p_o − p_e) / (1 − p_e)` of (n,) labels.

    >>> round(kappa_of_labels(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"]), 3)
    0.5

    Undefined (NaN): no labels, or both give all items one same label.
    """
    x, y = np.asarray(x), np.asarray(y)
    n = len(x)
    V, label = coded(np.concatenate([x, y]))
    by_x, by_y = (np.bincount(labels, minlength=V) for labels in (label[:n], label[n:]))
    if n == 0 or int(by_x @ by_y) == n**2:
        return math.nan
    by_chance = int(by_x @ by_y) / n**2
    return float((np.mean(x == y) - by_chance) / (1 - by_chance))


def cohen_kappa(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    weights: KappaWeights = "none",
    clusters: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Cohen's κ of two raters (Cohen 1960, 1968): agreement beyond what their own habits give.

    Without weights, `κ = (p_o − p_e) / (1 − p_e)`, p_o the share of equal ratings and p_e what
    two raters with these frequencies would have by chance. With quadratic weights,
    `κ = 1 − mean((x − y)²) / (var(x) + var(y) + (mean(x) − mean(y))²)`, variances with n: no
    categories are needed, and on continuous ratings it is Lin's (1989) concordance correlation.

    Undefined: fewer than three items that both rated, or both gave all of them one same rating.
    """

    def unweighted(x: Floats, y: Floats, code: Codes, K: int) -> tuple[OfDraws, int]:
        pooled = np.concatenate([x, y])
        _, category = np.unique(pooled, return_inverse=True)
        V = int(category.max()) + 1
        by_x = value_counts(category[: len(x)], code, V, K)
        by_y = value_counts(category[len(x) :], code, V, K)
        S = cluster_sums(np.column_stack([np.ones(len(x)), x == y]), code, K)

        def kappa(w: Floats) -> Floats:
            n, equal = (w @ S).T
            by_chance = ((by_x @ w.T) * (by_y @ w.T)).sum(axis=0) / n**2
            return ratio(equal / n - by_chance, 1 - by_chance)

        return kappa, K + 2 * V

    def quadratic(x: Floats, y: Floats, code: Codes, K: int) -> tuple[OfDraws, int]:
        S = cluster_sums(_moments(x, y), code, K)

        def kappa(w: Floats) -> Floats:
            n, sx, sy, sxx, syy, sxy = (w @ S).T
            spread = sxx + syy - 2 * sx * sy / n
            return ratio(2 * (sxy - sx * sy / n), spread)

        return kappa, K

    v, cluster = checked_ratings(
        np.column_stack([np.asarray(x, float), np.asarray(y, float)]), clusters
    )
    complete = ~np.isnan(v).any(axis=1)
    v = v[complete]
    K, code = coded(cluster[complete])
    if reason := why_no_kappa(len(v), v.min(initial=math.inf), v.max(initial=-math.inf)):
        return undefined(reason, n=len(v), clusters=K)
    make = unweighted if weights == "none" else quadratic
    statistic, width = make(v[:, 0], v[:, 1], code, K)
    return resampled(statistic, width, items=len(v), clusters=K, resampling=resampling)


def why_no_kappa(n: int, low: float, high: float) -> str:
    """Returns why κ is undefined for n items rated from low to high; empty if it is not."""
    if n < 3:
        return f"{('no item', 'one item', 'two items')[n]} in common"
    return f"all ratings are {low:g}" if low == high else ""


def _moments(x: Floats, y: Floats) -> Floats:
    """(n, 6): 1, x, y, x², y², xy, scaled as one so that the raters' difference stays."""
    x, y = scaled(np.stack([x, y]))
    return np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
