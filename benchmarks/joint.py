"""How often joint means are called different: where they are equal, and where one is better.

    python benchmarks/joint.py [--runs 1000]

Prints the table of docs/numbers.md. Content is normal; style is normal, or 0 or 1, as a judge's
vote. Texts of two systems on one input are correlated in content. Everything is seeded.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.joint import MEANS, Criterion, joint
from levelfield.scoring.run_table import RunTable

Floats = npt.NDArray[np.float64]

NAMES = ("content", "style")
PAIRS = {
    "alike": ((0.5, 0.4), (0.5, 0.4)),
    "alike, little style": ((0.5, 0.1), (0.5, 0.1)),
    "equal, content against style": ((0.8, 0.3), None),
    "one better": ((0.5, 0.4), (0.6, 0.6)),
}


def partner(mean: str, c: float, s: float) -> tuple[float, float]:
    """Means with little content and much style whose joint mean is that of c and s."""
    f, content = MEANS[mean], 0.3
    joint_mean = float(f(np.array([c, s])))
    style = brentq(lambda x: float(f(np.array([content, x]))) - joint_mean, 0.01, 1.0)
    return content, float(style)


def drawn(rng: np.random.Generator, c: float, s: float, shared: Floats, votes: bool) -> Floats:
    """Returns (inputs, 2) content and style of a system."""
    n = shared.size
    content = c + 0.1 * (rng.normal(size=n) + shared)
    style = rng.random(n) < s if votes else s + 0.1 * rng.normal(size=n)
    return np.stack([content, style], axis=1).astype(np.float64)


def p_of(a: Floats, b: Floats, mean: str) -> float:
    """Returns p of the difference of a joint mean."""
    tally, n = RunTable(), len(a)
    ids = tuple(f"{system}{i}" for system in "ab" for i in range(n))
    for id in ids:
        tally.add([Sample(id, "Rain.", source=f"Source {id[1:]}", system=id[0])], [id[0]])
    for name, column in zip(NAMES, np.concatenate([a, b]).T, strict=True):
        tally.add_scores(Scores(name, ids, column.copy(), {}, f"{name}|v:0", "higher"))
    summaries = {s.metric: s for s in joint(tally, *map(Criterion, NAMES))}
    return summaries[f"joint.{mean}"].comparisons[0].p


def rows(runs: int) -> Iterator[str]:
    yield "mean | systems | style | 6 inputs | 8 | 10 | 20 | 50"
    for mean in MEANS:
        for name, (a, b) in PAIRS.items():
            second = b or partner(mean, *a)
            for votes in (True, False):
                shown = []
                for n in (6, 8, 10, 20, 50):
                    rng = np.random.default_rng(1)
                    shared = rng.normal(size=(runs, n))
                    p = [p_of(drawn(rng, *a, x, votes), drawn(rng, *second, x, votes), mean)
                         for x in shared]  # fmt: skip
                    shown.append(f"{100 * np.mean(np.array(p) <= 0.05):.1f}")
                kind = "0 or 1" if votes else "normal"
                yield " | ".join([mean, name, kind, *shown])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    for row in rows(parser.parse_args().runs):
        print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
