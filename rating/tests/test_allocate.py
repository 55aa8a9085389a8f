"""Who sees what, in which order: complete, alternating, balanced, and the same for a seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import datasets
from levelfield.core.sample import Sample
from levelfield_rating.allocate import (
    alike,
    deal,
    slots_of,
    spread,
    williams,
    with_survey,
)
from levelfield_rating.model import Design, Item, Slot
from levelfield_rating.units import BalancedItem, Show, Unit, questions_of, units_of

SHOW = Show(fields=("source", "prompt"))


def sample(source: str, system: str, text: str, direction: str = "", **more: str) -> Sample:
    control = {"way": direction} if direction else {}
    name = f"{source}/{direction}/{system}/{text}"
    return Sample(id=name, text=text, source=source, system=system, control=control, **more)


def full_grid(sources: int, systems: int, directions: Sequence[str] = ("up", "down")) -> list[Unit]:
    """Returns every source by every system, no two texts alike."""
    return units_of(
        [
            sample(f"source {n}", f"s{k}", f"text {n} of {k}", directions[n % len(directions)])
            for n in range(sources)
            for k in range(systems)
        ],
        SHOW,
        attribute="way",
    )


def allocated(
    units: Sequence[Unit], *, surveys: int = 1, raters: int = 2, seed: int = 1, **design: str
) -> tuple[dict[str, Item], list[Slot]]:
    kind: Design = design.get("kind", "direct")  # type: ignore[assignment]
    dealt = [
        [
            with_survey(question, number)
            for unit in dealt
            for question in questions_of(unit, kind, pairs_with=design.get("pairs_with", ""))
        ]
        for number, dealt in enumerate(deal(units, surveys, seed), 1)
    ]
    items = {question.item.key: question.item for survey in dealt for question in survey}
    return items, slots_of(dealt, kind, raters, seed)


def orders(slots: Sequence[Slot]) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Returns the contents of slots, without the opaque ids."""
    return [[(placed.item, placed.order) for placed in slot.items] for slot in slots]


def system(item: Item) -> str:
    return item.candidates[0].samples[0].split("/")[2]


def _few(counts: dict[str, int]) -> bool:
    """Returns whether they are few enough for all orders to be tried."""
    return sum(counts.values()) <= 7


SOURCES = st.integers(0, 6).map("source {}".format)
SAMPLES = st.lists(
    st.builds(
        sample,
        st.one_of(st.just(""), SOURCES),
        st.sampled_from(["a", "b", "c", ""]),
        st.sampled_from(["one", " one ", "two", "three\n", "", "four"]),
        st.sampled_from(["up", "down", "left"]),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda s: s.id,
)


@given(SAMPLES, st.integers(1, 3), st.integers(1, 3), st.integers(0, 5))
def test_every_distinct_text_is_once_in_its_survey_and_once_in_each_of_its_slots(
    samples, surveys, raters, seed
):
    units = units_of(samples, SHOW, attribute="way")
    items, slots = allocated(units, surveys=surveys, raters=raters, seed=seed)

    # a sample made from nothing stands for itself
    texts = {(s.source or s.id, s.control["way"], " ".join(s.text.split())): s.id for s in samples}
    assert len(items) == len(texts)
    sample_counts = Counter(
        i for item in items.values() for c in item.candidates for i in c.samples
    )
    assert sample_counts == Counter(s.id for s in samples)
    assert len(slots) == surveys * raters
    for slot in slots:
        survey_keys = Counter(key for key, item in items.items() if item.survey == slot.survey)
        assert Counter(placed.item for placed in slot.items) == survey_keys


@given(SAMPLES, st.integers(1, 4), st.integers(0, 5))
def test_surveys_get_as_many_sources_of_each_direction_and_in_all_give_or_take_one(
    samples, surveys, seed
):
    dealt = deal(units_of(samples, SHOW, attribute="way"), surveys, seed)

    for direction in ("up", "down", "left"):
        counts = [sum(unit.direction == direction for unit in survey) for survey in dealt]
        assert max(counts) - min(counts) <= 1
    sizes = [len(survey) for survey in dealt]
    assert max(sizes) - min(sizes) <= 1


@given(SAMPLES, st.integers(1, 3), st.integers(0, 5))
def test_directions_alternate_as_far_as_their_counts_allow(samples, surveys, seed):
    items, slots = allocated(units_of(samples, SHOW, attribute="way"), surveys=surveys, seed=seed)

    for slot in slots:
        ways = [items[placed.item].direction for placed in slot.items]
        most = max(Counter(ways).values(), default=0)
        unavoidable = max(0, most - (len(ways) - most) - 1)
        # where they can't alternate throughout, one more lets the first one be balanced
        assert alike(ways) <= unavoidable + (unavoidable > 0)


@pytest.mark.parametrize(("raters", "surveys"), [(2, 1), (1, 2), (2, 2), (4, 1)])
def test_each_direction_comes_first_in_as_many_slots(raters, surveys):
    items, slots = allocated(full_grid(8, 3), surveys=surveys, raters=raters)

    first = Counter(items[slot.items[0].item].direction for slot in slots)
    assert first["up"] == first["down"]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 3), st.integers(0, 9))
