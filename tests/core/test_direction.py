"""Directions of metrics, and metrics that only have the boolean in their place."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, ClassVar

import numpy as np
import pytest

from levelfield.core.direction import direction_named, direction_of
from levelfield.core.metric import MetricError, check_metric
from levelfield.core.scores import Scores, concatenate


class Base:
    name, level, requires = "a.metric", "sample", frozenset({"text"})
    direction: ClassVar[str] = "higher"
    signature = "a.metric|v:0"

    def score(self, samples: Any) -> None: ...


class Boolean(Base):
    """A subclass of a metric with a direction that says its own by the boolean."""

    higher_is_better = False


class Again(Boolean):
    direction = "none"


class Property(Base):
    @property
    def direction(self) -> str:  # type: ignore[override]
        return "lower"


def scores(values: list[float], *direction: Any, **more: Any) -> Scores:
    ids = tuple(map(str, range(len(values))))
    undefined = {i: "empty text" for i, v in zip(ids, values, strict=True) if math.isnan(v)}
    return Scores("m", ids, np.array(values), undefined, "m|v:0", *direction, **more)


@pytest.mark.parametrize(
    ("metric", "direction"),
    [(Base, "higher"), (Boolean, "lower"), (Again, "none"), (Property(), "lower")],
)
def test_the_most_derived_class_says_the_direction(metric: Any, direction: str) -> None:
    assert direction_of(metric) == direction
    assert direction_of(metric() if isinstance(metric, type) else metric) == direction


@pytest.mark.parametrize("wrong", ["up", None, 1, ("higher",)])
def test_another_word_is_not_a_direction(wrong: object) -> None:
    with pytest.raises(ValueError, match="expected one of higher, lower, none"):
        direction_named(wrong)


def metric_with(**attributes: object) -> Any:
    lacking = {name: value for name, value in vars(Base).items() if name != "direction"}
    return type("Made", (), {**lacking, **attributes})()


def test_a_metric_says_its_direction_by_either_word() -> None:
    check_metric(metric_with(direction="none"))
    check_metric(metric_with(higher_is_better=False))
    with pytest.raises(MetricError, match="can't report its direction"):
        check_metric(metric_with())
    with pytest.raises(MetricError, match="has the direction 'up'; expected one of higher"):
        check_metric(metric_with(direction="up"))
    with pytest.raises(MetricError, match="has the higher_is_better 1; expected True or False"):
        check_metric(metric_with(higher_is_better=1))


def test_scores_are_made_with_a_direction_or_the_boolean_in_its_place() -> None:
    assert scores([1.0], "none").direction == "none"
    assert scores([1.0], False).direction == "lower"
    assert scores([1.0], higher_is_better=True).direction == "higher"
    assert [scores([1.0], d).higher_is_better for d in ("higher", "lower", "none")] == [  # type: ignore[attr-defined]
        True,
        False,
        None,
    ]
    assert dataclasses.replace(scores([1.0], "none"), metric="k").direction == "none"
    assert dataclasses.replace(scores([1.0], "lower"), direction="higher").direction == "higher"
    assert concatenate([scores([1.0], "none"), scores([2.0], "none")]).direction == "none"
    with pytest.raises(ValueError, match="m: direction: expected one of higher"):
        scores([1.0])


def test_infinite_values_are_kept_and_written_as_valid_json() -> None:
    kept = scores([1.0, math.inf, -math.inf, math.nan], "higher")
    assert kept.values[1:3].tolist() == [math.inf, -math.inf]
    assert dict(kept.undefined) == {"3": "empty text"}
    records = [json.loads(json.dumps(r, allow_nan=False)) for r in kept.records()]
    assert [r["value"] for r in records] == [1.0, "inf", "-inf", None]
    assert math.isnan(kept.mean())
    assert scores([1.0, -math.inf], "higher").mean() == -math.inf
