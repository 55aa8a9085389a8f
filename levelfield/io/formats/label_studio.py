"""Exports of Label Studio: JSON, JSON-MIN, and CSV or TSV.

What is read of a task: `id`, `data`, and of those `annotations` that are not cancelled `id`,
`completed_by` and in `result` the ratings, numbers and single choices; a `data.id` goes before the
task's `id`. Predictions and answers about a part of a text are not read. The short forms name the
annotator `annotator`; of them ratings and numbers are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from levelfield.io.fields import FIELDS
from levelfield.io.formats.answers import ANNOTATION, ratings_among
from levelfield.io.formats.preview import Preview
from levelfield.io.formats.table import comma_separated, tab_separated
from levelfield.io.json_input import list_of, object_of, parse_json
from levelfield.io.lines import Row, json_list
from levelfield.io.problems import Wrong, kind

_SHORT = {"annotator", ANNOTATION, "lead_time"}
_NUMBERS = ("rating", "number")
_PLACE = ("start", "end", "x", "y")


def is_label_studio(preview: Preview) -> bool:
    """Whether a file is an export of Label Studio in which answers have their annotators."""
    if preview.begins == "[":
        is_task = "annotations" in preview.record and isinstance(
            preview.record.get("data"), Mapping
        )
        return is_task or preview.record.keys() >= _SHORT
    return set(preview.columns) >= _SHORT


def label_studio_ratings(path: Path) -> Iterator[Row]:
    """Yields each rating: of one annotator, task and control of the labelling page."""
    return ratings_among(_answers(path))


def _answers(path: Path) -> Iterator[tuple[int, dict[str, Any] | Wrong]]:
    preview = Preview(path)
    read = (
        json_list
        if preview.begins == "["
        else tab_separated
        if preview.has_tabs
        else comma_separated
    )
    for number, record in read(path):
        if isinstance(record, Wrong):
            yield number, record
        elif "annotations" in record:
            yield from ((number, answer) for answer in _task_answers(record))
        else:
            yield from ((number, answer) for answer in _row_answers(record))


def _task_answers(task: Mapping[str, Any]) -> Iterator[dict[str, Any] | Wrong]:
    data = object_of(task, "data")
    sample = {"id": task.get("id"), **_fields(data), "data": data}
    for annotation in map(object_of, list_of(task["annotations"])):
        if annotation.get("was_cancelled"):
            continue
        shared = {**sample, ANNOTATION: annotation.get("id")}
        author = annotation.get("completed_by")
        if isinstance(author, Mapping):
            author = author.get("email", author.get("id"))
        if not isinstance(author, str | int):
            yield Wrong(f"expected the annotator, found {kind(author)}", "completed_by")
            continue
        for result in map(object_of, list_of(annotation.get("result"))):
            value = object_of(result, "value")
            if any(name in value for name in _PLACE):
                continue
            choices = list_of(value.get("choices"))
            answers = [value[name] for name in _NUMBERS if name in value]
            answers += choices if len(choices) == 1 else []
            for answer in answers:
                aspect = str(result.get("from_name"))
                yield {**shared, "rater": str(author), "aspect": aspect, "value": answer}


def _row_answers(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    sample = {"id": row.get("id"), **_fields(row), ANNOTATION: row.get(ANNOTATION)}
    for column, cell in row.items():
        answers = cell
        if isinstance(cell, str) and cell.startswith("[{"):
            with suppress(ValueError):
                answers = parse_json(cell)
        for answer in map(object_of, list_of(answers)):
            for name in _NUMBERS:
                if name in answer and not any(place in answer for place in _PLACE):
                    author = str(row.get("annotator"))
                    yield {**sample, "rater": author, "aspect": column, "value": answer[name]}


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the data of a task say of a sample."""
    return {
        name: data[name] for name in FIELDS if name in data and name not in ("ratings", "extra")
    }
