"""How often 95 % intervals hold the truth, and how often tests reject a true null, by simulation.

    python benchmarks/intervals.py [--runs 1000] [--only labels]

Prints the tables of docs/numbers.md: `before` is the plain percentile bootstrap with 2,000
resamples, `after` what the package does now. Everything is seeded.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import numpy.typing as npt

from levelfield.stats.clusters import cluster_sums
from levelfield.stats.correlation import estimates
from levelfield.stats.estimate import Estimate, percentile_ends
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.means import cluster_mean
from levelfield.stats.resampling import Resampling
from levelfield.stats.shares import equal_difference_ends
from levelfield.stats.sign_flip import sign_flips

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
"""(generator, n) -> n independent numbers of mean 0 and variance 1."""

DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
}
RESAMPLES = 2000


def plain_percentile(values: Floats, code: npt.NDArray[np.intp], seed: int) -> tuple[float, float]:
    """Returns the plain percentile interval of the pairs cluster bootstrap."""
    K = int(code.max()) + 1
    S, n = cluster_sums(values, code, K), np.bincount(code)
    k = np.random.default_rng(seed).integers(K, size=(RESAMPLES, K))
    low, high = np.quantile(S[k].sum(axis=1) / n[k].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


def shown(hits: int, runs: int) -> str:
    return f"{100 * hits / runs:5.1f} %"


def means(runs: int) -> Iterator[str]:
    """Yields coverage of the interval of a mean."""
    yield "mean, clusters × values | before | after"
    for name, draw in DISTRIBUTIONS.items():
        for K, size, within in ((5, 1, 0), (5, 4, 0.5), (10, 1, 0), (10, 4, 0.5),
                                (20, 1, 0), (20, 4, 0.5), (50, 1, 0), (50, 4, 0.5),
                                (200, 1, 0)):  # fmt: skip
            rng = np.random.default_rng(1)
            code = np.repeat(np.arange(K), size)
            before = after = 0
            for run in range(runs):
                values = np.sqrt(1 - within) * draw(rng, K)[code]
                values = values + np.sqrt(within) * draw(rng, code.size)
                low, high = plain_percentile(values, code, run)
                before += low <= 0 <= high
                after += covers(cluster_mean(values, code), 0)
            yield f"{name} {K} × {size} | {shown(before, runs)} | {shown(after, runs)}"


def shares(runs: int) -> Iterator[str]:
    """Yields coverage of the interval of a share, and how many intervals of width 0."""
    yield "share, clusters × values, correlation within | before (width 0) | after"
    for p in (0.5, 0.9, 0.98):
        for K, size, correlation in ((5, 1, 0.0), (10, 1, 0.0), (20, 1, 0.0), (50, 1, 0.0),
                                     (200, 1, 0.0), (20, 5, 0.1), (20, 5, 0.4),
                                     (50, 4, 0.4)):  # fmt: skip
            rng = np.random.default_rng(2)
            code = np.repeat(np.arange(K), size)
            before = empty = after = 0
            for run in range(runs):
                chance = np.full(K, p)
                if correlation:
                    chance = rng.beta(*(q * (1 / correlation - 1) for q in (p, 1 - p)), K)
                values = (rng.random(code.size) < chance[code]).astype(np.float64)
                low, high = plain_percentile(values, code, run)
                before += low <= p <= high
                empty += low == high
                after += covers(cluster_mean(values, code, votes=1), p)
            yield (
                f"{p} {K} × {size}, {correlation} | {shown(before, runs)} ({shown(empty, runs)}) | "
                f"{shown(after, runs)}"
            )


def differences(runs: int) -> Iterator[str]:
    """Yields how often a null difference is excluded by the interval, and rejected by the test."""
    yield "null difference, clusters | interval before | interval after | test"
    for name, draw in DISTRIBUTIONS.items():
        for K in (6, 8, 10, 20, 50):
            rng = np.random.default_rng(3)
            # of two systems with equally distributed values: symmetric about 0
            D = np.stack([draw(rng, K) - draw(rng, K) for _ in range(runs)], axis=1)
            code = np.arange(K)
            outside = sum(
                not low <= 0 <= high
                for low, high in (plain_percentile(d, code, run) for run, d in enumerate(D.T))
            )
            tests = sign_flips(D, np.ones(D.shape))
            excluded = int(((tests.low > 0) | (tests.high < 0)).sum())
            rejected = int((tests.p <= 0.05).sum())
            row = (shown(n, runs) for n in (outside, excluded, rejected))
            yield " | ".join([f"{name} {K}", *row])


def paired(runs: int) -> Iterator[str]:
    """Yields coverage of the interval of a difference of paired shares; few inputs differ."""
    yield "difference of shares, inputs × more and fewer | before | after | without a width before"
    for n, more, fewer in ((8, 0.02, 0.02), (8, 0.1, 0.02), (30, 0.01, 0.01), (30, 0.05, 0.01)):
        rng = np.random.default_rng(5)
        before = after = flat = 0
        for run in range(runs):
            d = rng.choice([1.0, -1.0, 0.0], n, p=[more, fewer, 1 - more - fewer])
            W = np.ones((n, 1)) / n
            test = sign_flips(d[:, None] * W, W, mid=np.array([True]), resampling=_seeded(run))
            low, high = float(test.low[0]), float(test.high[0])
            old = (low, high)
            if not np.ptp(d):
                flat += 1
                old = (d[0], d[0])
                low, high = equal_difference_ends(d[0], n=n, clusters=n, level=0.95)
            truth = more - fewer
            before += old[0] <= truth <= old[1]
            after += low <= truth <= high
        yield (
            f"{n} × {more}, {fewer} | {shown(before, runs)} | {shown(after, runs)} | "
            f"{shown(flat, runs)}"
        )


def correlations(runs: int) -> Iterator[str]:
    """Yields coverage of the interval of Pearson's r, of normal values in clusters of two."""
    yield "Pearson's r, clusters × values | before | after"
    for r in (0.3, 0.8):
        for K in (5, 10, 20, 50):
            rng = np.random.default_rng(4)
            code = np.repeat(np.arange(K), 2)
            hits = [0, 0]
            for run in range(runs):
                common = rng.normal(size=(2, K))[:, code]
                x, e = np.sqrt(0.5) * (common + rng.normal(size=(2, code.size)))
                y = r * x + np.sqrt(1 - r * r) * e
                for is_plain in (True, False):
                    with plain_ends(is_plain):
                        r_of = estimates(x, y, code, wanted=("pearson",), resampling=_seeded(run))
                    hits[is_plain] += covers(r_of["pearson"], r)
            yield f"{r} {K} × 2 | {shown(hits[True], runs)} | {shown(hits[False], runs)}"


