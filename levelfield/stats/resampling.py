"""How intervals and tests are drawn, and what p is adjusted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from levelfield.core.limits import DRAWS
from levelfield.core.options import Options, option

Correction = Literal["holm", "bonferroni"]

Family = Literal["metric", "run", "fdr"]
"""Comparisons that p is adjusted over: those under one metric, or all of a run, by Holm; or all of
a run for the false discovery rate. Of comparisons of metrics: those on one rated aspect, or all of
a run."""


@dataclass(frozen=True)
class Resampling(Options):
    """How intervals and tests are drawn.

    Raises:
        UserError: `resamples` or `permutations` is not from 1 to 1,000,000, or the seed is below 0.
    """

    resamples: int = option(
        2000, "Number of resamples of the bootstrap.", least=1, most=DRAWS, metavar="N"
    )
    permutations: int = option(
        10_000,
        "Number of permutations of a test; if there are fewer sign patterns, all are tried.",
        least=1,
        most=DRAWS,
        metavar="N",
    )
    level: float = option(0.95, "Level of the intervals.", above=0, below=1)
    seed: int = option(0, "Seed of every random draw.", least=0, metavar="N")
    family: Family = option(
        "metric",
        "Comparisons that p is adjusted over: those under one metric, or of the run; or, of the "
        "run, for the false discovery rate.",
    )


DEFAULT = Resampling()
