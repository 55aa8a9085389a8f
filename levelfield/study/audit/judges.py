"""Can the judges be trusted, and were their verdicts used correctly?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean, median

from levelfield.core.scores import EMPTY
from levelfield.stats.kappa import kappa_of_labels
from levelfield.study.audit.completeness import values_asked
from levelfield.study.audit.findings import (
    EXAMPLES,
    LEVEL,
    Fault,
    Faults,
    Limits,
    Severity,
    StudyPart,
    check,
    common,
    only,
    p_of_shares,
    percent,
)
from levelfield.study.audit.judged import (
    Judged,
    Right,
    is_majority,
    judged,
    rights,
    size,
    strengths,
)
from levelfield.study.cells import Cell, CellKey, grouped

_LIKELY = 0.3
_ENOUGH_TEXTS = 50


@check("control-changes-nothing", per="system", limits=Limits(0.5, 0.1))
def same_for_all_values(part: StudyPart) -> Faults:
    """The same text for different wanted values of a prompt.

    Serious from half of the prompts on, a warning from a tenth. Systems that ignore control by
    design are left out.
    """
    same, total = [], 0
    for cell in part.cells:
        if cell.ignores_control:
            continue
        prompts = grouped(part.study.texts[cell.key], lambda text: text.sample.prompt)
        for texts in prompts.values():
            values = {tuple(text.sample.control.items()) for text in texts}
            if len(values) > 1 and any(text.written for text in texts):
                total += 1
                if len({text.sample.text for text in texts}) == 1:
                    same.append(texts[0])
    n = len(same)
    if total:
        share = percent(n, total)
        sentence = f"{n:,} of {total:,} prompts ({share}) have one text for all wanted values"
        yield Fault(n / total, sentence, n, total, same[:EXAMPLES])


@check("control-changes-nothing", per="study")
def control_changes_nothing(part: StudyPart) -> Faults:
    """Control without effect: texts do not show the requested values.

    Strength s = (b − 1/K) / (1 − 1/K), b the mean over the K values of the share found right, so
    0 for texts written without a requested value and 1 for texts that are always right, whatever
    a judge prefers; mean over judges, cells weighted by their texts, 95 % interval from binomial
    errors (judges taken as one, since they read the same texts). Serious if the interval lies below
    0.1, or below 0 (control works backwards); a warning if it only reaches 0, a note where s is
    0.3 or more all the same, and below 50 texts (too few to decide). Silent for systems that ignore
    control by design, where neither votes nor rates and the number of texts are known, and for
    rates of systems that were asked for some values only, where the votes for the others are
    unknown.
    """
    sizes: Counter[tuple[str, str]] = Counter()
    ignoring = {cell.key.system for cell in part.cells if cell.ignores_control}
    for cell in part.cells:
        sizes[cell.key.system, cell.key.control] += size(cell)
    for (name, control, attribute), interval in part.study.fact(strengths).items():
        if name in ignoring:
            continue
        s, low, high = interval
        texts = sizes[name, control]
        about = f"{attribute}: " if attribute != control else ""
        numbers = f"strength {s:.2f} (95 % interval {low:.2f} to {high:.2f}; 0 is none, 1 is full)"
        severity: Severity = "serious"
        if high < 0:
            sentence = f"control works backwards: {numbers}"
        elif high < 0.1:
            sentence = f"control changes nothing: {numbers}"
        elif low <= 0:
            severity = "warning" if s < _LIKELY and texts >= _ENOUGH_TEXTS else "note"
            sentence = f"control can't be distinguished from none: {numbers}"
        else:
            continue
        yield Fault(severity, about + sentence, texts, texts, (), name, None, control)


Pairs = Counter[tuple[str, str]]
"""Wanted value and label -> number of texts."""


@check("labels-swapped", per="system")
def labels_swapped(part: StudyPart) -> Faults:
    """Values that judges find exchanged: texts asked for one are found to be another.

    Looked at: each cell of a system, each dataset, and all. Most texts that were asked for a are
    called b by a judge, more than of those that were asked for b (Fisher's p < 1e-7), and these are
    mostly called something else as well. Serious: labels were exchanged in the requests, in the
    texts or for the judges, and what is found right is wrong. With two values, rates are enough; a
    system that is wrong as a whole is a case of `control-changes-nothing`. One finding a system and
    kind of control.
    """
    cells = part.cells
    swaps = [
        (group, judge, a, b, pairs)
        for group in _parts(cells)
        for judge, pairs in _confusions(group, part.study.fact(rights)).items()
        for a, b in _swapped(pairs)
    ]
    # of two values, all exchanged are control that works backwards
    whole = any(group is cells for group, *_ in swaps)
    if swaps and not (whole and _two_values(cells)):
        _, judge, a, b, pairs = swaps[0]
        hits = {cell.key: cell for group, *_ in swaps for cell in group}
        shares = [percent(pairs[x, b], _asked(pairs, x)) for x in (a, b)]
        sentence = (
            f"values are exchanged: {judge} gives {shares[0]} of the texts requested with {a} "
            f"the label {b}"
        )
        sentence += f", but {shares[1]} of those requested with {b}"
        n, total = (sum(map(size, group)) for group in (hits.values(), cells))
        dataset, seed = common(hits, (cell.key for cell in cells))
        yield Fault("serious", sentence, n, total, dataset=dataset, seed=seed)


def _parts(cells: Sequence[Cell]) -> Sequence[Sequence[Cell]]:
    """Returns each cell, each dataset, and all."""
    datasets = grouped(cells, lambda cell: cell.key.dataset).values()
    return [*([cell] for cell in cells), *datasets, cells]


def _two_values(cells: Sequence[Cell]) -> bool:
    return len(set().union(*map(values_asked, cells))) == 2


def _confusions(cells: Sequence[Cell], right: Mapping[CellKey, Right]) -> Mapping[str, Pairs]:
    """Returns judge -> its labels of the texts; from rates, with two values."""
    pairs: dict[str, Pairs] = {}
    for cell in cells:
        for attribute, judges in cell.votes.items():
            for judge, labels in judges.items():
                counts = pairs.setdefault(judge, Counter())
                for sample in cell.samples:
                    target = sample.control.get(attribute)
                    if isinstance(target, str) and sample.id in labels:
                        counts[target, labels[sample.id]] += 1
        if not cell.votes:
            rates = right.get(cell.key, {})
            for judge, judge_values in grouped(rates, lambda rate: rate[0]).items():
                values = [value for _, value in judge_values]
                if len(values) == 2:
                    counts = pairs.setdefault(judge, Counter())
                    for value, other in (values, values[::-1]):
                        yes, n = rates[judge, value]
                        counts[value, value] += yes
                        counts[value, other] += n - yes
    return pairs


def _swapped(pairs: Pairs) -> list[tuple[str, str]]:
    """Values a and b: texts asked for a are b, and those asked for b are not."""
    values = sorted({target for target, _ in pairs})
    totals = {value: _asked(pairs, value) for value in values}
    usual = {a: max(values, key=lambda label: pairs[a, label]) for a in values}
    return [
        (a, b)
        for a, b in usual.items()
        if a != b != usual[b]
        and pairs[a, b] * totals[b] > pairs[b, b] * totals[a]
        and p_of_shares(pairs[a, b], totals[a], pairs[b, b], totals[b]) < LEVEL
    ]


def _asked(pairs: Pairs, value: str) -> int:
    return sum(n for (target, _), n in pairs.items() if target == value)


_OF_JUDGES = "control."
_ROUNDING = 0.05
_ENOUGH = 100


@check("majority-is-none", per="study")
def majority_is_none(part: StudyPart) -> Faults:
    """Rates called majority that no majority of the judges can have.

    Of J judges who find shares a_1 … a_J right, h = ⌈J / 2⌉ can agree on at most
    min over k < h of (sum of the J − k smallest a) / (h − k) of the texts; the same for being wrong
    gives the least. With more than two values texts may have no majority, so only the least holds.
    Serious from the first rate outside, by more than 0.05 points for rounding. Also named: the
    alphabetically last value never below the best judge and the first never above the worst, over 6
    cells or more: each text has been given the last label that any judge gave. That alone is a
    warning.
    """
    groups = grouped(part.study.fact(judged), lambda row: (row.key.control, row.attribute))
    for (control, _), rows in groups.items():
        outside: list[tuple[float, str, str]] = []
        ends: list[bool] = []
        n = 0
        for key, cell_rows in grouped(rows, lambda row: row.key).items():
            values = grouped(cell_rows, lambda row: row.value)
            first, last = min(values), max(values)
            for value, value_rows in values.items():
                m = next((100 * row.right for row in value_rows if is_majority(row.judge)), None)
                a = [100 * row.right for row in value_rows if not is_majority(row.judge)]
                if m is None or len(a) < 2:
                    continue
                n += 1
                low, high = majority_bounds(a)
                if len(values) > 2:
                    high = 100.0
                if not low - _ROUNDING <= m <= high + _ROUNDING:
                    side = f"at most {high:.1f}" if m > high else f"at least {low:.1f}"
                    judges = " / ".join(f"{p:.1f}" for p in a)
                    case = f"{key}, {value}: {m:.1f}, {side} from {judges}"
                    outside.append((max(low - m, m - high), case, key.system))
                if value == last != first:
                    ends.append(m >= max(a) - _ROUNDING)
                elif value == first != last:
                    ends.append(m <= min(a) + _ROUNDING)
        sentences = []
        if outside:
            sentences.append(
                f"{len(outside)} of {n} rates of the majority are impossible for a majority of the "
                f"judges, e.g. {max(outside)[1]}"
            )
        if len(ends) >= 12 and all(ends):
            sentences.append(
                f"in all {len(ends) // 2} cells the alphabetically last value is never below the "
                "best judge and the first never above the worst, as if one vote for the last were "
                "enough"
            )
        if sentences:
            severity: Severity = "serious" if outside else "warning"
            system = only(system for *_, system in outside)
            yield Fault(severity, "; ".join(sentences), len(outside), n, (), system, None, control)


def majority_bounds(a: Sequence[float]) -> tuple[float, float]:
    """Returns the least and most percent that a majority of judges with these can find right.

    For two values and any way in which the judges' errors fall together; with an even number of
    judges a tie may count as right or as wrong.

    >>> majority_bounds([65.7, 68.6, 51.4])
    (42.85, 92.85)
    """
    return 100 - _most([100 - p for p in a]), _most(a)


def _most(a: Sequence[float]) -> float:
    """Returns the largest share of texts on which h = ⌈J / 2⌉ of the judges can agree."""
    smallest = sorted(a)
    h = math.ceil(len(a) / 2)
    bounds = (sum(smallest[: len(a) - k]) / (h - k) for k in range(h))
    return min(100.0, *(round(bound, 9) for bound in bounds))


@check("mixed-scales", per="control")
def mixed_scales(part: StudyPart) -> Faults:
    """Values of one kind of measure, some as shares (0 to 1) and others in percent.

    Looked for among the judges of a kind of control, and among the systems for each metric of
    groups: all values of one at most 1 and above 0.02 in the mean, and another with values above
    1.5 that are 30 to 300 times as large in the median. Serious: a mean over both is nonsense.
    """
    rates = grouped((r for cell in part.cells for r in cell.rates), lambda rate: rate.judge)
    judges = {judge: [rate.percent for rate in group] for judge, group in rates.items()}
    groups = grouped((g for cell in part.cells for g in cell.groups), lambda group: group.metric)
    for metric, values in groups.items():
        if metric.startswith(_OF_JUDGES):
            judges[metric.removeprefix(_OF_JUDGES)] = [group.value for group in values]
    yield from _mixed("judge", "", judges)
    for metric in groups:
        if not metric.startswith(_OF_JUDGES):
            systems = {
                system: [g.value for cell in cells for g in cell.groups if g.metric == metric]
                for system, cells in part.cells_of_systems.items()
            }
            yield from _mixed("system", f" of {metric}", systems)


def _mixed(kind: str, measure: str, values: Mapping[str, list[float]]) -> Faults:
    small, large = _in_shares(values)
    if not small:
        return
    ranges = {n: f"{min(values[n]):.3g} to {max(values[n]):.3g}" for n in (*small, large[0])}
    shares = ", ".join(f"{name} ({ranges[name]})" for name in small)
    sentence = (
        f"values{measure} between 0 and 1: {kind} {shares}; "
        f"in percent: {len(large)} others, e.g. {large[0]} ({ranges[large[0]]})"
    )
    system = only(small) if kind == "system" else ""
    yield Fault("serious", sentence, len(small), len(values), (), system)


def _in_shares(values: Mapping[str, Sequence[float]]) -> tuple[list[str], list[str]]:
    """Returns the names whose values are shares, and those in percent, where there are both."""
    finite = {name: [v for v in group if math.isfinite(v)] for name, group in values.items()}
    finite = {name: group for name, group in finite.items() if group}
    small = [
        n
        for n, group in finite.items()
        if min(group) >= 0 and max(group) <= 1 and fmean(group) > 0.02
    ]
    large = [n for n, group in finite.items() if min(group) >= 0 and max(group) > 1.5]
    if not (small and large):
        return [], []
    middle = [median(v for name in names for v in finite[name]) for names in (small, large)]
    return (small, large) if 30 <= middle[1] / max(middle[0], 1e-9) <= 300 else ([], [])


@check("judge-biased", per="study", limits=Limits(0.2, 0.1))
def judge_biased(part: StudyPart) -> Faults:
    """A judge that prefers a value far more than the other judges of the same texts do.

    Preference for a value: the share found right among texts asked for it, minus the mean over
    values. It is compared with the median judge's, on the systems whose control changes nothing if
    there are any, where only preference is left, else on all. A warning from 0.1 on (with two
    values: 20 points between them), serious from 0.2 on. Silent with fewer than 3 judges, since
    nobody knows which of two is right, with fewer than 100 texts a value, and for cells where not
    all values were asked for.
    """
    study = part.study
    alone = [row for row in study.fact(judged) if not is_majority(row.judge)]
    without = {key for key, (_, _, high) in study.fact(strengths).items() if high < 0.1}
    groups = grouped(alone, lambda row: (row.key.control, row.attribute))
    for (control, attribute), all_rows in groups.items():
        idle = [row for row in all_rows if (row.key.system, control, attribute) in without]
        rows = idle or all_rows
        preferences = _preferences(rows)
        texts = min(
            sum(row.n or _ENOUGH for row in group)
            for group in grouped(rows, lambda row: (row.judge, row.value)).values()
        )
        if len(preferences) < 3 or texts < _ENOUGH:
            continue
        systems = sorted({row.key.system for row in rows})
        about = f"texts of {systems[0]}" if len(systems) == 1 else f"{len(systems)} systems"
        about += ", whose control changes nothing" if idle else ""
        biased: dict[str, tuple[float, str]] = {}
        for value in next(iter(preferences.values())):
            middle = median(preference[value] for preference in preferences.values())
            for judge, preference in preferences.items():
                apart = preference[value] - middle
                biased[judge] = max(biased.get(judge, (0.0, "")), (apart, value))
        for judge, (apart, value) in biased.items():
            right = _shares_right(rows, judge)
            shares = ", ".join(f"{v} {percent(s, 1)}" for v, s in right.items())
            sentence = (
                f"{judge} prefers {value} by {100 * apart:.0f} points more than the median judge "
                f"on {about}; it finds right: {shares}"
            )
            yield Fault(apart, sentence, 1, len(preferences), control=control)


def _preferences(rows: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Returns judge -> value -> share right minus the mean over values, in cells that have all."""
    values = {row.value for row in rows}
    whole = [
        row
        for group in grouped(rows, lambda row: (row.key, row.judge)).values()
        if {row.value for row in group} == values and len(values) > 1
        for row in group
    ]
    preferences = {}
    for judge in dict.fromkeys(row.judge for row in whole):
        shares = _shares_right(whole, judge)
        mean = fmean(shares.values())
        preferences[judge] = {value: share - mean for value, share in shares.items()}
    return preferences


def _shares_right(rows: Sequence[Judged], judge: str) -> dict[str, float]:
    values = grouped((row for row in rows if row.judge == judge), lambda row: row.value)
    return {value: fmean(row.right for row in group) for value, group in values.items()}


@check("judges-disagree", per="control")
def judges_disagree(part: StudyPart) -> Faults:
    """Weak judges: one agrees with the others little more than by chance.

    Cohen's κ of labels, (o − e) / (1 − e), over all texts that two judges voted on, o the share
    with equal labels, e what their shares of labels make likely; a warning if a pair has κ < 0.4.
    It is never serious: votes and shares are correct for these judges, but their errors drown
    differences of systems. One finding an attribute. Silent below 100 texts with votes.
    """
    for attribute in dict.fromkeys(name for cell in part.cells for name in cell.votes):
        votes: dict[str, dict[str, str]] = {}
        for cell in part.cells:
            for judge, labels in cell.votes.get(attribute, {}).items():
                votes.setdefault(judge, {}).update(labels)
        kappas = {pair: _kappa(*(votes[j] for j in pair)) for pair in combinations(votes, 2)}
        defined = {pair: (k, n) for pair, (k, n) in kappas.items() if not math.isnan(k)}
        low = {pair: (k, n) for pair, (k, n) in defined.items() if k < 0.4 and n >= _ENOUGH}
        if not low:
            continue
        (judge, other), (kappa, n) = min(low.items(), key=lambda item: item[1][0])
        pairs = ", ".join(f"{a} and {b} {k:.2f}" for (a, b), (k, _) in defined.items())
        sentence = (
            f"{attribute}: weak judges, {judge} and {other} agree little more than by chance "
            f"(κ of labels {kappa:.2f}); κ of labels of all pairs over {n:,} texts: {pairs}"
        )
        yield Fault("warning", sentence, len(low), len(defined))


def _kappa(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[float, int]:
    """Returns Cohen's κ over the texts that both read, NaN with one label; and their number."""
    ids = sorted(id for id in first.keys() & second.keys() if first[id] != EMPTY)
    labels = ([votes[id] for id in ids] for votes in (first, second))
    return kappa_of_labels(*labels), len(ids)


@check("judges-disagree", per="control")
def rates_differ(part: StudyPart) -> Faults:
    """Judges whose rates differ, where no votes are known.

    Only the least disagreement is known then: two judges who find a and b right differ on |a − b|
    of the texts at least; a warning where that is 0.15 in the mean over cells and values.
    """
    rated = [
        row
        for row in part.study.fact(judged)
        if row.key.control == part.control and row.elsewhere is None and not is_majority(row.judge)
    ]
    gaps: dict[tuple[str, str], list[float]] = {}
    for rows in grouped(rated, lambda row: (row.key, row.value)).values():
        for a, b in combinations(sorted(rows, key=lambda row: row.judge), 2):
            gaps.setdefault((a.judge, b.judge), []).append(abs(a.right - b.right))
    means = {pair: fmean(values) for pair, values in gaps.items()}
    high = {pair: mean for pair, mean in means.items() if mean >= 0.15}
    if high:
        (judge, other), gap = max(high.items(), key=lambda item: item[1])
        others = ", ".join(percent(m, 1) for p, m in means.items() if p != (judge, other))
        beside = f"; of the other pairs on {others}" if others else ""
        sentence = (
            f"{judge} and {other} differ on at least {percent(gap, 1)} of the texts "
            f"(mean over cells and values){beside}"
        )
        yield Fault("warning", sentence, len(high), len(means))
