"""Strengths of systems by people's choices and rankings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from levelfield.agree.design import StrengthOptions
from levelfield.agree.sources import Choices, file_names, read_choices
from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.signature import signature
from levelfield.core.strings import natural
from levelfield.io.comparisons import PairChoice
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.tables import NONE, Table, TableColumn
from levelfield.scoring.standing import Scale, three_decimals
from levelfield.stats.bradley_terry import Strengths, bradley_terry
from levelfield.stats.estimate import Estimate
from levelfield.stats.multiplicity import holm

LEVEL = 0.95
"""Of the intervals."""

_written = Scale(2, scientific=False)

_COLUMNS = columns_of(
    "aspect a b value:float low:float high:float probability:float n:int clusters:int p:float "
    "p_adjusted:float why_undefined why_no_interval"
)


@dataclass(frozen=True)
class SystemStrength(Document):
    """The strength of a system on an aspect.

    Attributes:
        estimate: log-odds against the mean of the systems of its group.
        group: number of its group, from 1; 0 if it is alone.
        wins: share of its comparisons that it won, a tie counting one half; NaN without any.
    """

    aspect: str
    system: str
    estimate: Estimate
    group: int
    wins: float

    _entries = "aspect|null system *estimate group|null wins"


@dataclass(frozen=True)
class StrengthDifference(Document):
    """Two systems of a group.

    Attributes:
        estimate: log-odds that a is better than b.
        p, p_adjusted: of their being equally strong, and by Holm over the pairs on the aspect.
    """

    aspect: str
    a: str
    b: str
    estimate: Estimate
    p: float
    p_adjusted: float

    _entries = "aspect|null a b *estimate probability p p_adjusted"

    @property
    def probability(self) -> float:
        """That a text of a is preferred to one of b."""
        return float(expit(self.estimate.value))


@dataclass(frozen=True, repr=False)
class StrengthReport(Framed):
    """Strengths of systems.

    Attributes:
        strengths: by aspect, the strongest first within each group.
        differences: of every two systems of a group.
        notes: what a reader must know of the numbers.
        signature: every choice that could change a number.
        files: where the comparisons come from.
    """

    strengths: tuple[SystemStrength, ...]
    differences: tuple[StrengthDifference, ...]
    notes: tuple[str, ...]
    signature: str
    files: tuple[str, ...] = ()

    _entries = "files signature notes strengths differences"

    def _drawn(self) -> Sequence[Table]:
        return self.tables()

    def _frame(self) -> FrameRows:
        """One row a system, and one a pair, which has `b`."""
        rows = [{**s.to_dict(), "a": s.system} for s in self.strengths]
        rows += [d.to_dict() for d in self.differences]
        return _COLUMNS, rows

    def tables(self) -> list[Table]:
        """The tables that a terminal shows: strengths and pairs of each aspect."""
        tables = []
        for aspect, group in itertools.groupby(self.strengths, key=lambda s: s.aspect):
            strengths = list(group)
            differences = [d for d in self.differences if d.aspect == aspect]
            tables.append(self._strengths_table(aspect, strengths))
            if differences:
                tables.append(_differences_table(aspect, differences))
        return tables

    def _strengths_table(self, aspect: str, strengths: Sequence[SystemStrength]) -> Table:
        several = len({s.group for s in strengths if s.group}) > 1
        rows = [
            [
                s.system,
                *([str(s.group) if s.group else NONE] if several else []),
                _written(s.estimate.value),
                _written.ends(s.estimate),
                three_decimals(s.wins),
                f"{s.estimate.n:,}",
            ]
            for s in strengths
        ]
        heads = (*(["group"] * several), "strength", _INTERVAL, "won", "comparisons")
        return Table(
            [TableColumn("system", words=True), *map(TableColumn, heads)],
            rows,
            caption=f"strengths of systems{f' in {aspect}' if aspect else ''}",
            legend=["strength: log-odds against the mean of the systems", "won: share, with ties"],
            signatures=[self.signature],
        )


_INTERVAL = f"{100 * LEVEL:g} % interval"


def _differences_table(aspect: str, differences: Sequence[StrengthDifference]) -> Table:
    rows = [
        [
            f"{d.a}, {d.b}",
            three_decimals(d.probability),
            three_decimals.ends(_as_probability(d.estimate)),
            NONE if math.isnan(d.p_adjusted) else f"{d.p_adjusted:.2g}",
        ]
        for d in differences
    ]
    return Table(
        [TableColumn("systems", words=True), *map(TableColumn, ("P", _INTERVAL, "p (Holm)"))],
        rows,
        caption=f"pairs{f' in {aspect}' if aspect else ''}",
        legend=["P: probability that a text of the first is preferred, without ties"],
    )


def _as_probability(e: Estimate) -> Estimate:
    value, low, high = expit([e.value, e.low, e.high]).tolist()
    return replace(e, value=value, low=low, high=high)


@keywords(StrengthOptions)
def strengths(
    comparisons: Choices,
    chosen: StrengthOptions | None = None,
    **words: Any,
) -> StrengthReport:
    """Estimates how strong systems are from choices between their texts and rankings of them.

    The strengths are those of Bradley and Terry (`levelfield.stats.bradley_terry.bradley_terry`).

    Args:
        comparisons: `pairs.jsonl` and `rankings.jsonl` of `levelfield rate export`, tables of
            choices, data frames or records of choices, or what `load_comparisons` returns.
        chosen: what is read, and how intervals are made.
        words: options of `StrengthOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: an aspect that is not there, or no prompt or rater to cluster by.

    >>> report = strengths("pairs.jsonl", samples="ratings.jsonl")  # doctest: +SKIP
    >>> report.strengths[0].estimate  # doctest: +SKIP
    """
    chosen = StrengthOptions.of(chosen, **words)
    read = read_choices(comparisons, chosen.samples, format=chosen.format, mapping=chosen.mapping)
    aspects = dict.fromkeys(c.aspect for c in read)
    for aspect in chosen.aspects:
        if aspect not in aspects:
            raise UserError(f"--aspect {aspect}: nothing is compared on it; there are {[*aspects]}")
    results: list[SystemStrength] = []
    differences: list[StrengthDifference] = []
    notes: list[str] = []
    for aspect in chosen.aspects or aspects:
        _one_aspect(
            aspect, [c for c in read if c.aspect == aspect], chosen, results, differences, notes
        )
    return StrengthReport(
        strengths=tuple(results),
        differences=tuple(differences),
        notes=tuple(dict.fromkeys(notes)),
        signature=signature(
            "strengths",
            {"model": "bradley-terry", "ties": "half", "cluster": chosen.cluster,
             "interval": f"{LEVEL:g}", "correction": "holm"},
        ),
        files=file_names(comparisons),
    )  # fmt: skip


def _one_aspect(
    aspect: str,
    comparisons: Sequence[PairChoice],
    chosen: StrengthOptions,
    results: list[SystemStrength],
    differences: list[StrengthDifference],
    notes: list[str],
) -> None:
    where = f"{aspect}: " if aspect else ""
    if same := sum(c.a == c.b for c in comparisons):
        notes.append(f"{where}comparisons of a system with itself are left out: {same:,}")
        comparisons = [c for c in comparisons if c.a != c.b]
        if not comparisons:
            return
    names = sorted({name for c in comparisons for name in (c.a, c.b)}, key=natural)
    code = {name: n for n, name in enumerate(names)}
    labels: list[str | int] = [getattr(c, chosen.cluster) for c in comparisons]
    if unknown := sum(not label for label in labels):
        labels = [label or n for n, label in enumerate(labels)]
        notes.append(
            f"{where}{unknown:,} comparisons name no {chosen.cluster}; each counts as independent"
        )
    clusters = {label: n for n, label in enumerate(dict.fromkeys(labels))}
    fit = bradley_terry(
        np.array([code[c.a] for c in comparisons]),
        np.array([code[c.b] for c in comparisons]),
        np.array([c.outcome for c in comparisons]),
        np.array([clusters[label] for label in labels]),
        len(names),
    )
    groups = [g for g in np.unique(fit.groups).tolist() if (fit.groups == g).sum() > 1]
    groups.sort(key=lambda g: -_won(fit, np.flatnonzero(fit.groups == g)))
    number = {g: n for n, g in enumerate(groups, 1)}
    rows = [
        SystemStrength(
            aspect, name, fit.strength(i, level=LEVEL), number.get(int(fit.groups[i]), 0),
            _won(fit, np.array([i])),
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    rows.sort(key=lambda s: (s.group or len(groups) + 1, -np.nan_to_num(s.estimate.value), -s.wins))
    results += rows
    pairs = [
        (a.system, b.system)
        for a, b in itertools.combinations([r for r in rows if r.group], 2)
        if a.group == b.group
    ]
    compared = [fit.difference(code[a], code[b], level=LEVEL) for a, b in pairs]
    for (a, b), (e, p), q in zip(
        pairs, compared, holm([p for _, p in compared]).tolist(), strict=True
    ):
        differences.append(StrengthDifference(aspect, a, b, e, p, q))
    for row in rows:
        if row.estimate.why_undefined:
            notes.append(f"{where}{row.system} has no strength: {row.estimate.why_undefined}")
        elif row.estimate.why_no_interval:
            notes.append(f"{where}{row.system} has no interval: {row.estimate.why_no_interval}")
    if len(groups) > 1:
        listed = "; ".join(
            ", ".join(r.system for r in rows if r.group == n) for n in number.values()
        )
        notes.append(
            f"{where}the systems have no common scale, as no chain of wins leads both ways "
            f"between these groups: {listed}"
        )


def _won(fit: Strengths, systems: np.ndarray[Any, Any]) -> float:
    won, lost = fit.wins[systems].sum(), fit.wins[:, systems].sum()
    return float(won / (won + lost)) if won + lost else math.nan