def test_texts_of_one_source_are_never_neighbours_if_that_can_be_avoided(sizes, raters, seed):
    units = units_of(
        [
            sample(f"source {n}", f"s{k}", f"{k}")
            for n, size in enumerate(sizes)
            for k in range(size)
        ],
        SHOW,
    )

    items, slots = allocated(units, raters=raters, seed=seed)

    unavoidable = max(0, 2 * max(sizes) - sum(sizes) - 1)
    for slot in slots:
        sources = [items[placed.item].given[0].text for placed in slot.items]
        assert alike(sources) == unavoidable


@settings(max_examples=20)
@given(st.integers(3, 6), st.integers(2, 5), st.integers(0, 9))
def test_a_prompt_under_two_directions_is_not_its_own_neighbour(prompts, systems, seed):
    samples = [
        sample(f"prompt {n}", f"s{k}", f"{n} {k} {way}", way)
        for n in range(prompts)
        for way in ("up", "down")
        for k in range(systems)
    ]

    items, slots = allocated(units_of(samples, SHOW, attribute="way"), seed=seed)

    for slot in slots:
        assert alike([items[placed.item].given[0].text for placed in slot.items]) == 0


@pytest.mark.parametrize("systems", [2, 3, 4, 5, 8])
def test_systems_take_all_places_of_a_source_equally_often(systems):
    items, slots = allocated(full_grid(2 * systems, systems), raters=2)

    for slot in slots:
        seen: Counter[str] = Counter()
        places: Counter[tuple[str, int]] = Counter()
        for placed in slot.items:
            item = items[placed.item]
            places[system(item), seen[item.given[0].text]] += 1
            seen[item.given[0].text] += 1
        assert set(places.values()) == {2}
        assert len(places) == systems * systems


@pytest.mark.parametrize("systems", [2, 4, 5])
def test_over_as_many_raters_as_systems_a_source_begins_with_each(systems):
    items, slots = allocated(full_grid(4, systems), raters=systems)

    begins: defaultdict[str, set[str]] = defaultdict(set)
    for slot in slots:
        first: dict[str, str] = {}
        for placed in slot.items:
            item = items[placed.item]
            first.setdefault(item.given[0].text, system(item))
        for source, name in first.items():
            begins[source].add(name)
    assert all(len(names) == systems for names in begins.values())


@given(st.integers(4, 12), st.integers(2, 6), st.integers(0, 20))
def test_no_system_comes_earlier_in_a_slot_than_the_others(sources, systems, seed):
    items, slots = allocated(full_grid(sources, systems), raters=1, seed=seed)

    (slot,) = slots
    places: defaultdict[str, list[int]] = defaultdict(list)
    for n, placed in enumerate(slot.items):
        places[system(items[placed.item])].append(n)
    for positions in places.values():
        # in each of the `systems` rounds of `sources` items a system has its share, or one more
        assert (
            abs(sum(positions) / len(positions) - (len(slot.items) - 1) / 2)
            <= sources / 2 + systems
        )


def test_raters_of_a_survey_see_different_orders():
    _, slots = allocated(full_grid(8, 3), raters=5)

    assert len({tuple(placed.item for placed in slot.items) for slot in slots}) == 5


@pytest.mark.parametrize("kind", ["direct", "pairwise", "ranking"])
def test_a_seed_decides_everything_but_the_opaque_ids(kind):
    units = full_grid(8, 3)
    _, first = allocated(units, surveys=2, seed=1, kind=kind)
    _, same = allocated(units, surveys=2, seed=1, kind=kind)
    _, other = allocated(units, surveys=2, seed=2, kind=kind)

    assert orders(first) == orders(same)
    assert orders(first) != orders(other)
    opaque = [placed.opaque for slots in (first, same) for slot in slots for placed in slot.items]
    assert len(set(opaque)) == len(opaque)


