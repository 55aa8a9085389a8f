"""How many differences between systems are shown, and how many that are none, by simulation.

    python benchmarks/verdicts.py [--runs 20]

Systems answer the same 100 inputs; the i-th is i × 0.1 standard deviations of a text better than
the first, under 7 metrics. `before`: no p below 1 / 10,001, and Holm over all metrics of a run.
`after`: small p by importance sampling, and Holm over the comparisons of a metric, or of the run.
`false`: the share of metrics that show any difference where all systems are alike, with Holm over
those of a metric. Everything is seeded.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import numpy.typing as npt

from levelfield.stats.multiplicity import adjusted_by_family
from levelfield.stats.resampling import Family
from levelfield.stats.sign_flip import sign_flips

Floats = npt.NDArray[np.float64]
INPUTS, METRICS, STEP = 100, 7, 0.1
FLOOR = 1 / 10_001


def p_values(rng: np.random.Generator, systems: int, step: float) -> Floats:
    """Returns (metrics, pairs) p of all pairs of systems."""
    pairs = np.array(list(itertools.combinations(range(systems), 2)))
    p = np.empty((METRICS, len(pairs)))
    for metric in range(METRICS):
        values = rng.normal(size=(INPUTS, systems)) + step * np.arange(systems)
        D = values[:, pairs[:, 0]] - values[:, pairs[:, 1]]
        p[metric] = sign_flips(D, np.ones(D.shape)).p
    return p


def shown(p: Floats, family: Family) -> Floats:
    """Returns (metrics,) the share of comparisons that are shown."""
    return np.mean(np.array(adjusted_by_family(p.tolist(), family)) <= 0.05, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    print("| systems, comparisons a run | before | after, metric | after, run | false |")
    for systems in (4, 16, 33):
        rng = np.random.default_rng(1)
        p = [p_values(rng, systems, STEP) for _ in range(runs)]
        shares = [
            np.mean([shown(np.maximum(q, FLOOR), "run") for q in p]),
            np.mean([shown(q, "metric") for q in p]),
            np.mean([shown(q, "run") for q in p]),
            np.mean([shown(p_values(rng, systems, 0.0), "metric") > 0 for _ in range(runs)]),
        ]
        cells = (f"{100 * share:.0f} %" for share in shares)
        count = METRICS * systems * (systems - 1) // 2
        print(f"| {systems}, {count:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
