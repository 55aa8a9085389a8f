"""Verdicts of a study's judges, from votes or rates, and the strength of control by them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from levelfield.study.audit.findings import AuditedStudy
from levelfield.study.cells import Cell, CellKey, grouped

MAJORITY = "majority"
MOST = "most judges"

Right = Mapping[tuple[str, str], tuple[int, int]]
"""Judge and wanted value -> how many texts it found right, of how many."""


@dataclass(frozen=True)
class Judged:
    """Verdicts of one judge on the texts of a cell with one requested value of an attribute.

    Attributes:
        right: share it found right, 0 to 1.
        elsewhere: share of the texts asked for other values that it gave this value; None if no
            votes are known.
        n: number of texts; None if unknown.
    """

    key: CellKey
    attribute: str
    judge: str
    value: str
    right: float
    elsewhere: float | None
    n: int | None


def judged(study: AuditedStudy) -> list[Judged]:
    """Returns judgements from votes, if there are any, else from rates in percent by value.

    A judge whose rates are all between 0 and 1 is read as one that gives shares.
    """
    shares = set(_judges_in_shares(study))
    judgements = []
    for cell in study.cells:
        judgements += list(_from_votes(cell))
        seen = {judge for labels in cell.votes.values() for judge in labels}
        values = len({rate.value for rate in cell.rates if rate.value})
        n = size(cell)
        for rate in cell.rates:
            if rate.value and rate.judge not in seen and math.isfinite(rate.percent):
                scale = 1 if rate.judge in shares else 100
                right = rate.percent / scale
                about = (cell.key, cell.key.control, rate.judge, rate.value)
                judgements.append(Judged(*about, right, None, n // values if n else None))
    return judgements


def rights(study: AuditedStudy) -> Mapping[CellKey, Right]:
    """Returns cell -> the number of texts that each judge, and most of 3 or more, find right."""
    counts_of: dict[CellKey, dict[tuple[str, str], tuple[int, int]]] = {}
    for part in study.fact(judged):
        if part.n:
            counts = (round(part.right * part.n), part.n)
            counts_of.setdefault(part.key, {})[part.judge, part.value] = counts
    for cell in study.cells:
        for attribute, judges in cell.votes.items():
            if len(judges) < 3:
                continue
            right, total = Counter[str](), Counter[str]()
            for sample in cell.samples:
                target = sample.control.get(attribute)
                votes = [labels[sample.id] for labels in judges.values() if sample.id in labels]
                if target and votes:
                    right[str(target)] += 2 * sum(vote == target for vote in votes) > len(votes)
                    total[str(target)] += 1
            for value, n in total.items():
                counts_of.setdefault(cell.key, {})[MOST, value] = (right[value], n)
    return counts_of


def _from_votes(cell: Cell) -> Iterable[Judged]:
    for attribute, judges in cell.votes.items():
        targets = {s.id: target for s in cell.samples if (target := s.control.get(attribute))}
        for judge, labels in judges.items():
            pairs = Counter(
                (str(targets[id]), label) for id, label in labels.items() if id in targets
            )
            totals = Counter({v: sum(n for (a, _), n in pairs.items() if a == v) for v, _ in pairs})
            for value, n in totals.items():
                others = totals.total() - n
                misses = sum(k for (a, label), k in pairs.items() if a != value and label == value)
                elsewhere = misses / others if others else None
                right = pairs[value, value] / n
                yield Judged(cell.key, attribute, judge, value, right, elsewhere, n)


def size(cell: Cell) -> int:
    """Returns the number of texts that a cell has, or was asked for; 0 if unknown."""
    return len(cell.samples) or cell.asked or 0


def is_majority(judge: str) -> bool:
    """Returns whether a judge is the vote of all judges."""
    return judge.partition(" ")[0] == MAJORITY


def _judges_in_shares(study: AuditedStudy) -> list[str]:
    rates = grouped((rate for cell in study.cells for rate in cell.rates), lambda rate: rate.judge)
    return [judge for judge, group in rates.items() if max(rate.percent for rate in group) <= 1]


def strengths(study: AuditedStudy) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """Returns system, control, attribute -> strength and its 95 % interval."""
    every: dict[tuple[str, str], set[str]] = {}
    alone = [part for part in study.fact(judged) if not is_majority(part.judge)]
    for part in alone:
        every.setdefault((part.key.control, part.attribute), set()).add(part.value)
    intervals = {}
    groups = grouped(alone, lambda part: (part.key.system, part.key.control, part.attribute))
    for (system, control, attribute), attribute_parts in groups.items():
        # s, its standard error, texts, of one judge in one cell
        parts = [
            strength
            for group in grouped(attribute_parts, lambda part: (part.key, part.judge)).values()
            if (strength := _strength(group, every[control, attribute])) is not None
        ]
        weight = sum(n for *_, n in parts)
        if weight:
            judges = len({part.judge for part in attribute_parts})
            s = sum(n * s for s, _, n in parts) / weight
            # judges read the same texts, so their errors add up as if equal; those of cells do not
            error = math.sqrt(judges * sum((n * e) ** 2 for _, e, n in parts)) / weight
            intervals[system, control, attribute] = _interval(s, error)
    return _cell_strengths(study) | intervals


def _cell_strengths(study: AuditedStudy) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """Returns strengths from rates over all texts, by judges that are named after an attribute.

    A study of several attributes at once may have published nothing else.
    """
    strengths = {}
    all_targets = {
        part.control: [s.control for cell in part.cells for s in cell.samples]
        for part in study.parts("control")
    }
    for part in study.parts("system"):
        targets = [s.control for cell in part.cells for s in cell.samples]
        for attribute in dict.fromkeys(name for target in targets for name in target):
            values = {target.get(attribute) for target in targets}
            k = len(values)
            rates = [
                (rate.percent / 100, n)
                for cell in part.cells
                for rate in cell.rates
                if rate.judge == attribute and not rate.value and (n := size(cell))
            ]
            # the share right by chance is unknown if a system was asked for some of the values only
            every = {target.get(attribute) for target in all_targets[part.control]}
            if k > 1 and values == every and rates:
                texts = sum(n for _, n in rates)
                b = sum(n * a for a, n in rates) / texts
                s = (b - 1 / k) / (1 - 1 / k)
                smooth = (b * texts + 1) / (texts + 2)
                error = math.sqrt(smooth * (1 - smooth) / texts) / (1 - 1 / k)
                strengths[part.system, part.control, attribute] = _interval(s, error)
    return strengths


def _interval(s: float, error: float) -> tuple[float, float, float]:
    return s, s - 1.96 * error, s + 1.96 * error


def _strength(parts: Sequence[Judged], every: set[str]) -> tuple[float, float, int] | None:
    k = len(parts)
    if k < 2 or any(part.n is None for part in parts):
        return None
    values = {part.value for part in parts}
    n = [part.n or 1 for part in parts]
    if all(part.elsewhere is not None for part in parts):
        # equals the formula for rates when the judge gave no other labels
        s = fmean(part.right - (part.elsewhere or 0) for part in parts)
    elif values == every:
        s = (sum(part.right for part in parts) - 1) / (k - 1)
    else:
        return None
    # adds one right and one wrong text: a share of 0 or 1 of few texts is not certain
    smooth = [(part.right * m + 1) / (m + 2) for part, m in zip(parts, n, strict=True)]
    error = math.sqrt(sum(p * (1 - p) / m for p, m in zip(smooth, n, strict=True))) / (k - 1)
    return s, error, sum(n)
