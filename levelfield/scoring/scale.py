"""How the values of one metric are written: as many decimals as their intervals deserve."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from levelfield.scoring.summary import MetricSummary

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
        if math.isnan(value):
            return "–"
        if self.scientific:
            return f"{value:.3g}".replace("-", "−")
        text = f"{value:,.{self.places}f}"
        zero = not any(digit in text for digit in "123456789")
        return text.lstrip("-") if zero else text.replace("-", "−")

    def rounded(self, value: float) -> float:
        """The number that is written."""
        return float(f"{value:.3g}") if self.scientific else round(value, self.places)


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
        return Scale(3, False)
    widths = list(half_widths)
    largest = math.floor(math.log10(max(sizes)))
    if widths:
        digit = -math.floor(math.log10(min(widths)))
        places = min(digit + 1, max(digit, _MOST_DIGITS - 1 - largest))
    else:
        places = 2 - largest
    return Scale(min(max(places, 0), 6), places > 6 or largest > 8)
