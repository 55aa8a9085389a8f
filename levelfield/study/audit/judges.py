"""Can the judges be believed, and what was made of them?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from levelfield.core.votes import EMPTY
from levelfield.stats.kappa import kappa_of_labels
from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    percent,
    shown,
)
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


_LIKELY = 0.3
_ENOUGH_TEXTS = 50


def control_changes_nothing(study: AuditedStudy) -> list[Finding]:
    """Control without effect: what a text was asked for does not show in it.

    Strength s = (b − 1/K) / (1 − 1/K), b the mean over the K values of the share found right, so
    0 for texts that were never told what to be and 1 for texts that are always right, whatever a
    judge prefers; mean over judges, cells weighted by their texts, 95 % interval from binomial
    errors (judges taken as one, since they read the same texts). Serious if the interval lies below
    0.1, or below 0 (control works backwards); a warning if it only reaches 0, a note where s is
    0.3 or more all the same, and below 50 texts (too few to tell). Also the same text for different
    values of a prompt: serious from half of the prompts on, a warning from a tenth. Silent where
    neither votes nor rates and the number of texts are known, and for rates of systems that were
    asked for some values only, where the votes for the others are unknown.
    """
    findings = _same_for_all_values(study)
    for (system, control, attribute), interval in strengths(study).items():
        s, low, high = interval
        about = f"{attribute}: " if attribute != control else ""
        numbers = f"strength {s:.2f} (95 % interval {low:.2f} to {high:.2f}; 0 is none, 1 is full)"
        severity: Severity
        if high < 0:
            severity, what = "serious", f"control works backwards: {numbers}"
        elif high < 0.1:
            severity, what = "serious", f"control changes nothing: {numbers}"
        elif low <= 0:
            enough = sum(map(size, study.systems[system, control])) >= _ENOUGH_TEXTS
            severity = "warning" if s < _LIKELY and enough else "note"
            what = f"control can't be told from none: {numbers}"
        else:
            continue
        own = study.systems[system, control]
        texts = sum(map(size, own))
        where = (system, "", control, None)
        found = (about + what, texts, texts)
        findings.append(Finding("control-changes-nothing", severity, *where, *found))
    return findings


def _same_for_all_values(study: AuditedStudy) -> list[Finding]:
    findings = []
    for (system, control), cells in study.systems.items():
        same, of = [], 0
        for cell in cells:
            prompts = grouped(study.texts[cell.key], lambda text: text.sample.prompt)
            for texts in prompts.values():
                values = {tuple(text.sample.control.items()) for text in texts}
                if len(values) > 1 and any(text.written for text in texts):
                    of += 1
                    if len({text.sample.text for text in texts}) == 1:
                        same.append(texts[0])
        severity = Limits(0.5, 0.1).severity(len(same) / of) if of else None
        if same and severity:
            share = percent(len(same), of)
            what = f"{len(same):,} of {of:,} prompts ({share}) have one text for all wanted values"
            where = (system, "", control, None)
            found = (what, len(same), of, shown(same[:EXAMPLES]))
            findings.append(Finding("control-changes-nothing", severity, *where, *found))
    return findings


def strengths(study: AuditedStudy) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """System, control, attribute -> strength and its 95 % interval."""
    every: dict[tuple[str, str], set[str]] = {}
    alone = [one for one in judged(study) if not is_majority(one.judge)]
    for one in alone:
        every.setdefault((one.key.control, one.attribute), set()).add(one.value)
    found = {}
    groups = grouped(alone, lambda one: (one.key.system, one.key.control, one.attribute))
    for (system, control, attribute), of_system in groups.items():
        # s, its standard error, texts, of one judge in one cell
        parts = [
            part
            for of in grouped(of_system, lambda one: (one.key, one.judge)).values()
            if (part := _strength(of, every[control, attribute])) is not None
        ]
        weight = sum(n for *_, n in parts)
        if weight:
            judges = len({one.judge for one in of_system})
            s = sum(n * s for s, _, n in parts) / weight
            # judges read the same texts, so their errors add up as if equal; those of cells do not
            error = math.sqrt(judges * sum((n * e) ** 2 for _, e, n in parts)) / weight
            found[system, control, attribute] = (s, s - 1.96 * error, s + 1.96 * error)
    return _of_whole_cells(study) | found


def _of_whole_cells(study: AuditedStudy) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """Strengths from rates of all texts, by a judge that is named after the attribute it judges.

    That is all a study of several attributes at once may have published.
    """
    strengths = {}
    for (system, control), cells in study.systems.items():
        controls = [s.control for cell in study.controls[control] for s in cell.samples]
        own = [s.control for cell in cells for s in cell.samples]
        for attribute in dict.fromkeys(name for wanted in own for name in wanted):
            values = {wanted.get(attribute) for wanted in own}
            k = len(values)
            # what is right by chance, where a system was asked for some values only, nobody knows
            if k < 2 or values != {wanted.get(attribute) for wanted in controls}:
                continue
            rates = [
                (rate.percent / 100, n)
                for cell in cells
                for rate in cell.rates
                if rate.judge == attribute and not rate.value and (n := size(cell))
            ]
            if rates:
                texts = sum(n for _, n in rates)
                b = sum(n * a for a, n in rates) / texts
                s = (b - 1 / k) / (1 - 1 / k)
                smooth = (b * texts + 1) / (texts + 2)
                error = math.sqrt(smooth * (1 - smooth) / texts) / (1 - 1 / k)
                strengths[system, control, attribute] = (s, s - 1.96 * error, s + 1.96 * error)
    return strengths


def _strength(of: Sequence[Judged], every: set[str]) -> tuple[float, float, int] | None:
    k = len(of)
    if k < 2 or any(one.n is None for one in of):
        return None
    values = {one.value for one in of}
    n = [one.n or 1 for one in of]
    if all(one.elsewhere is not None for one in of):
        # equals the formula for rates when the judge gave no other labels
        s = fmean(one.right - (one.elsewhere or 0) for one in of)
    elif values == every:
        s = (sum(one.right for one in of) - 1) / (k - 1)
    else:
        return None
    # as if one text more had been right and one wrong: a share of 0 or 1 of few is no certainty
    smooth = [(one.right * m + 1) / (m + 2) for one, m in zip(of, n, strict=True)]
    error = math.sqrt(sum(p * (1 - p) / m for p, m in zip(smooth, n, strict=True))) / (k - 1)
    return s, error, sum(n)


_OF_JUDGES = "control."
_ROUNDING = 0.05
_ENOUGH = 100


def majority_is_none(study: AuditedStudy) -> list[Finding]:
    """Rates called majority that no majority of the judges can have.

    Of J judges who find shares a_1 … a_J right, h = ⌈J / 2⌉ can agree on at most
    min over k < h of (sum of the J − k smallest a) / (h − k) of the texts; the same for being wrong
    gives the least. With more than two values texts may have no majority, so only the least holds.
    Serious from the first rate outside, by more than 0.05 points for rounding. Also named: the
    alphabetically last value never below the best judge and the first never above the worst, over 6
    cells or more: each text has been given the last label that any judge gave. That alone is a
    warning.
    """
    findings = []
    groups = grouped(judged(study), lambda one: (one.key.control, one.attribute))
    for (control, _), of in groups.items():
        outside: list[tuple[float, str]] = []
        systems: set[str] = set()
        n = last_is_best = first_is_worst = ends = 0
        for own in grouped(of, lambda one: one.key).values():
            values = grouped(own, lambda one: one.value)
            for value, ones in values.items():
                m = next((100 * one.right for one in ones if is_majority(one.judge)), None)
                a = [100 * one.right for one in ones if not is_majority(one.judge)]
                if m is None or len(a) < 2:
                    continue
                n += 1
                low, high = majority_bounds(a)
                if len(values) > 2:
                    high = 100.0
                if not low - _ROUNDING <= m <= high + _ROUNDING:
                    side = f"at most {high:.1f}" if m > high else f"at least {low:.1f}"
                    said = " / ".join(f"{one:.1f}" for one in a)
                    how_far = max(low - m, m - high)
                    outside.append(
                        (how_far, f"{ones[0].key}, {value}: {m:.1f}, {side} from {said}")
                    )
                    systems.add(ones[0].key.system)
                if len(values) > 1 and value in (max(values), min(values)):
                    ends += 1
                    last_is_best += value == max(values) and m >= max(a) - _ROUNDING
                    first_is_worst += value == min(values) and m <= min(a) + _ROUNDING
        pattern = ends >= 12 and last_is_best + first_is_worst == ends
        if not (outside or pattern):
            continue
        told = []
        if outside:
            told.append(
                f"{len(outside)} of {n} rates of the majority are none that a majority of the "
                f"judges can have, e.g. {max(outside)[1]}"
            )
        if pattern:
            told.append(
                f"in all {ends // 2} cells the alphabetically last value is never below the best "
                "judge and the first never above the worst, as if one vote for the last were enough"
            )
        system = systems.pop() if len(systems) == 1 else ""
        severity: Severity = "serious" if outside else "warning"
        found = ("; ".join(told), len(outside), n)
        findings.append(Finding("majority-is-none", severity, system, "", control, None, *found))
    return findings


def majority_bounds(a: Sequence[float]) -> tuple[float, float]:
    """Least and most percent that a majority of judges can find right, of these percents.

    For two values and any way in which the judges' errors fall together; with an even number of
    judges a tie may count as right or as wrong.

    >>> majority_bounds([65.7, 68.6, 51.4])
    (42.85, 92.85)
    """
    return 100 - _most([100 - one for one in a]), _most(a)


def _most(a: Sequence[float]) -> float:
    """Most of the texts on which h = ⌈J / 2⌉ of the judges can agree."""
    smallest = sorted(a)
    h = math.ceil(len(a) / 2)
    bounds = (sum(smallest[: len(a) - k]) / (h - k) for k in range(h))
    return min(100.0, *(round(bound, 9) for bound in bounds))


def judges_disagree(study: AuditedStudy) -> list[Finding]:
    """A judge that agrees with the others little more than by chance.

    Cohen's κ of labels, (o − e) / (1 − e), over all texts that two judges voted on, o the share
    with equal labels, e what their shares of labels make likely; a warning if a pair has κ < 0.4,
    serious below 0.2. Of rates only the least disagreement is known: two judges who find a and b
    right differ on |a − b| of the texts at least; a warning where that is 0.15 in the mean over
    cells.
    One finding a kind of control and attribute. Silent below 100 texts with votes.
    """
    return [*_by_votes(study), *_by_rates(study)]


def _by_votes(study: AuditedStudy) -> list[Finding]:
    findings = []
    for control, cells in study.controls.items():
        for attribute in dict.fromkeys(name for cell in cells for name in cell.votes):
            votes: dict[str, dict[str, str]] = {}
            for cell in cells:
                for judge, labels in cell.votes.get(attribute, {}).items():
                    votes.setdefault(judge, {}).update(labels)
            kappas = {pair: _kappa(*(votes[j] for j in pair)) for pair in combinations(votes, 2)}
            defined = {pair: found for pair, found in kappas.items() if not math.isnan(found[0])}
            low = {pair: (k, n) for pair, (k, n) in defined.items() if k < 0.4 and n >= _ENOUGH}
            if not low:
                continue
            (one, other), (kappa, n) = min(low.items(), key=lambda item: item[1][0])
            pairs = ", ".join(f"{a} and {b} {k:.2f}" for (a, b), (k, _) in defined.items())
            what = (
                f"{attribute}: {one} and {other} agree little more than by chance "
                f"(κ of labels {kappa:.2f}); κ of labels of all pairs over {n:,} texts: {pairs}"
            )
            severity: Severity = "serious" if kappa < 0.2 else "warning"
            found = (what, len(low), len(defined))
            findings.append(Finding("judges-disagree", severity, "", "", control, None, *found))
    return findings


def _kappa(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[float, int]:
    """Cohen's κ over the texts that both read, NaN if they use one label only; their number."""
    both = sorted(id for id in one.keys() & other.keys() if one[id] != EMPTY)
    labels = ([votes[id] for id in both] for votes in (one, other))
    return kappa_of_labels(*labels), len(both)


