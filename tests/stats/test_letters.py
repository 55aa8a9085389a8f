"""Compact letter display."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.letters import compact_letters, letter


@st.composite
def relations(draw, largest=9):
    """The number of items, and the pairs of them that differ."""
    n = draw(st.integers(0, largest))
    pairs = list(itertools.combinations(range(n), 2))
    flags = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return n, {pair for pair, differs in zip(pairs, flags, strict=True) if differs}


@given(relations())
def test_two_items_share_a_letter_exactly_if_they_do_not_differ(relation):
    n, differ = relation
    letters = compact_letters(n, lambda i, j: (i, j) in differ)
    assert all(letters)
    for i, j in itertools.combinations(range(n), 2):
        assert bool({*letters[i]} & {*letters[j]}) == ((i, j) not in differ)


@given(relations())
def test_no_letter_is_superfluous(relation):
    n, differ = relation
    letters = compact_letters(n, lambda i, j: (i, j) in differ)
    for unwanted in {name for names_of_item in letters for name in names_of_item}:
        without = [{*names_of_item} - {unwanted} for names_of_item in letters]
        assert not all(without) or any(
            not without[i] & without[j]
            for i, j in itertools.combinations(range(n), 2)
            if (i, j) not in differ
        )


@given(relations())
def test_letters_come_in_the_order_of_the_items(relation):
    n, differ = relation
    letters = compact_letters(n, lambda i, j: (i, j) in differ)
    names = list(dict.fromkeys(name for names_of_item in letters for name in names_of_item))
    assert names == [letter(i) for i in range(len(names))]


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(0, 10))
def test_items_that_differ_by_distance_need_the_fewest_letters(values, near):
    values = sorted(values)
    n = len(values)
    letters = compact_letters(n, lambda i, j: values[j] - values[i] > near)
    reach = [max(j for j in range(n) if values[j] - values[i] <= near) for i in range(n)]
    largest = [i for i in range(n) if i == 0 or reach[i] > reach[i - 1]]  # maximal cliques
    assert len({name for names_of_item in letters for name in names_of_item}) == len(largest)


def test_more_than_26_letters_are_names_of_two():
    letters = compact_letters(30, lambda _i, _j: True)
    assert [name for (name,) in letters][24:28] == ["y", "z", "aa", "ab"]


def test_forty_items_with_many_cliques_take_no_time():
    letters = compact_letters(40, lambda i, j: j == i + 1 and i % 2 == 0)
    assert not {*letters[0]} & {*letters[1]}
    assert {*letters[0]} & {*letters[39]}
