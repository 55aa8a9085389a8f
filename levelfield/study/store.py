"""A study's folder on disk: a folder a cell, in files that people can open.

In a cell's folder are

- `answers.partial.jsonl`: answers as they come, one line written at once for each;
- `answers.jsonl`: all answers as the system gave them, in the order of the requests;
- `texts.jsonl`: the post-processed texts as samples;
- `scores.jsonl`, `parts.jsonl`, `groups.jsonl`: what metrics say of them;
- `cell.json`: what it is made from and how it went, written last;
- `stderr.txt`: what a command said.

Every file but the first and the last is whole or not there. Of the first, a line that a crash has
torn is not an answer, so its request is asked again.
"""

from __future__ import annotations

import contextlib
import json
import math
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from io import RawIOBase
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import as_record, atomic_writer
from levelfield.io.formats.text import jsonl
from levelfield.io.problems import Wrong, printable
from levelfield.io.records import BadRecord, Rules
from levelfield.study.cells import Answer, Cell, CellKey, Cost, GroupValue
from levelfield.study.fingerprint import Fingerprint
from levelfield.study.intake import Kept
from levelfield.study.requests import parse_answer
from levelfield.version import __version__

State = Literal["done", "texts", "partial", "failed", "missing", "stale"]
"""`texts`: all answers are there, but the texts have to be made anew by other steps."""

VOTES = "control.average"
"""The metric whose parts say how each judge labelled each text."""

_MEASURED = ("scores.jsonl", "parts.jsonl", "groups.jsonl")
_RECORD = "cell.json"
_ANSWERS, _PARTIAL, _STALE = "answers.jsonl", "answers.partial.jsonl", "answers.stale.jsonl"
_TEXTS = "texts.jsonl"


@dataclass(frozen=True)
class CellRecord:
    """How a cell went, as `cell.json` has it.

    Attributes:
        fingerprint: what it was made from.
        version: of levelfield.
        asked, answered: how many texts.
        missing: ids of the requests without an answer.
        problems, failure, cost: as in `Cell`.
        attempts: how often the system was started or read, all runs together.
        when: it ended, in ISO 8601.
    """

    fingerprint: Fingerprint
    asked: int
    answered: int
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    failure: str = ""
    cost: Cost | None = None
    attempts: int = 0
    version: str = __version__
    when: str = ""


