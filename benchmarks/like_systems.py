"""Do claims about systems like these keep what they promise? Coverage and level of samples.

    python benchmarks/like_systems.py [--small]

S systems answer the same K sources. A rating is the quality of the system, an effect of the source
and noise, with standard deviations q, 0.5 and 1; a metric is the rating with a bias of the system
(b), one of the source (0.3) and noise (1). Two such metrics agree equally well over the population.
"Before" resamples sources, or swaps them between two metrics.

Runs for about twenty minutes on one core; `--small` for some seconds.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.stats.correlation import estimates
from levelfield.stats.dependent import swap_test
from levelfield.stats.estimands import Statistic
from levelfield.stats.estimate import Estimate
from levelfield.stats.resampling import Resampling
from levelfield.stats.two_way import crossed_estimates, crossed_tests

SEED = 0
SYSTEMS = (6, 12, 30)
SOURCES = (20, 100, 300)
DESIGNS = ((0.0, 0.3), (0.5, 0.0), (0.5, 0.3), (1.0, 0.3), (1.0, 1.0))
SOURCE_EFFECT, SOURCE_BIAS, NOISE = 0.5, 0.3, 1.0
FEW = Resampling(resamples=200, permutations=200)
KINDS: tuple[Statistic, ...] = ("pearson", "kendall")


def drawn(
    rng: np.random.Generator, S: int, K: int, q: float, b: float
) -> tuple[Floats, Floats, Floats]:
    """Returns (S × K,) ratings and two metrics."""
    y = q * rng.normal(size=(S, 1)) + SOURCE_EFFECT * rng.normal(size=(1, K))
    y = y + rng.normal(size=(S, K))

    def metric() -> Floats:
        bias = b * rng.normal(size=(S, 1)) + SOURCE_BIAS * rng.normal(size=(1, K))
        return np.asarray((y + bias + NOISE * rng.normal(size=(S, K))).ravel())

    return y.ravel(), metric(), metric()


def true_values(q: float, b: float) -> dict[Statistic, float]:
    """Returns the correlations over the population."""
    variance = q**2 + SOURCE_EFFECT**2 + 1
    r = math.sqrt(variance / (variance + b**2 + SOURCE_BIAS**2 + NOISE**2))
    return {"pearson": r, "kendall": 2 / math.pi * math.asin(r)}


def row(S: int, K: int, q: float, b: float, runs: int) -> str:
    """Returns a row of the table."""
    rng = np.random.default_rng((SEED, S, K, round(10 * q), round(10 * b)))
    system, source = np.repeat(np.arange(S), K), np.tile(np.arange(K), S)
    truth = true_values(q, b)
    held: dict[str, list[bool]] = {}

    def add(name: str, value: bool) -> None:
        held.setdefault(name, []).append(value)

    def holds(e: Estimate, s: Statistic) -> bool:
        return e.low <= truth[s] <= e.high

    for run in range(runs):
        y, a, other = drawn(rng, S, K, q, b)
        now = crossed_estimates(a, y, system, source, KINDS)
        before = estimates(
            a, y, source, wanted=("pearson",), resampling=Resampling(resamples=200, seed=run)
        )
        add("before", holds(before["pearson"], "pearson"))
        for s in KINDS:
            add(s, holds(now[s], s))
        swapped = swap_test(a, other, y, source, permutations=200, seed=run)
        add("test before", swapped.p <= 0.05)
        (test,) = crossed_tests([a, other], [(0, 1)], y, system, source)
        add("test", test.p <= 0.05)
    shares = " | ".join(f"{100 * np.mean(v):.1f}" for v in held.values())
    return f"| {S} | {K} | {q} | {b} | {shares} |"


def table(small: bool) -> Iterator[str]:
    """Yields the lines of the table."""
    yield (
        "| systems | sources | q | b | r, sources alone | r | τ-b | test, sources swapped |"
        " test |\n"
        "| --: | --: | --: | --: | --: | --: | --: | --: | --: |"
    )
    sizes = ((6, 20),) if small else itertools.product(SYSTEMS, SOURCES)
    for (S, K), (q, b) in itertools.product(sizes, DESIGNS):
        yield row(S, K, q, b, 20 if small else 1000)


if __name__ == "__main__":
    for line in table("--small" in sys.argv[1:]):
        print(line, flush=True)
