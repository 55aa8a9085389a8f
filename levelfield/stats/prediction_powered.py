"""Means of ratings that few texts have, made sharper by scores that all texts have.

Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023), with the
weight of the scores tuned for power (Angelopoulos, Duchi and Zrnic 2023, PPI++).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.estimate import ONE_CLUSTER, Estimate, too_few_clusters, undefined

NONE_RATED = "no rated text"
ALL_EQUAL = "all ratings are equal"


@dataclass(frozen=True)
class PoweredMean:
    """A mean of ratings, from the ratings alone and with scores, and what each cluster does to it.

    Attributes:
        value: (2,) the mean from the ratings alone, and the prediction-powered one.
        weight: of the scores, λ; NaN without ratings.
        rated, scored: numbers of texts.
        clusters: (k,) codes of the clusters that have texts, rising.
        has_ratings: (k,) whether they have rated texts.
        changes: (k, 2) how the values change where a cluster is left out.
        imbalance: by how many of its standard errors the mean score of the rated texts differs from
            that of all; NaN where that has none.
    """

    value: Floats
    weight: float
    rated: int
    scored: int
    clusters: Codes
    has_ratings: Bools
    changes: Floats
    imbalance: float


@dataclass(frozen=True)
class PoweredEstimate:
    """A mean or a difference of means with its intervals.

    Attributes:
        people: from the ratings alone.
        powered: from ratings and scores.
        effective: how many ratings alone would have the interval of `powered`:
            n (SE of `people` / SE of `powered`)²; NaN where either is unknown.
        p: two-sided p of the hypothesis that `powered` is 0; NaN without an interval.
    """

    people: Estimate
    powered: Estimate
    effective: float
    p: float


def powered_mean(
    ratings: Floats, scores: Floats, clusters: Codes, weights: Floats | None = None
) -> PoweredMean:
    """Returns the mean rating of all texts, of which some are rated and all are scored.

    With ȳ and f̄_r the means of the ratings y and of the scores f over the rated texts, and f̄ the
    mean score of all N texts,

        mean = ȳ + λ (f̄ − f̄_r)        λ = Cov(y, f) / Var(f)

    both over the rated texts. In the paper the n rated texts are not among the M others; its
    estimator λ' f̄_M + ȳ − λ' f̄_r is this one with λ' = λ M / (n + M), and its tuned λ' makes the
    variance smallest, as this λ does. The paper takes Var over all texts, and its program clips λ'
    to 0 to 1; over the rated ones, as in the regression estimator of double sampling (Cochran 1977,
    section 12.7), few ratings give a narrower interval. The estimate is valid whatever the scores
    are worth, since their error is measured on the rated texts; λ is near 0 where they are worth
    nothing. A text without a score has the mean score, which is as valid a prediction as any other.

    Args:
        ratings: (n,) NaN where a text is not rated.
        scores: (n,) NaN where a text has no score; on any scale and in either direction.
        clusters: (n,) equal codes share a prompt or source.
        weights: (n,) of rated texts, 1 / probability of being rated; equal if None. Means over the
            rated texts are then weighted (Hájek 1971).

    Undefined (NaN): no rated text.
    """
    has_rating, has_score = ~np.isnan(ratings), ~np.isnan(scores)
    K, code = coded(clusters)
    names = np.unique(clusters)
    y_mean = float(ratings[has_rating].mean()) if has_rating.any() else math.nan
    f_mean = float(scores[has_score].mean()) if has_score.any() else 0.0
    w = np.where(has_rating, 1.0 if weights is None else weights, 0.0)
    y = np.where(has_rating, ratings - y_mean, 0.0)
    f = np.where(has_score, scores - f_mean, 0.0)
    sums = np.stack([np.ones_like(f), f, w, w * y, w * f, w * f * f, w * y * f], axis=1)
    sums_per_cluster = cluster_sums(sums, code, K)
    total = sums_per_cluster.sum(axis=0)
    value, weight, imbalance = _values(total)
    left_out, _, imbalance_left = _values(total - sums_per_cluster)
    changes = left_out - value
    variance = _variance(imbalance_left - imbalance)
    return PoweredMean(
        value=value + y_mean,
        weight=float(weight) if has_rating.any() else math.nan,
        rated=int(has_rating.sum()),
        scored=int(has_score.sum()),
        clusters=names.astype(np.intp),
        has_ratings=np.bincount(code, has_rating, minlength=K) > 0,
        changes=changes,
        imbalance=float(imbalance) / math.sqrt(variance) if variance > 0 else math.nan,
    )


def _values(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns means (…, 2), weights (…) and f̄ − f̄_r, from sums (…, 7)."""
    N, F, W, Y, G, GG, YG = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        y, f, f_r = Y / W, F / N, G / W
        variance = GG / W - f_r * f_r
        varied = variance > 1e-12 * GG / W
        weight = np.where(varied, (YG / W - y * f_r) / variance, 0.0)
    return np.stack([y, y + weight * (f - f_r)], axis=-1), weight, f - f_r


