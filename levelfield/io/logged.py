"""What the logs of other programs hold beside texts: scores of samples, and means of these.

A record of a log has the field `logged`, an object with `item`, `scores` and perhaps `content`. Any
format may have it, JSON lines too:

    {"text": "Paris", "system": "x", "logged": {"item": "7", "scores": {"match": 1, "f1": null}}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from levelfield.core.direction import Direction
from levelfield.core.sample import Sample
from levelfield.io import values
from levelfield.io.problems import Wrong, kind

LOGGED = "logged"
"""The field of a record."""


@dataclass(frozen=True)
class LoggedScores:
    """What a log says of one of its samples.

    Attributes:
        item: the sample's name in the data set; samples of two logs with one item are a pair.
        scores: name -> value; NaN where the log has none.
        content: stands for what was asked; two logs that asked the same of an item have the same.
            Empty if it is not known.
    """

    item: str
    scores: Mapping[str, float]
    content: str = ""


@dataclass(frozen=True)
class LogFacts:
    """What a log says of all of its samples.

    Attributes:
        means: data set and score -> the mean that the log states.
        directions: data set and score -> which end is better, where the log says it.
        notes: what a reader must know of the log.
    """

    means: Mapping[tuple[str, str], float] = field(default_factory=dict)
    directions: Mapping[tuple[str, str], Direction] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def logged_field(
    item: str, scores: Mapping[str, float | None], content: str = ""
) -> dict[str, Any]:
    """Returns the value of the field `logged`; a score without a value is None."""
    return {"item": item, "scores": dict(scores), "content": content}


def is_logged(record: Mapping[str, Any]) -> bool:
    """Returns whether a record, or what a sample has as `extra`, comes from a log."""
    logged = record.get(LOGGED)
    return isinstance(logged, Mapping) and isinstance(logged.get("scores"), Mapping)


def logged_scores(sample: Sample) -> LoggedScores | None:
    """Returns what a log says of a sample; None if the sample comes from none.

    Raises:
        Wrong: the field `logged` is not as it should be.
    """
    if not is_logged(sample.extra):
        return None
    logged = sample.extra[LOGGED]
    scores = {str(name): _score(name, value) for name, value in logged["scores"].items()}
    item = logged.get("item", sample.id)
    if not isinstance(item, str | int) or item == "":
        raise Wrong(f"expected the name of a sample, found {kind(item)}", f"{LOGGED}.item")
    return LoggedScores(str(item), scores, str(logged.get("content") or ""))


def _score(name: object, value: object) -> float:
    if isinstance(value, bool):
        return float(value)
    try:
        score = values.score(value, False)
    except Wrong as wrong:
        raise wrong.inside(name).inside("scores").inside(LOGGED) from None
    return math.nan if math.isnan(score) else score
