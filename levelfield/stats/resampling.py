"""Options of intervals and tests: how they are drawn, and what p is adjusted for."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.core.errors import UserError
from levelfield.core.limits import DRAWS, SEED
from levelfield.core.options import Options, option
from levelfield.core.strings import finite_number
from levelfield.io.reading import pairs

Correction = Literal["holm", "bonferroni"]

Draws = Literal["text", "run"]
"""The unit that a seed draws for: each text by itself, or all texts of a run together."""

Family = Literal["metric", "run", "fdr"]
"""Comparisons that p is adjusted over: those under one metric, or all of a run, by Holm; or all of
a run for the false discovery rate. Of comparisons of metrics: those on one rated aspect, or all of
a run."""


ALL_METRICS = "all"
"""The name of a margin for every metric."""


def margins(words: Sequence[str]) -> dict[str, float]:
    """Returns the words of `--margin` as a mapping.

    >>> margins(["0.5", "bleu=2"])
    {'all': 0.5, 'bleu': 2.0}

    Raises:
        UserError: a word is not a number above 0, or has no such number after the name.
    """
    named = pairs("--margin", [w if "=" in w else f"{ALL_METRICS}={w}" for w in words])
    return check_margins({name: _number(word) for name, word in named.items()})


def _number(word: str) -> float | str:
    try:
        return finite_number(word)
    except ValueError:
        return word


_EXPECTED = "expected a number above 0, such as 0.5"


def check_margins(margins: Mapping[str, Any]) -> dict[str, float]:
    """Returns margins.

    Raises:
        UserError: one is not a number above 0.
    """
    for name, margin in margins.items():
        if not (isinstance(margin, int | float) and 0 < margin < math.inf):
            raise UserError(f"margin of {name}: {_EXPECTED}; found {margin}")
    return dict(margins)


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
        "Number of permutations of a test; if there are fewer sign patterns, all are used.",
        least=1,
        most=DRAWS,
        metavar="N",
    )
    level: float = option(0.95, "Level of the intervals.", above=0, below=1)
    seed: int = option(0, "Seed of resampling.", least=0, most=SEED, metavar="N")
    family: Family = option(
        "metric",
        "Comparisons that p is adjusted over: those of a metric, or of the run; or those of the "
        "run, for the false discovery rate.",
    )
    margin: Mapping[str, float] = option(
        {},
        "Difference too small to matter, for all metrics or for one metric or family: comparisons "
        "report whether two systems are alike within it; may be given again.",
        metavar="[METRIC=]X",
        read=margins,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_margins(self.margin)

    def margin_of(self, metric: str) -> float:
        """Returns the margin of a metric: its own, else that of its family, else of all metrics;
        NaN without any."""
        names = _margin_names(metric)
        return next((self.margin[name] for name in names if name in self.margin), math.nan)

    def check_metrics(self, metrics: Collection[str]) -> None:
        """Checks that every margin is of a metric that is compared.

        Raises:
            UserError: one is of another.
        """
        names = {name for metric in metrics for name in _margin_names(metric)}
        if unknown := [name for name in self.margin if name not in {*names, ALL_METRICS}]:
            raise UserError(
                f"margin of {unknown[0]}: nothing is compared by it; there are "
                f"{', '.join(sorted(metrics)) or 'no comparisons'}"
            )


def _margin_names(metric: str) -> tuple[str, ...]:
    return metric, metric.partition(".")[0], ALL_METRICS


DEFAULT = Resampling()