def _by_rates(study: AuditedStudy) -> list[Finding]:
    findings = []
    rated = [one for one in judged(study) if one.elsewhere is None and not is_majority(one.judge)]
    for control, of in grouped(rated, lambda one: one.key.control).items():
        gaps: dict[tuple[str, str], list[float]] = {}
        for ones in grouped(of, lambda one: (one.key, one.value)).values():
            for a, b in combinations(sorted(ones, key=lambda one: one.judge), 2):
                gaps.setdefault((a.judge, b.judge), []).append(abs(a.right - b.right))
        means = {pair: fmean(values) for pair, values in gaps.items()}
        high = {pair: mean for pair, mean in means.items() if mean >= 0.15}
        if high:
            (one, other), gap = max(high.items(), key=lambda item: item[1])
            others = ", ".join(percent(m, 1) for p, m in means.items() if p != (one, other))
            beside = f"; of the other pairs on {others}" if others else ""
            what = (
                f"{one} and {other} differ on at least {percent(gap, 1)} of the texts "
                f"(mean over cells and values){beside}"
            )
            found = (what, len(high), len(means))
            findings.append(Finding("judges-disagree", "warning", "", "", control, None, *found))
    return findings


def judge_biased(study: AuditedStudy) -> list[Finding]:
    """A judge that prefers a value far more than the other judges of the same texts do.

    Preference for a value: the share found right among texts asked for it, minus the mean over
    values. It is compared with the median judge's, on the systems whose control changes nothing if
    there are any, where only preference is left, else on all. A warning from 0.1 on (with two
    values: 20 points between them), serious from 0.2 on. Silent with fewer than 3 judges, since
    nobody knows which of two is right, with fewer than 100 texts a value, and for cells where not
    all values were asked for.
    """
    findings = []
    alone = [one for one in judged(study) if not is_majority(one.judge)]
    without = {key for key, (_, _, high) in strengths(study).items() if high < 0.1}
    for (control, attribute), of in grouped(alone, lambda o: (o.key.control, o.attribute)).items():
        idle = [one for one in of if (one.key.system, control, attribute) in without]
        preferences = _preferences(idle or of)
        texts = min(
            sum(one.n or _ENOUGH for one in ones)
            for ones in grouped(idle or of, lambda one: (one.judge, one.value)).values()
        )
        if len(preferences) < 3 or texts < _ENOUGH:
            continue
        biased: dict[str, tuple[float, str]] = {}
        for value in next(iter(preferences.values())):
            middle = median(own[value] for own in preferences.values())
            for judge, own in preferences.items():
                apart = own[value] - middle
                biased[judge] = max(biased.get(judge, (0.0, "")), (apart, value))
        limits = Limits(0.2, 0.1)
        for judge, (apart, value) in biased.items():
            severity = limits.severity(apart)
            if severity:
                systems = sorted({one.key.system for one in idle or of})
                on = f"texts of {systems[0]}" if len(systems) == 1 else f"{len(systems)} systems"
                uncontrolled = ", whose control changes nothing" if idle else ""
                own_shares = _shares_right(idle or of, judge)
                shares = ", ".join(f"{v} {percent(s, 1)}" for v, s in own_shares.items())
                what = (
                    f"{judge} prefers {value} by {100 * apart:.0f} points more than the median "
                    f"judge on {on}{uncontrolled}; it finds right: {shares}"
                )
                n = len(preferences)
                where = ("", "", control, None)
                findings.append(Finding("judge-biased", severity, *where, what, 1, n))
    return findings