def test_all_pairs_of_systems_are_asked_once_a_source_or_those_with_one_system():
    units = full_grid(4, 4)

    items, _ = allocated(units, kind="pairwise")
    assert len(items) == 4 * 6
    items, _ = allocated(units, kind="pairwise", pairs_with="s2")
    assert len(items) == 4 * 3
    assert all(
        "s2" in {c.samples[0].split("/")[2] for c in item.candidates} for item in items.values()
    )


@given(st.integers(1, 9), st.integers(2, 4), st.integers(0, 9))
def test_each_system_of_a_pair_is_left_as_often_as_the_other_and_sides_change_with_raters(
    sources, systems, seed
):
    items, slots = allocated(full_grid(sources, systems), kind="pairwise", seed=seed)

    sides: list[dict[str, tuple[int, ...]]] = []
    for slot in slots:
        sides.append({placed.item: placed.order for placed in slot.items})
        left: Counter[tuple[str, ...]] = Counter()
        for key, order in sides[-1].items():
            names = tuple(c.samples[0].split("/")[2] for c in items[key].candidates)
            left[names] += 1 if order == (0, 1) else -1
        assert all(abs(n) <= 1 for n in left.values())
    assert all(sides[0][key] == sides[1][key][::-1] for key in sides[0])


@pytest.mark.parametrize("systems", [3, 4])
def test_the_texts_of_a_ranking_take_all_places_equally_often(systems):
    items, slots = allocated(full_grid(2 * systems, systems), kind="ranking")

    for slot in slots:
        places: Counter[tuple[str, int]] = Counter()
        for placed in slot.items:
            assert sorted(placed.order) == list(range(systems))
            for position, n in enumerate(placed.order):
                places[items[placed.item].candidates[n].samples[0].split("/")[2], position] += 1
        assert set(places.values()) == {2}


def test_equal_texts_are_shown_once_and_represent_all_their_samples():
    samples = [
        sample("S", "a", "It  rains."),
        sample("S", "b", "Rain."),
        sample("S", "c", "It rains."),
    ]

    (unit,) = units_of(samples, SHOW)

    assert [output.samples for output in unit.outputs] == [
        (samples[0].id, samples[2].id),
        (samples[1].id,),
    ]
    assert unit.outputs[0].part.text == "It  rains."
    assert len(questions_of(unit, "pairwise")) == 1
    (ranking,) = questions_of(unit, "ranking")
    assert len(ranking.item.candidates) == 2


def test_equal_texts_of_different_sources_or_directions_are_shown_for_each():
    samples = [
        sample("S", "a", "x", "up"),
        sample("S", "b", "x", "down"),
        sample("T", "a", "x", "up"),
    ]

    assert len(units_of(samples, SHOW, attribute="way")) == 3


def test_samples_made_from_nothing_are_judged_each_by_itself():
    samples = [Sample(id=str(n), text="The same.") for n in range(3)]

    items, slots = allocated(units_of(samples, SHOW), raters=1)

    assert {c.samples for i in items.values() for c in i.candidates} == {("0",), ("1",), ("2",)}
    assert len(slots[0].items) == 3


def test_one_text_of_one_system_is_a_study():
    items, slots = allocated(units_of([sample("S", "a", "x")], SHOW), raters=1)

    assert [placed.item for placed in slots[0].items] == list(items)


def test_systems_without_a_text_for_each_source_are_balanced_as_far_as_it_goes():
    units = units_of(
        [
            sample(f"S{n}", f"s{k}", f"{n} {k}")
            for n in range(12)
            for k in range(4)
            if (n + k) % 4 and not (k == 3 and n < 6)
        ],
        SHOW,
    )

    items, slots = allocated(units, raters=3)

    assert all(len(slot.items) == len(items) for slot in slots)
    assert all(
        alike([items[placed.item].given[0].text for placed in slot.items]) == 0 for slot in slots
    )


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), min_size=1).filter(_few))
def test_spread_has_as_few_neighbours_alike_as_any_order(counts):
    keys = "".join(key * n for key, n in counts.items())
    fewest = min(alike(order) for order in set(permutations(keys)))

    order = spread(counts, lambda key, n: ord(key) + n)

    assert Counter(order) == counts
    assert alike(order) == fewest
    for first in counts:
        begun = spread(counts, lambda key, n: ord(key) + n, first)
        assert begun[0] == first
        assert alike(begun) == min(alike(o) for o in set(permutations(keys)) if o[0] == first)


