"""Wanted values of an attribute: one, several or none."""

import doctest

import pytest

from levelfield.core import sample
from levelfield.core.sample import single_value, wanted_name, wanted_values


@pytest.mark.parametrize(
    ("group", "values", "single", "name"),
    [
        ("positive", ("positive",), "positive", "positive"),
        (("positive",), ("positive",), "positive", "positive"),
        (("court", "culture"), ("court", "culture"), ("court", "culture"), "court, culture"),
        ((), (), (), ""),
        ("", ("",), "", ""),
    ],
)
def test_one_value_several_and_none_are_read_by_one_rule(group, values, single, name):
    assert wanted_values(group) == values
    assert single_value(group) == single
    assert wanted_name(group) == name


def test_the_docstrings_examples_run():
    assert doctest.testmod(sample) == (0, 3)
