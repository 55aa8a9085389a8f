"""Cells read from a study's folder: texts with what metrics and judges say of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from levelfield.core.class_file import FILE_MARK
from levelfield.core.direction import Direction
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import UNDECIDED, is_tie
from levelfield.io import as_record, atomic_writer
from levelfield.io.fields import score, string, whole
from levelfield.io.problems import Wrong, listed, printable
from levelfield.io.tables import csv_text
from levelfield.io.writing import file_replacement
from levelfield.study.cells import Cell, CellKey, GroupValue
from levelfield.study.store import StudyStore

VOTES = "control.average"
"""The metric whose parts say how each judge labelled each text."""


def read_cell(store: StudyStore, key: CellKey) -> Cell:
    """Returns a cell with all that is known of it; one that never ran has a failure that says so.

    Raises:
        UserError: a file is broken, or not as it was written.
    """
    store.check(key)
    record = store.record(key)
    if record is None:
        return Cell(key, failure="not finished; `levelfield study run` continues it")
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    signatures: dict[str, str] = {}
    for row in _rows_with(store, key, "scores.jsonl", "metric", "id"):
        scores[row["metric"]][row["id"]] = row["value"]
        signatures[row["metric"]] = row["signature"]
    samples = tuple(store.samples(key))
    groups = []
    for row in _rows_with(store, key, "groups.jsonl", "metric", "value_asked", "n"):
        groups.append(GroupValue(row["metric"], row["value_asked"], row["value"], row["n"]))
        signatures[row["metric"]] = row["signature"]
    return Cell(
        key,
        samples=samples,
        asked=record.asked,
        missing=record.missing,
        failure=record.failure,
        problems=record.problems,
        cost=record.cost,
        scores=dict(scores),
        votes=_votes(store, key, samples),
        ties=_ties(store, key, signatures),
        groups=tuple(groups),
        signatures=signatures,
        directions=_directions(store.measured(key) or {}, signatures),
    )


def _directions(measured: Mapping[str, Any], signatures: Mapping[str, str]) -> dict[str, Direction]:
    """Returns the directions of classes in files, as they said when they measured.

    Results of earlier versions do not say: neither end of those is better.
    """
    recorded = measured.get("directions")
    directions = recorded if isinstance(recorded, dict) else {}
    return {
        metric: next((d for d in get_args(Direction) if d == directions.get(metric)), "none")
        for metric, signature in signatures.items()
        if FILE_MARK in str(signature)
    }


def _votes(
    store: StudyStore, key: CellKey, samples: Sequence[Sample]
) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Returns the votes of the judges, in the study's words where these are known.

    Judges have words of their own (`Sci/Tech` for `Science/Technology`), and a word may stand for
    several values of the study. A vote that is right is the value that was asked for; it shows what
    the same word means where it is wrong.
    """
    controls = {sample.id: sample.control for sample in samples}
    votes: dict[str, dict[str, dict[str, str]]] = {}
    meanings: dict[tuple[str, str], str] = {}
    wrong: list[tuple[str, str, str]] = []
    for row in _rows_with(store, key, "parts.jsonl", "metric", "id", "part"):
        if row["metric"] != VOTES:
            continue
        attribute, _, rest = row["part"].partition("/")
        judge, _, label = rest.rpartition(": ")
        label = "" if label == UNDECIDED else label
        target = controls.get(row["id"], {}).get(attribute)
        if row.get("score") == 1 and isinstance(target, str):
            meanings[attribute, label] = label = target
        else:
            wrong.append((attribute, judge, row["id"]))
        votes.setdefault(attribute, {}).setdefault(judge, {})[row["id"]] = label
    for attribute, judge, id in wrong:
        labels = votes[attribute][judge]
        labels[id] = meanings.get((attribute, labels[id]), labels[id])
    return votes


def _ties(store: StudyStore, key: CellKey, signatures: Mapping[str, str]) -> Mapping[str, int]:
    tied = {
        (row["metric"], row["id"])
        for row in _rows_with(store, key, "parts.jsonl", "metric", "id", "part")
        if is_tie(signatures.get(row["metric"], ""), row["part"])
    }
    return Counter(metric for metric, _ in tied)


