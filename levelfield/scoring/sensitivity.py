"""What comparisons of systems could have shown, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from levelfield.scoring.comparison import ALPHA, Comparison
from levelfield.scoring.power import ENOUGH_SEEDS
from levelfield.scoring.standing import Scale
from levelfield.stats.power import POWER

SHARE = f"{100 * POWER:g} %"
"""The share of studies that show a detectable difference."""


def detectable(comparison: Comparison, write: Scale) -> str:
    """Returns what a comparison without a verdict could have shown; empty where there is none."""
    size = comparison.detectable
    if math.isinf(size):
        return "no difference is detectable"
    return "" if math.isnan(size) else f"detectable: {write(size)}"


def sensitivity_notes(
    measures: Mapping[str, tuple[Sequence[Comparison], Scale]],
) -> Iterator[str]:
    """Yields what differences comparisons without a verdict could have shown, which of them could
    show none, and what more seeds would.

    Args:
        measures: measure -> its comparisons, and how its differences are written.
    """
    sizes, more, never, unknown = [], [], [], []
    fewest = 0
    for name, (comparisons, write) in measures.items():
        not_shown = [c for c in comparisons if c.p_adjusted > ALPHA]
        suffix = f" ({name})" if len(measures) > 1 else ""
        if size := _span((c.detectable for c in not_shown), write):
            sizes.append(size + suffix)
        if size := _span((c.detectable_with_more for c in not_shown), write):
            more.append(size + suffix)
            fewest = min(filter(None, (fewest, *(c.error.seeds for c in not_shown))))
        if any(math.isinf(c.detectable) for c in not_shown):
            never.append(_counted(name, not_shown, math.isinf))
        if any(math.isnan(c.detectable) for c in not_shown):
            unknown.append(_counted(name, not_shown, math.isnan))
    if sizes:
        yield f"no difference shown: {SHARE} of such studies show one of {', '.join(sizes)}"
    if never:
        yield (
            "no difference of any size can be shown: too few independent inputs differ for p to be "
            f"so small ({', '.join(never)})"
        )
    if unknown:
        yield (
            "what difference could be shown is not known, since the observed ones do not vary "
            f"({', '.join(unknown)})"
        )
    if more:
        yield (
            f"{fewest} seeds are few: take {ENOUGH_SEEDS} a system, with which {SHARE} of studies "
            f"show a difference of {', '.join(more)}"
        )


def _counted(name: str, comparisons: Sequence[Comparison], without: Callable[[float], bool]) -> str:
    """The measure, with how many of its comparisons it holds for if not for all."""
    n = sum(without(c.detectable) for c in comparisons)
    return name if n == len(comparisons) else f"{name}: {n:,} of {len(comparisons):,} comparisons"


def _span(differences: Iterable[float], write: Scale) -> str:
    sizes = sorted(d for d in differences if math.isfinite(d))
    return " to ".join(dict.fromkeys((write(sizes[0]), write(sizes[-1])))) if sizes else ""
