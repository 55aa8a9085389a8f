"""What the logs of other programs hold beside texts: scores of samples, and means of these.

A record of a log has the field `logged`, an object with `item`, `scores` and perhaps `content`. Any
format may have it, JSON lines too:

    {"text": "Paris", "system": "x", "logged": {"item": "7", "scores": {"match": 1, "f1": null}}}

It may say more, by the names of the attributes of `LoggedScores`, such as
`{"reasons": {"f1": "no grade"}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from levelfield.core.direction import Direction
from levelfield.core.limits import LARGEST_NUMBER
from levelfield.core.sample import Sample
from levelfield.io import fields
from levelfield.io.json_input import list_of, number_of
from levelfield.io.problems import Wrong, kind

LOGGED = "logged"
"""The field of a record."""

MOST_DRAWS = (1 << 32) - 1
"""The largest number of a draw."""


@dataclass(frozen=True)
class LoggedScores:
    """What a log says of one of its samples.

    Attributes:
        item: the sample's name in the data set; samples of two logs with one item are a pair.
        scores: name -> value; NaN where there is none, for the reason that `reasons` gives.
        content: stands for what was asked; two logs that asked the same of an item have the same.
            Empty if it is not known.
        draw: tells apart the samples of one item that differ by chance alone, such as epochs.
        reasons: name -> why there is no value; the empty name stands for all scores.
        counted: name -> the number that the log counts where `reasons` gives a reason.
        lists: name -> the numbers of a score that is a list; empty if they aren't all numbers.
        remarks: what is to be said of the sample, as in "1 of 20 samples REMARK".
    """

    item: str
    scores: Mapping[str, float]
    content: str = ""
    draw: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)
    counted: Mapping[str, float] = field(default_factory=dict)
    lists: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogFacts:
    """What a log says of all of its samples.

    Attributes:
        means: data set and score -> the value that the log states for its samples together, also of
            the groups of data sets.
        directions: data set and score -> which end of that value is better, where the log says it.
        notes: what a reader must know of the log.
        model: the system of all samples; empty if it is not known.
        reducers: data set and score -> how the log makes one value of an item from those of several
            draws, in the order of its results: `mean`, `mode`, `pass_at_2`; not there for means.
        aggregations: data set and score -> how the log makes the value that it states from those of
            items (`AGGREGATIONS` of `levelfield.scoring.corpus_values`); not there for means.
        groups: group -> the data sets and groups in it.
        settings: name -> value of all that was chosen for the run.
        graders: score -> the models that gave it.
    """

    means: Mapping[tuple[str, str], float] = field(default_factory=dict)
    directions: Mapping[tuple[str, str], Direction] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    model: str = ""
    reducers: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    aggregations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    graders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def logged_field(
    item: str, scores: Mapping[str, float | None], content: str = "", **more: object
) -> dict[str, Any]:
    """Returns the value of the field `logged`; a score without a value is None.

    Args:
        more: further attributes of `LoggedScores`; empty ones are left out.
    """
    filled = {name: value for name, value in more.items() if value}
    return {"item": item, "scores": dict(scores), "content": content, **filled}


def setting_values(settings: Mapping[str, object]) -> dict[str, str]:
    """Returns settings as strings, those inside an object with its name before them; without those
    that are not set.

    >>> setting_values({"limit": 5, "args": {"dtype": "float16", "x": None}})
    {'limit': '5', 'args.dtype': 'float16'}
    """
    values: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            values |= {f"{name}.{key}": v for key, v in setting_values(value).items()}
        elif value not in (None, "", []):
            values[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return values


def is_logged(record: Mapping[str, Any]) -> bool:
    """Returns whether a record, or what a sample has as `extra`, comes from a log."""
    logged = record.get(LOGGED)
    return isinstance(logged, Mapping) and isinstance(logged.get("scores"), Mapping)


def scores_of_log(samples: Iterable[Sample]) -> list[LoggedScores | Wrong]:
    """Returns for each sample of a log what the log says of it, or what is wrong with that."""
    scores: list[LoggedScores | Wrong] = []
    for sample in samples:
        try:
            scores.append(logged_scores(sample) or LoggedScores(sample.id, {}))
        except Wrong as wrong:
            scores.append(wrong)
    return scores


def logged_scores(sample: Sample) -> LoggedScores | None:
    """Returns what a log says of a sample; None if the sample comes from none.

    Raises:
        Wrong: the field `logged` is not as it should be.
    """
    if not is_logged(sample.extra):
        return None
    logged = sample.extra[LOGGED]
    item, draw = logged.get("item", sample.id), logged.get("draw", 0)
    if not isinstance(item, str | int) or item == "":
        raise Wrong(f"expected the name of a sample, found {kind(item)}", f"{LOGGED}.item")
    if not isinstance(draw, int) or abs(draw) > MOST_DRAWS:
        raise Wrong(f"expected a whole number, found {kind(draw)}", f"{LOGGED}.draw")
    objects = {name: value for name, value in logged.items() if isinstance(value, Mapping)}
    remarks = logged.get("remarks")
    return LoggedScores(
        str(item),
        _numbers(objects, "scores"),
        str(logged.get("content") or ""),
        draw=draw,
        reasons={name: str(reason) for name, reason in objects.get("reasons", {}).items()},
        counted=_numbers(objects, "counted"),
        lists={name: _list(value) for name, value in objects.get("lists", {}).items()},
        remarks=tuple(map(str, remarks)) if isinstance(remarks, list) else (),
    )


def _numbers(objects: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, float]:
    numbers = {}
    for key, value in objects.get(name, {}).items():
        if type(value) in (bool, int, float) and abs(value) <= LARGEST_NUMBER:
            numbers[str(key)] = float(value)
        else:
            try:
                numbers[str(key)] = fields.score(value, False)
            except Wrong as wrong:
                raise wrong.inside(key).inside(name).inside(LOGGED) from None
    return numbers


def _list(value: object) -> tuple[float, ...]:
    numbers = [number_of(part) for part in list_of(value)]
    return () if None in numbers else tuple(n for n in numbers if n is not None)
