"""Two systems under one metric: their difference, whether it is shown, and what could turn it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.multiplicity import adjusted_by_family
from levelfield.stats.resampling import DEFAULT, Resampling

ALPHA = 0.05
"""A difference is shown where the adjusted p is at most this."""

NOT_COMPARED = "not compared"
NOT_SHOWN = "no difference shown"
WITHHELD = "withheld"


@dataclass(frozen=True)
class Bounds:
    """What a difference can be where two systems have undefined values on different inputs.

    Attributes:
        lowest, highest: the difference a − b on the inputs that both answered and either has a
            value for. Where more texts of one are undefined than of the other, undefined ones have
            the worst and the best value of the run.
        p_lowest, p_highest: of the same test on these.
        only_a, only_b: on how many inputs more texts of a, and of b, have no value.
        inputs: how many inputs these differences rest on.
    """

    lowest: float
    highest: float
    p_lowest: float
    p_highest: float
    only_a: int
    only_b: int
    inputs: int

    def words(self, a: str, b: str) -> str:
        """What a reader must know of them."""
        return (
            f"undefined on {self.only_a:,} of {self.inputs:,} inputs for {a} alone and on "
            f"{self.only_b:,} for {b} alone: with these, the difference is between "
            f"{self.lowest:.4g} and {self.highest:.4g}"
        )


@dataclass(frozen=True)
class Comparison:
    """Two systems under one metric, on the inputs that every system answered.

    Attributes:
        a, b: the systems.
        inputs: how many inputs the comparison rests on.
        left_out: how many inputs some system has no defined value for.
        clusters: how many independent clusters the inputs form.
        difference: mean over the inputs of a − b.
        low, high: ends of its interval; not adjusted for the number of comparisons.
        effect: d_z, the difference over its standard deviation between inputs.
        p: two-sided, of the test that the interval agrees with.
        p_adjusted: `p_bounded` by Holm over the comparisons of its family.
        p_unbounded: p by Holm over them, whatever the bounds.
        note: what a reader must know of these numbers; empty if nothing.
        bounds: None where no input is undefined for one of the two alone.
        least_p: the smallest p that differences of so many clusters can have.
    """

    a: str
    b: str
    inputs: int
    left_out: int
    clusters: int
    difference: float
    low: float
    high: float
    effect: float
    p: float
    p_adjusted: float
    note: str
    bounds: Bounds | None = None
    least_p: float = 0.0
    p_unbounded: float = math.nan

    @property
    def p_bounded(self) -> float:
        """p, or with bounds that of the one nearer to no difference if it is larger; 1 if the
        bounds are on both sides of 0."""
        if self.bounds is None or math.isnan(self.p):
            return self.p
        end, p = (
            (self.bounds.lowest, self.bounds.p_lowest)
            if self.difference > 0
            else (self.bounds.highest, self.bounds.p_highest)
        )
        return max(self.p, p if end * self.difference > 0 else 1.0)


def better_system(
    comparison: Comparison, higher_is_better: bool, *, alpha: float = ALPHA
) -> str | None:
    """The one that is shown to be better, at `alpha` on the adjusted p; None if neither is."""
    c = comparison
    if not c.p_adjusted <= alpha or c.difference == 0:
        return None
    return c.a if (c.difference > 0) == higher_is_better else c.b


def verdict(comparison: Comparison, higher_is_better: bool, *, alpha: float = ALPHA) -> str:
    """Who is better, in words, at `alpha` on the adjusted p.

    `"x > y"`: x is better than y, whichever direction the metric has. `"no difference shown"`:
    there may be one, these samples do not show it. `"withheld"`: the defined values show one, and
    the undefined ones could turn it. `"not compared"`: there is no p.
    """
    c = comparison
    if np.isnan(c.p_adjusted):
        return NOT_COMPARED
    better = better_system(c, higher_is_better, alpha=alpha)
    if better is None:
        return WITHHELD if c.p_unbounded <= alpha < c.p_adjusted else NOT_SHOWN
    return f"{better} > {c.b if better == c.a else c.a}"


class UndefinedPair(NamedTuple):
    """Differences of two systems with undefined values at their worst and at their best.

    Attributes:
        lowest, highest: (inputs,) a − b; NaN on inputs that do not count.
        uneven: (inputs,) whether more texts of one system than of the other are undefined.
        only_a, only_b: on how many inputs more texts of a, and of b, have no value.
    """

    lowest: Floats
    highest: Floats
    uneven: Bools
    only_a: int
    only_b: int

    def bounds(self, ends: tuple[float, float], p: tuple[float, float]) -> Bounds:
        """The bounds, from the means of `lowest` and `highest` and their p."""
        return Bounds(*ends, *p, self.only_a, self.only_b, self.inputs)

    @property
    def inputs(self) -> int:
        """On how many inputs the bounds rest."""
        return int((~np.isnan(self.lowest)).sum())


def undefined_pair(
    pair: Floats, texts: Codes, lacking: Codes, worst: float, best: float
) -> UndefinedPair | None:
    """The differences of a pair, (inputs, 2), with its undefined values between two numbers.

    None if the two lack equally many values on every input that both answered. What both lack does
    not count: that is the input's fault rather than a system's.

    Args:
        pair: (inputs, 2) means of the defined values, NaN without any.
        texts, lacking: (inputs, 2) how many texts there are, and how many of them are undefined.
    """
    share = lacking / np.maximum(texts, 1)
    uneven: Bools = np.asarray((texts > 0).all(axis=1) & (share[:, 0] != share[:, 1]))
    if not uneven.any():
        return None

    def filled(value: float) -> Floats:
        return np.where(uneven[:, None], (1 - share) * np.nan_to_num(pair) + share * value, pair).T

    (a_low, b_low), (a_high, b_high) = filled(worst), filled(best)
    more = share[uneven, 0] > share[uneven, 1]
    return UndefinedPair(
        a_low - b_high, a_high - b_low, uneven, int(more.sum()), int((~more).sum())
    )


def adjusted_comparisons(
    of_metrics: Sequence[Sequence[Comparison]], resampling: Resampling = DEFAULT
) -> list[tuple[Comparison, ...]]:
    """The comparisons of each metric with p by Holm over their family, and all notes.

    Where so few inputs can't give p that stays small when it is adjusted, the note says so.
    """
    bounded, unbounded = (
        adjusted_by_family(p, resampling.family)
        for p in (
            [[c.p_bounded for c in comparisons] for comparisons in of_metrics],
            [[c.p for c in comparisons] for comparisons in of_metrics],
        )
    )
    total = sum(map(len, of_metrics))
    return [
        tuple(
            replace(
                c,
                p_adjusted=p,
                p_unbounded=p_unbounded,
                note="; ".join([*filter(None, [c.note]), *_warnings(c, size)]),
            )
            for c, p, p_unbounded in zip(comparisons, *of_metric, strict=True)
        )
        for comparisons, *of_metric in zip(of_metrics, bounded, unbounded, strict=True)
        for size in [len(comparisons) if resampling.family == "metric" else total]
    ]


def _warnings(c: Comparison, family: int) -> list[str]:
    warnings = [] if c.bounds is None else [c.bounds.words(c.a, c.b)]
    if c.least_p <= ALPHA < family * c.least_p and c.difference:
        smallest = min(1.0, family * c.least_p)
        warnings.append(
            f"few independent inputs for {family:,} comparisons: the smallest of their adjusted p "
            f"is {smallest:.3g} or more"
        )
    return warnings
