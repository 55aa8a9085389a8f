"""Options of all techniques: each is declared, explained, and refused outside its range in Python
and on the command line alike."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from levelfield.core.errors import UserError
from levelfield.core.options import Options, choices
from levelfield.generation.contract import Decoding
from levelfield.generation.table import TECHNIQUES, make_technique, technique_class
from values_outside import Maker, accepted_outside, distinct, outside, unclear_help

pytest.importorskip("torch")

REQUIRED = {"chat": {"model": "m", "base_url": "http://localhost:1/v1"}}
"""Technique -> values without which it can't be made."""

CHOICES = [
    (name, choice) for name in TECHNIQUES for choice in choices(technique_class(name)).values()
]


def makers(technique: str) -> Iterator[Maker]:
    made, required = technique_class(technique), REQUIRED.get(technique, {})
    yield lambda values: made.of(**{**required, **values})
    yield lambda values: make_technique(technique, {**required, **values})
    yield lambda values: make_technique(
        technique, {name: str(value) for name, value in {**required, **values}.items()}
    )


def test_values_outside_a_range_are_refused_with_what_was_expected():
    assert accepted_outside(distinct(CHOICES), makers) == []


def test_every_technique_is_checked_at_its_ranges():
    checked = {(technique, choice.name) for technique, choice in CHOICES if any(outside(choice))}
    ranges = [("gedi", "filter_p"), ("cat-paw", "tau"), ("chat", "timeout"), ("bolt", "noise")]
    assert checked.issuperset(ranges)
    assert {technique for technique, _ in checked} == {*TECHNIQUES} - {"copy", "rules"}


@pytest.mark.parametrize("option", ["max_new_tokens", "temperature", "top_p"])
def test_a_mistyped_option_is_named_with_its_neighbour(option):
    with pytest.raises(UserError, match=f"there is no option '{option}x'; did you mean '{option}'"):
        Decoding.of(**{f"{option}x": 1})


def test_every_option_says_what_it_does():
    decoding = [("decoding", choice) for choice in choices(Decoding).values()]
    assert unclear_help(distinct([*CHOICES, *decoding])) == []


def test_every_field_of_a_technique_is_declared():
    """What a class declares needs no `Args`, so its docstring can't disagree."""
    for technique in TECHNIQUES:
        made = technique_class(technique)
        assert issubclass(made, Options), technique
        assert "Args:" not in (made.__doc__ or ""), technique
        assert all(choice.rule.help for choice in choices(made).values()), technique


def test_a_technique_is_an_equal_one_after_pickling():
    for technique in TECHNIQUES:
        value = make_technique(technique, REQUIRED.get(technique, {}))
        assert pickle.loads(pickle.dumps(value)) == value, technique
        assert value.replace() == value, technique
