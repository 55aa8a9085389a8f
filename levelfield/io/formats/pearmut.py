"""Annotations of pearmut: a line an answer of an annotator, or the `annotations.json` of its page.

What is read of an answer: `user_id`, `item_i`, `item` (`item_id`, `src`, `ref`, `tgt`) and of its
`annotation` the `score` or the `sliders` of each model. Marked errors, comments and actions are not
read, nor answers to welcome, random and goodbye items. Of several answers of an annotator to one
item the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from levelfield.io.formats.preview import Preview
from levelfield.io.json_input import list_of, object_of
from levelfield.io.json_stream import JsonStream
from levelfield.io.lines import Row, jsonl
from levelfield.io.problems import Wrong, printable
from levelfield.io.streams import open_bytes

_RESET = "__RESET__"
_NO_ITEMS = ("welcome_", "random_", "goodbye_")
_FIELDS = {"annotation", "user_id", "item_i"}

_SCORE = "score"
"""The aspect of a score that has no name."""


def is_pearmut(preview: Preview) -> bool:
    """Whether a file holds answers of annotators, a line each or by campaign."""
    return preview.record.keys() >= _FIELDS or preview.inner.keys() >= _FIELDS


def pearmut_ratings(path: Path) -> Iterator[Row]:
    """Yields each rating: of one annotator, model, item and slider."""
    answers: dict[tuple[str, str, str], tuple[int, Mapping[str, Any]]] = {}
    for number, campaign, answer in _answers(path):
        if isinstance(answer, Wrong):
            yield number, answer
            continue
        user, item = answer.get("user_id"), answer.get("item_i")
        is_named = isinstance(user, str | int) and isinstance(item, str | int)
        if not is_named or "annotation" not in answer:
            yield number, Wrong("expected an answer with user_id, item_i and annotation")
            continue
        key = campaign, str(user), str(item)
        answers.pop(key, None)
        if answer.get("annotation") != _RESET and not str(item).startswith(_NO_ITEMS):
            answers[key] = number, answer
    several = len({campaign for campaign, *_ in answers}) > 1
    for (campaign, user, place), (number, answer) in answers.items():
        documents = zip_longest(list_of(answer.get("item")), list_of(answer["annotation"]))
        for index, (item, annotation) in enumerate(documents):
            record = object_of(item)
            name = record.get("item_id", f"{place}.{index}")
            for model, rated in object_of(annotation).items():
                for aspect, value in _values(object_of(rated)):
                    yield (
                        number,
                        {
                            "id": "/".join([*([campaign] * several), str(model), str(name)]),
                            "system": str(model),
                            "rater": user,
                            "aspect": aspect,
                            "value": value,
                            **_texts(record, str(model)),
                        },
                    )


def _answers(path: Path) -> Iterator[tuple[int, str, Mapping[str, Any] | Wrong]]:
    """Yields number, campaign and answer; a file of lines is of one campaign without a name."""
    if Preview(path).record.keys() >= _FIELDS:
        for number, answer in jsonl(path):
            yield number, "", answer
        return
    number = 0
    try:
        with open_bytes(path) as file:
            stream = JsonStream(file)
            for campaign in stream.members():
                for _ in stream.items():
                    number += 1
                    yield number, campaign, object_of(stream.value())
    except ValueError as error:
        yield number, "", Wrong(printable(str(error)))


def _values(rated: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if rated.get("score") is not None:
        yield _SCORE, rated["score"]
    for slider, value in object_of(rated, "sliders").items():
        if value is not None:
            yield slider, value


def _texts(record: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Returns what the annotator saw, as fields of a sample."""
    fields = {
        "text": object_of(record, "tgt").get(model),
        "source": record.get("src"),
        "references": record.get("ref"),
    }
    return {name: value for name, value in fields.items() if isinstance(value, str) and value}