def alphas(runs: int) -> Iterator[str]:
    """Yields coverage of the interval of Krippendorff's α (interval level) of three raters."""
    yield "α, items | before | after"
    for alpha in (0.3, 0.8):
        for items in (5, 10, 20, 50):
            rng = np.random.default_rng(5)
            hits = [0, 0]
            for run in range(runs):
                ratings = np.sqrt(alpha) * rng.normal(size=(items, 1))
                ratings = ratings + np.sqrt(1 - alpha) * rng.normal(size=(items, 3))
                for is_plain in (True, False):
                    with plain_ends(is_plain):
                        alpha_of_raters = krippendorff_alpha(ratings, resampling=_seeded(run))
                    hits[is_plain] += covers(alpha_of_raters, alpha)
            yield f"{alpha} {items} | {shown(hits[True], runs)} | {shown(hits[False], runs)}"


def labels(runs: int) -> Iterator[str]:
    """Yields coverage of the interval of α of two raters of two labels, where α is defined."""
    yield "share of the rarer label, α, items | expanded percentile | now | α defined"
    for p in (0.05, 0.2, 0.5):
        for alpha in (0.0, 0.6, 0.9):
            for items in (20, 50, 300):
                rng = np.random.default_rng(6)
                before = after = defined = 0
                for run in range(runs):
                    ratings = (rng.random((items, 2)) < p).astype(np.float64)
                    same = rng.random((items, 1)) < alpha
                    ratings = np.where(same, ratings[:, :1], ratings)
                    if ratings.min() == ratings.max():
                        continue
                    defined += 1
                    after += covers(krippendorff_alpha(ratings, resampling=_seeded(run)), alpha)
                    before += _percentile_covers(ratings, run, alpha)
                shares = (shown(before, defined), shown(after, defined), shown(defined, runs))
                yield f"{p} {alpha} {items} | {' | '.join(shares)}"


def _percentile_covers(ratings: Floats, seed: int, alpha: float) -> bool:
    """Returns whether the expanded percentile of resampled items holds α of two 0-or-1 raters."""
    n = len(ratings)
    s, d = ratings.sum(axis=1), np.abs(ratings[:, 0] - ratings[:, 1])
    k = np.random.default_rng(seed).integers(n, size=(RESAMPLES, n))
    ones, apart = s[k].sum(axis=1), d[k].sum(axis=1)
    expected = ones * (2 * n - ones) / (n * (2 * n - 1))
    positive = expected > 0
    if not positive.any():
        return False
    ratios = 1 - apart[positive] / n / expected[positive]
    low, high = percentile_ends(ratios, 0.95, n)
    return low <= alpha <= high


def plain_ends(is_plain: bool) -> contextlib.AbstractContextManager[object]:
    """Makes intervals plain percentiles within it, if asked for."""
    if not is_plain:
        return contextlib.nullcontext()

    def ends(drawn: Floats, level: float, clusters: int) -> Floats:  # noqa: ARG001
        return np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])

    return mock.patch("levelfield.stats.estimate.percentile_ends", ends)


def covers(interval: Estimate, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def _seeded(run: int) -> Resampling:
    return Resampling(resamples=RESAMPLES, seed=run)


TABLES = (means, shares, differences, paired, correlations, alphas, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", choices=[t.__name__ for t in TABLES], help="one table")
    options = parser.parse_args()
    runs = options.runs
    print(f"{runs:,} runs a row")
    for table in (t for t in TABLES if options.only in (None, t.__name__)):
        print()
        for row in table(runs):
            print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
