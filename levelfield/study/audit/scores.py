"""Do scores, votes and results belong to the texts that they stand with?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from statistics import median

from levelfield.study.audit.findings import (
    LEVEL,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    only,
    p_of_shares,
    percent,
)
from levelfield.study.cells import Cell

_ENOUGH = 15
_SHARES = ("control", "keywords", "diversity")
_SAME = 3


def scores_incomplete(study: AuditedStudy) -> list[Finding]:
    """Scores and votes of texts that are not there, and texts without those that others have.

    Compared: the ids of a cell's samples with those that each metric and each judge has; a value
    that is undefined counts as a score. Serious if no sample has an id, or if 5 % of the texts of a
    system lack a metric or a judge that half of the cells of this kind of control have; a warning
    from the first text.
    """
    findings = []
    for cells in study.controls.values():
        with_texts = [cell for cell in cells if cell.samples]
        ids_of = {cell.key: dict(_measured(cell)) for cell in cells}
        names = dict.fromkeys(name for own in ids_of.values() for name in own)
        usual = [
            name
            for name in names
            if 2 * sum(name in ids_of[cell.key] for cell in with_texts) >= len(with_texts) > 0
        ]
        for own in grouped(cells, lambda cell: cell.key.system).values():
            known = {cell.key: {sample.id for sample in cell.samples} for cell in own}
            strange = [
                (name, cell.key)
                for cell in own
                for name, ids in ids_of[cell.key].items()
                if ids - known[cell.key]
            ]
            lacking = {
                name: n
                for name in usual
                if (n := sum(len(known[c.key] - ids_of[c.key].get(name, set())) for c in own))
            }
            where = (own[0].key.system, "", own[0].key.control, None)
            if strange:
                n = sum(len(ids_of[key][name] - known[key]) for name, key in strange)
                what = f"{n:,} values are of no text, e.g. {strange[0][0]} in {strange[0][1]}"
                numbers = (what, n, n)
                findings.append(Finding("scores-incomplete", "serious", *where, *numbers))
            if lacking:
                of = sum(map(len, known.values()))
                name, n = max(lacking.items(), key=lambda item: item[1])
                severity = Limits(0.05, 0).severity(n / of) or "warning"
                more = f" ({len(lacking)} such metrics and judges)" if len(lacking) > 1 else ""
                what = f"{n:,} of {of:,} texts have no value of {name}{more}"
                findings.append(Finding("scores-incomplete", severity, *where, what, n, of))
    return findings


def _measured(cell: Cell) -> Iterator[tuple[str, set[str]]]:
    """Name of a metric or judge, and the ids of the texts that it has a value for."""
    for metric, scores in cell.scores.items():
        yield metric, set(scores)
    for attribute, judges in cell.votes.items():
        wanted = {s.id for s in cell.samples if attribute not in s.control}
        for judge, labels in judges.items():
            # an attribute that was not wanted of a text needs no vote on it
            yield f"judge {judge} of {attribute}", set(labels) | wanted


def scores_strange(study: AuditedStudy) -> list[Finding]:
    """Scores that can't be those of these texts.

    Serious: 10 or more different scores of a metric are the same, text by text, in two cells with
    different texts; or equal texts after the same prompt, 3 or more, have different scores; or all
    scores of a system lie outside of those of all others, as percents beside shares (medians 50 to
    200 times apart) or of the other sign. Outside means by three times their range, or by a factor
    of 3. A warning: scores outside of all others in another way; scores of control, keywords or
    diversity outside 0 to 1; infinite scores; one score for all texts of a system, where others
    have 10; undefined scores of 5 % of a system's texts, where all others have 1 % at most
    (Fisher's p < 1e-7).
    """
    findings = []
    for control, cells in study.controls.items():
        for metric in dict.fromkeys(name for cell in cells for name in cell.scores):
            own = [cell for cell in cells if cell.scores.get(metric)]
            findings += _repeated(control, metric, own)
            findings += _contradicted(control, metric, own)
            scores = {
                system: [v for cell in of for v in cell.scores[metric].values()]
                for system, of in grouped(own, lambda cell: cell.key.system).items()
            }
            for system in scores:
                for severity, what, n in _of_system(metric, system, scores):
                    where = (system, "", control, None)
                    numbers = (f"{metric}: {what}", n, len(scores[system]))
                    findings.append(Finding("scores-strange", severity, *where, *numbers))
    return findings


def _repeated(control: str, metric: str, cells: Sequence[Cell]) -> list[Finding]:
    same: dict[tuple[float, ...], list[Cell]] = {}
    for cell in cells:
        values = tuple(cell.scores[metric].get(sample.id, math.nan) for sample in cell.samples)
        if len(set(values)) >= 10 and not any(map(math.isnan, values)):
            same.setdefault(values, []).append(cell)
    findings = []
    for alike in same.values():
        texts = {tuple(sample.text for sample in cell.samples) for cell in alike}
        if len(texts) > 1:
            told = "; ".join(str(cell.key) for cell in alike[:3])
            what = f"{metric}: {len(alike)} cells with different texts have the same scores: {told}"
            where = (only(cell.key.system for cell in alike), "", control, None)
            numbers = (what, len(alike), len(cells))
            findings.append(Finding("scores-strange", "serious", *where, *numbers))
    return findings


def _contradicted(control: str, metric: str, cells: Sequence[Cell]) -> list[Finding]:
    values: dict[Hashable, set[float]] = {}
    numbers: dict[Hashable, int] = {}
    for cell in cells:
        for sample in cell.samples:
            value = cell.scores[metric].get(sample.id, math.nan)
            if math.isfinite(value) and not (sample.references or sample.source or sample.context):
                text = (sample.text, sample.prompt, tuple(sample.control.items()))
                values.setdefault(text, set()).add(round(value, 5))
                numbers[text] = numbers.get(text, 0) + 1
    equal = [text for text, n in numbers.items() if n > 1]
    differ = [text for text in equal if max(values[text]) - min(values[text]) > 1e-3]
    if len(differ) < max(_SAME, len(equal) / 2):
        return []
    what = f"{metric}: {len(differ)} of {len(equal)} texts that are there twice have two scores"
    where = (only(cell.key.system for cell in cells), "", control, None)
    return [Finding("scores-strange", "serious", *where, what, len(differ), len(equal))]


def _of_system(
    metric: str, system: str, scores: Mapping[str, Sequence[float]]
) -> Iterator[tuple[Severity, str, int]]:
    own = scores[system]
    others = {name: of for name, of in scores.items() if name != system}
    finite = [value for value in own if math.isfinite(value)]
    if infinite := sum(map(math.isinf, own)):
        yield "warning", f"{infinite} scores are infinite", infinite
    outside = [value for value in finite if not 0 <= value <= 1]
    if outside and metric.startswith(_SHARES):
        told = f"{min(outside):.3g} to {max(outside):.3g}"
        yield "warning", f"{len(outside)} scores lie outside 0 to 1: {told}", len(outside)
    if len(own) < _ENOUGH or not others or not all(len(of) >= _ENOUGH for of in others.values()):
        return
    undefined = sum(map(math.isnan, own))
    usual = {name: sum(map(math.isnan, of)) for name, of in others.items()}
    if undefined >= 0.05 * len(own) and all(
        n <= 0.01 * len(others[name])
        and p_of_shares(undefined, len(own), n, len(others[name])) < LEVEL
        for name, n in usual.items()
    ):
        yield "warning", f"{percent(undefined, len(own))} of the scores are undefined", undefined
    beside = [value for of in others.values() for value in of if math.isfinite(value)]
    if not finite or not beside:
        return
    low, high = min(beside), max(beside)
    far = 3 * (high - low)
    beyond = min(finite) > high + far or max(finite) < low - far
    # of positive scores, a factor
    beyond |= low > 0 < min(finite) and (max(finite) < low / 3 or min(finite) > 3 * high)
    if high > low and beyond:
        told = f"median {median(finite):.4g}, where those of other systems lie from {low:.4g} to"
        if _is_rescaled(finite, beside):
            yield "serious", f"scores are of another scale: {told} {high:.4g}", len(finite)
        else:
            yield "warning", f"scores lie outside of all others: {told} {high:.4g}", len(finite)
    if len(set(finite)) == 1 and all(len(set(of)) >= 10 for of in others.values()):
        yield "warning", f"all scores are {finite[0]:.4g}", len(finite)


def _is_rescaled(own: Sequence[float], others: Sequence[float]) -> bool:
    """Whether scores are as if in percent beside shares, or of the other sign."""
    if max(own) < 0 < min(others) or max(others) < 0 < min(own):
        return True
    one, other = sorted((abs(median(own)), abs(median(others))))
    return 50 * one <= other <= 200 * one and one > 0