@given(st.integers(1, 9))
def test_rows_of_the_design_are_a_latin_square_in_which_all_follow_each_other_equally_often(n):
    rows = [williams(n, row) for row in range(n)]

    assert all(sorted(row) == list(range(n)) for row in rows)
    assert all(sorted(column) == list(range(n)) for column in zip(*rows, strict=True))
    mirrored = [williams(n, row, True) for row in range(n)] if n % 2 else []
    after = Counter(pair for row in rows + mirrored for pair in pairwise(row))
    assert len(after) == n * (n - 1)
    assert len(set(after.values())) <= 1


@settings(max_examples=5)
@given(st.integers(0, 100))
def test_the_grid_of_the_thesis_is_allocated_as_it_was(seed):
    """80 sources in two directions, 9 systems, 4 surveys of 20, each for two raters."""
    items, slots = allocated(full_grid(80, 9), surveys=4, raters=2, seed=seed)

    assert len(slots) == 8
    for slot in slots:
        shown = [items[placed.item] for placed in slot.items]
        assert Counter(item.direction for item in shown) == {"up": 90, "down": 90}
        assert alike([item.direction for item in shown]) == 0
        per_source = Counter(item.given[0].text for item in shown)
        assert len(per_source) == 20
        assert set(per_source.values()) == {9}
        positions = defaultdict(list)
        for n, item in enumerate(shown):
            positions[item.given[0].text].append(n)
        assert min(b - a for places in positions.values() for a, b in pairwise(places)) >= 4


@pytest.mark.usefixtures("rated_data")
def test_the_judgements_of_the_thesis_are_548_texts_to_judge():
    """9 texts of each of 80 sources; 172 of the 720 are equal to another system's."""
    samples = [
        Sample(s.id, s.text, source=s.source, control=s.control, system=s.system)
        for s in datasets.load("formality-judgements", here=True)
    ]

    units = units_of(samples, SHOW, attribute="formality")
    items, slots = allocated(units, surveys=4)

    assert len(samples) == 720
    assert len(units) == 80
    assert len(items) == 548
    for slot in slots:
        assert alike([items[placed.item].given[0].text for placed in slot.items]) == 0


def _question_keys(questions: Sequence[BalancedItem]) -> list[str]:
    return [question.item.key for question in questions]


def test_items_are_named_by_their_place_in_the_files_whatever_the_seed():
    units = full_grid(2, 3)

    assert _question_keys(questions_of(units[0], "direct")) == ["u0001-1", "u0001-2", "u0001-3"]
    assert _question_keys(questions_of(units[1], "pairwise")) == [
        "u0002-1-2",
        "u0002-1-3",
        "u0002-2-3",
    ]
    assert _question_keys(questions_of(units[1], "ranking")) == ["u0002"]


def chosen_by_cost(counts, rank, first=None):
    """What `spread` says, step by step: the key that leaves the fewest neighbours alike, else the
    one whose turn it is."""
    left = {key: n for key, n in counts.items() if n}
    order = []

    def alike_at_least(key):
        after = {k: n - (k == key) for k, n in left.items()}
        total = sum(after.values())
        forced = max(max(0, n - 1 - (total - n)) for n in after.values())
        more = max(0, after[key] - (total - after[key]))  # the key can't be first of the rest
        return (bool(order) and key == order[-1]) + max(forced, more)

    while any(left.values()):
        keys = [key for key, n in left.items() if n]
        if not order and first is not None:
            keys = [first]
        fewest = min(map(alike_at_least, keys))
        best = [key for key in keys if alike_at_least(key) == fewest]

        def turn(key):
            used = counts[key] - left[key]
            return (used + 0.5) / counts[key], rank(key, used)

        order.append(min(best, key=turn))
        left[order[-1]] -= 1
    return order


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 7)), st.integers(1, 9), st.data())
def test_the_heap_chooses_what_the_definition_does(counts, ranks, data):
    """With ties between ranks, and with each key first."""

    def rank(key, n):
        return (ord(key) * 31 + n * 17) % ranks

    starts = [None, *(key for key, n in counts.items() if n)]
    first = data.draw(st.sampled_from(starts))
    assert spread(counts, rank, first) == chosen_by_cost(counts, rank, first)


@pytest.mark.parametrize("most", [1, 400])
def test_a_long_order_asks_for_every_rank_once(most):
    calls = Counter()

    def rank(key, n):
        calls[key, n] += 1
        return hash((key, n))

    counts = {key: 1 + (most - 1) * (key == 0) for key in range(1000)}
    spread(counts, rank)
    assert sum(calls.values()) == sum(counts.values())