def _rows_with(
    store: StudyStore, key: CellKey, name: str, *fields: str
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file of values: with these fields, a value and a signature.

    A cell of an older version has no seal that vouches for its files.

    Raises:
        UserError: a row lacks a field, or its value is not a number.
    """
    read = {**_FIELDS_OF_VALUES, **{field: string for field in fields if field != "n"}}
    for number, row in enumerate(store.read_lines(key, name), 1):
        problem = ""
        if lacking := [field for field in fields if field not in row]:
            problem = f"there is no {listed(lacking)}"
        row = {"signature": "", "value": None, **row}
        try:
            for field in row.keys() & read.keys():
                row[field] = _converted(field, row[field], read[field])
        except Wrong as wrong:
            problem = problem or str(wrong)
        if problem:
            where = printable(str(store.folder(key) / name))
            mend = "remove measured.json beside it, and `levelfield study measure` makes it again"
            raise UserError(f"{where}:{number}: {problem}; {mend}")
        yield row


_FIELDS_OF_VALUES: Mapping[str, Callable[[Any, bool], Any]] = {
    "n": whole, "signature": string, "value": score,
}  # fmt: skip


def _converted(field: str, value: object, read: Callable[[Any, bool], Any]) -> Any:
    try:
        return read(value, False)
    except Wrong as wrong:
        raise wrong.inside(field) from None


Exported = Literal["texts", "scores"]


def export(
    store: StudyStore, path: Path, keys: Sequence[CellKey], subject: Exported = "texts"
) -> int:
    """Writes the texts or scores of cells to one file, Parquet, CSV or JSONL; returns the number of
    rows.

    In CSV, lists are JSON, and text that a spreadsheet would take for a formula begins with an
    apostrophe. The rows of texts read as samples again (`levelfield score FILE`); `kind` is the
    name of the kind of control. Those of scores have the columns of `scores.jsonl` and of the cell.

    Raises:
        UserError: the file's name ends in none of these, it can't be written, or a file of a cell
            is not as it was written.
    """
    if write := {".parquet": _write_parquet, ".csv": _write_csv}.get(path.suffix):
        table = list(_rows(store, keys, subject, flat=True))
        write(path, table)
        return len(table)
    if path.suffix != ".jsonl":
        raise UserError(
            f"{printable(str(path))}: expected a name that ends in .parquet, .csv or .jsonl"
        )
    rows = 0
    with atomic_writer(path) as file:
        for row in _rows(store, keys, subject, flat=False):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            rows += 1
    return rows


def _rows(
    store: StudyStore, keys: Sequence[CellKey], subject: Exported, *, flat: bool
) -> Iterator[dict[str, Any]]:
    for key in keys:
        store.check(key)
        if subject == "scores":
            cell = key._asdict()
            cell["kind"] = cell.pop("control")
            yield from (row | cell for row in store.read_lines(key, "scores.jsonl"))
            continue
        for sample in store.samples(key):
            row = {"kind": key.control, **as_record(sample)}
            row |= row.pop("extra", {})
            if flat:
                control = row.pop("control", {})
                row |= {f"control.{a}": value for a, value in control.items()}
            yield row


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the columns of all rows; what a row has not is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(value: object) -> object:
        plain = value is None or isinstance(value, str | int | float)
        return value if plain else json.dumps(value, ensure_ascii=False)

    with atomic_writer(path) as file:
        file.write(csv_text([names, *([cell(row.get(name)) for name in names] for row in rows)]))


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the columns of all rows; a column with lists in some rows has lists in all."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    for name, column in columns.items():
        if any(isinstance(value, tuple | list) for value in column):
            columns[name] = [[v] if isinstance(v, str) else v for v in column]
    try:
        with file_replacement(path) as file:
            pl.DataFrame(columns, strict=False).write_parquet(file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{printable(str(path))}: can't be written: {reason}") from error
