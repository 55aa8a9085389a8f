"""How the judges found the texts, from votes or from rates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from levelfield.study.audit.findings import AuditedStudy, grouped
from levelfield.study.cells import Cell, CellKey

MAJORITY = "majority"
MOST = "most judges"

Right = Mapping[tuple[str, str], tuple[int, int]]
"""Judge and wanted value -> how many texts it found right, of how many."""


@dataclass(frozen=True)
class Judged:
    """How one judge found the texts of a cell that were asked for one value of an attribute.

    Attributes:
        right: share it found right, 0 to 1.
        elsewhere: share of the texts asked for other values that it gave this value; None if no
            votes are known.
        n: number of texts; None where nobody knows.
    """

    key: CellKey
    attribute: str
    judge: str
    value: str
    right: float
    elsewhere: float | None
    n: int | None


def judged(study: AuditedStudy) -> list[Judged]:
    """From votes, where there are any, else from rates; rates in percent, not those of all values.

    A judge whose rates are all between 0 and 1 is read as one that gives shares.
    """
    shares = set(_judges_in_shares(study))
    found = []
    for cell in study.cells:
        found += list(_from_votes(cell))
        seen = {judge for of in cell.votes.values() for judge in of}
        values = len({rate.value for rate in cell.rates if rate.value})
        n = size(cell)
        for rate in cell.rates:
            if rate.value and rate.judge not in seen and math.isfinite(rate.percent):
                scale = 1 if rate.judge in shares else 100
                right = rate.percent / scale
                one = (cell.key, cell.key.control, rate.judge, rate.value, right)
                found.append(Judged(*one, None, n // values if n else None))
    return found


def rights(study: AuditedStudy) -> Mapping[CellKey, Right]:
    """How many texts of each cell each judge found right, and most of 3 or more judges."""
    found: dict[CellKey, dict[tuple[str, str], tuple[int, int]]] = {}
    for one in judged(study):
        if one.n:
            own = found.setdefault(one.key, {})
            own[one.judge, one.value] = (round(one.right * one.n), one.n)
    for cell in study.cells:
        for attribute, judges in cell.votes.items():
            if len(judges) < 3:
                continue
            counts: Counter[tuple[str, bool]] = Counter()
            for sample in cell.samples:
                wanted = sample.control.get(attribute)
                votes = [of[sample.id] for of in judges.values() if sample.id in of]
                if wanted and votes:
                    right = 2 * sum(vote == wanted for vote in votes) > len(votes)
                    counts[str(wanted), right] += 1
            own = found.setdefault(cell.key, {})
            for value in {value for value, _ in counts}:
                yes, no = counts[value, True], counts[value, False]
                own[MOST, value] = (yes, yes + no)
    return found


def _from_votes(cell: Cell) -> Iterable[Judged]:
    for attribute, judges in cell.votes.items():
        labels_wanted = {s.id: wanted for s in cell.samples if (wanted := s.control.get(attribute))}
        for judge, labels in judges.items():
            pairs = Counter(
                (str(labels_wanted[id]), label)
                for id, label in labels.items()
                if id in labels_wanted
            )
            of = Counter({v: sum(n for (a, _), n in pairs.items() if a == v) for v, _ in pairs})
            for value, n in of.items():
                others = of.total() - n
                misses = sum(k for (a, label), k in pairs.items() if a != value and label == value)
                elsewhere = misses / others if others else None
                one = (cell.key, attribute, judge, value, pairs[value, value] / n)
                yield Judged(*one, elsewhere, n)


def size(cell: Cell) -> int:
    """How many texts it has or was asked for; 0 if nobody knows."""
    return len(cell.samples) or cell.asked or 0


def is_majority(judge: str) -> bool:
    """Whether it is the vote of all judges."""
    return judge.partition(" ")[0] == MAJORITY


def _judges_in_shares(study: AuditedStudy) -> list[str]:
    rates = grouped((rate for cell in study.cells for rate in cell.rates), lambda rate: rate.judge)
    return [judge for judge, own in rates.items() if max(rate.percent for rate in own) <= 1]
