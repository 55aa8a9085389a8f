"""How intervals and tests are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.core.limits import DRAWS
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

    Raises:
        UserError: `resamples` or `permutations` is not from 1 to 1,000,000, or the seed is below 0.
    """

    resamples: int = 2000
    permutations: int = 10_000
    level: float = 0.95
    seed: int = 0
    family: Family = "metric"

    def __post_init__(self) -> None:
        for name in ("resamples", "permutations"):
            value = getattr(self, name)
            if not 1 <= value <= DRAWS:
                raise UserError(f"{name}: expected 1 to {DRAWS:,}, found {value:,}")
        if self.seed < 0:
            raise UserError(f"seed: expected a whole number from 0 on, found {self.seed}")


DEFAULT = Resampling()
