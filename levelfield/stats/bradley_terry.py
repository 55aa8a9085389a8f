"""Strengths of systems from paired comparisons (Bradley and Terry 1952)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import coded
from levelfield.stats.estimate import Estimate, too_few_clusters, undefined

_STEPS = 100
_CLOSE = 1e-10


@dataclass(frozen=True)
class Strengths:
    """Strengths of S systems.

    Attributes:
        values: (S,) log-odds, with mean 0 over the systems of a group.
        covariance: (S, S) of the values; NaN between groups, and where there is one cluster.
        groups: (S,) systems with equal codes are on one scale.
        comparisons: (S,) how many each system was in.
        clusters: (S,) how many clusters the comparisons of each group form.
        wins: (S, S) how often the row was better than the column, a tie counting one half.
    """

    values: Floats
    covariance: Floats
    groups: Codes
    comparisons: Codes
    clusters: Codes
    wins: Floats

    def why_undefined(self, system: int) -> str:
        """Returns why a system has no strength; empty if it has one."""
        if int((self.groups == self.groups[system]).sum()) > 1:
            return ""
        won, lost = self.wins[system].sum(), self.wins[:, system].sum()
        if not won + lost:
            return "not compared"
        if not lost:
            return "never beaten"
        return "never better" if not won else "no system has both beaten it and been beaten by it"

    def strength(self, system: int, *, level: float = 0.95) -> Estimate:
        """Returns the strength of a system among those of its group, with its interval.

        Undefined without a group.
        """
        contrast = np.zeros(self.values.size)
        contrast[system] = 1
        return self._estimate(contrast, system, self.why_undefined(system), level)[0]

    def difference(self, a: int, b: int, *, level: float = 0.95) -> tuple[Estimate, float]:
        """Returns the log-odds that a is better than b, with its interval, and the p of equality.

        Undefined between groups; p is NaN without an interval.
        """
        contrast = np.zeros(self.values.size)
        contrast[a], contrast[b] = 1, -1
        apart = "" if self.groups[a] == self.groups[b] else "not on one scale"
        return self._estimate(contrast, a, apart, level)

    def _estimate(
        self, contrast: Floats, system: int, reason: str, level: float
    ) -> tuple[Estimate, float]:
        n, K = int(self.comparisons[system]), int(self.clusters[system])
        if reason:
            return undefined(reason, n=n, clusters=K), math.nan
        used = contrast != 0
        c = contrast[used]
        value = float(c @ self.values[used])
        error = math.sqrt(max(0.0, float(c @ self.covariance[np.ix_(used, used)] @ c)))
        same = "clusters do not differ" if K > 1 and error < 1e-9 else ""
        if reason := same or too_few_clusters(K):
            return Estimate(value, math.nan, math.nan, n, K, "", reason), math.nan
        t = float(scipy.special.stdtrit(K - 1, (1 + level) / 2))
        p = 2 * float(scipy.special.stdtr(K - 1, -abs(value) / error))
        return Estimate(value, value - t * error, value + t * error, n, K), p


def bradley_terry(a: Codes, b: Codes, outcomes: Floats, clusters: Codes, systems: int) -> Strengths:
    """Fits `P(a better than b) = 1 / (1 + exp(θ_b − θ_a))` by maximum likelihood.

    A tie counts as half a win of each. Strengths are finite only among systems of which each has
    beaten the next in a circle (the wins are strongly connected: Ford 1957); each such group is
    fitted by itself, on the comparisons within it, and an undefeated system is a group alone.
    Intervals are Student's with the sandwich covariance `A⁺ B A⁺`, A the information and B the sum
    over clusters of the outer products of their scores, times K / (K − 1); so comparisons of a
    cluster, as those of one prompt or of one ranking, need not be independent.

    Args:
        a, b: (n,) systems from 0 on, different ones.
        outcomes: (n,) 1 where a is better, 0 where b is, 0.5 for a tie.
        clusters: (n,) equal codes are one cluster.
        systems: how many there are.
    """
    from scipy.sparse.csgraph import connected_components

    wins = np.zeros((systems, systems))
    np.add.at(wins, (a, b), outcomes)
    np.add.at(wins, (b, a), 1 - outcomes)
    _, groups = connected_components(wins > 0, directed=True, connection="strong")
    values = np.full(systems, np.nan)
    covariance = np.full((systems, systems), np.nan)
    sizes = np.zeros(systems, dtype=np.intp)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        rows = (groups[a] == group) & (groups[b] == group)
        if members.size < 2:
            continue
        inside = np.ix_(members, members)
        theta = _fit(wins[inside])
        place = np.zeros(systems, dtype=np.intp)
        place[members] = np.arange(members.size)
        K, cluster = coded(clusters[rows])
        values[members], sizes[members] = theta, K
        if K > 1:
            covariance[inside] = _sandwich(
                theta, wins[inside], place[a[rows]], place[b[rows]], outcomes[rows], cluster, K
            )
    played = np.bincount(np.concatenate([a, b]), minlength=systems)
    return Strengths(
        values, covariance, groups.astype(np.intp), played.astype(np.intp), sizes, wins
    )


def _information(theta: Floats, wins: Floats) -> tuple[Floats, Floats]:
    """Returns the score (S,) and the information (S, S)."""
    games = wins + wins.T
    p = scipy.special.expit(theta[:, None] - theta)
    weights = games * p * (1 - p)
    return (wins - games * p).sum(axis=1), np.diag(weights.sum(axis=1)) - weights


def _fit(wins: Floats) -> Floats:
    """Returns the strengths (S,) of strongly connected wins, by Newton's method with halved
    steps."""

    def likelihood(theta: Floats) -> float:
        return float((wins * np.logaddexp(0, theta - theta[:, None])).sum())

    theta = np.zeros(len(wins))
    for _ in range(_STEPS):
        score, information = _information(theta, wins)
        step = np.linalg.pinv(information, hermitian=True) @ score
        size = 1.0
        while size > _CLOSE and likelihood(theta + size * step) > likelihood(theta):
            size /= 2
        theta = theta + size * step
        if np.abs(size * step).max() < _CLOSE:
            break
    return np.asarray(theta - theta.mean(), dtype=np.float64)


def _sandwich(
    theta: Floats, wins: Floats, a: Codes, b: Codes, outcomes: Floats, cluster: Codes, K: int
) -> Floats:
    residuals = outcomes - scipy.special.expit(theta[a] - theta[b])
    scores = np.zeros((K, theta.size))
    np.add.at(scores, (cluster, a), residuals)
    np.add.at(scores, (cluster, b), -residuals)
    inverse = np.linalg.pinv(_information(theta, wins)[1], hermitian=True)
    return np.asarray(K / (K - 1) * inverse @ (scores.T @ scores) @ inverse, dtype=np.float64)
