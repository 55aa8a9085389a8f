"""The false discovery rate of comparisons of every two systems, by simulation.

    python benchmarks/false_discoveries.py [--runs 2000]

Systems answer 100 inputs, and all of them have one effect of the input. Systems of a group are
equal. Groups are 0.4 standard deviations of a text apart where the claim is that two systems
differ, by paired t, and 0.5 where it is that they are alike within 0.5: neighbouring groups lie on
the edge of the margin, which is the worst case.

The columns, in percent: how many pairs are equal; and of either claim the mean share that is false
of those made in a run (none made counts as 0), and how many of the true ones are made, by Benjamini
and Hochberg (`--family fdr`) and by Benjamini and Yekutieli, which holds under any dependence.

A rate from 2,000 runs has a standard error of at most 0.5. Runs for about a minute on one core.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from scipy.stats import t as student

from levelfield.core.arrays import Bools, Floats
from levelfield.stats.multiplicity import false_discovery_rate
from levelfield.stats.power import alike_p

INPUTS = 100
STEP, MARGIN = 0.4, 0.5


def groups(systems: int) -> dict[str, Floats]:
    """Returns kind of difference -> (systems,) numbers of their groups."""
    number = np.arange(systems)
    return {
        "all equal": 0.0 * number,
        "one better": np.where(number == 0, 1.0, 0.0),
        "two halves": 1.0 * (number < systems // 2),
        "groups of two": 1.0 * (number // 2),
        "all differ but two": np.maximum(number, 1.0),
    }


def shares(p: Floats, true: Bools) -> tuple[float, float, float]:
    """Returns the share of false claims, and the shares of true ones claimed, by each procedure.

    They are NaN without a true one.
    """
    adjusted = false_discovery_rate(p)
    claimed = adjusted <= 0.05
    by_any_dependence = adjusted * (1 / np.arange(1, p.size + 1)).sum() <= 0.05
    false = (claimed & ~true).sum() / max(1, claimed.sum())
    shown = (float(c[true].mean()) if true.any() else np.nan for c in (claimed, by_any_dependence))
    return (float(false), *shown)


def measure(group: Floats, runs: int, *, alike: bool) -> Floats:
    """Returns (3,) means of `shares` over runs."""
    rng = np.random.default_rng(0)
    a, b = np.array([*itertools.combinations(range(group.size), 2)]).T
    equal = group[a] == group[b]
    quality = (MARGIN if alike else STEP) * group[:, None]
    drawn = []
    for _ in range(runs):
        # the effect of an input leaves every difference
        x = rng.normal(size=(group.size, INPUTS)) + quality
        d = x[a] - x[b]
        mean, se = d.mean(axis=1), d.std(axis=1, ddof=1) / np.sqrt(INPUTS)
        if alike:
            pairs = zip(mean, se, strict=True)
            p = np.array([alike_p(*pair, INPUTS - 1, MARGIN) for pair in pairs])
        else:
            p = 2 * student.sf(np.abs(mean) / se, INPUTS - 1)
        drawn.append(shares(p, equal if alike else ~equal))
    return np.asarray(np.mean(drawn, axis=0))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    claims = " | ".join(f"{c}: false | shown | shown, BY" for c in ("different", "alike"))
    print(f"| systems | groups | equal pairs | {claims} |")
    print("| --: | --- |" + 7 * " --: |")
    for systems in (4, 8, 16):
        for name, group in groups(systems).items():
            a, b = np.array([*itertools.combinations(group, 2)]).T
            claim_shares = (measure(group, runs, alike=alike) for alike in (False, True))
            cells = ("–" if np.isnan(s) else f"{100 * s:.1f}" for m in claim_shares for s in m)
            equal = 100 * np.mean(a == b)
            print(f"| {systems} | {name} | {equal:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
