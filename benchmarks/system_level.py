"""Do intervals and tests of means of systems keep what they promise? Coverage, level and power.

    python benchmarks/system_level.py

True means are normal over the population of systems, or have the correlation r exactly (these
systems). Each of K sources adds noise to the mean of every system, half of which the metric and the
ratings share, and an effect of its own on all systems. Reliability is the share of the variance
between observed means that is of true means. "Before" resamples sources around the observed means
(intervals), and swaps sources between two metrics (tests).

Runs for two to three minutes on one core.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import cluster_draws
from levelfield.stats.correlation import pearson
from levelfield.stats.dependent import williams
from levelfield.stats.estimands import Systems
from levelfield.stats.moments import standardised
from levelfield.stats.resampling import Resampling
from levelfield.stats.rows import r_of_rows
from levelfield.stats.system_difference import corrected_difference, swap_systems
from levelfield.stats.system_level import system_correlations
from levelfield.stats.system_means import means_of

SEED = 0
R_VALUES = (0.0, 0.5, 0.9, 0.99)
SOURCES = (20, 100, 500)
RELIABILITIES = (0.5, 0.7, 0.9, 0.99)
SYSTEMS = (4, 6, 10, 20)
RESAMPLING = Resampling(resamples=400)
QUESTIONS: tuple[Systems, ...] = ("these", "like-these")
POPULATIONS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, S: rng.normal(size=(S, 2)),
    "t, 4 df": lambda rng, S: rng.standard_t(4, size=(S, 2)) / math.sqrt(2),
    "exponential": lambda rng, S: rng.exponential(size=(S, 2)) - 1,
}


def true_means(Z: Floats, R: Floats, question: Systems) -> Floats:
    """Returns (S, v) with the correlations R, of these systems or over the population."""
    if question == "these":
        U, _, V = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        Z = U @ V * math.sqrt(len(Z) - 1)
    return Z @ np.linalg.cholesky(R + 1e-12 * np.eye(len(R))).T


def observed(rng: np.random.Generator, means: Floats, K: int, reliability: float) -> Floats:
    """Returns (K, S, v) values."""
    S, v = means.shape
    noise = rng.normal(size=(K, S, v)) + rng.normal(size=(K, S, 1)) + rng.normal(size=(K, 1, v))
    return means + math.sqrt(K * (1 - reliability) / reliability / 2) * noise


def bootstrap_of_sources(values: Floats) -> tuple[float, float]:
    """Returns the percentile interval around the observed means."""
    K, S, _ = values.shape
    draws = []
    for counts in cluster_draws(K, RESAMPLING.resamples, SEED, width=S * S):
        x, y = (counts @ v for v in np.moveaxis(values, -1, 0))
        draws.append(r_of_rows(x, y))
    low, high = np.quantile(np.concatenate(draws), [0.025, 0.975])
    return float(low), float(high)


def swap_of_sources(values: Floats, permutations: int = 399) -> float:
    """Returns p of swapping the standardised values of two metrics, source by source."""
    K, S, _ = values.shape
    y, a, b = np.moveaxis(values, -1, 0)
    a, b = (standardised(v.ravel()).reshape(K, S) for v in (a, b))
    swap = np.random.default_rng(SEED).integers(0, 2, size=(permutations + 1, K)).astype(float)
    swap[0] = 0
    moved = swap @ (b - a)
    d = r_of_rows(a.sum(axis=0) + moved, y.mean(axis=0)) - r_of_rows(
        b.sum(axis=0) - moved, y.mean(axis=0)
    )
    return float(np.mean(np.abs(d) >= abs(d[0]) - 1e-9))


def flat(values: Floats) -> tuple[Floats, ...]:
    """Returns the v columns, with the cluster and the system of each value."""
    K, S, v = values.shape
    return (*values.reshape(-1, v).T, np.repeat(np.arange(K), S), np.tile(np.arange(S), K))


def coverage(S: int, reliability: float, question: Systems, population: str, times: int) -> str:
    """Returns coverage before and now, the share with an interval, and its width.

    Means over all settings, and the lowest of an r.
    """
    before, inside, width = ({r: list[float]() for r in R_VALUES} for _ in range(3))
    for (i, r), K in itertools.product(enumerate(R_VALUES), SOURCES):
        rng = np.random.default_rng((SEED, S, i, K))
        for _ in range(times):
            Z = POPULATIONS[population](rng, S)
            means = true_means(Z, np.array([[1, r], [r, 1]]), question)
            values = observed(rng, means, K, reliability)
            low, high = bootstrap_of_sources(values)
            before[r].append(low <= r <= high)
            x, y, cluster, system = flat(values)
            e = system_correlations(
                x, y, cluster, system, ("pearson",), systems=question, resampling=RESAMPLING
            ).estimates["pearson"]
            if not e.why_no_interval:
                inside[r].append(e.low - 1e-9 <= r <= e.high + 1e-9)
                width[r].append(e.high - e.low)
    share = sum(map(len, inside.values())) / sum(map(len, before.values()))
    cells = [*_mean_and_lowest(before), f"{share:.2f}", *_mean_and_lowest(inside)]
    return " | ".join([*cells, _mean_and_lowest(width)[0]])


def _mean_and_lowest(grouped: dict[float, list[float]]) -> tuple[str, str]:
    every = [v for values in grouped.values() for v in values]
    if not every:
        return "–", "–"
    means = [np.mean(values) for values in grouped.values() if len(values) >= 50]
    return f"{np.mean(every):.2f}", f"{min(means):.2f}" if means else "–"


def pairs() -> Iterator[tuple[str, float, float, float]]:
    """Yields two metrics: r with the ratings, and with each other."""
    yield "equal", 0.5, 0.5, 0.5
    yield "equal", 0.9, 0.9, 0.9
    yield "equal", 0.9, 0.9, 0.7
    yield "equal", 0.98, 0.98, 0.97
    yield "better", 0.95, 0.5, 0.5
    yield "better", 0.98, 0.8, 0.8


def rejections(
    S: int, r_a: float, r_b: float, r_ab: float, reliability: float, question: Systems, times: int
) -> list[float]:
    """Shares of p ≤ 0.05: swapped sources, the test of the question, Williams."""
    rng = np.random.default_rng((SEED, S))
    R = np.array([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])
    p = []
    for _ in range(times):
        means = true_means(rng.normal(size=(S, 3)), R, question)
        values = observed(rng, means, 50, reliability)
        y, a, b, cluster, system = flat(values)
        test = (
            corrected_difference(a, b, y, cluster, system, draws=400)
            if question == "these"
            else swap_systems(a, b, y, system, permutations=1024)
        )
        m_y, m_a, m_b = (means_of(v, system) for v in (y, a, b))
        w = williams(pearson(m_a, m_y), pearson(m_b, m_y), pearson(m_a, m_b), S)
        p.append((swap_of_sources(values), test.p, w.p))
    return [float(v) for v in np.mean(np.array(p) <= 0.05, axis=0)]


def main() -> None:
    """Prints the tables."""
    print("Coverage of 95 % intervals of Pearson's r; sources 20, 100, 500; r 0, 0.5, 0.9, 0.99\n")
    head = "before | lowest | with interval | now | lowest | width"
    for question in QUESTIONS:
        print(f"{question}\nS | reliability | {head}")
        for S in SYSTEMS:
            for reliability in RELIABILITIES:
                row = coverage(S, reliability, question, "normal", 40)
                print(f"{S} | {reliability} | {row}", flush=True)
        print()
    print(f"like-these, other populations\npopulation | S | reliability | {head}")
    for population in list(POPULATIONS)[1:]:
        for S in (6, 20):
            row = coverage(S, 0.9, "like-these", population, 40)
            print(f"{population} | {S} | 0.9 | {row}", flush=True)
    print("\nShare of p ≤ 0.05, 50 sources\n")
    print("question | S | reliability | r_a, r_b, r_ab | metrics | sources | now | Williams")
    for question in QUESTIONS:
        for S in (6, 10, 20):
            for reliability in (0.8, 0.98):
                for name, *r in pairs():
                    old, now, w = rejections(S, *r, reliability, question, 80)
                    correlations = ", ".join(f"{v:g}" for v in r)
                    print(
                        f"{question} | {S} | {reliability} | {correlations} | {name} | "
                        f"{old:.2f} | {now:.2f} | {w:.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
