"""Gwet's AC1 and AC2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.estimands import MEASUREMENTS, Measurement
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.reliability import checked_ratings, ratio, resampled, why_incomparable
from levelfield.stats.resampling import DEFAULT, Resampling

MOST_VALUES = 100
"""The number of different ratings above which they are not categories."""


def gwet_ac(
    values: npt.ArrayLike,
    *,
    level: Measurement = "nominal",
    clusters: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Gwet's AC1 of labels, and AC2 of ratings: agreement beyond a chance that rare labels do not
    raise.

    `AC = (p_a − p_e) / (1 − p_e)`. With r_ik ratings of item i in category k, r_i of the item,
    weights w_kl of how far two categories agree, and r*_ik = Σ_l w_kl r_il,

        p_a = mean over items with r_i ≥ 2 of Σ_k r_ik (r*_ik − 1) / (r_i (r_i − 1)),
        p_e = Σ_kl w_kl / (q (q − 1)) · Σ_k π_k (1 − π_k),

    π_k the mean over rated items of r_ik / r_i, and q the number of categories, which are the
    values that occur. Where nearly all ratings are equal, the chance of α and κ is close to 1, and
    they are low however well raters agree; p_e is close to 0 there (Gwet 2008, "Computing
    Inter-Rater Reliability and Its Variance in the Presence of High Agreement"; Gwet 2014, chapter
    3).

    Weights: at the nominal level 1 for equal categories, else 0 (AC1); at the ordinal level
    1 − C(|k − l| + 1, 2) / C(q, 2) of their ranks; at the interval level 1 − (x_k − x_l)² / R², R
    the range (AC2). The interval is an expanded percentile bootstrap of clusters of items.

    Args:
        values: (items, raters); NaN is missing.
        level: of measurement.
        clusters: (items,) anything that sorts; equal entries are drawn together. By default each
            item is a cluster.

    Undefined: one rater, no item with two ratings, one item only, all ratings equal, more than 100
    different ratings.
    """
    if level not in MEASUREMENTS:
        raise ValueError(f"level: expected one of {', '.join(MEASUREMENTS)}, found {level!r}")
    v, cluster = checked_ratings(values, clusters)
    rated = (~np.isnan(v)).any(axis=1)
    v, cluster = v[rated], cluster[rated]
    several = (~np.isnan(v)).sum(axis=1) >= 2
    K, code = coded(cluster)
    items, pairable = int(several.sum()), np.unique(code[several]).size
    raters = int((~np.isnan(v)).any(axis=0).sum())
    reason = why_incomparable(v[several], raters)
    categories = np.unique(v[~np.isnan(v)])
    if not reason and categories.size > MOST_VALUES:
        reason = f"{categories.size:,} different ratings, expected at most {MOST_VALUES} categories"
    if reason:
        return undefined(reason, n=items, clusters=pairable)
    weights = _weights(categories, level)
    counts = np.stack([(v == category).sum(axis=1) for category in categories], axis=1)
    r = counts.sum(axis=1)
    pairs = (counts * (counts @ weights - 1)).sum(axis=1) / np.maximum(r * (r - 1), 1)
    sums = cluster_sums(
        np.column_stack([several, np.where(several, pairs, 0.0), counts / r[:, None]]), code, K
    )
    q = categories.size
    spread = float(weights.sum()) / (q * (q - 1))

    def ac(w: Floats) -> Floats:
        n, agreeing, *shares = (w @ sums).T
        pi = np.stack(shares) / np.sum(shares, axis=0)
        p_e = spread * (pi * (1 - pi)).sum(axis=0)
        return ratio(agreeing - n * p_e, n * (1 - p_e))

    estimate = resampled(ac, K + q, items=items, clusters=K, resampling=resampling)
    return replace(estimate, clusters=pairable)


def _weights(categories: Floats, level: Measurement) -> Floats:
    """Returns (categories, categories): how far two of them agree."""
    q = categories.size
    if level == "nominal":
        return np.eye(q)
    if level == "ordinal":
        ranks = np.arange(q)
        distance = np.abs(ranks[:, None] - ranks) + 1
        return np.asarray(1 - distance * (distance - 1) / (q * (q - 1)))
    distance = (categories[:, None] - categories) / np.ptp(categories)
    return np.asarray(1 - distance**2)
