"""How often planned studies show what they were planned for, by simulation.

    python benchmarks/plan.py [--studies 2000] [--small]

Each study is as large as `levelfield plan` says, and is tested as the package tests it. The columns
are the size, the share of studies that show the difference (planned: 80 %), and what else is said
of it. A share of 80 % from 2,000 studies has a standard error of 0.9.

- Systems: two systems that differ by what the plan was for. A value is the effect of the input, of
  the system on the input, of the seed, and the text's own.
- Metrics: normal values whose correlations are those of the plan.
- Raters: normal ratings; the width of α's interval (planned: 0.2), and how often it holds α.
- Equivalence: two equal systems are alike within a margin, and two that differ by the margin are
  not.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from levelfield.core.arrays import Floats
from levelfield.planning.metrics import plan_metrics
from levelfield.planning.raters import plan_raters
from levelfield.planning.systems import plan_systems
from levelfield.scoring.seeds import SeededTexts
from levelfield.stats.clusters import cluster_errors
from levelfield.stats.correlation import estimates
from levelfield.stats.dependent import swap_test
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.power import alike_p, detectable_difference
from levelfield.stats.resampling import Resampling
from levelfield.stats.seeds import Contrast
from levelfield.stats.sign_flip import sign_flips

_FAST = Resampling(resamples=400, permutations=1000)


@dataclass(frozen=True)
class Spread:
    """How much values differ, as `levelfield plan systems` has it."""

    sd: float
    sd_texts: float
    sd_seeds: float
    systems: int = 2


SPREADS = (
    (Spread(1.0, 0.0, 0.0), 1, 0.5),
    (Spread(1.0, 0.0, 0.0), 1, 0.2),
    (Spread(1.0, 0.0, 0.0, 8), 1, 0.4),
    (Spread(1.0, 0.5, 0.1), 2, 1.0),
    (Spread(1.0, 0.5, 0.1), 3, 0.45),
    (Spread(1.0, 0.5, 0.1), 5, 0.25),
    (Spread(1.0, 0.5, 0.1), 10, 0.2),
    (Spread(1.0, 0.6, 0.2), 5, 0.45),
    (Spread(1.0, 0.5, 0.05), 5, 0.3),
    (Spread(1.0, 0.5, 0.1, 4), 5, 0.45),
    (Spread(1.0, 0.6, 0.0), 3, 0.3),
    # docs/level-field.md, in points
    (Spread(28.5, 20.0, 1.82, 14), 3, 13.7),
    (Spread(28.5, 20.0, 1.82, 14), 5, 9.6),
)
"""Spread, seeds, difference."""


def texts(
    spread: Spread, inputs: int, seeds: int, difference: float, rng: np.random.Generator
) -> Floats:
    """Returns (systems, inputs, seeds) values, of which the first system's are higher."""
    input_sd = math.sqrt(max(0.0, spread.sd**2 / 2 - spread.sd_texts**2))
    values = (
        rng.normal(0, 1, (1, inputs, 1))
        + rng.normal(0, input_sd, (spread.systems, inputs, 1))
        + rng.normal(0, spread.sd_seeds, (spread.systems, 1, seeds))
        + rng.normal(0, spread.sd_texts, (spread.systems, inputs, seeds))
    )
    values[0] += difference
    return values


def p_of(values: Floats) -> float:
    """Returns p of the difference of the first two systems, as `score` and `study report` do."""
    if values.shape[2] == 1:
        d = values[0] - values[1]
        return float(sign_flips(d, np.ones_like(d), resampling=_FAST).p[0])
    c = difference_of(values)
    return 1.0 if c is None else c.p


def difference_of(values: Floats) -> Contrast | None:
    """Returns the difference of the first two systems with seeds as a sample."""
    n = values.shape[1]
    a, i, s = (codes.ravel() for codes in np.indices(values.shape))
    run = SeededTexts(values.ravel(), a, s, i, np.arange(n), np.zeros(n, np.intp))
    return run.difference(0, 1, np.full(n, 1 / n), prior=run.prior())


def system_rows(studies: int, rng: np.random.Generator) -> Iterator[str]:
    """Yields a line for each planned comparison."""
    for spread, seeds, difference in SPREADS:
        plan = plan_systems(
            sd=spread.sd, sd_texts=spread.sd_texts, sd_seeds=spread.sd_seeds,
            systems=spread.systems, seeds=[seeds], difference=difference,
        )  # fmt: skip
        n = plan.rows[0]["inputs_needed"]
        name = (
            f"sd {spread.sd:g}, texts {spread.sd_texts:g}, seeds {spread.sd_seeds:g}, "
            f"{spread.systems} systems, difference {difference:g}"
        )
        if n is None:
            yield f"{name}: no number of inputs is enough with {seeds} seed(s)"
            continue
        level = 0.05 / plan.assumptions["comparisons"]
        drawn = (texts(spread, n, seeds, difference, rng) for _ in range(studies))
        shown = np.mean([p_of(values) <= level for values in drawn])
        yield f"{name}: {n:,} inputs, {seeds} seed(s): {100 * shown:.1f} %"


