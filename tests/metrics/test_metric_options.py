"""Options of all installed metrics: each is declared, explained, and refused outside its range in
Python and on the command line alike."""

from __future__ import annotations

import pickle

import pytest

from levelfield.core.errors import UserError
from levelfield.core.options import Options, make
from levelfield.core.registry import create, installed, metric_class, options
from values_outside import outside

REQUIRED = {"question": {"question": "coherence"}, "style.perplexity": {"models": "a=b"}}
"""Metric -> values without which it can't be made."""

METRICS = [name for name in installed() if metric_class(name).__module__.startswith("levelfield.")]
CHOICES = [(name, choice) for name in METRICS for choice in options(metric_class(name)).values()]


OUTSIDE = [(name, choice, value) for name, choice in CHOICES for value in outside(choice)]


@pytest.mark.parametrize(
    ("metric", "choice", "value"), OUTSIDE, ids=[f"{m}-{c.name}-{v}" for m, c, v in OUTSIDE]
)
def test_a_value_outside_is_refused_with_what_was_expected(metric, choice, value):
    made = metric_class(metric)
    values = {**REQUIRED.get(metric, {}), choice.name: value}
    ways = [
        lambda: made.of(**values),
        lambda: make(made, values),
        lambda: create([metric], {}, values),
        lambda: create([metric], {}, {name: str(v) for name, v in values.items()}),
    ]
    for way in ways:
        with pytest.raises(UserError) as error:
            way()
        message = str(error.value)
        assert f"{choice.name}={value}: expected {choice.expected}" in message


def test_every_metric_is_checked_at_its_ranges():
    checked = {(metric, choice.name) for metric, choice, _ in OUTSIDE}
    ranges = [("diversity.hdd-1", "draws"), ("meteor.source", "alpha"), ("comet.source", "batch")]
    assert checked.issuperset(ranges)
    assert {metric for metric, _ in checked} == {*METRICS} - {"style.degenerate"}


@pytest.mark.parametrize(
    "help", [c.rule.help for _, c in CHOICES], ids=[f"{metric}-{c.name}" for metric, c in CHOICES]
)
def test_every_option_says_what_it_does(help):
    assert help[:1].isupper()
    assert help.endswith(".")
    assert not help.startswith(("Of ", "Whether ", "What ", "How "))
    assert "  " not in help


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_is_an_equal_one_after_a_way_through_a_pipe(metric):
    made = metric_class(metric)
    assert issubclass(made, Options)
    one = make(made, REQUIRED.get(metric, {}))
    other = pickle.loads(pickle.dumps(one))
    assert (other, hash(other)) == (one, hash(one))
    assert one.replace() == one
