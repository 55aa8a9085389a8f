"""Do scores, votes and results belong to their texts?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean, median

import numpy as np
import scipy

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
_FACTOR = 5
_LOGARITHM = 0.25


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
            sentence = f"{n:,} values belong to no text, e.g. {strange[0][0]} in {strange[0][1]}"
            yield Fault("serious", sentence, n, n, (), system)
        if lacking:
            total = sum(map(len, sample_ids.values()))
            name, n = lacking.most_common(1)[0]
            more = f" ({len(lacking)} such metrics and judges)" if len(lacking) > 1 else ""
            sentence = f"{n:,} of {total:,} texts have no value of {name}{more}"
            yield Fault(n / total, sentence, n, total, (), system)


def _measured(cell: Cell) -> Iterator[tuple[str, set[str]]]:
    """Yields the name of a metric or judge, and the ids of the texts with a value."""
    for metric, scores in cell.scores.items():
        yield metric, set(scores)
    for attribute, judges in cell.votes.items():
        free = {s.id for s in cell.samples if attribute not in s.control}
        for judge, labels in judges.items():
            # an attribute that was not wanted of a text needs no vote on it
            yield f"judge {judge} of {attribute}", set(labels) | free


@check("scores-strange", per="control")
def scores_strange(part: StudyPart) -> Faults:
    """Scores that can't belong to these texts.

    Serious: 10 or more different scores of a metric are the same, text by text, in two cells with
    different texts; or equal texts after the same prompt, 3 or more, have different scores; or all
    scores of a system lie outside of those of all others, as percents beside shares (medians 50 to
    200 times apart) or of the other sign. Outside means by three times their range, or by a factor
    of 3. A warning: scores outside of all others in another way; scores of control, keywords or
    diversity outside 0 to 1; infinite scores; one score for all texts of a system, where others
    have 10; undefined scores of 5 % of a system's texts, where all others have 1 % at most
    (Fisher's p < 1e-7). A warning too: medians of positive scores of two systems five times apart
    whose middle 98 % do not overlap, and serious if one median is the logarithm of the other, but
    for 25 %; and one score for all texts of all systems. One score of a system counts where texts
    of others have it with share q ≤ 0.5 and q^n < 1e-7.
    """
    for metric in dict.fromkeys(name for cell in part.cells for name in cell.scores):
        cells = [cell for cell in part.cells if cell.scores.get(metric)]
        yield from _repeated(metric, cells)
        yield from _contradicted(metric, cells)
        scores = {
            system: [v for cell in system_cells for v in cell.scores[metric].values()]
            for system, system_cells in grouped(cells, lambda cell: cell.key.system).items()
        }
        finite = [v for values in scores.values() for v in values if math.isfinite(v)]
        if len(scores) > 1 and len(finite) >= _ENOUGH and min(finite) == max(finite):
            sentence = f"{metric}: all scores of all systems are {finite[0]:.4g}"
            yield Fault("warning", sentence, len(finite), len(finite))
            continue
        for system in scores:
            for severity, sentence, n in _strange_scores(metric, system, scores):
                yield Fault(severity, f"{metric}: {sentence}", n, len(scores[system]), (), system)


def _repeated(metric: str, cells: Sequence[Cell]) -> Faults:
    same: dict[tuple[float, ...], list[Cell]] = {}
    for cell in cells:
        values = tuple(cell.scores[metric].get(sample.id, math.nan) for sample in cell.samples)
        if len(set(values)) >= 10 and not any(map(math.isnan, values)):
            same.setdefault(values, []).append(cell)
    for alike in same.values():
        texts = {tuple(sample.text for sample in cell.samples) for cell in alike}
        if len(texts) > 1:
            keys = "; ".join(str(cell.key) for cell in alike[:3])
            text = f"{metric}: {len(alike)} cells with different texts have the same scores: {keys}"
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
        sentence = f"{metric}: {k} of {n} texts that occur twice have two scores"
        yield Fault("serious", sentence, k, n, (), only(cell.key.system for cell in cells))


def _strange_scores(
    metric: str, system: str, scores: Mapping[str, Sequence[float]]
) -> Iterator[tuple[Severity, str, int]]:
    values = scores[system]
    others = [group for name, group in scores.items() if name != system]
    finite = [value for value in values if math.isfinite(value)]
    if infinite := sum(map(math.isinf, values)):
        yield "warning", f"{infinite} scores are infinite", infinite
    outside = [value for value in finite if not 0 <= value <= 1]
    if outside and metric.startswith(_SHARES):
        numbers = f"{min(outside):.3g} to {max(outside):.3g}"
        yield "warning", f"{len(outside)} scores lie outside 0 to 1: {numbers}", len(outside)
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
        numbers = f"median {median(finite):.4g}, where those of other systems lie from {low:.4g} to"
        if _is_rescaled(finite, beside):
            yield "serious", f"scores are of another scale: {numbers} {high:.4g}", len(finite)
        else:
            yield "warning", f"scores lie outside of all others: {numbers} {high:.4g}", len(finite)
    elif (apart := _far_apart(finite, others)) is not None:
        yield apart[0], f"{apart[1]}: {_told(finite, beside)}", len(finite)
    usual_share = max(sum(v == finite[0] for v in group) / len(group) for group in others)
    if len(set(finite)) == 1 and usual_share <= 0.5 and usual_share ** len(finite) < LEVEL:
        yield "warning", f"all scores are {finite[0]:.4g}", len(finite)


def _told(values: Sequence[float], others: Sequence[float]) -> str:
    return f"median {median(values):.4g}, and {median(others):.4g} of the other systems"


def _far_apart(
    values: Sequence[float], others: Sequence[Sequence[float]]
) -> tuple[Severity, str] | None:
    """Returns whether positive scores are all below, or above, nearly all of every other system.

    Below: the odd one of two systems is the one with small scores.
    """
    groups = [[value for value in group if math.isfinite(value)] for group in others]
    groups = [group for group in groups if group]
    if not groups or min(values) <= 0 or min(map(min, groups)) <= 0:
        return None
    high = float(np.quantile(values, 0.99))
    least = min(float(np.quantile(group, 0.01)) for group in groups)
    middle = median(values)
    nearest = min(map(median, groups))
    if high >= least or nearest < _FACTOR * middle:
        return None
    usual = median(v for group in groups for v in group)
    if usual > 1 and abs(middle / math.log(usual) - 1) <= _LOGARITHM:
        return "serious", "scores look like the logarithms of those of other systems"
    return "warning", "scores do not overlap with those of other systems"


def _is_rescaled(values: Sequence[float], others: Sequence[float]) -> bool:
    """Returns whether scores look like percents beside shares, or have the other sign."""
    if max(values) < 0 < min(others) or max(others) < 0 < min(values):
        return True
    low, high = sorted((abs(median(values)), abs(median(others))))
    return 50 * low <= high <= 200 * low and low > 0


_AVERAGE = "control.average"
_WRONG = 0.05


@check("scores-contradict-votes", per="system", limits=Limits(_WRONG, 0.01))
def scores_contradict_votes(part: StudyPart) -> Faults:
    """Texts whose `control.average` is not the share of the judges' votes that are the wanted one.

    Compared for controls of one value per attribute, by the votes of all their judges, as the score
    is defined. Serious from 5 % of the texts on, a warning from 1 % and 3 texts: scores belong to
    other texts, other systems or other votes.
    """
    wrong, total = 0, 0
    for cell in part.cells:
        scores = cell.scores.get(_AVERAGE, {})
        for sample in cell.samples:
            value = scores.get(sample.id, math.nan)
            right = [
                labels[sample.id] == sample.control[attribute]
                for attribute, judges in cell.votes.items()
                if isinstance(sample.control.get(attribute), str)
                for labels in judges.values()
                if sample.id in labels
            ]
            several = any(isinstance(sample.control.get(a), tuple) for a in cell.votes)
            if right and not several and math.isfinite(value):
                total += 1
                wrong += abs(value - fmean(right)) > 0.005
    if wrong >= _SAME:
        text = (
            f"{_AVERAGE}: {wrong:,} of {total:,} scores ({percent(wrong, total)}) are not the "
            "share of the votes beside them for the wanted value"
        )
        yield Fault(wrong / total, text, wrong, total)


_CLOSE = 0.3
_NONE = 0.1


@check("scores-strange", per="control")
def scores_exchanged(part: StudyPart) -> Faults:
    """Scores of two systems that match each other's texts and not their own.

    Compared, request by request: Spearman's ρ of the scores of a system with the number of words
    of its texts, and with that of another system's. Serious where both systems have |ρ| < 0.1 with
    their own texts and more than 0.3 with each other's, with p < 1e-7 for both. Silent below 30
    requests that both answered, and for scores that do not depend on length.
    """
    lengths: dict[str, dict[Hashable, int]] = {}
    scores: dict[str, dict[str, dict[Hashable, float]]] = {}
    for cell in part.cells:
        for text in part.study.texts[cell.key]:
            place = (*cell.key[1:], text.request)
            lengths.setdefault(cell.key.system, {})[place] = text.length
            for metric, values in cell.scores.items():
                value = values.get(text.sample.id, math.nan)
                if math.isfinite(value):
                    system_scores = scores.setdefault(metric, {}).setdefault(cell.key.system, {})
                    system_scores[place] = value
    for metric, metric_scores in scores.items():
        rhos = {name: _rho(values, lengths[name])[0] for name, values in metric_scores.items()}
        # a system whose scores go with its own texts can't be one of two that were exchanged
        loose = [system for system, rho in rhos.items() if abs(rho) < _NONE]
        for system, other in combinations(loose, 2):
            crossed = [
                _rho(metric_scores[a], lengths[b]) for a, b in ((system, other), (other, system))
            ]
            if all(abs(rho) > _CLOSE and p < LEVEL for rho, p in crossed):
                sentence = f"{metric}: scores of {system} and {other} match each other's texts: ρ "
                sentence += f"with the length {crossed[0][0]:.2f} and {crossed[1][0]:.2f}, and "
                sentence += f"{rhos[system]:.2f} and {rhos[other]:.2f} with that of their own"
                n = len(metric_scores[system])
                yield Fault("serious", sentence, n, n)


def _rho(values: Mapping[Hashable, float], lengths: Mapping[Hashable, int]) -> tuple[float, float]:
    """Returns Spearman's ρ and p over the requests of both; 1 and 1 where they are too few."""
    places = [place for place in values if place in lengths]
    x, y = [values[place] for place in places], [lengths[place] for place in places]
    if len(places) < 2 * _ENOUGH or len(set(x)) < 3 or len(set(y)) < 3:
        return 1.0, 1.0
    test = scipy.stats.spearmanr(x, y)
    return float(test.statistic), float(test.pvalue)
