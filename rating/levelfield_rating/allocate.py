"""Which rater sees what, and in which order (Mao 2021, section 3.3).

Units are dealt to surveys, each direction evenly. In a rater's order

- directions alternate as far as their counts allow; which one comes first is balanced over slots;
- items of one unit are spread over the whole order, never side by side if that can be avoided;
- systems take the places within a unit in turn, by the rows of a Williams design (Williams 1949):
  over as many units, or raters, as there are systems, each system is the first, second, … text of
  a unit once, and follows every other system equally often;
- each of two texts is on the left equally often, and the next rater sees them the other way round.

A hash of the seed and the items' keys decides whatever is left open, so that the allocation is the
same on every machine. Only the opaque ids differ: they come from the system's random numbers.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from levelfield_rating.model import Design, Item, Placed, Slot
from levelfield_rating.units import BalancedItem, Column, Unit

K = TypeVar("K", bound=Hashable)

_OPAQUE_BYTES = 12


def drawn(seed: int, *key: object) -> int:
    """Draws a number of 64 bits: always the same for the same arguments."""
    text = "\0".join([str(seed), *map(str, key)])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def deal(units: Sequence[Unit], surveys: int, seed: int) -> list[list[Unit]]:
    """Deals units to surveys so that their numbers, in all and by direction, differ by one at most.

    >>> [len(survey) for survey in deal([], 2, seed=1)]
    [0, 0]
    """
    by_direction: defaultdict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        by_direction[unit.direction].append(unit)
    dealt: list[list[Unit]] = [[] for _ in range(surveys)]
    turn = 0
    for direction_units in by_direction.values():
        for unit in sorted(direction_units, key=lambda u: drawn(seed, "survey", u.key)):
            dealt[turn % surveys].append(unit)
            turn += 1
    return dealt


def columns_in_order(questions: Sequence[BalancedItem], seed: int) -> dict[Column, int]:
    """Numbers what places are balanced over, in an order that the seed decides."""
    columns = dict.fromkeys(column for q in questions for column in _columns(q))
    order = sorted(columns, key=lambda c: drawn(seed, "column", *c))
    return {column: n for n, column in enumerate(order)}


def _columns(question: BalancedItem) -> list[Column]:
    return [*question.columns, *(column for place in question.places for column in place)]


def williams(n: int, row: int, mirrored: bool = False) -> list[int]:
    """Returns a row of the Williams design of n treatments.

    Rows 0 to n − 1 are a Latin square; with their mirror images if n is odd, every ordered pair of
    treatments is adjacent equally often.

    >>> [williams(4, row) for row in range(4)]
    [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]
    """
    first = [(i + 1) // 2 if i % 2 else (n - i // 2) % n for i in range(n)]
    row_treatments = [(treatment + row) % n for treatment in first]
    return row_treatments[::-1] if mirrored else row_treatments


def spread(
    counts: Mapping[K, int], rank: Callable[[K, int], int], first: K | None = None
) -> list[K]:
    """Returns each key as often as it is counted, with equal keys far from each other.

    Equal keys are neighbours as seldom as the counts allow, given the first key. Where that leaves
    a choice, the i-th of n is near (i + ½) / n of the way; `rank(key, i)` breaks ties.

    Only a key that makes up more than half of the rest can force equal neighbours. It comes next,
    unless it came last. In that case, and while there is no such key, any other key will do, and a
    heap holds the one whose turn it is.
    """
    keys = [key for key, n in counts.items() if n]
    left = [counts[key] for key in keys]
    # both heaps keep an entry for each count that a key has had; only the latest is valid
    turns: list[tuple[float, int, int, int]] = []
    most: list[tuple[int, int]] = []

    def enter(k: int) -> None:
        if left[k]:
            used = counts[keys[k]] - left[k]
            turn = (used + 0.5) / counts[keys[k]]
            heapq.heappush(turns, (turn, rank(keys[k], used), k, left[k]))
            heapq.heappush(most, (-left[k], k))

    def next_in_turn(but: int) -> int:
        passed = None
        while True:
            entry = heapq.heappop(turns)
            k, count = entry[2:]
            if count == left[k]:
                if k != but:
                    break
                passed = entry
        if passed:
            heapq.heappush(turns, passed)
        return k

    for k in range(len(keys)):
        enter(k)
    order: list[int] = []
    for total in range(sum(left), 0, -1):
        last = order[-1] if order else -1
        while left[most[0][1]] != -most[0][0]:
            heapq.heappop(most)
        n, top = -most[0][0], most[0][1]
        if not order and first is not None:
            chosen = keys.index(first)
        elif 2 * n > total:
            chosen = top if top != last else next_in_turn(but=-1)
        else:
            chosen = next_in_turn(but=last)
        left[chosen] -= 1
        enter(chosen)
        order.append(chosen)
    return [keys[k] for k in order]


def alike(order: Sequence[object]) -> int:
    """Returns how many neighbours are alike."""
    return sum(a == b for a, b in itertools.pairwise(order))


def order_of_slot(
    questions: Sequence[BalancedItem],
    columns: Mapping[Column, int],
    seed: int,
    survey: int,
    rater: int,
) -> list[BalancedItem]:
    """Returns the items of a survey in the order that one of its raters sees.

    Args:
        columns: from `columns_in_order`.
        survey, rater: from 0.
    """
    units: defaultdict[str, list[BalancedItem]] = defaultdict(list)
    for question in questions:
        units[question.unit].append(question)
    queues = {
        unit: _turns(unit_questions, columns, seed, survey, n, rater)
        for n, (unit, unit_questions) in enumerate(units.items())
    }
    directions = list(dict.fromkeys(q.item.direction for q in questions))
    counts = Counter(q.item.direction for q in questions)
    pattern = _alternating(directions, counts, survey + rater)
    waiting: dict[str, list[str]] = {}
    for direction in directions:
        unit_sizes = {
            unit: len(unit_questions)
            for unit, unit_questions in units.items()
            if unit_questions[0].item.direction == direction
        }
        waiting[direction] = spread(
            unit_sizes, lambda unit, n: drawn(seed, "slot", survey, rater, unit, n)
        )[::-1]
    order = [queues[waiting[direction].pop()].pop(0) for direction in pattern]
    return _repaired(order, lambda *places: drawn(seed, "swap", survey, rater, *places))


def _alternating(directions: Sequence[str], counts: Mapping[str, int], turn: int) -> list[str]:
    """Directions in turn. The first one is the turn's, unless that costs an alternation that
    would else be perfect."""
    if not directions:
        return []
    turned = [directions[(turn + n) % len(directions)] for n in range(len(directions))]

    def rank(direction: str, _: int) -> int:
        return turned.index(direction)

    free = spread(counts, rank)
    turned_order = spread(counts, rank, turned[0])
    return free if alike(free) == 0 < alike(turned_order) else turned_order


def _turns(
    questions: Sequence[BalancedItem],
    columns: Mapping[Column, int],
    seed: int,
    survey: int,
    unit: int,
    rater: int,
) -> list[BalancedItem]:
    """Returns the items of a unit in the order of a row of the design, with controls anywhere."""
    place = _places(columns, seed, survey, unit, rater)
    real = sorted(
        (q for q in questions if not q.item.control),
        key=lambda q: min(place[column] for column in q.columns),
    )
    for question in questions:
        if question.item.control:
            position = drawn(seed, "control", survey, rater, question.item.key)
            real.insert(position % (len(real) + 1), question)
    return real


def _places(
    columns: Mapping[Column, int], seed: int, survey: int, unit: int, rater: int
) -> dict[Column, int]:
    """Returns the place of each system in a unit, by a row of the design.

    The next unit and the next rater have the next row. If the number of systems is odd, mirrored
    rows are for other raters or surveys.
    """
    n = len(columns)
    if not n:
        return {}
    turn = unit + rater + drawn(seed, "first row", survey)
    mirrored = n % 2 == 1 and (survey + rater // n) % 2 == 1
    places = {treatment: place for place, treatment in enumerate(williams(n, turn % n, mirrored))}
    return {column: places[number] for column, number in columns.items()}


def _repaired(order: Sequence[BalancedItem], rank: Callable[[int, int], int]) -> list[BalancedItem]:
    """Returns the order after swaps that separate items of one source and move controls inwards.

    Swaps are within a direction, and go on while they make the order better, or for a while no
    worse. A control that can't leave the end otherwise is swapped with an item of any direction.

    Args:
        rank: number of a step and a place; breaks ties between swaps.
    """
    order = list(order)
    best = list(order)
    sources = Counter(question.shared for question in order)
    fewest = max(0, 2 * max(sources.values(), default=0) - len(order) - 1)

    def faults(place: int) -> int:
        """Returns what is wrong at a place and with its neighbours."""
        here = order[place]
        beside = [order[n] for n in (place - 1, place + 1) if 0 <= n < len(order)]
        edge_control = bool(here.item.control) and place in (0, len(order) - 1)
        return _AT_END * edge_control + sum(here.shared == other.shared for other in beside)

    def swap(a: int, b: int) -> int:
        """Swaps two items, and returns how many faults fewer there are."""
        before = faults(a) + faults(b)
        order[a], order[b] = order[b], order[a]
        return before - faults(a) - faults(b)

    least = _faults_of(order)
    level_steps = 0
    for step in itertools.count():
        faulty = [n for n in range(len(order)) if faults(n)]
        if least <= fewest or not faulty or level_steps > _LEVEL_STEPS:
            break
        a = max(faulty, key=lambda n: (faults(n) >= _AT_END, rank(step, n)))
        any_direction = faults(a) >= _AT_END
        best_gain = (False, False, -1)
        as_good: list[int] = []
        for b in range(len(order)):
            same = order[b].item.direction == order[a].item.direction
            if b != a and (same or any_direction):
                gain = swap(a, b)
                swap(a, b)
                if (here := (gain >= _AT_END // 2, same, gain)) >= best_gain or not as_good:
                    as_good = [*as_good, b] if here == best_gain else [b]
                    best_gain = here
        b = max(as_good, key=lambda n: (rank(step, n), n), default=0)
        gain = best_gain[-1]
        level_steps += gain <= 0
        if gain >= 0:
            swap(a, b)
        if (now := _faults_of(order)) < least:
            least, best = now, list(order)
    return best


def _faults_of(order: list[BalancedItem]) -> int:
    ends = sum(bool(question.item.control) for question in (order[:1] + order[-1:]))
    return _AT_END * ends + alike([question.shared for question in order])


_AT_END = 100
"""Weight of a control at either end: it is worse than neighbours of one source."""

_LEVEL_STEPS = 100
"""Swaps without improvement after which the search ends."""


def slots_of(
    surveys: Sequence[Sequence[BalancedItem]], design: Design, raters: int, seed: int
) -> list[Slot]:
    """Returns all slots, survey by survey.

    Args:
        surveys: the items of each.
    """
    everything = [question for survey in surveys for question in survey]
    columns = columns_in_order(everything, seed)
    slots = []
    for s, questions in enumerate(surveys):
        distinct = dict.fromkeys(question.unit for question in questions)
        units = {unit: n for n, unit in enumerate(distinct)}
        for r in range(raters):
            left = _second_first(questions, columns, seed, s, r) if design == "pairwise" else set()
            placed = []
            for question in order_of_slot(questions, columns, seed, s, r):
                order: tuple[int, ...] = (0,)
                if design == "pairwise":
                    order = (1, 0) if question.item.key in left else (0, 1)
                elif design == "ranking":
                    order = _display(question, columns, seed, s, units[question.unit], r)
                opaque = secrets.token_urlsafe(_OPAQUE_BYTES)
                placed.append(Placed(question.item.key, opaque, order))
            slots.append(Slot(f"survey {s + 1}, rater {r + 1}", s + 1, tuple(placed)))
    return slots


def _second_first(
    questions: Sequence[BalancedItem],
    columns: Mapping[Column, int],
    seed: int,
    survey: int,
    rater: int,
) -> set[str]:
    """Returns the keys of the pairs whose second text is on the left.

    They are half of the pairs of any two systems, and for the next rater the other half.
    """
    kinds: defaultdict[object, list[BalancedItem]] = defaultdict(list)
    for question in questions:
        kinds[question.item.control or question.columns[0]].append(question)
    swapped = set()
    for kind, alike_ones in kinds.items():
        number = columns.get(kind, 0) if isinstance(kind, tuple) else 0
        drawn_order = sorted(
            alike_ones, key=lambda q: drawn(seed, "left", survey, rater // 2, q.item.key)
        )
        swapped |= {
            question.item.key
            for n, question in enumerate(drawn_order)
            if (n + number + survey + rater) % 2
        }
    return swapped


def _display(
    question: BalancedItem,
    columns: Mapping[Column, int],
    seed: int,
    survey: int,
    unit: int,
    rater: int,
) -> tuple[int, ...]:
    """Returns the candidates of a ranking in the order of display."""
    if question.item.control:
        candidates = range(len(question.item.candidates))
        key = question.item.key
        return tuple(
            sorted(candidates, key=lambda n: drawn(seed, "display", survey, rater, key, n))
        )
    places = _places(columns, seed, survey, unit, rater)
    firsts = [min(places[column] for column in place) for place in question.places]
    return tuple(sorted(range(len(firsts)), key=firsts.__getitem__))


def with_survey(question: BalancedItem, survey: int) -> BalancedItem:
    """Returns the item in its survey, from 1."""
    item: Item = replace(question.item, survey=survey)
    return replace(question, item=item)
