"""The table of the means of parts: which part pulls the mean of a group up or down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.scoring.result import PartMean
from levelfield.scoring.summary import MetricSummary
from levelfield.show.words import best_first


@dataclass(frozen=True)
class PartRow:
    """One group: its mean, and those of its parts by name."""

    group: str
    mean: float
    parts: Mapping[str, PartMean]


@dataclass(frozen=True)
class PartTable:
    """The parts of one metric.

    Attributes:
        metric: its name.
        columns: part -> its weights, the same in all groups or `a to b`.
        rows: the groups, the best first.
        farthest: the mean farthest from 0, its sign aside.
    """

    metric: str
    columns: Mapping[str, str]
    rows: tuple[PartRow, ...]
    farthest: float

    def reach(self, mean: float) -> float:
        """How far a bar from the middle reaches, in percent of the half."""
        return round(100 * abs(mean) / self.farthest, 1) if self.farthest else 0.0


def part_table(summary: MetricSummary, means: Sequence[PartMean]) -> PartTable:
    """The table of one metric."""
    weights: dict[str, list[float]] = {}
    for mean in means:
        weights.setdefault(mean.part, []).append(mean.weight)
    rows = [
        PartRow(g.group, g.mean.value, {m.part: m for m in means if m.group == g.group})
        for g in best_first(summary)
        if g.mean.n
    ]
    return PartTable(
        metric=summary.metric,
        columns={part: _range(of) for part, of in weights.items()},
        rows=tuple(rows),
        farthest=max(
            (abs(v) for r in rows for v in (r.mean, *(m.mean for m in r.parts.values()))),
            default=0.0,
        ),
    )


def _range(weights: Sequence[float]) -> str:
    low, high = f"{min(weights):.2f}", f"{max(weights):.2f}"
    return low if low == high else f"{low} to {high}"