def correlated(
    r: float, against: float, between: float, n: int, rng: np.random.Generator
) -> Floats:
    """Returns (3, n) ratings and two metrics."""
    C = np.array([[1, r, against], [r, 1, between], [against, between, 1]])
    return np.linalg.cholesky(C) @ rng.normal(size=(3, n))


def metric_rows(studies: int, rng: np.random.Generator) -> Iterator[str]:
    """Yields a line for each planned meta-evaluation."""
    for r, against, between in ((0.3, 0.1, 0.5), (0.5, 0.4, 0.8), (0.7, 0.6, 0.5)):
        row = plan_metrics(r=r, against=against, between=between).rows[0]
        n, apart, wide = (
            row[f"samples_for_{goal}"] for goal in ("correlation", "difference", "width")
        )
        nonzero = np.empty(studies)
        for i in range(studies):
            nonzero[i] = abs(np.corrcoef(correlated(r, against, between, n, rng)[:2])[0, 1])
        t = nonzero * np.sqrt((n - 2) / (1 - nonzero**2))
        shown = np.mean(2 * student.sf(t, n - 2) <= 0.05)
        few = max(1, studies // 4)
        apart_ps, widths = [], []
        for _ in range(few):
            y, a, b = correlated(r, against, between, apart, rng)
            apart_ps.append(swap_test(a, b, y, np.arange(apart), permutations=1000).p <= 0.05)
        for _ in range(max(1, studies // 20)):
            y, a, _b = correlated(r, against, between, wide, rng)
            e = estimates(a, y, np.arange(wide), wanted=("pearson",), resampling=_FAST)["pearson"]
            widths.append(e.high - e.low)
        yield (
            f"r {r:g}: {n} samples: {100 * shown:.1f} %; told from {against:g} ({between:g} "
            f"between metrics): {apart} samples: {100 * np.mean(apart_ps):.1f} %; {wide} samples: "
            f"interval {np.mean(widths):.3f} wide"
        )


def rater_rows(studies: int, rng: np.random.Generator) -> Iterator[str]:
    """Yields a line for each planned agreement."""
    for rho, k in ((0.4, 2), (0.4, 5), (0.6, 3), (0.8, 2)):
        items = plan_raters(agreement=rho, raters=[k]).rows[0]["items"]
        few = max(1, studies // 10)
        widths, held = np.empty(few), np.empty(few)
        for i in range(few):
            values = math.sqrt(rho) * rng.normal(size=(items, 1))
            values = values + math.sqrt(1 - rho) * rng.normal(size=(items, k))
            e = krippendorff_alpha(values, resampling=_FAST)
            widths[i], held[i] = e.high - e.low, e.low <= rho <= e.high
        yield (
            f"α {rho:g}, {k} raters: {items} items: interval {widths.mean():.3f} wide, holds α in "
            f"{100 * held.mean():.1f} %"
        )


def equivalence_rows(studies: int, rng: np.random.Generator) -> Iterator[str]:
    """Yields a line for each margin, in standard errors."""
    for n in (20, 100):
        for margin in (2.0, 2.5, 3.0, 3.5):
            X = margin / math.sqrt(n)
            shares = []
            for true in (0.0, X):
                d = rng.normal(true, 1, (n, studies))
                se, df = cluster_errors(d, np.ones_like(d))
                p = [alike_p(m, e, k, X) for m, e, k in zip(d.mean(axis=0), se, df, strict=True)]
                shares.append(100 * np.mean(np.array(p) <= 0.05))
            yield (
                f"{n} inputs, margin {margin:g} standard errors: equal systems are alike in "
                f"{shares[0]:.1f} %, systems that differ by the margin in {shares[1]:.1f} %"
            )


def detectable_rows(studies: int, rng: np.random.Generator) -> Iterator[str]:
    """Yields how near the difference that a study calls detectable is to the true one."""
    for spread, n, seeds in ((Spread(1, 0, 0), 50, 1), (Spread(1, 0.5, 0.1), 100, 5)):
        plan = plan_systems(
            sd=spread.sd, sd_texts=spread.sd_texts, sd_seeds=spread.sd_seeds, seeds=[seeds],
            inputs=n,
        )  # fmt: skip
        differences = []
        for _ in range(max(1, studies // 4)):
            values = texts(spread, n, seeds, 0.0, rng)
            c = difference_of(values)
            if c is not None:
                differences.append(detectable_difference(math.sqrt(c.variance), c.df))
        low, middle, high = np.quantile(differences, [0.1, 0.5, 0.9])
        yield (
            f"{n} inputs, {seeds} seeds: {plan.rows[0]['detectable']:.3f} detectable; studies say "
            f"{middle:.3f} ({low:.3f} to {high:.3f} in 80 % of them)"
        )


PARTS = {
    "systems": system_rows,
    "metrics": metric_rows,
    "raters": rater_rows,
    "equivalence": equivalence_rows,
    "detectable": detectable_rows,
}


def main() -> None:
    """Prints a line for each plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--small", action="store_true", help="few studies, to see that it runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=PARTS, help="one part")
    words = parser.parse_args()
    studies = 40 if words.small else words.studies
    for name, lines in PARTS.items():
        if words.only in (None, name):
            print(name)
            for line in lines(studies, np.random.default_rng(words.seed)):
                print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
