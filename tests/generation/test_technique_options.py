"""Options of all techniques: each is declared, explained, and refused outside its range in Python
and on the command line alike."""

from __future__ import annotations

import pickle

import pytest

from levelfield.core.errors import UserError
from levelfield.core.options import Options, choices
from levelfield.generation.contract import Decoding
from levelfield.generation.table import TECHNIQUES, make_technique, technique_class
from values_outside import outside

pytest.importorskip("torch")

REQUIRED = {"chat": {"model": "m", "base_url": "http://localhost:1/v1"}}
"""Technique -> values without which it can't be made."""

CHOICES = [(name, one) for name in TECHNIQUES for one in choices(technique_class(name)).values()]


OUTSIDE = [(name, choice, value) for name, choice in CHOICES for value in outside(choice)]


@pytest.mark.parametrize(
    ("technique", "choice", "value"), OUTSIDE, ids=[f"{t}-{c.name}-{v}" for t, c, v in OUTSIDE]
)
def test_a_value_outside_is_refused_with_what_was_expected(technique, choice, value):
    made = technique_class(technique)
    values = {**REQUIRED.get(technique, {}), choice.name: value}
    ways = [
        lambda: made.of(**values),
        lambda: make_technique(technique, values),
        lambda: make_technique(technique, {name: str(v) for name, v in values.items()}),
    ]
    for way in ways:
        with pytest.raises(UserError) as error:
            way()
        message = str(error.value)
        assert f"{choice.name}={value}: expected {choice.expected}" in message


def test_every_technique_is_checked_at_its_ranges():
    checked = {(technique, choice.name) for technique, choice, _ in OUTSIDE}
    ranges = [("gedi", "filter_p"), ("cat-paw", "tau"), ("chat", "timeout"), ("bolt", "noise")]
    assert checked.issuperset(ranges)
    assert {technique for technique, _ in checked} == {*TECHNIQUES} - {"copy", "rules"}


@pytest.mark.parametrize("option", ["max_new_tokens", "temperature", "top_p"])
def test_a_mistyped_option_is_named_with_its_neighbour(option):
    with pytest.raises(UserError, match=f"there is no option '{option}x'; did you mean '{option}'"):
        Decoding.of(**{f"{option}x": 1})


HELPS = [*CHOICES, *(("decoding", choice) for choice in choices(Decoding).values())]


@pytest.mark.parametrize(
    "help", [c.rule.help for _, c in HELPS], ids=[f"{name}-{c.name}" for name, c in HELPS]
)
def test_every_option_says_what_it_does(help):
    assert help[:1].isupper()
    assert help.endswith(".")
    assert not help.startswith(("Of ", "Whether ", "What ", "How ", "A "))
    assert "  " not in help


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_field_of_a_technique_is_declared(technique):
    """What a class declares needs no `Args`, so its docstring can't disagree."""
    made = technique_class(technique)
    assert issubclass(made, Options)
    assert "Args:" not in (made.__doc__ or "")
    assert all(choice.rule.help for choice in choices(made).values())


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_technique_is_an_equal_one_after_a_way_through_a_pipe(technique):
    one = make_technique(technique, REQUIRED.get(technique, {}))
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.replace() == one
