"""The error of a comparison of systems: what it could have shown, and whether two are alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from levelfield.stats.power import alike_p, detectable_difference
from levelfield.stats.seeds import Contrast

ENOUGH_SEEDS = 5
"""With fewer seeds a system, a note says what this many would show."""


@dataclass(frozen=True)
class ErrorOfTest:
    """The standard error of a difference, as its test has it.

    Attributes:
        se, df: with its degrees of freedom; NaN and 0 without a test.
        seeds: the fewest seeds of a system that has several; 0 where seeds are not a sample.
        se_more, df_more: those to expect with `ENOUGH_SEEDS` seeds; NaN and 0 where there are as
            many.
        error_df, error_df_more: those of the standard errors as estimates
            (`VarianceParts.error_df`); None where seeds are not a sample.
    """

    se: float = math.nan
    df: float = 0.0
    seeds: int = 0
    se_more: float = math.nan
    df_more: float = 0.0
    error_df: float | None = None
    error_df_more: float | None = None

    @classmethod
    def of(
        cls, se: float, df: float, contrast: Contrast | None, seeds: Mapping[str, int]
    ) -> ErrorOfTest:
        """Returns the error of a test.

        Args:
            se, df: of the test.
            contrast: that it rests on; None where seeds are not a sample.
            seeds: system -> how many it has.
        """
        fewest = min((n for n in seeds.values() if n > 1), default=0)
        if contrast is None or contrast.parts is None or not fewest:
            return cls(float(se), float(df))
        error = cls(float(se), float(df), fewest, error_df=contrast.parts.error_df)
        if fewest >= ENOUGH_SEEDS:
            return error
        more = contrast.parts.scaled(seeds=ENOUGH_SEEDS / fewest)
        variance, df_more = more.total()
        return replace(
            error, se_more=math.sqrt(variance), df_more=df_more, error_df_more=more.error_df
        )

    @property
    def is_known(self) -> bool:
        """Whether there is a standard error that is not 0, with degrees of freedom."""
        return self.se > 0 and self.df > 0 and math.isfinite(self.se)

    def detectable(self, level: float) -> float:
        """Returns the difference that 80 % of such studies show at a level; NaN without a test."""
        return detectable_difference(self.se, self.df, alpha=level, error_df=self.error_df)

    def detectable_with_more(self, level: float) -> float:
        """Returns the same for `ENOUGH_SEEDS` seeds; NaN where there are as many."""
        return detectable_difference(
            self.se_more, self.df_more, alpha=level, error_df=self.error_df_more
        )

    def alike_p(self, differences: Iterable[float], margin: float) -> float:
        """Returns the largest p of "the two differ by `margin` or more" over these differences."""
        return max(alike_p(d, self.se, self.df, margin) for d in differences)


NO_ERROR = ErrorOfTest()
"""Of a comparison without a test."""
