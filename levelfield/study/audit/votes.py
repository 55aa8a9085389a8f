"""Did each judge vote by itself, on every text, with the same labels?"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any, NamedTuple

from levelfield.core.scores import EMPTY
from levelfield.stats.kappa import kappa_of_labels
from levelfield.study.audit.findings import (
    LEVEL,
    Fault,
    Faults,
    Severity,
    StudyPart,
    check,
    p_of_fewer,
    p_of_shares,
    percent,
)
from levelfield.study.audit.judged import MOST, Right, is_majority, rights
from levelfield.study.audit.texts import words_of
from levelfield.study.cells import Cell, CellKey

_ENOUGH = 30
_ERRORS = 10
_CONSTANT = 0.99
_SEEN = 0.05
_APART = 0.2
_SURE = 1e-5


class _Vote(NamedTuple):
    """What the judges of one attribute made of a text: judge -> label."""

    key: CellKey
    value: str
    labels: Mapping[str, str]


def _votes(cells: Sequence[Cell]) -> Mapping[str, Sequence[_Vote]]:
    """Returns attribute -> votes on texts with one requested value of it that are not empty."""
    votes: dict[str, list[_Vote]] = {}
    for cell in cells:
        for attribute, judges in cell.votes.items():
            votes.setdefault(attribute, [])
            for sample in cell.samples:
                value = sample.control.get(attribute)
                labels = {
                    judge: label
                    for judge, votes_of_judge in judges.items()
                    if (label := votes_of_judge.get(sample.id, EMPTY)) != EMPTY
                }
                if isinstance(value, str) and labels:
                    votes[attribute].append(_Vote(cell.key, value, labels))
    return votes


def _judges(votes: Iterable[_Vote]) -> list[str]:
    return list(dict.fromkeys(judge for vote in votes for judge in vote.labels))


@check("judges-identical", per="control")
def judges_identical(part: StudyPart) -> Faults:
    """Two judges that are one: the same label for every text, errors included.

    Two judges who differ on a share d of texts never do so on n with probability (1 − d)^n. Serious
    if all labels are equal, 10 or more are not the wanted one, and that is below 1e-7, d being half
    the share on which the two differ from the other judges, and 5 % at least (from 315 texts on).
    One warning where the other judges never differ from them either: the texts may be easy.
    Of rates, serious where 12 or more of two judges are equal in all digits and take 6 different
    values. A majority in which a judge counts twice is none.
    """
    for attribute, votes in _votes(part.cells).items():
        agree = {pair: _never_apart(votes, pair) for pair in combinations(_judges(votes), 2)}
        for (judge, other), (n, all_agree) in agree.items():
            if n and not all_agree:
                sentence = f"{attribute}: {judge} and {other} give every text the same label"
                yield Fault("serious", sentence, n, n)
        if n := max((n for n, all_agree in agree.values() if all_agree), default=0):
            yield Fault("warning", f"{attribute}: all judges give every text the same label", n, n)
    yield from _identical_rates(part.cells)


def _never_apart(votes: Sequence[_Vote], pair: tuple[str, str]) -> tuple[int, bool]:
    """Returns on how many texts two judges agree, and whether other judges of these agree as well.

    The number is 0 if they differ on a text or agree by chance.
    """
    judge, other = pair
    shared = [vote for vote in votes if judge in vote.labels and other in vote.labels]
    if any(_plain(vote.labels[judge]) != _plain(vote.labels[other]) for vote in shared):
        return 0, False
    errors = sum(_plain(vote.labels[judge]) != _plain(vote.value) for vote in shared)
    apart = [
        _plain(label) != _plain(vote.labels[judge])
        for vote in shared
        for name, label in vote.labels.items()
        if name not in pair
    ]
    d = max(0.05, sum(apart) / max(len(apart), 1) / 2)
    sure = errors >= _ERRORS and (1 - d) ** len(shared) < LEVEL
    return len(shared) if sure else 0, bool(apart) and not any(apart)


def _identical_rates(cells: Sequence[Cell]) -> Faults:
    rates: dict[str, dict[tuple[CellKey, str], float]] = {}
    for cell in cells:
        for rate in cell.rates:
            if not cell.votes and not is_majority(rate.judge):
                rates.setdefault(rate.judge, {})[cell.key, rate.value] = rate.percent
    for judge, other in combinations(rates, 2):
        values = rates[judge]
        n = len(values)
        if values == rates[other] and n >= 12 and len(set(values.values())) >= 6:
            sentence = f"{judge} and {other} have the same rates in all {n} cells and values"
            yield Fault("serious", sentence, n, n)


@functools.lru_cache(maxsize=1024)
def _plain(label: str) -> str:
    return " ".join(words_of(label))


@check("judge-constant", per="control")
def judge_constant(part: StudyPart) -> Faults:
    """A judge that does not distinguish the wanted values, or gives them other names.

    Serious, from 30 votes on: 99 % of its labels are one, and no value was wanted of more than 80 %
    of the texts; it never gives a value that was wanted of 30 texts and of 10 %; or none of its
    labels is a wanted value. It then finds right or wrong whatever the texts are. For the first
    two, another judge gives other labels, or that value, to 5 % of the same texts: the texts
    themselves may all be of one kind.
    """
    for attribute, all_votes in _votes(part.cells).items():
        for judge in _judges(all_votes):
            votes = [vote for vote in all_votes if judge in vote.labels]
            n = len(votes)
            if n >= _ENOUGH and (predicate := _why_constant(judge, votes)):
                yield Fault("serious", f"{attribute}: {judge} {predicate}", n, n)


def _why_constant(judge: str, votes: Sequence[_Vote]) -> str:
    labels = Counter(vote.labels[judge] for vote in votes)
    values = Counter(vote.value for vote in votes)
    n = len(votes)
    label, most = labels.most_common(1)[0]
    if not labels.keys() & values.keys():
        frequent = ", ".join(label or "undecided" for label, _ in labels.most_common(3))
        return f"gives none of the wanted values: {frequent}"
    others: dict[str, Counter[str]] = defaultdict(Counter)
    for vote in votes:
        for name in vote.labels.keys() - {judge}:
            others[name][vote.labels[name]] += 1
    if (
        most >= _CONSTANT * n
        and max(values.values()) <= 0.8 * n
        and any(c.total() - c[label] >= _SEEN * c.total() for c in others.values())
    ):
        return f"gives {percent(most, n)} of the texts one label: {label or 'undecided'}"
    never = [
        value
        for value, k in values.items()
        if k >= max(_ENOUGH, n / 10)
        and not labels[value]
        and any(c[value] >= _SEEN * c.total() for c in others.values())
    ]
    return f"never gives {', '.join(never)}" if never else ""


@check("judge-depends", per="control")
def judge_depends(part: StudyPart) -> Faults:
    """A judge that is another judge on one system, dataset or seed, or always right on one system.

    Agreement with the most frequent label of the other judges, on the texts of one system, dataset
    or seed against all other texts, and of a cell against the others of its system and of its
    dataset: named where the shares are 20 points apart with Fisher's p < 1e-7, and 20 points more
    than those of the median other judge at the same place, since judges differ more on texts that
    are of no kind. Serious for a seed or a cell: votes were mixed up. A warning for a system or a
    dataset, on which a judge may be weak, and with two judges, where only seeds are compared.
    A judge is always right on a system if it finds no text
    wrong, neither of the m that all others find wrong (3 and 2 % at least) nor of the n that all
    others find right, and (1 − q/2)^m (1 − e/2)^n < 1e-5, where it finds shares q and e of such
    texts of other systems wrong. Of rates: if it finds at most 0.5 % wrong, with p < 1e-7 under
    half the share that it finds wrong elsewhere, or that the other judges find wrong here,
    whichever is less; these must be 5 %. Serious: it may have been trained on that system, or knew
    the requested values. Silent with one judge.
    """
    for attribute, votes in _votes(part.cells).items():
        yield from _apart(attribute, votes)
        for judge in _judges(votes):
            yield from _never_wrong(attribute, judge, votes)
    yield from _always_right(part.cells, part.study.fact(rights))


class _Place(NamedTuple):
    """A system, dataset, seed or cell, and the cells that it is compared with, set by set.

    `name` is the place as `Fault` has it.
    """

    name: Mapping[str, Any]
    inside: Sequence[CellKey]
    outside: Sequence[Sequence[CellKey]]


def _places(keys: Sequence[CellKey], axes: Sequence[str]) -> Iterator[_Place]:
    """Yields the places of each axis; with three axes, also the cells.

    A cell is compared with the others of its system and with the others of its dataset, since a
    judge may be weak on either.
    """
    for axis in axes:
        for value in dict.fromkeys(getattr(key, axis) for key in keys):
            inside = [key for key in keys if getattr(key, axis) == value]
            rest = [key for key in keys if getattr(key, axis) != value]
            yield _Place({axis: value}, inside, [rest])
    for key in keys if len(axes) > 1 else ():
        neighbours = [
            [other for other in keys if other[axis] == key[axis] and other != key]
            for axis in (0, 1)
        ]
        yield _Place(key._asdict(), [key], neighbours)


def _apart(attribute: str, votes: Sequence[_Vote]) -> Iterator[Fault]:
    judges = _judges(votes)
    agreements = {judge: _agreements(votes, judge) for judge in judges}
    # two judges agree or not, whichever of them it is: one finding, and of seeds only
    several = len(judges) > 2
    keys = list(dict.fromkeys(vote.key for vote in votes))
    places = list(_places(keys, ("system", "dataset", "seed") if several else ("seed",)))
    for judge in judges if several else judges[:1]:
        others = [cells for name, cells in agreements.items() if name != judge] if several else []
        worst: tuple[float, _Place, Severity, _Drop] | None = None
        for place in places:
            drop = _drop(agreements[judge], place)
            if drop is None or abs(drop.points) < max(_APART, worst[0] if worst else 0):
                continue
            drops = [other.points for cells in others if (other := _drop(cells, place)) is not None]
            usual = median(drops) if drops else 0.0
            if abs(drop.points - usual) >= _APART and drop.p < LEVEL:
                severity: Severity = "serious" if several and "seed" in place.name else "warning"
                worst = (abs(drop.points), place, severity, drop)
        if worst:
            _, place, severity, drop = worst
            sentence = (
                f"{attribute}: {judge} agrees with most other judges on {percent(*drop.inside)} of "
                f"these texts, and on {percent(*drop.outside)} of others"
            )
            yes, n = drop.inside
            yield Fault(severity, sentence, n - yes, n, **place.name)


def _agreements(votes: Sequence[_Vote], judge: str) -> Mapping[CellKey, tuple[int, int]]:
    """Returns cell -> numbers of texts: those on which a judge agrees with most others, and all."""
    cells: dict[CellKey, tuple[int, int]] = {}
    for vote in votes:
        if judge in vote.labels and (usual := _usual(vote, judge)) is not None:
            a, n = cells.get(vote.key, (0, 0))
            cells[vote.key] = (a + (vote.labels[judge] == usual), n + 1)
    return cells


class _Drop(NamedTuple):
    """Agreement at a place and elsewhere: counts, difference of the shares, p of the difference."""

    inside: tuple[int, int]
    outside: tuple[int, int]

    @property
    def points(self) -> float:
        return self.outside[0] / self.outside[1] - self.inside[0] / self.inside[1]

    @property
    def p(self) -> float:
        return p_of_shares(*self.inside, *self.outside)


def _drop(cells: Mapping[CellKey, tuple[int, int]], place: _Place) -> _Drop | None:
    """Returns the least difference from the other places; None without votes on either."""
    inside = _summed([cells[key] for key in place.inside if key in cells])
    drops = [
        _Drop(inside, _summed([cells[key] for key in rest if key in cells]))
        for rest in place.outside
    ]
    if not inside[1] or not all(drop.outside[1] for drop in drops):
        return None
    return min(drops, key=lambda drop: abs(drop.points))


def _never_wrong(attribute: str, judge: str, votes: Sequence[_Vote]) -> Iterator[Fault]:
    # system -> whether all others find a text right -> how many the judge finds wrong, of how many
    counts: dict[str, dict[bool, tuple[int, int]]] = {}
    for vote in votes:
        others = {label == vote.value for name, label in vote.labels.items() if name != judge}
        if judge in vote.labels and len(others) == 1:
            sides = counts.setdefault(vote.key.system, {False: (0, 0), True: (0, 0)})
            k, n = sides[others == {True}]
            sides[others == {True}] = (k + (vote.labels[judge] != vote.value), n + 1)
    for system, sides in counts.items():
        elsewhere = [other for name, other in counts.items() if name != system]
        (k, m), (errors, n) = sides[False], sides[True]
        if not elsewhere or k or errors or m < max(3, 0.02 * (m + n)):
            continue
        q, e = (_pooled([other[side] for other in elsewhere]) for side in (False, True))
        if (1 - q / 2) ** m * (1 - e / 2) ** n < _SURE:
            sentence = (
                f"{attribute}: {judge} finds all texts right, including the {m} that all other "
                f"judges find wrong; of such texts of other systems it finds {percent(q, 1)} wrong"
            )
            yield Fault("serious", sentence, m, m + n, (), system)


def _usual(vote: _Vote, judge: str) -> str | None:
    """Returns the label that most of the other judges give; None if there is none."""
    others = Counter(label for name, label in vote.labels.items() if name != judge)
    (first, n), (_, next_n) = [*others.most_common(2), ("", 0), ("", 0)][:2]
    return first if n > next_n else None


def _always_right(
    cells: Sequence[Cell], rights_of_cells: Mapping[CellKey, Right]
) -> Iterator[Fault]:
    wrong: dict[tuple[str, str], tuple[int, int]] = {}
    for cell in (cell for cell in cells if not cell.votes):
        for (judge, _), (yes, n) in rights_of_cells.get(cell.key, {}).items():
            if judge != MOST and not is_majority(judge):
                k, total = wrong.get((judge, cell.key.system), (0, 0))
                wrong[judge, cell.key.system] = (k + n - yes, total + n)
    for (judge, system), (k, n) in wrong.items():
        elsewhere = [counts for (j, s), counts in wrong.items() if j == judge and s != system]
        others = [counts for (j, s), counts in wrong.items() if j != judge and s == system]
        if not elsewhere or not others or k > 0.005 * n:
            continue
        least = min(_pooled(elsewhere), _pooled(others))
        if least >= 0.05 and p_of_fewer(k, n, least / 2) < LEVEL:
            sentence = (
                f"{judge} finds {percent(k, n)} of the texts wrong; of the texts of other systems "
                f"it finds {percent(least, 1)} or more, as do the other judges of these"
            )
            yield Fault("serious", sentence, n - k, n, (), system)


def _pooled(counts: Sequence[tuple[int, int]]) -> float:
    k, n = _summed(counts)
    return k / n if n else 0.0


def _summed(counts: Collection[tuple[int, int]]) -> tuple[int, int]:
    return sum(k for k, _ in counts), sum(n for _, n in counts)


_ALWAYS = 0.98
_SELDOM = 0.9
_TEXTS = 100


@check("judge-always-right", per="control")
def judge_always_right(part: StudyPart) -> Faults:
    """A judge that finds nearly all texts of all systems right, where the others do not.

    Serious where a judge finds 98 % right and the median other judge at most 90 %, of 100 texts or
    more, and finds fewer wrong than half as many as that by a binomial test with p < 1e-7: it knew
    the requested values, or is counted from something else. Silent with one judge.
    """
    for attribute, votes in _votes(part.cells).items():
        shares = {
            judge: (
                sum(vote.labels.get(judge) == vote.value for vote in votes),
                sum(judge in vote.labels for vote in votes),
            )
            for judge in _judges(votes)
        }
        for judge, (right, n) in shares.items():
            others = [k / m for name, (k, m) in shares.items() if name != judge and m >= _TEXTS]
            if n < _TEXTS or not others or right < _ALWAYS * n:
                continue
            usual = median(others)
            if usual <= _SELDOM and p_of_fewer(n - right, n, (1 - usual) / 2) < LEVEL:
                sentence = (
                    f"{attribute}: {judge} finds {percent(right, n)} of the texts right; the other "
                    f"judges find {percent(usual, 1)} (median)"
                )
                yield Fault("serious", sentence, right, n)


_COPY = 0.9
_OTHERS = 0.65


@check("judges-identical", per="control")
def judges_alike(part: StudyPart) -> Faults:
    """Two judges that agree with each other, errors included, far better than with any other.

    A warning where Cohen's κ of two judges is 0.9 or more, over 100 texts, and at most 0.65 between
    either and every other judge: one may be a copy of the other, and its vote counts twice.
    Judges that always agree are left to `judges_identical`. Silent with two judges.
    """
    for attribute, votes in _votes(part.cells).items():
        kappas: dict[tuple[str, str], tuple[float, int]] = {}
        for pair in combinations(_judges(votes), 2):
            labels = [
                tuple(_plain(vote.labels[judge]) for judge in pair)
                for vote in votes
                if vote.labels.keys() >= set(pair)
            ]
            n = len(labels)
            apart = sum(a != b for a, b in labels)
            if n >= _TEXTS and apart:
                first, second = zip(*labels, strict=True)
                kappas[pair] = (kappa_of_labels(first, second), n)
        for (judge, other), (kappa, n) in kappas.items():
            rest = [
                k
                for pair, (k, _) in kappas.items()
                if pair != (judge, other) and {judge, other} & set(pair)
            ]
            if kappa >= _COPY and rest and max(rest) <= _OTHERS:
                sentence = (
                    f"{attribute}: {judge} and {other} agree as if one were a copy of the other (κ "
                    f"of labels {kappa:.2f}; with other judges at most {max(rest):.2f})"
                )
                yield Fault("warning", sentence, n, n)


_LEANS = 0.3
_LEAST = 0.05


@check("judge-depends", per="control")
def judge_leans(part: StudyPart) -> Faults:
    """A judge that errs in a different direction on one system, as with a different threshold.

    Counted: the texts on which a judge does not say what most others say, and those of them to
    which it gives one label. A warning where that share is 30 points higher on a system than on all
    others, by Fisher's exact test with p < 1e-5, and such texts are 5 % of the system's, and 5
    points more than elsewhere. Silent with fewer than 3 judges.
    """
    for attribute, votes in _votes(part.cells).items():
        judges = _judges(votes)
        if len(judges) < 3:
            continue
        for judge in judges:
            texts: Counter[str] = Counter()
            leans: dict[str, Counter[str]] = defaultdict(Counter)
            for vote in votes:
                if judge in vote.labels and (usual := _usual(vote, judge)) is not None:
                    texts[vote.key.system] += 1
                    if vote.labels[judge] != usual:
                        leans[vote.key.system][vote.labels[judge]] += 1
            yield from _leans(attribute, judge, texts, leans)


def _leans(
    attribute: str, judge: str, texts: Counter[str], leans: Mapping[str, Counter[str]]
) -> Iterator[Fault]:
    everywhere = sum(leans.values(), Counter[str]())
    for system, counts in leans.items():
        for label, k in counts.items():
            n, total = counts.total(), texts[system]
            a, b = everywhere[label] - k, everywhere.total() - n
            rest = texts.total() - total
            if not b or not rest or k / n - a / b < _LEANS or k / total - a / rest < _LEAST:
                continue
            if k >= _LEAST * total and p_of_shares(k, n, a, b) < _SURE:
                sentence = (
                    f"{attribute}: where {judge} disagrees with most others, it says "
                    f"{label or 'undecided'} for {percent(k, n)} of these texts, and for "
                    f"{percent(a, b)} of those of other systems, as with a different threshold"
                )
                yield Fault("warning", sentence, k, total, (), system)
