"""Does metric A agree with people better than metric B? Tests of two dependent correlations.

Two metrics on the same samples are correlated with each other, so their correlations with the
ratings can't be tested as if they were of two studies. Williams' test uses the correlation between
the metrics in a formula and takes normal, independent samples; the permutation test exchanges their
values and takes the two metrics' standardised values within a cluster as exchangeable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Bits, Bools, Codes, Floats
from levelfield.stats.clusters import bits_times, cluster_sums, coded, held_together
from levelfield.stats.estimate import too_few
from levelfield.stats.grouped import r_within, ranked_within
from levelfield.stats.measures import constant
from levelfield.stats.moments import moments, r_of_moments, standardised
from levelfield.stats.resampling import Resampling
from levelfield.stats.sign_flip import sign_flips
from levelfield.stats.tilting import is_rare, tilted_p

_SAME = 1e-9
"""Correlations nearer than this are equal but for rounding."""

_CHUNK = 1 << 18

_MOST_HELD = 1 << 25
"""Sums of swaps held at a time: 256 MB."""

_OF_X = [1, 3, 5]
"""Which of the `moments` a swap of metrics changes."""

_STEP = 1e-6
"""Of the derivative of a difference, as a share of what the clusters can move."""


class Williams(NamedTuple):
    """Williams' t with n − 3 degrees of freedom.

    Attributes:
        t: positive if A agrees better.
        p: two-sided.
        p_greater: one-sided, of "A does not agree better than B".
        n: how many samples (at system level: systems).
        why_undefined: why t and p are NaN; empty if they are not.
        note: what a reader must know of p; empty if nothing.
    """

    t: float
    p: float
    p_greater: float
    n: int
    why_undefined: str = ""
    note: str = ""


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> Williams:
    """Williams' test of r(A, ratings) against r(B, ratings), from the three correlations.

    `t = (r_a − r_b) √((n − 1)(1 + r_ab) / (2 K (n − 1)/(n − 3) + r̄² (1 − r_ab)³))`,
    `K = 1 − r_a² − r_b² − r_ab² + 2 r_a r_b r_ab`, `r̄ = (r_a + r_b) / 2`, n − 3 degrees of
    freedom (Williams 1959; Steiger 1980, equation 7; for metrics Graham and Baldwin 2014). The
    nearer the two metrics are to each other, the smaller a difference it finds. Metrics that are
    the same up to scale have t = 0 and p = 1. It takes the samples as independent and normal. Those
    of one source are not independent: with clusters of ratings it finds differences that are not
    there (15 to 31 % of the time instead of 5 %, where the systems' texts for one source are rated
    alike); trust `swap_test`.

    Undefined: a correlation that is, or n < 4.

    >>> w = williams(0.4, 0.2, 0.5, 103)
    >>> round(w.t, 2), round(w.p, 3)
    (2.17, 0.032)
    """
    nan = math.nan
    if any(math.isnan(r) for r in (r_a, r_b, r_ab)):
        return Williams(nan, nan, nan, n, "a correlation is undefined")
    if n < 4:
        return Williams(nan, nan, nan, n, "Williams' test needs 4 or more")
    if abs(r_a - r_b) < _SAME:
        return Williams(0.0, 1.0, 0.5, n)
    K = max(0.0, 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab)
    bottom = 2 * K * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    top = (n - 1) * (1 + r_ab)
    size = math.sqrt(top / bottom) if bottom > 0 else math.inf if top > 0 else 0.0
    t = (r_a - r_b) * size
    return Williams(
        t=t,
        p=float(2 * scipy.special.stdtr(n - 3, -abs(t))),
        p_greater=float(scipy.special.stdtr(n - 3, -t)),
        n=n,
    )


@dataclass(frozen=True, slots=True)
class Swapped:
    """Result of the permutation test.

    Attributes:
        difference: r(A, ratings) − r(B, ratings), averaged over groups if there are several.
        p: two-sided.
        p_greater: one-sided, of "A does not agree better than B".
        n, clusters, groups: what it rests on.
        why_undefined: why the rest is NaN; empty if it is not.
        note: what a reader must know of p; empty if nothing.
        se: standard error of the difference, `√(K / (K − 1) (v − d² / K))` for K clusters, v being
            the mean square of the permuted differences and d the observed one, so that the
            difference itself does not count as error; or of the test's own. NaN without a test.
        df: degrees of freedom of `se`; NaN for `clusters` − 1.
    """

    difference: float
    p: float
    p_greater: float
    n: int
    clusters: int
    groups: int
    why_undefined: str = ""
    note: str = ""
    se: float = math.nan
    df: float = math.nan


def swap_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    ranks: bool = False,
    fisher: bool = False,
    permutations: int = 10_000,
    seed: int = 0,
) -> Swapped:
    """Paired permutation test: exchanges the values of two metrics at random, by whole clusters.

    If A and B agree with people equally well, it does not matter which of them a value came from
    once both are on one scale. So both are standardised (within groups, if there are any), every
    permutation swaps the values of each cluster or leaves them, and the difference of the
    correlations is computed again. If there are no more than `permutations` arrangements, all are
    tried and p is the share of those that reach the observed difference, never below 2 / 2^K with K
    clusters; otherwise p = (b + 1) / (m + 1) counts the observed one (Phipson and Smyth 2010). If
    fewer than 0.5 % of the permutations reach the observed difference, p comes from `tilted_p`.

    It assumes that, if A and B agree equally well, their standardised values within a cluster are
    exchangeable: the pair (A, B) is distributed as (B, A), given the ratings. That is more than
    equal correlations; metrics whose values have different shapes can break it. The test of
    Deutsch, Dror and Roth 2021, section 4, which they call PERM-INPUTS; clusters instead of inputs
    are ours. With means of systems for values and each system a cluster it is their PERM-SYSTEMS.

    Args:
        a, b, y: (n,) the metrics and the ratings, no NaN.
        clusters: (n,) anything that sorts; equal entries are swapped together.
        groups: (n,) correlations are taken within each and averaged; one group if None. A group
            in which something is constant is left out, and `groups` counts the others.
        ranks: correlate ranks (Spearman): values are replaced by their ranks before they are
            standardised, and are not ranked again in every permutation.
        fisher: take the difference of Fisher's z, atanh r.
        permutations, seed: equal seeds give equal p, in whatever order the samples come.

    Undefined: fewer than two samples, a constant metric or constant ratings.
    """
    return swap_tests(
        [a, b], [(0, 1)], y, clusters, groups,
        ranks=ranks, fisher=fisher, permutations=permutations, seed=seed,
    )[0]  # fmt: skip


def swap_tests(
    metrics: Sequence[npt.ArrayLike],
    pairs: Sequence[tuple[int, int]],
    y: npt.ArrayLike,
    clusters: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    ranks: bool = False,
    fisher: bool = False,
    permutations: int = 10_000,
    seed: int = 0,
) -> list[Swapped]:
    """Returns `swap_test` of several pairs of metrics, with the same clusters swapped.

    A pair's sums after a swap follow from sums over the swapped clusters of each of the two
    metrics, so that these are taken once a metric. Where every group lies in one cluster, as where
    both are the sources, a swap turns the sign of what its groups differ by, and the test is that
    of `sign_flips`, one product of matrices for all pairs.

    Args:
        metrics: (n,) each.
        pairs: places of A and B among the metrics.
    """
    columns = [np.asarray(v, dtype=np.float64) for v in metrics]
    y = np.asarray(y, dtype=np.float64)
    K, cluster = coded(clusters)
    n, nan = y.size, math.nan
    group = np.zeros(n, dtype=np.intp) if groups is None else np.asarray(groups)
    if groups is not None and not fisher and _nested(group, cluster):
        resampling = Resampling(permutations=permutations, seed=seed)
        return _sign_flips(columns, pairs, y, cluster, group, K, ranks, resampling)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(group[order][1:] != group[order][:-1]) + 1
    sums = [
        _group_sums([v[rows] for v in columns], y[rows], cluster[rows], ranks)
        for rows in np.split(order, starts)
    ]
    defined = [[s for s in sums if a in s.moments and b in s.moments] for a, b in pairs]

    def differences(swap: Bits) -> list[Floats]:
        """Returns the differences (r,) of each pair, averaged over its groups. swap: (r, K), 1
        where a cluster is swapped."""
        swapped = {id(s): s.swapped(swap) for s in sums if s.moments}
        return [
            np.asarray(
                np.mean([s.difference(a, b, swapped[id(s)], fisher) for s in swappables], axis=0)
            )
            if swappables
            else np.empty(0)
            for (a, b), swappables in zip(pairs, defined, strict=True)
        ]

    tallies = [
        _SwapTally(0.0 if not d.size or abs(d[0]) < _SAME else float(d[0]))
        for d in differences(np.zeros((1, K), np.uint8))
    ]
    if any(defined):
        sums_per_swap = 6 * max(1, len(columns)) * len(sums)  # sums of one swap, in every group
        for swap in _swaps(K, permutations, seed, rows=max(1, _MOST_HELD // sums_per_swap)):
            for tally, d in zip(tallies, differences(swap), strict=True):
                tally.add(d)
    results = []
    for (a, b), parts, tally in zip(pairs, defined, tallies, strict=True):
        if not parts:
            reason = "constant in every group" if groups is not None and n > 1 else _why(y)
            results.append(Swapped(nan, nan, nan, n, K, 0, reason))
            continue
        exact = permutations >= 2**K
        p, p_greater = tally.p(exact=exact)
        if not exact and is_rare(tally.two_sided, tally.tried):
            pair = [s.swappable(a, b, fisher) for s in parts]
            tilted = _tilted(pair, tally.observed, K, seed)
            if tilted is not None:
                p = tilted
                p_greater = tilted / 2 if tally.observed > 0 else 1 - tilted / 2
        results.append(Swapped(tally.observed, p, p_greater, n, K, len(parts), se=tally.se(K)))
    return results


def _nested(group: npt.NDArray[np.generic], cluster: Codes) -> bool:
    """Returns whether every group lies in one cluster."""
    G, code = coded(group)
    first = np.zeros(G, np.intp)
    first[code] = cluster
    return bool(np.array_equal(first[code], cluster))


def _sign_flips(
    columns: Sequence[Floats],
    pairs: Sequence[tuple[int, int]],
    y: Floats,
    cluster: Codes,
    groups: npt.NDArray[np.generic],
    K: int,
    ranks: bool,
    resampling: Resampling,
) -> list[Swapped]:
    """Returns `swap_tests` where every group lies in one cluster."""
    if not pairs:
        return []
    G, group = coded(groups)
    if ranks:
        y, *columns = (ranked_within(v, group) for v in (y, *columns))
    group_cluster = np.zeros(G, np.intp)
    group_cluster[group] = cluster
    r = [r_within(v, y, group, G) for v in columns]
    d = np.stack([r[a] - r[b] for a, b in pairs], axis=1)
    parts = (~np.isnan(d)).sum(axis=0)
    S = cluster_sums(np.nan_to_num(d), group_cluster, K) / np.maximum(parts, 1)
    flips = sign_flips(S, np.ones_like(S), resampling=resampling)
    p, se = flips.p, flips.se * K  # of the sum over clusters, as the difference is
    results = []
    for j, n_groups in enumerate(parts.tolist()):
        if not n_groups:
            reason = "constant in every group" if y.size > 1 else _why(y)
            results.append(Swapped(math.nan, math.nan, math.nan, y.size, K, 0, reason))
            continue
        difference = float(S[:, j].sum())
        if abs(difference) < _SAME:
            results.append(Swapped(0.0, 1.0, 0.5, y.size, K, n_groups))
            continue
        p_greater = float(p[j] / 2 if difference > 0 else 1 - p[j] / 2)
        tested = Swapped(difference, float(p[j]), p_greater, y.size, K, n_groups, se=float(se[j]))
        results.append(tested)
    return results


@dataclass
class _SwapTally:
    """How many swaps of clusters reach what is observed."""

    observed: float
    two_sided: int = 0
    greater: int = 0
    tried: int = 0
    squares: float = 0.0

    def add(self, d: Floats) -> None:
        lost = int(np.isnan(d).sum())  # swapped into a constant: no arrangement to compare with
        self.two_sided += int((np.abs(d) >= abs(self.observed) - _SAME).sum()) + lost
        self.greater += int((d >= self.observed - _SAME).sum()) + lost
        self.tried += d.size
        self.squares += float(np.nansum(d**2))

    def se(self, K: int) -> float:
        """Returns the standard error of the difference; NaN for one cluster."""
        if K < 2 or not self.tried:
            return math.nan
        noise = self.squares / self.tried - self.observed**2 / K
        return math.sqrt(max(0.0, noise) * K / (K - 1))

    def p(self, *, exact: bool) -> tuple[float, float]:
        """Returns p, two-sided and one-sided."""
        identity = int(not exact)
        total = max(1, self.tried + identity)
        return (self.two_sided + identity) / total, (self.greater + identity) / total


def _swaps(K: int, permutations: int, seed: int, *, rows: int) -> Iterator[Bits]:
    """Yields swaps (r, K), 1 where a cluster is swapped: every arrangement if they are few enough,
    else random ones.

    Args:
        rows: put together at most.
    """
    step = max(1, _CHUNK // K)
    if permutations >= 2**K:
        for start in range(0, 2**K, step):
            numbers = np.arange(start, min(start + step, 2**K))
            yield ((numbers[:, None] >> np.arange(K)) & 1).astype(np.uint8)
        return
    rng = np.random.default_rng(seed)
    sizes = (min(step, permutations - start) for start in range(0, permutations, step))
    chunks = (rng.integers(0, 2, size=(r, K), dtype=np.uint8) for r in sizes)
    yield from held_together(chunks, rows)


def _tilted(statistics: Sequence[_Swappable], observed: float, K: int, seed: int) -> float | None:
    """Returns the two-sided p of a difference that hardly any permutation reaches; None if it can't
    be estimated."""
    sign = math.copysign(1, observed)
    slopes = sign * np.mean([s.slopes(K) for s in statistics], axis=0)
    active = slopes != 0

    def reaches(plus: Bools) -> Bools:
        swap = np.zeros((len(plus), K))
        swap[:, active] = ~plus
        d = sign * np.mean([s(swap) for s in statistics], axis=0)
        return np.asarray(np.isnan(d) | (d >= abs(observed) - _SAME))

    p = tilted_p(reaches, slopes[active], abs(observed), seed=seed) if active.any() else None
    return None if p is None else max(p, 2.0 ** (1 - int(active.sum())))


@dataclass(frozen=True)
class _Swappable:
    """r(A') − r(B') as a function of the clusters whose values are swapped.

    Attributes:
        clusters: (k,) those that it depends on.
        gap: (k, p) what A gains, and B loses, of p sums when a cluster is swapped.
        statistic: (r, p) what A gained -> (r,) the difference.
    """

    clusters: Codes
    gap: Floats
    statistic: Callable[[Floats], Floats]

    def __call__(self, swap: Floats) -> Floats:
        """Returns the differences (r,) of swaps (r, K), 1 where a cluster is swapped."""
        flips = swap if self.clusters.size == swap.shape[1] else swap[:, self.clusters]
        return self.statistic(flips @ self.gap)

    def slopes(self, K: int) -> Floats:
        """Returns the coefficients a (K,) of the linear part Σ a_k g_k in signs g_k, −1 where a
        cluster is swapped."""
        half = self.gap.sum(axis=0) / 2
        steps = _STEP * np.diag(np.maximum(np.abs(self.gap).sum(axis=0), 1e-12))
        ends = self.statistic(np.concatenate([half + steps, half - steps]))
        slope = np.subtract(*np.split(ends, 2)) / (2 * np.diag(steps))
        cluster_slopes = np.zeros(K)
        cluster_slopes[self.clusters] = -self.gap @ np.nan_to_num(slope) / 2
        return cluster_slopes


@dataclass(frozen=True)
class _GroupSums:
    """Sums over clusters of each metric with the ratings of a group.

    Attributes:
        clusters: (k,) those of the group.
        moments: place of a metric -> its (k, 6) `moments`; without those that are constant.
    """

    clusters: Codes
    moments: Mapping[int, Floats]

    def swapped(self, swap: Bits) -> dict[int, Floats]:
        """Returns Σx, Σx² and Σxy of each metric over the swapped clusters: (r, 3)."""
        flips = swap if self.clusters.size == swap.shape[1] else swap[:, self.clusters]
        sums = bits_times(
            flips, np.concatenate([M[:, _OF_X] for M in self.moments.values()], axis=1)
        )
        return dict(zip(self.moments, np.split(sums, len(self.moments), axis=1), strict=True))

    def difference(self, a: int, b: int, swapped: Mapping[int, Floats], fisher: bool) -> Floats:
        """Returns r(A') − r(B'): (r,)."""
        gained = np.zeros((len(swapped[a]), 6))
        gained[:, _OF_X] = swapped[b] - swapped[a]
        return self._difference_of_gained(a, b, fisher)(gained)

    def swappable(self, a: int, b: int, fisher: bool) -> _Swappable:
        return _Swappable(
            self.clusters,
            self.moments[b] - self.moments[a],
            self._difference_of_gained(a, b, fisher),
        )

    def _difference_of_gained(self, a: int, b: int, fisher: bool) -> Callable[[Floats], Floats]:
        total_a, total_b = self.moments[a].sum(axis=0), self.moments[b].sum(axis=0)

        def difference(gained: Floats) -> Floats:
            r_a, r_b = r_of_moments(total_a + gained), r_of_moments(total_b - gained)
            return _z(r_a) - _z(r_b) if fisher else r_a - r_b

        return difference


def _group_sums(columns: Sequence[Floats], y: Floats, cluster: Codes, ranks: bool) -> _GroupSums:
    """Returns the sums of the metrics that have a correlation in a group."""
    if y.size < 2 or constant(y):
        return _GroupSums(np.empty(0, np.intp), {})
    mine, code = np.unique(cluster, return_inverse=True)
    y = standardised(_ranked(y) if ranks else y)
    sums_of = {
        j: moments(standardised(_ranked(v) if ranks else v), y, code, mine.size)
        for j, v in enumerate(columns)
        if not constant(v)
    }
    return _GroupSums(mine, sums_of)


def _z(r: Floats) -> Floats:
    return np.asarray(np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)))


def _ranked(v: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(v), dtype=np.float64)


def _why(y: Floats) -> str:
    return too_few(y.size) or ("constant rating" if constant(y) else "constant metric")
