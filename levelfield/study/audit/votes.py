"""Did each judge vote by itself, on every text, with the same labels?"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from levelfield.study.audit.exact import LEVEL, p_of_fewer, p_of_shares
from levelfield.study.audit.findings import AuditedStudy, Finding, percent
from levelfield.study.audit.judged import MOST, Right, is_majority, rights
from levelfield.study.audit.texts import words_of
from levelfield.study.cells import Cell, CellKey

_ENOUGH = 30
_ERRORS = 10
_CONSTANT = 0.99
_APART = 0.2
_SURE = 1e-5
_NOWHERE = CellKey("", "", "", -1)


class _Vote(NamedTuple):
    """What the judges of one attribute made of a text: judge -> label."""

    key: CellKey
    wanted: str
    labels: Mapping[str, str]


def _votes(cells: Sequence[Cell]) -> Mapping[str, Sequence[_Vote]]:
    """Attribute -> votes on the texts that were asked for one value of it."""
    votes: dict[str, list[_Vote]] = {}
    for cell in cells:
        for attribute, judges in cell.votes.items():
            own = votes.setdefault(attribute, [])
            for sample in cell.samples:
                wanted = sample.control.get(attribute)
                labels = {j: of[sample.id] for j, of in judges.items() if sample.id in of}
                if isinstance(wanted, str) and labels:
                    own.append(_Vote(cell.key, wanted, labels))
    return votes


def judges_identical(study: AuditedStudy) -> list[Finding]:
    """Two judges that are one: the same label for every text, errors included.

    Two judges who differ on a share d of texts never do so on n with probability (1 − d)^n. Serious
    if all labels are equal, 10 or more are not the wanted one, and that is below 1e-7, d being half
    the share on which the two differ from the other judges, and 5 % at least (from 315 texts on).
    Of rates, serious where 12 or more of two judges are equal in all digits and take 6 different
    values. A majority in which a judge counts twice is none.
    """
    findings = []
    for control, cells in study.controls.items():
        for attribute, votes in _votes(cells).items():
            judges = dict.fromkeys(judge for vote in votes for judge in vote.labels)
            for pair in combinations(judges, 2):
                if n := _never_apart(votes, pair):
                    what = f"{attribute}: {pair[0]} and {pair[1]} give every text the same label"
                    where = ("", "", control, None)
                    findings.append(Finding("judges-identical", "serious", *where, what, n, n))
        findings += _identical_rates(control, cells)
    return findings


def _never_apart(votes: Sequence[_Vote], pair: tuple[str, str]) -> int:
    """Number of texts on which two judges agree, if that is all of them and no chance; else 0."""
    one, other = pair
    both = [vote for vote in votes if one in vote.labels and other in vote.labels]
    if any(_plain(vote.labels[one]) != _plain(vote.labels[other]) for vote in both):
        return 0
    errors = sum(_plain(vote.labels[one]) != _plain(vote.wanted) for vote in both)
    apart = [
        _plain(label) != _plain(vote.labels[one])
        for vote in both
        for judge, label in vote.labels.items()
        if judge not in pair
    ]
    d = max(0.05, sum(apart) / max(len(apart), 1) / 2)
    return len(both) if errors >= _ERRORS and (1 - d) ** len(both) < LEVEL else 0


def _identical_rates(control: str, cells: Sequence[Cell]) -> list[Finding]:
    rates: dict[str, dict[tuple[CellKey, str], float]] = {}
    for cell in cells:
        for rate in cell.rates:
            if not cell.votes and not is_majority(rate.judge):
                rates.setdefault(rate.judge, {})[cell.key, rate.value] = rate.percent
    findings = []
    for one, other in combinations(rates, 2):
        own = rates[one]
        if own == rates[other] and len(own) >= 12 and len(set(own.values())) >= 6:
            what = f"{one} and {other} have the same rates in all {len(own)} cells and values"
            where = ("", "", control, None)
            findings.append(
                Finding("judges-identical", "serious", *where, what, len(own), len(own))
            )
    return findings


@functools.lru_cache(maxsize=1024)
def _plain(label: str) -> str:
    return " ".join(words_of(label))


def judge_constant(study: AuditedStudy) -> list[Finding]:
    """A judge that does not tell the wanted values apart, or calls them by other names.

    Serious, from 30 votes on: 99 % of its labels are one, and no value was wanted of more than 80 %
    of the texts; it never gives a value that was wanted of 30 texts and of 10 %; or none of its
    labels is a wanted value. It then finds right or wrong whatever the texts are.
    """
    findings = []
    for control, cells in study.controls.items():
        for attribute, votes in _votes(cells).items():
            for judge in dict.fromkeys(judge for vote in votes for judge in vote.labels):
                own = [vote for vote in votes if judge in vote.labels]
                what = _why_constant(judge, own) if len(own) >= _ENOUGH else ""
                if what:
                    where = ("", "", control, None)
                    numbers = (f"{attribute}: {judge} {what}", len(own), len(own))
                    findings.append(Finding("judge-constant", "serious", *where, *numbers))
    return findings


def _why_constant(judge: str, votes: Sequence[_Vote]) -> str:
    labels = Counter(vote.labels[judge] for vote in votes)
    wanted = Counter(vote.wanted for vote in votes)
    n = len(votes)
    label, most = labels.most_common(1)[0]
    if not labels.keys() & wanted.keys():
        told = ", ".join(label or "undecided" for label, _ in labels.most_common(3))
        return f"gives none of the wanted values: {told}"
    if most >= _CONSTANT * n and max(wanted.values()) <= 0.8 * n:
        return f"gives {percent(most, n)} of the texts one label: {label or 'undecided'}"
    never = [v for v, k in wanted.items() if k >= max(_ENOUGH, n / 10) and not labels[v]]
    return f"never gives {', '.join(never)}" if never else ""


def judge_depends(study: AuditedStudy) -> list[Finding]:
    """A judge that is another judge on one system, dataset or seed, or always right on one system.

    Agreement with the most frequent label of the other judges, on the texts of one system, dataset,
    seed or cell against all other texts: serious where the shares are 20 points apart with Fisher's
    p < 1e-7, so that votes were mixed up. A judge is always right on a system if it finds no text
    wrong, neither of the m that all others find wrong (3 and 2 % at least) nor of the n that all
    others find right, and (1 − q/2)^m (1 − e/2)^n < 1e-5, where it finds shares q and e of such
    texts of other systems wrong. Of rates: if it finds at most 0.5 % wrong, with p < 1e-7 under
    half the share that it finds wrong elsewhere, or that the other judges find wrong here,
    whichever is less; these must be 5 %. Serious: it may have been trained on that system, or was
    told what was wanted. Silent with one judge.
    """
    findings = []
    right = rights(study)
    for control, cells in study.controls.items():
        for attribute, votes in _votes(cells).items():
            for judge in dict.fromkeys(judge for vote in votes for judge in vote.labels):
                findings += _apart(control, attribute, judge, votes)
                findings += _never_wrong(control, attribute, judge, votes)
        findings += _always_right(control, cells, right)
    return findings


def _apart(control: str, attribute: str, judge: str, votes: Sequence[_Vote]) -> list[Finding]:
    cells: dict[CellKey, tuple[int, int]] = {}
    for vote in votes:
        if judge in vote.labels and (usual := _usual(vote, judge)) is not None:
            a, n = cells.get(vote.key, (0, 0))
            cells[vote.key] = (a + (vote.labels[judge] == usual), n + 1)
    yes, n = _summed(cells.values())
    worst = (0.0, _NOWHERE, 0, 1)
    for axes in (("system",), ("dataset",), ("seed",), ("system", "dataset", "seed")):
        groups: dict[CellKey, list[tuple[int, int]]] = {}
        for key, counts in cells.items():
            place = _NOWHERE._replace(**{axis: getattr(key, axis) for axis in axes})
            groups.setdefault(place, []).append(counts)
        for place, own in groups.items() if len(groups) > 1 else ():
            a, m = _summed(own)
            apart = abs(a / m - (yes - a) / (n - m))
            if apart >= max(_APART, worst[0]) and p_of_shares(a, m, yes - a, n - m) < LEVEL:
                worst = (apart, place, a, m)
    apart, place, a, m = worst
    if not apart:
        return []
    what = (
        f"{attribute}: {judge} says what most other judges say of {percent(a, m)} of these texts, "
        f"and of {percent(yes - a, n - m)} of all others"
    )
    seed = place.seed if place.seed >= 0 else None
    where = (place.system, place.dataset, control, seed)
    return [Finding("judge-depends", "serious", *where, what, m - a, m)]


def _never_wrong(control: str, attribute: str, judge: str, votes: Sequence[_Vote]) -> list[Finding]:
    # system -> whether all others find a text right -> how many the judge finds wrong, of how many
    counts: dict[str, dict[bool, tuple[int, int]]] = {}
    for vote in votes:
        others = {label == vote.wanted for name, label in vote.labels.items() if name != judge}
        if judge in vote.labels and len(others) == 1:
            own = counts.setdefault(vote.key.system, {False: (0, 0), True: (0, 0)})
            k, n = own[others == {True}]
            own[others == {True}] = (k + (vote.labels[judge] != vote.wanted), n + 1)
    findings = []
    for system, own in counts.items():
        elsewhere = [of for name, of in counts.items() if name != system]
        (k, m), (errors, n) = own[False], own[True]
        if not elsewhere or k or errors or m < max(3, 0.02 * (m + n)):
            continue
        q, e = (_pooled([of[side] for of in elsewhere]) for side in (False, True))
        if (1 - q / 2) ** m * (1 - e / 2) ** n < _SURE:
            what = (
                f"{attribute}: {judge} finds all texts right, also the {m} that all other judges "
                f"find wrong; of such texts of other systems it finds {percent(q, 1)} wrong"
            )
            where = (system, "", control, None)
            findings.append(Finding("judge-depends", "serious", *where, what, m, m + n))
    return findings


def _usual(vote: _Vote, judge: str) -> str | None:
    """The label that most of the other judges give; None if there is none."""
    others = Counter(label for name, label in vote.labels.items() if name != judge)
    (first, n), (_, next_n) = [*others.most_common(2), ("", 0), ("", 0)][:2]
    return first if n > next_n else None


def _always_right(
    control: str, cells: Sequence[Cell], right: Mapping[CellKey, Right]
) -> list[Finding]:
    wrong: dict[tuple[str, str], tuple[int, int]] = {}
    for cell in cells:
        for (judge, _), (yes, n) in right.get(cell.key, {}).items() if not cell.votes else ():
            if judge != MOST and not is_majority(judge):
                k, of = wrong.get((judge, cell.key.system), (0, 0))
                wrong[judge, cell.key.system] = (k + n - yes, of + n)
    findings = []
    for (judge, system), (k, n) in wrong.items():
        elsewhere = [counts for (j, s), counts in wrong.items() if j == judge and s != system]
        others = [counts for (j, s), counts in wrong.items() if j != judge and s == system]
        if not elsewhere or not others or k > 0.005 * n:
            continue
        least = min(_pooled(elsewhere), _pooled(others))
        if least >= 0.05 and p_of_fewer(k, n, least / 2) < LEVEL:
            what = (
                f"{judge} finds {percent(k, n)} of the texts wrong; of those of other systems it "
                f"finds {percent(least, 1)} or more, and so do the other judges of these"
            )
            where = (system, "", control, None)
            findings.append(Finding("judge-depends", "serious", *where, what, n - k, n))
    return findings


def _pooled(counts: Sequence[tuple[int, int]]) -> float:
    k, n = _summed(counts)
    return k / n if n else 0.0


def _summed(counts: Collection[tuple[int, int]]) -> tuple[int, int]:
    ks, ns = zip(*counts, strict=True) if counts else ((), ())
    return sum(ks), sum(ns)