def _preferences(of: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Judge -> value -> share right minus the mean over values; cells with all values only."""
    values = {one.value for one in of}
    whole = [
        one
        for ones in grouped(of, lambda one: (one.key, one.judge)).values()
        if {one.value for one in ones} == values and len(values) > 1
        for one in ones
    ]
    found = {}
    for judge in dict.fromkeys(one.judge for one in whole):
        shares = _shares_right(whole, judge)
        mean = fmean(shares.values())
        found[judge] = {value: share - mean for value, share in shares.items()}
    return found


def _shares_right(of: Sequence[Judged], judge: str) -> dict[str, float]:
    own = grouped((one for one in of if one.judge == judge), lambda one: one.value)
    return {value: fmean(one.right for one in ones) for value, ones in own.items()}


def mixed_scales(study: AuditedStudy) -> list[Finding]:
    """Values of one kind of measure, some as shares (0 to 1) and others in percent.

    Looked for among the judges of a kind of control, and among the systems for each metric of
    groups: all values of one at most 1 and above 0.02 in the mean, and another with values above
    1.5 that are 30 to 300 times as large in the median. Serious: a mean over both is nonsense.
    """
    findings = []
    for control, cells in study.controls.items():
        rates = grouped((r for cell in cells for r in cell.rates), lambda rate: rate.judge)
        judges = {judge: [rate.percent for rate in own] for judge, own in rates.items()}
        groups = grouped((g for cell in cells for g in cell.groups), lambda group: group.metric)
        of_judges = {m: own for m, own in groups.items() if m.startswith(_OF_JUDGES)}
        judges |= {m.removeprefix(_OF_JUDGES): [g.value for g in of_judges[m]] for m in of_judges}
        findings += _mixed("judge", control, "", judges)
        for metric in (metric for metric in groups if metric not in of_judges):
            systems: dict[str, list[float]] = {}
            for cell in cells:
                own_values = [group.value for group in cell.groups if group.metric == metric]
                systems.setdefault(cell.key.system, []).extend(own_values)
            findings += _mixed("system", control, f" of {metric}", systems)
    return findings


def _mixed(
    kind: str, control: str, of_what: str, values: Mapping[str, list[float]]
) -> list[Finding]:
    small, large = _in_shares(values)
    if not small:
        return []
    told = ", ".join(
        f"{name} ({min(values[name]):.3g} to {max(values[name]):.3g})" for name in small
    )
    example = large[0]
    spread = f"{min(values[example]):.3g} to {max(values[example]):.3g}"
    what = (
        f"values{of_what} between 0 and 1: {kind} {told}; "
        f"in percent: {len(large)} others, e.g. {example} ({spread})"
    )
    system = small[0] if kind == "system" and len(small) == 1 else ""
    found = (what, len(small), len(values))
    return [Finding("mixed-scales", "serious", system, "", control, None, *found)]


def _in_shares(values: Mapping[str, Sequence[float]]) -> tuple[list[str], list[str]]:
    """The names whose values are shares, and those in percent, where there are both."""
    finite = {name: [v for v in own if math.isfinite(v)] for name, own in values.items()}
    known = {name: own for name, own in finite.items() if own}
    small = [n for n, own in known.items() if min(own) >= 0 and max(own) <= 1 and fmean(own) > 0.02]
    large = [n for n, own in known.items() if min(own) >= 0 and max(own) > 1.5]
    if not (small and large):
        return [], []
    middle = [median(v for name in names for v in known[name]) for names in (small, large)]
    return (small, large) if 30 <= middle[1] / max(middle[0], 1e-9) <= 300 else ([], [])
