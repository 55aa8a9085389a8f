"""Ranks of systems under a metric, which is shown to be best, and which are not shown to differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.direction import Direction
from levelfield.core.strings import natural
from levelfield.io.tables import NONE
from levelfield.scoring.comparison import ALPHA, Comparison, better_system, differ
from levelfield.scoring.summary import MetricSummary
from levelfield.stats.estimate import Estimate
from levelfield.stats.letters import compact_letters


@dataclass(frozen=True)
class Standing:
    """The rank of one system among others, and from which it is shown to differ.

    Attributes:
        rank: by its mean as it is written; systems with equal means share the better rank. None
            where no end of the values is better.
        letters: systems that share one are not shown to differ; empty if none were compared.
        best: whether it is shown to be better than every other system that has a mean.
    """

    rank: int | None
    letters: tuple[str, ...]
    best: bool

    @property
    def letters_name(self) -> str:
        """The letters as one word; with commas where a letter is more than one character.

        >>> Standing(1, ("a", "b"), best=False).letters_name
        'ab'
        >>> Standing(9, ("z", "aa"), best=False).letters_name
        'z,aa'
        """
        return ("," if any(len(name) > 1 for name in self.letters) else "").join(self.letters)


def standings(
    means: Mapping[str, float],
    comparisons: Sequence[Comparison],
    *,
    direction: Direction,
    rounded: Callable[[float], float],
) -> dict[str, Standing]:
    """The standing of every system that has a mean, the best mean first, else the highest.

    A pair that was not compared, or whose verdict is withheld, counts as not shown to differ.

    Args:
        means: system -> its mean, NaN without one.
        comparisons: of pairs of systems, p adjusted.
        rounded: a mean as it is written.
    """
    sign = 1 if direction == "lower" else -1
    costs = {name: sign * mean for name, mean in means.items() if not math.isnan(mean)}
    names = sorted(costs, key=lambda name: (costs[name], natural(name)))
    by_pair = {frozenset((c.a, c.b)): c for c in comparisons}

    def compared(i: int, j: int) -> Comparison | None:
        return by_pair.get(frozenset((names[i], names[j])))

    def apart(i: int, j: int) -> bool:
        return (c := compared(i, j)) is not None and differ(c)

    def beats(i: int, j: int) -> bool:
        return (c := compared(i, j)) is not None and better_system(c, direction) == names[i]

    letters: Sequence[tuple[str, ...]] = [()] * len(names)
    if any(not math.isnan(c.p_adjusted) for c in comparisons):
        letters = compact_letters(len(names), apart)
    printed = [sign * rounded(means[name]) for name in names]
    return {
        name: Standing(
            rank=None if direction == "none" else 1 + sum(other < printed[i] for other in printed),
            letters=letters[i],
            best=len(names) > 1 and all(beats(i, j) for j in range(len(names)) if j != i),
        )
        for i, name in enumerate(names)
    }


BEST = f"shown best (adjusted p ≤ {ALPHA:g})"
"""What the mark of the best says."""


def letters_in_words(by: str, adjustment: str) -> str:
    """What letters say.

    Args:
        by: what the groups are, in one word.
        adjustment: what adjusts p over what, in words.
    """
    return (
        f"{by}s that share a letter are not shown to differ (adjusted p > {ALPHA:g}; {adjustment})"
    )


def p_value(p: float) -> str:
    """Returns a p-value with two significant digits; never rounded across `ALPHA`.

    >>> p_value(0.2), p_value(0.0503), p_value(0.05004), p_value(0.0000412)
    ('0.20', '0.0503', '0.05004', '4.1e-05')
    """
    if math.isnan(p):
        return NONE
    if not p:
        return "< 2e-308"
    digits = 2
    while (float(f"{p:.{digits}g}") > ALPHA) != (p > ALPHA):
        digits += 1
    return f"{p:#.{digits}g}".removesuffix(".")


_MOST_DIGITS = 5
"""Digits of the largest mean; more only where an interval would else have none."""


@dataclass(frozen=True)
class Scale:
    """How the values of one metric are written: as many decimals as their intervals deserve."""

    places: int
    scientific: bool

    def __call__(self, value: float) -> str:
        """A number with a true minus sign; a dash if it is undefined.

        >>> Scale(2, False)(-3.14159)
        '−3.14'
        """
        if not math.isfinite(value):
            return NONE if math.isnan(value) else "∞" if value > 0 else "−∞"
        if self.scientific:
            return f"{value:.3g}".replace("-", "−")
        text = f"{value:,.{self.places}f}"
        zero = not any(digit in text for digit in "123456789")
        return text.lstrip("-") if zero else text.replace("-", "−")

    def ends(self, interval: Estimate) -> str:
        """Both ends of an interval; a dash without one."""
        if math.isnan(interval.low + interval.high):
            return NONE
        return f"{self(interval.low)} to {self(interval.high)}"

    def rounded(self, value: float) -> float:
        """The number that is written."""
        return float(f"{value:.3g}") if self.scientific else round(value, self.places)


three_decimals = Scale(3, scientific=False)
"""Writes correlations, shares and differences of these."""


def scale_of(summary: MetricSummary) -> Scale:
    """The scale of the means of a metric's groups, by `scale_for`."""
    means = [g.mean for g in summary.groups or (summary.overall,)]
    return scale_for(
        [i.value for i in means if i.n], [(i.high - i.low) / 2 for i in means if i.high > i.low]
    )


def scale_for(means: Iterable[float], half_widths: Iterable[float]) -> Scale:
    """Two digits of the narrowest half-width of an interval; one where the largest mean would else
    have more than five digits. Without an interval, three digits of the largest mean.

    >>> scale_for([0.31, 0.17], [0.034, 0.011]).places
    3
    >>> scale_for([1523.4, 2871.9], [0.42, 61.0]).places
    1
    """
    sizes = [abs(mean) for mean in means if mean and math.isfinite(mean)]
    if not sizes:
        return three_decimals
    widths = list(half_widths)
    largest = math.floor(math.log10(max(sizes)))
    if widths:
        digit = -math.floor(math.log10(min(widths)))
        places = min(digit + 1, max(digit, _MOST_DIGITS - 1 - largest))
    else:
        places = 2 - largest
    return Scale(min(max(places, 0), 6), places > 6 or largest > 8)