class Store:
    """The folder of a study.

    Attributes:
        out: its path; made when something is first written.
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    def folder(self, key: CellKey) -> Path:
        """Of a cell; may not exist yet."""
        return self.out / key.folder

    def record(self, key: CellKey) -> CellRecord | None:
        """How the cell went when it was last finished; None if it never was."""
        try:
            found = json.loads((self.folder(key) / _RECORD).read_text("utf-8"))
            return CellRecord(
                fingerprint=Fingerprint(**found["fingerprint"]),
                asked=found["asked"],
                answered=found["answered"],
                missing=tuple(found["missing"]),
                problems=tuple(found["problems"]),
                failure=found["failure"],
                cost=Cost(**found["cost"]) if found["cost"] else None,
                attempts=found["attempts"],
                version=found["version"],
                when=found["when"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def state(self, key: CellKey, fingerprint: Fingerprint) -> State:
        """How far the cell is, if it is to be made from what the fingerprint says."""
        record = self.record(key)
        folder = self.folder(key)
        if record is None:
            partial = _Partial.read(folder / _PARTIAL)
            if not partial.kept:
                return "missing"
            return "partial" if partial.fingerprint == fingerprint.answers else "stale"
        if record.fingerprint.answers != fingerprint.answers:
            return "stale"
        if record.failure:
            return "failed"
        if not (folder / _ANSWERS).is_file():
            return "missing"
        is_made = record.fingerprint == fingerprint and (folder / _TEXTS).is_file()
        return "done" if is_made else "texts"

    @contextlib.contextmanager
    def lock(self, key: CellKey) -> Iterator[bool]:
        """Whether the cell is ours until the end of the block; False if another process has it."""
        import filelock

        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / "lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def resume(self, key: CellKey, fingerprint: Fingerprint) -> list[Kept]:
        """The answers that are there already, if they are of this fingerprint."""
        partial = _Partial.read(self.folder(key) / _PARTIAL)
        if partial.fingerprint == fingerprint.answers:
            return partial.kept
        record = self.record(key)
        if record and record.fingerprint.answers == fingerprint.answers:
            return [Kept(parse_answer(found)) for found in self.read_lines(key, _ANSWERS)]
        return []

    def set_aside(self, key: CellKey) -> bool:
        """Makes the cell as if it had never run; whether there were answers.

        They stay in `answers.stale.jsonl`, until the next that are set aside take their place:
        they may have taken days.
        """
        folder = self.folder(key)
        if not _Partial.read(folder / _PARTIAL).kept:
            (folder / _PARTIAL).unlink(missing_ok=True)
        found = [folder / name for name in (_PARTIAL, _ANSWERS) if (folder / name).is_file()]
        for path in found:
            path.replace(folder / _STALE)
        # last, as without it nobody would know that the answers were stale
        for name in (*_MEASURED, _TEXTS, _RECORD):
            (folder / name).unlink(missing_ok=True)
        return bool(found)

    @contextlib.contextmanager
    def keeping(self, key: CellKey, fingerprint: Fingerprint) -> Iterator[Callable[[Kept], None]]:
        """A function that keeps an answer, so that it outlives whatever happens to us.

        Raises:
            OSError: it can't be written.
        """
        path = self.folder(key) / _PARTIAL
        whole = _Partial.read(path).whole_bytes
        with path.open("ab", buffering=0) as file:
            file.truncate(whole)  # a line that was torn would spoil the next
            if not whole:
                _write_line(file, {"fingerprint": fingerprint.answers})
            yield lambda kept: _write_line(file, _kept_record(kept))

    def finish(
        self,
        key: CellKey,
        record: CellRecord,
        answers: Sequence[Answer],
        samples: Sequence[Sample],
    ) -> None:
        """Writes what a run has obtained; values of other texts go away.

        Without failure all answers are there, and the file of those that came one by one goes.
        """
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        for name in _MEASURED:
            (folder / name).unlink(missing_ok=True)
        if not record.failure:
            self.write_lines(key, _ANSWERS, map(_answer_record, answers))
        self.write_lines(key, _TEXTS, map(as_record, samples))
        self.write_record(key, record)
        if not record.failure:
            (folder / _PARTIAL).unlink(missing_ok=True)

    def write_record(self, key: CellKey, record: CellRecord) -> None:
        """Says how a cell went."""
        when = record.when or datetime.now(UTC).isoformat(timespec="seconds")
        with atomic_writer(self.folder(key) / _RECORD) as file:
            whole = {"key": key._asdict(), **asdict(record), "when": when}
            file.write(json.dumps(whole, ensure_ascii=False, indent=1) + "\n")

    def write_lines(self, key: CellKey, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes a file of a cell, one JSON object a line; it is whole or not there."""
        with atomic_writer(self.folder(key) / name) as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")

    def read_lines(self, key: CellKey, name: str) -> Iterator[dict[str, Any]]:
        """The objects in a file of a cell; none if there is no such file.

        Raises:
            UserError: a line is broken.
        """
        path = self.folder(key) / name
        if not path.is_file():
            return
        for number, record in jsonl(path):
            if isinstance(record, Wrong):
                mend = f"remove {_RECORD} beside it, and the next run makes it anew"
                raise UserError(f"{printable(str(path))}:{number}: {record}; {mend}")
            yield record

    def read_cell(self, key: CellKey) -> Cell:
        """The cell with all that is known of it; a cell that never ran has a failure that says so.

        Raises:
            UserError: a file is broken.
        """
        record = self.record(key)
        if record is None:
            return Cell(key, failure="not finished; `levelfield study run` goes on with it")
        scores: dict[str, dict[str, float]] = defaultdict(dict)
        signatures: dict[str, str] = {}
        for row in self.read_lines(key, "scores.jsonl"):
            scores[row["metric"]][row["id"]] = _number(row["value"])
            signatures[row["metric"]] = row["signature"]
        samples = tuple(self.samples(key))
        groups = []
        for row in self.read_lines(key, "groups.jsonl"):
            value = _number(row["value"])
            groups.append(GroupValue(row["metric"], row["value_asked"], value, row["n"]))
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
            votes=self._votes(key, samples),
            groups=tuple(groups),
            signatures=signatures,
        )

    def samples(self, key: CellKey) -> Iterator[Sample]:
        """The post-processed texts of a cell."""
        rules = Rules()
        for record in self.read_lines(key, _TEXTS):
            try:
                yield rules.sample(record, id="")
            except BadRecord as bad:
                where = printable(str(self.folder(key) / _TEXTS))
                raise UserError(f"{where}: {bad}; remove {_RECORD} beside it") from None

    def _votes(
        self, key: CellKey, samples: Sequence[Sample]
    ) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """The votes of the judges, in the study's words where these are known.

        Judges have words of their own (`Sci/Tech` for `Science/Technology`). A vote that is right
        shows which word of the study's its own stands for.
        """
        controls = {sample.id: sample.control for sample in samples}
        votes: dict[str, dict[str, dict[str, str]]] = {}
        spelled: dict[tuple[str, str], str] = {}
        for row in self.read_lines(key, "parts.jsonl"):
            if row["metric"] != VOTES:
                continue
            attribute, _, rest = row["part"].partition("/")
            judge, _, label = rest.rpartition(": ")
            label = "" if label == "(undecided)" else label
            votes.setdefault(attribute, {}).setdefault(judge, {})[row["id"]] = label
            wanted = controls.get(row["id"], {}).get(attribute)
            if row["score"] == 1 and isinstance(wanted, str):
                spelled[attribute, label] = wanted
        return {
            attribute: {
                judge: {id: spelled.get((attribute, label), label) for id, label in of.items()}
                for judge, of in judges.items()
            }
            for attribute, judges in votes.items()
        }

    def export(
        self, path: Path, keys: Sequence[CellKey], what: Literal["texts", "scores"] = "texts"
    ) -> int:
        """Writes the texts or scores of cells to one file, Parquet or JSONL; how many rows.

        The rows of texts read as samples again (`levelfield score FILE`); `kind` is the name of
        the kind of control. Those of scores have the columns of `scores.jsonl` and of the cell.

        Raises:
            UserError: the file's name ends in neither, or it can't be written.
        """
        if path.suffix == ".parquet":
            table = list(self._rows(keys, what, flat=True))
            _write_parquet(path, table)
            return len(table)
        if path.suffix != ".jsonl":
            raise UserError(f"{printable(str(path))}: expected a name in .parquet or .jsonl")
        rows = 0
        with atomic_writer(path) as file:
            for row in self._rows(keys, what, flat=False):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                rows += 1
        return rows

    def _rows(self, keys: Sequence[CellKey], what: str, *, flat: bool) -> Iterator[dict[str, Any]]:
        for key in keys:
            if what == "scores":
                cell = {**key._asdict()}
                cell["kind"] = cell.pop("control")
                yield from (row | cell for row in self.read_lines(key, "scores.jsonl"))
                continue
            for sample in self.samples(key):
                row = {"kind": key.control, **as_record(sample)}
                row |= row.pop("extra", {})
                if flat:
                    control = row.pop("control", {})
                    row |= {f"control.{a}": value for a, value in control.items()}
                yield row


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table with the columns of all rows; a column with lists in some rows has lists in all."""
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    for name, column in columns.items():
        if any(isinstance(value, tuple | list) for value in column):
            columns[name] = [[v] if isinstance(v, str) else v for v in column]
    beside = path.with_name(f".levelfield-{secrets.token_hex(6)}.tmp")
    try:
        pl.DataFrame(columns, strict=False).write_parquet(beside)
        beside.replace(path)
    except OSError as error:
        said = error.strerror or str(error)
        raise UserError(f"{printable(str(path))}: can't be written: {said}") from error
    finally:
        beside.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Partial:
    """What a file of single answers holds.

    Attributes:
        fingerprint: that of the answers; None if there is no such file or nothing in it.
        kept: answers, the first to each id.
        whole_bytes: of the file, up to the end of the last whole line.
    """

    fingerprint: str | None
    kept: list[Kept]
    whole_bytes: int

    @classmethod
    def read(cls, path: Path) -> _Partial:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            content = b""
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = whole.split(b"\n")
        try:
            fingerprint = str(json.loads(head)["fingerprint"])
        except (ValueError, KeyError, TypeError):
            return cls(None, [], 0)
        kept: dict[str, Kept] = {}
        for line in lines:
            # whatever is no answer is a request that is asked again
            with contextlib.suppress(ValueError, KeyError, TypeError, UserError):
                found = json.loads(line)
                answer = parse_answer(found)
                one = Kept(answer, float(found["wall_s"]), found["peak_bytes"])
                kept.setdefault(answer.id, one)
        return cls(fingerprint, list(kept.values()), len(whole))


def _write_line(file: RawIOBase, record: Mapping[str, Any]) -> None:
    rest = memoryview(json.dumps(record).encode() + b"\n")
    while rest:  # on a disk that is nearly full, part of it is written first
        rest = rest[file.write(rest) or 0 :]


def _answer_record(answer: Answer) -> dict[str, Any]:
    """The object that reads as this answer again."""
    record: dict[str, Any] = {"id": answer.id, "text": answer.text}
    if answer.input:
        record["input"] = answer.input
    if answer.tokens is not None:
        record["tokens"] = answer.tokens
    return record


def _kept_record(kept: Kept) -> dict[str, Any]:
    cost = {"wall_s": round(kept.wall_s, 3), "peak_bytes": kept.peak_bytes}
    return _answer_record(kept.answer) | cost


def _number(value: float | None) -> float:
    return math.nan if value is None else value
