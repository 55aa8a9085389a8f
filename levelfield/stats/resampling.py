"""How intervals and tests are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.stats.multiplicity import Family


@dataclass(frozen=True)
class Resampling:
    """How intervals and tests are drawn.

    Attributes:
        resamples: of the bootstrap.
        permutations: of the test; with fewer sign patterns than these, all are tried.
        level: of the intervals.
        seed: of every random draw.
        family: the comparisons over which p is adjusted.
    """

    resamples: int = 2000
    permutations: int = 10_000
    level: float = 0.95
    seed: int = 0
    family: Family = "metric"


DEFAULT = Resampling()
