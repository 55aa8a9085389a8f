"""Words for numbers and times."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from levelfield.stats.estimate import Estimate


def number(x: float, digits: int = 2) -> str:
    return f"{x:.{digits}f}" if math.isfinite(x) else "–"


def value(e: Estimate, digits: int = 2) -> str:
    """Returns a value with its interval."""
    if not math.isfinite(e.value):
        return "–"
    if math.isnan(e.low + e.high):
        return number(e.value, digits)
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def share(x: float) -> str:
    return f"{x:.0%}" if math.isfinite(x) else "–"


def duration(spent: timedelta | None) -> str:
    if spent is None:
        return ""
    minutes = spent.total_seconds() / 60
    return f"{minutes:.0f} min" if minutes >= 1 else f"{spent.total_seconds():.0f} s"


def when(moment: datetime | None, now: datetime) -> str:
    """Returns how long ago, in words."""
    if moment is None:
        return "never"
    seconds = max(0.0, (now - moment).total_seconds())
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            n = int(seconds // length)
            return f"{n} {unit}{'s' * (n != 1)} ago"
    return "just now"
