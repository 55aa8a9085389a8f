"""Do scores, votes and results belong to the texts that they stand with?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from statistics import median

from levelfield.study.audit.findings import (
    LEVEL,
    Fault,
    Faults,
    Limits,
    Severity,
    StudyPart,
    check,
    only,
    p_of_shares,
    percent,
)
from levelfield.study.cells import Cell, grouped

_ENOUGH = 15
_SHARES = ("control", "keywords", "diversity")
_SAME = 3


@check("scores-incomplete", per="control", limits=Limits(0.05, 0))
def scores_incomplete(part: StudyPart) -> Faults:
    """Scores and votes of texts that are not there, and texts without those that others have.

    Compared: the ids of a cell's samples with those that each metric and each judge has; a value
    that is undefined counts as a score. Serious if no sample has an id, or if 5 % of the texts of a
    system lack a metric or a judge that half of the cells of this kind of control have; a warning
    from the first text.
    """
    with_texts = [cell for cell in part.cells if cell.samples]
    ids_of = {cell.key: dict(_measured(cell)) for cell in part.cells}
    names = dict.fromkeys(name for ids in ids_of.values() for name in ids)
    usual = [
        name
        for name in names
        if 2 * sum(name in ids_of[cell.key] for cell in with_texts) >= len(with_texts) > 0
    ]
    for system, cells in part.cells_of_systems.items():
        sample_ids = {cell.key: {sample.id for sample in cell.samples} for cell in cells}
        strange = [
            (name, key, len(excess))
            for key in sample_ids
            for name, ids in ids_of[key].items()
            if (excess := ids - sample_ids[key])
        ]
        lacking = +Counter(
            {
                name: sum(len(ids - ids_of[k].get(name, set())) for k, ids in sample_ids.items())
                for name in usual
            }
        )
        if strange:
            n = sum(excess for *_, excess in strange)
            told = f"{n:,} values are of no text, e.g. {strange[0][0]} in {strange[0][1]}"
            yield Fault("serious", told, n, n, (), system)
        if lacking:
            total = sum(map(len, sample_ids.values()))
            name, n = lacking.most_common(1)[0]
            more = f" ({len(lacking)} such metrics and judges)" if len(lacking) > 1 else ""
            told = f"{n:,} of {total:,} texts have no value of {name}{more}"
            yield Fault(n / total, told, n, total, (), system)


def _measured(cell: Cell) -> Iterator[tuple[str, set[str]]]:
    """Name of a metric or judge, and the ids of the texts that it has a value for."""
    for metric, scores in cell.scores.items():
        yield metric, set(scores)
    for attribute, judges in cell.votes.items():
        free = {s.id for s in cell.samples if attribute not in s.control}
        for judge, labels in judges.items():
            # an attribute that was not wanted of a text needs no vote on it
            yield f"judge {judge} of {attribute}", set(labels) | free


@check("scores-strange", per="control")
def scores_strange(part: StudyPart) -> Faults:
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
    for metric in dict.fromkeys(name for cell in part.cells for name in cell.scores):
        cells = [cell for cell in part.cells if cell.scores.get(metric)]
        yield from _repeated(metric, cells)
        yield from _contradicted(metric, cells)
        scores = {
            system: [v for cell in system_cells for v in cell.scores[metric].values()]
            for system, system_cells in grouped(cells, lambda cell: cell.key.system).items()
        }
        for system in scores:
            for severity, told, n in _of_system(metric, system, scores):
                yield Fault(severity, f"{metric}: {told}", n, len(scores[system]), (), system)


def _repeated(metric: str, cells: Sequence[Cell]) -> Faults:
    same: dict[tuple[float, ...], list[Cell]] = {}
    for cell in cells:
        values = tuple(cell.scores[metric].get(sample.id, math.nan) for sample in cell.samples)
        if len(set(values)) >= 10 and not any(map(math.isnan, values)):
            same.setdefault(values, []).append(cell)
    for alike in same.values():
        texts = {tuple(sample.text for sample in cell.samples) for cell in alike}
        if len(texts) > 1:
            told = "; ".join(str(cell.key) for cell in alike[:3])
            text = f"{metric}: {len(alike)} cells with different texts have the same scores: {told}"
            system = only(cell.key.system for cell in alike)
            yield Fault("serious", text, len(alike), len(cells), (), system)


def _contradicted(metric: str, cells: Sequence[Cell]) -> Faults:
    values: dict[Hashable, list[float]] = {}
    for cell in cells:
        for sample in cell.samples:
            value = cell.scores[metric].get(sample.id, math.nan)
            if math.isfinite(value) and not (sample.references or sample.source or sample.context):
                text = (sample.text, sample.prompt, tuple(sample.control.items()))
                values.setdefault(text, []).append(round(value, 5))
    equal = [group for group in values.values() if len(group) > 1]
    differ = [group for group in equal if max(group) - min(group) > 1e-3]
    k, n = len(differ), len(equal)
    if k >= max(_SAME, n / 2):
        told = f"{metric}: {k} of {n} texts that are there twice have two scores"
        yield Fault("serious", told, k, n, (), only(cell.key.system for cell in cells))


def _of_system(
    metric: str, system: str, scores: Mapping[str, Sequence[float]]
) -> Iterator[tuple[Severity, str, int]]:
    values = scores[system]
    others = [group for name, group in scores.items() if name != system]
    finite = [value for value in values if math.isfinite(value)]
    if infinite := sum(map(math.isinf, values)):
        yield "warning", f"{infinite} scores are infinite", infinite
    outside = [value for value in finite if not 0 <= value <= 1]
    if outside and metric.startswith(_SHARES):
        told = f"{min(outside):.3g} to {max(outside):.3g}"
        yield "warning", f"{len(outside)} scores lie outside 0 to 1: {told}", len(outside)
    if not others or min(map(len, scores.values())) < _ENOUGH:
        return
    undefined = sum(map(math.isnan, values))
    usual = [(sum(map(math.isnan, group)), len(group)) for group in others]
    if undefined >= 0.05 * len(values) and all(
        n <= 0.01 * total and p_of_shares(undefined, len(values), n, total) < LEVEL
        for n, total in usual
    ):
        yield "warning", f"{percent(undefined, len(values))} of the scores are undefined", undefined
    beside = [value for group in others for value in group if math.isfinite(value)]
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
    if len(set(finite)) == 1 and all(len(set(group)) >= 10 for group in others):
        yield "warning", f"all scores are {finite[0]:.4g}", len(finite)


def _is_rescaled(values: Sequence[float], others: Sequence[float]) -> bool:
    """Whether scores are as if in percent beside shares, or of the other sign."""
    if max(values) < 0 < min(others) or max(others) < 0 < min(values):
        return True
    low, high = sorted((abs(median(values)), abs(median(others))))
    return 50 * low <= high <= 200 * low and low > 0
