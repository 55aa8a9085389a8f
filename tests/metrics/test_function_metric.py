"""Metrics that are functions."""

from __future__ import annotations

import math

import pytest

import levelfield
from levelfield.core.errors import UserError
from levelfield.core.metric import check_metric
from levelfield.core.sample import Sample
from levelfield.metrics.function_metric import NO_VALUE, metric

FILE = """
from levelfield import metric

@metric(direction="lower")
def words(text):
    return len(text.split())
"""


@metric(direction="higher")
def overlap(text, prompt=""):
    words = set(prompt.split())
    return len(words & set(text.split())) / len(words) if words else None


def test_parameters_are_fields_and_none_is_not_a_value():
    instance = overlap()
    check_metric(instance)
    assert (instance.requires, instance.reads) == ({"text"}, {"prompt"})
    samples = [Sample("1", "The lake was", prompt="The lake"), Sample("2", "A day")]
    scores = instance.score(samples)
    assert scores.values[0] == 1
    assert math.isnan(scores.values[1])
    assert scores.undefined == {"2": NO_VALUE}
    assert scores.direction == "higher"


def test_a_field_that_a_sample_lacks_has_the_default():
    @metric
    def beginning(text, prompt="none", seed=7):
        return len(text + prompt) + (seed or 0)

    samples = [Sample("1", "A"), Sample("2", "A", prompt="The lake", seed=0)]
    assert beginning().score(samples).values.tolist() == [12, 9]


def test_another_body_has_another_signature():
    def words(text):
        return len(text.split())

    first = metric(words)().signature

    def words(text):
        return len(text.split()) + 1

    assert metric(words)().signature != first
    assert first.startswith("words|function:")


def test_a_parameter_that_is_not_a_field_is_refused():
    with pytest.raises(
        UserError, match=r"metric 'bad': txt: not a field of samples; parameters can be "
    ):

        @metric
        def bad(txt):
            return len(txt)


def test_what_a_function_calls_may_change_between_runs():
    offset = [0]

    @metric
    def shifted(text):
        return len(text) + offset[0]

    values = []
    for offset[0] in (0, 5):
        values.append(levelfield.score(["ab"], shifted).scores["shifted"].values[0])
    assert values == [2, 7]


def test_a_function_in_a_file_is_named_like_a_class(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(FILE)
    result = levelfield.score(["A calm day.", "Yes."], f"{file}:words", workers=2)
    assert result.scores["words"].values.tolist() == [3, 1]
    assert "|file:own.py|sha256:" in result["words"].signature


def test_what_a_function_raises_names_it():
    @metric
    def broken(text):
        return text.nothing

    with pytest.raises(levelfield.core.errors.LevelfieldError, match=r"metric 'broken' .*nothing"):
        levelfield.score(["A day."], broken)