def _variance(changes: Floats) -> float:
    """Returns the jackknife variance (K − 1) / K Σ change², of a value that each of K clusters
    changes."""
    K = changes.size
    return (K - 1) / K * float(np.square(changes).sum()) if K else math.nan


def estimate_of(mean: PoweredMean, *, level: float = 0.95) -> PoweredEstimate:
    """Returns a mean with its intervals.

    The standard error is that of the jackknife that leaves out clusters one by one and recomputes λ
    without each. Student's t has one degree of freedom fewer than there are clusters with a rating.
    One such cluster, or equal ratings, give no interval.
    """
    df = int(mean.has_ratings.sum()) - 1
    return _estimate(mean.value, mean.changes, mean.has_ratings, df, mean.rated, level, mean.value)


def difference_of(a: PoweredMean, b: PoweredMean, *, level: float = 0.95) -> PoweredEstimate:
    """Returns the difference a − b; the jackknife leaves the clusters of both out of both at once.

    Degrees of freedom are those of the mean with fewer.
    """
    names = np.union1d(a.clusters, b.clusters)
    changes, rated = np.zeros((names.size, 2)), np.zeros(names.size, dtype=np.bool_)
    for mean, sign in ((a, 1.0), (b, -1.0)):
        place = np.searchsorted(names, mean.clusters)
        changes[place] += sign * mean.changes
        rated[place] |= mean.has_ratings
    df = int(min(a.has_ratings.sum(), b.has_ratings.sum())) - 1
    size = np.abs(np.stack([a.value, b.value]))
    return _estimate(a.value - b.value, changes, rated, df, a.rated + b.rated, level, size)


def _estimate(
    value: Floats,
    changes: Floats,
    rated: Bools,
    df: int,
    n: int,
    level: float,
    size: Floats,
) -> PoweredEstimate:
    """`size` says how large a change is that is not rounding."""
    clusters = int(rated.sum())
    if np.isnan(value).any():
        none = undefined(NONE_RATED, n=n, clusters=clusters)
        return PoweredEstimate(none, none, math.nan, math.nan)
    few = too_few_clusters(clusters) or ("" if df > 0 else ONE_CLUSTER)
    if few:
        people, powered = (
            Estimate(float(v), math.nan, math.nan, n, clusters, "", few) for v in value
        )
        return PoweredEstimate(people, powered, math.nan, math.nan)
    errors = [math.sqrt(_variance(c)) for c in (changes[rated, 0], changes[:, 1])]
    least = 1e-12 * float(np.abs(size).max())
    t = float(scipy.special.stdtrit(df, (1 + level) / 2))
    people, powered = (
        Estimate(v, v - t * e, v + t * e, n, clusters)
        if e > least
        else Estimate(v, math.nan, math.nan, n, clusters, "", ALL_EQUAL)
        for v, e in zip(value.tolist(), errors, strict=True)
    )
    if min(errors) <= least:
        return PoweredEstimate(people, powered, math.nan, math.nan)
    return PoweredEstimate(
        people,
        powered,
        effective=n * (errors[0] / errors[1]) ** 2,
        p=2 * float(scipy.special.stdtr(df, -abs(powered.value) / errors[1])),
    )


def allocation(texts: Codes, rated: Codes, spreads: Floats, draws: int) -> Codes:
    """Returns the number of texts to draw of each stratum for means of the smallest variance:
    (strata,).

    Neyman allocation in whole numbers (Wright 2012): the stratum with the largest
    `W_h σ_h / √(n_h (n_h + 1))` has the next text, n_h those rated or drawn so far.

    Args:
        texts: (strata,) N_h.
        rated: (strata,) n_h at first.
        spreads: (strata,) W_h σ_h: the share of its system's texts that a stratum has, times the
            standard deviation of what the scores leave unexplained.
        draws: how many in all; no more are drawn than there are texts.
    """
    n = rated.astype(np.int64)
    for _ in range(min(draws, int((texts - n).sum()))):
        gains = spreads / np.sqrt(np.maximum(n * (n + 1.0), 1e-9))
        n[np.argmax(np.where(n < texts, gains, -1.0))] += 1
    return (n - rated).astype(np.intp)
