"""What can be estimated, by name: it imports nothing, so that options may name it."""

from __future__ import annotations

from typing import Literal, get_args

Statistic = Literal[
    "pearson", "spearman", "kendall", "tau-like", "accuracy", "calibrated", "soft-accuracy"
]
"""A statistic of agreement between a metric and ratings."""

SOFT_ACCURACY: Statistic = "soft-accuracy"
"""Of means of systems only, and only where it is asked for."""

STATISTICS: tuple[Statistic, ...] = tuple(s for s in get_args(Statistic) if s != SOFT_ACCURACY)

Systems = Literal["these", "like-these"]
"""The systems that intervals and tests speak of: those observed, or the population that they are a
sample of."""

TieChoice = Literal["held-out", "in-sample"]
"""The pairs that the threshold of a tie is chosen on: others than it is used on, or the same."""

Measurement = Literal["nominal", "ordinal", "interval"]
"""What ratings are: names, ranks, or numbers whose differences mean something."""

MEASUREMENTS: tuple[Measurement, ...] = get_args(Measurement)
