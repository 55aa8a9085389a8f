"""What undefined values do to verdicts, by simulation.

    python benchmarks/undefined.py [--runs 500]

Two systems answer 100 inputs; a value is the effect of the input (sd 0.9) and the text's own (sd
1.32, normal or skewed to the left). A share of the first system's values is undefined.
Percent of runs in which it is called better at p ≤ 0.05:

- by the inputs that both have a value for;
- where the undefined values may be the least value of the run ("least");
- where they lie at `undefined_ends`, as verdicts are given ("now").

Where the systems are equal and the worst texts of the first are lost, each is a false claim; where
it is better by 0.65 and any texts are lost, each is right.
"""

from __future__ import annotations

import argparse

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.scoring.comparison import ValuesOfSystems, compared_systems, undefined_ends
from levelfield.stats.resampling import Resampling

_INPUTS = 100


def measure(runs: int, *, share: float, better: float, worst: bool, skewed: bool) -> list[float]:
    """Returns the share of runs that call the first system better, by each rule."""
    rng = np.random.default_rng(0)
    shown = np.zeros(3)
    for _ in range(runs):
        text_effects = rng.normal(size=(_INPUTS, 2))
        if skewed:
            text_effects = 1 - rng.exponential(size=(_INPUTS, 2))
        values = rng.normal(0, 0.9, (_INPUTS, 1)) + 1.32 * text_effects
        values[:, 0] += better
        order = np.argsort(values[:, 0]) if worst else rng.permutation(_INPUTS)
        values[order[: round(share * _INPUTS)], 0] = np.nan
        least = (float(np.nanmin(values)), float(np.nanmax(values)))
        by_ends, by_least = (_p(values, ends) for ends in (undefined_ends(values), least))
        p = np.array([by_ends[0], by_least[1], by_ends[1]])
        shown += (p <= 0.05) & (by_ends[2] > 0)
    return [*shown / runs]


def _p(values: Floats, ends: tuple[float, float]) -> tuple[float, float, float]:
    """Returns p without and with bounds, and the difference."""
    texts = np.ones(values.shape, np.intp)
    run = ValuesOfSystems(
        names=("a", "b"),
        values=values,
        texts=texts,
        lacking=texts * np.isnan(values),
        clusters=np.arange(len(values)),
        seeded=None,
        why_empty=lambda *_: "",
        ends=ends,
    )
    [[c]] = compared_systems([run], Resampling(permutations=1000))
    return c.p, c.p_bounded, c.difference


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    print("| systems | undefined | values | both have | least | now |")
    print("| --- | --- | --- | --: | --: | --: |")
    for worst in (True, False):
        for share in (0.05, 0.1, 0.2, 0.4) if worst else (0.01, 0.05, 0.1):
            for skewed in (False, True):
                better = 0.0 if worst else 0.65
                shares = measure(runs, share=share, better=better, worst=worst, skewed=skewed)
                names = [
                    "equal" if worst else "better by 0.65",
                    f"the worst {share:.0%}" if worst else f"any {share:.0%}",
                    "skewed" if skewed else "normal",
                ]
                print("|", " | ".join([*names, *(f"{100 * s:.1f}" for s in shares)]), "|")


if __name__ == "__main__":
    main()
