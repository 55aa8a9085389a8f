"""Options of all installed metrics: each is declared, explained, and refused outside its range in
Python and on the command line alike."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from levelfield.core.options import Options, make
from levelfield.core.registry import create, installed, metric_class, options
from values_outside import Maker, accepted_outside, distinct, outside, unclear_help

REQUIRED = {"question": {"question": "coherence"}, "style.perplexity": {"models": "a=b"}}
"""Metric -> values without which it can't be made."""

METRICS = [name for name in installed() if metric_class(name).__module__.startswith("levelfield.")]
CHOICES = [(name, choice) for name in METRICS for choice in options(metric_class(name)).values()]


def makers(metric: str) -> Iterator[Maker]:
    cls, required = metric_class(metric), REQUIRED.get(metric, {})
    yield lambda values: cls.of(**{**required, **values})
    yield lambda values: make(cls, {**required, **values})
    yield lambda values: create([metric], {}, {**required, **values})
    yield lambda values: create(
        [metric], {}, {name: str(value) for name, value in {**required, **values}.items()}
    )


def test_values_outside_a_range_are_refused_with_what_was_expected():
    assert accepted_outside(distinct(CHOICES), makers) == []


def test_every_metric_is_checked_at_its_ranges():
    checked = {(metric, choice.name) for metric, choice in CHOICES if any(outside(choice))}
    ranges = [("diversity.hdd-1", "draws"), ("meteor.source", "alpha"), ("comet.source", "batch")]
    assert checked.issuperset(ranges)
    assert {metric for metric, _ in checked} == {*METRICS} - {"style.degenerate"}


def test_every_option_says_what_it_does():
    assert unclear_help(distinct(CHOICES)) == []


def test_a_metric_is_an_equal_one_after_pickling():
    for metric in METRICS:
        cls = metric_class(metric)
        assert issubclass(cls, Options)
        value = make(cls, REQUIRED.get(metric, {}))
        copy = pickle.loads(pickle.dumps(value))
        assert (copy, hash(copy)) == (value, hash(value)), metric
        assert value.replace() == value, metric
