"""Annotations of Potato: `annotations.jsonl`, `.csv` and `.tsv` of its export, `user_state.json` of
an annotator, `annotated_instances.jsonl` of older versions, and the folder that holds the folders
of the annotators.

What is read of an answer: `instance_id`, `user_id`, `labels` (`label_annotations`), that is, the
question, the option and its value, and `displayed_text`. Spans, links and times are not read.

An option that is marked counts as the number in its name, such as `4` or `scale_4`. So does one
whose value is the key that Potato gave it: of a question with several options of which an answer
has one, and each always with the same value. Where an answer to a question has several options,
each option is an aspect, in all answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelfield.io.fields import FIELDS
from levelfield.io.formats.answers import ratings_among
from levelfield.io.formats.preview import Preview
from levelfield.io.formats.table import comma_separated, tab_separated
from levelfield.io.json_input import list_of, object_of
from levelfield.io.json_stream import json_value
from levelfield.io.lines import Row, jsonl
from levelfield.io.problems import Wrong, printable, shown

_STATE = "user_state.json"
_OLD = "annotated_instances.jsonl"
_ANSWERS = "instance_id_to_label_to_value"
_JOINTS = (":::", ".")
"""Between a question and an option in names of columns; the first is that of older versions."""


def is_potato(preview: Preview) -> bool:
    """Whether a file or folder holds annotations of Potato."""
    if preview.is_folder:
        return any(
            (preview.path / name / file).is_file()
            for name in preview.names
            for file in (_STATE, _OLD)
        )
    record = preview.record
    if preview.begins == "{":
        is_answer = isinstance(record.get("labels"), Mapping) and "user_id" in record
        is_old = isinstance(record.get("label_annotations"), Mapping)
        named = record.keys() & {"instance_id", "id"}
        return _ANSWERS in record or bool(named and (is_answer or is_old))
    columns = set(preview.columns)
    questions = {c.partition(joint)[0] for c in columns for joint in _JOINTS if joint in c}
    has_answers = bool(questions - {*FIELDS, "metric"})  # `ratings.quality` is a column of ours
    return "instance_id" in columns and bool(columns & {"user_id", "user"}) and has_answers


def potato_ratings(path: Path) -> Iterator[Row]:
    """Yields each rating: of one annotator, instance and question."""
    return ratings_among(_answers(path))


@dataclass
class _Question:
    """What all answers to a question have in common.

    Attributes:
        values: option -> the values that it has, two at most.
        is_several: whether an answer has several options.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    is_several: bool = False

    def add(self, options: Mapping[str, Any]) -> None:
        self.is_several = self.is_several or len(options) > 1
        for option, value in options.items():
            values = self.values.setdefault(option, [])
            if len(values) < 2 and value not in values:
                values.append(value)

    @property
    def has_keys(self) -> bool:
        """Whether values are the keys of options, of which raters choose one."""
        constant = all(len(values) == 1 for values in self.values.values())
        return len(self.values) > 1 and not self.is_several and constant


def _is_marked(value: object) -> bool:
    return value is True or value in ("true", "True")


def _answers(path: Path) -> Iterator[tuple[int, dict[str, Any] | Wrong]]:
    questions: dict[str, _Question] = {}
    for _, record in _records(path):
        if not isinstance(record, Wrong):
            for question, options in _labels(record):
                questions.setdefault(question, _Question()).add(options)
    for number, record in _records(path):
        if isinstance(record, Wrong):
            yield number, record
            continue
        text = record.get("displayed_text")
        sample = {
            "id": record.get("instance_id", record.get("id")),
            "rater": record.get("user_id", record.get("user")),
            **({"text": text} if isinstance(text, str) else {}),
        }
        for question, options in _labels(record):
            shared = questions.get(question, _Question())
            for option, value in options.items():
                aspect = f"{question}/{option}" if shared.is_several else question
                answer = option if shared.has_keys or _is_marked(value) else value
                yield number, {**sample, "aspect": aspect, "value": answer}


def _labels(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each question of an answer with its options."""
    labels = object_of(record.get("labels", record.get("label_annotations")))
    for question, options in labels.items():
        yield question, options if isinstance(options, Mapping) else {"": options}


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | Wrong]]:
    """Yields an answer of one annotator to one instance each."""
    if path.is_dir():
        number = 0
        for folder in sorted(path.iterdir()):
            files = [folder / name for name in (_STATE, _OLD) if (folder / name).is_file()]
            for _, record in _records(files[0]) if files else ():
                number += 1
                yield number, record
        return
    preview = Preview(path)
    if _ANSWERS in preview.record:
        yield from _states(path)
    elif preview.begins == "{":
        for number, record in jsonl(path):
            if isinstance(record, Wrong) or {"user_id", "user"} & record.keys():
                yield number, record
            else:  # a file of one annotator, whose folder has the name
                yield number, {**record, "user_id": path.resolve().parent.name}
    else:
        for number, row in (tab_separated if preview.has_tabs else comma_separated)(path):
            yield number, row if isinstance(row, Wrong) else _unfolded(row)


def _states(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | Wrong]]:
    try:
        state = object_of(json_value(path))
    except ValueError as error:
        yield 0, Wrong(f"{path.name}: {printable(str(error))}")
        return
    user = state.get("user_id", path.resolve().parent.name)
    for number, (instance, labels) in enumerate(object_of(state, _ANSWERS).items(), 1):
        if isinstance(labels, list):  # pairs of a label and its value
            questions: dict[str, dict[str, Any]] = {}
            for pair in map(list_of, labels):
                label = object_of(pair[0]) if len(pair) == 2 else {}
                if "schema" not in label:
                    yield (
                        number,
                        Wrong(f"expected pairs of a label and its value at {shown(instance)}"),
                    )
                    break
                questions.setdefault(str(label["schema"]), {})[str(label.get("name"))] = pair[1]
            labels = questions
        yield number, {"instance_id": instance, "user_id": user, "labels": labels}


def _unfolded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row of a table as an answer; empty cells are skipped."""
    labels: dict[str, dict[str, Any]] = {}
    for column, cell in row.items():
        joint = next((joint for joint in _JOINTS if joint in column), None)
        if joint is not None and cell and not column.partition(joint)[2].startswith("_"):
            question, _, option = column.partition(joint)
            labels.setdefault(question, {})[option] = cell
    return {**row, "labels": labels}
