from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Literal

import pytest

from levelfield.core.errors import UserError
from levelfield.core.options import REQUIRED, Declaration, Rule, parsed
from levelfield.core.registry import (
    create,
    installed,
    matching,
    metric_class,
    options,
)


def parsed_word(word: str, annotation: object) -> object:
    choice = Declaration("x", annotation, REQUIRED, Rule(), ("x",))
    return parsed("thing", {"x": choice}, {"x": word})["x"]


@pytest.mark.parametrize(
    ("word", "annotation", "value"),
    [
        ("3", int, 3),
        ("0.5", float, 0.5),
        ("true", bool, True),
        ("False", bool, False),
        ("none", int | None, None),
        ("7", int | None, 7),
        ("mean", Literal["mean", "max"], "mean"),
        ("any = thing", str, "any = thing"),
    ],
)
def test_a_word_becomes_the_value_that_the_option_takes(word, annotation, value):
    assert parsed_word(word, annotation) == value


@pytest.mark.parametrize(
    ("word", "annotation", "said"),
    [
        ("three", int, "a whole number"),
        ("x", float, "a number"),
        ("yes", bool, "true or false"),
        ("mode", Literal["mean", "max"], "mean or max"),
        ("x", int | None, "a whole number or none"),
    ],
)
def test_a_word_that_the_option_does_not_take_is_refused_with_those_it_does(word, annotation, said):
    with pytest.raises(UserError, match=f"thing: option x={word}: expected {said}"):
        parsed_word(word, annotation)


def test_a_family_stands_for_its_members_and_a_typo_for_a_suggestion():
    assert len(matching("ctrleval")) == 3
    assert matching("ctrleval.coherence") == ("ctrleval.coherence",)
    with pytest.raises(UserError, match=r"did you mean ctrleval\.coherence"):
        matching("ctrleval.coherance")
    with pytest.raises(UserError, match="family"):
        metric_class("ctrleval")


def test_an_option_goes_to_every_metric_that_has_it_and_must_be_known_to_one():
    made = create(list(matching("ctrleval")), {"dtype": "bfloat16"}, {"single": "score"})
    assert [m.single for m in made if hasattr(m, "single")] == ["score"]
    assert {m.loading.dtype for m in made} == {"bfloat16"}
    with pytest.raises(UserError, match="no option 'tempo'"):
        create(["ctrleval.coherence"], {}, {"tempo": "1"})


def test_dashes_in_the_name_of_an_option_are_underscores():
    words = {"allow-pickle": "true", "control.majority:batch-tokens": "64"}
    average, majority = create(["control.average", "control.majority"], {}, words)
    assert (average.loading.allow_pickle, majority.loading.allow_pickle) == (True, True)
    assert (average.loading.batch_tokens, majority.loading.batch_tokens) == (None, 64)


def test_options_of_a_base_in_another_module_are_read_by_their_types_too():
    movers = create(list(matching("mover")), {}, {"layer": "2"})
    assert [mover.layer for mover in movers] == [2, 2]
    with pytest.raises(UserError, match="expected whole or continuation"):
        create(["control.average"], {}, {"text": "half"})


def test_options_of_a_written_out_init_are_its_own_also_below_a_dataclass():
    @dataclass(frozen=True)
    class Base:
        x: int = 1

    class Below(Base):
        def __init__(self, y: int = 2) -> None: ...

    assert list(options(Below)) == ["y"]
    assert options(Below)["y"].annotation in (int, "int")


def test_every_installed_metric_says_what_it_is_without_a_model():
    for name in installed():
        made = metric_class(name)
        assert made.name == name
        assert made.level in ("sample", "corpus")
        assert made.requires
        assert "Undefined" in (inspect.getdoc(made) or "")


def test_an_option_can_be_for_one_metric_or_family_and_the_nearest_name_wins():
    names = ["control.average", "control.majority", "fluency.perplexity"]
    words = {"judges": "a", "control:judges": "b", "control.majority:judges": "c", "model": "m"}
    average, majority, perplexity = create(names, {}, words)
    assert (average.judges, majority.judges, perplexity.model) == ("b", "c", "m")
    with pytest.raises(UserError, match="'controls' is not one of"):
        create(names, {}, {"controls:judges": "a"})
    with pytest.raises(UserError, match="no option 'judges' in fluency"):
        create(names, {}, {"fluency.perplexity:judges": "a"})
