"""The journal of a cell: answers written one by one, so that none is lost in a crash.

The first line has the fingerprint of the answers. A line that a crash has torn, or that is not as
it was written, is not an answer, so its request is asked again.

`cell.json` and `measured.json` carry a digest of themselves and those of the files that they are
written after, and so does each line of the journal of itself. Cells of older versions carry none,
and are read as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import UserError
from levelfield.io.appending import appending, whole_lines
from levelfield.io.json_input import parse_json
from levelfield.study.ask.requests import TimedAnswer, parse_answer
from levelfield.study.cells import CellKey, Cost, SystemAnswer
from levelfield.study.fingerprint import Fingerprint
from levelfield.version import __version__

_DIGEST, _FILES = "digest", "files"
_BYTES = 16


def seal(record: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    """Returns a record with the digests of files, and its own."""
    return with_digest({**record, _FILES: dict(digests)})


def opened(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns a record without its seal, and the digests of the files that it names.

    Raises:
        ValueError: it is not the record that was sealed.
    """
    plain = without_digest(record)
    if (_DIGEST in record) != (_FILES in record):
        raise ValueError("half of the seal is missing")
    return plain, plain.pop(_FILES, {})


def with_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record with its digest."""
    return {**record, _DIGEST: _digest(record)}


def without_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record without its digest.

    Raises:
        ValueError: it is not the record that the digest is of.
    """
    plain = {key: value for key, value in record.items() if key != _DIGEST}
    if _DIGEST in record and record[_DIGEST] != _digest(plain):
        raise ValueError("the digest is another one")
    return plain


def file_digest(path: Path) -> str:
    """Returns the digest of a file; empty if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(
                file, lambda: hashlib.blake2b(digest_size=_BYTES)
            ).hexdigest()
    except OSError:
        return ""


def _digest(record: Mapping[str, Any]) -> str:
    content = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=_BYTES).hexdigest()


@dataclass(frozen=True)
class Journal:
    """The content of a journal.

    Attributes:
        fingerprint: of the answers; None if there is no such file or nothing in it.
        answers: the first to each id.
        size: bytes of its whole lines.
        attempts: number of times that the system was started, up to the last answer.
    """

    fingerprint: str | None
    answers: list[TimedAnswer]
    size: int
    attempts: int = 0


def read_journal(path: Path) -> Journal:
    """Returns the content of a journal; an empty one if there is no such file."""
    lines = list(whole_lines(path))
    try:
        fingerprint = str(parse_json(lines[0].decode())["fingerprint"])
    except (ValueError, LookupError, TypeError):
        return Journal(None, [], 0)
    answers: dict[str, TimedAnswer] = {}
    attempts = 0
    for line in lines[1:]:
        # what is not an answer is a request that is asked again
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, UserError):
            record = without_digest(parse_json(line.decode()))
            answer = parse_answer(record)
            attempt = int(record.get("attempt", 1))
            timed = TimedAnswer(answer, float(record["wall_s"]), record["peak_bytes"], attempt)
            attempts = max(attempts, attempt)
            answers.setdefault(answer.id, timed)
    return Journal(fingerprint, list(answers.values()), sum(map(len, lines)), attempts)


@contextlib.contextmanager
def journal_writer(path: Path, fingerprint: str) -> Iterator[Callable[[TimedAnswer], None]]:
    """Yields a function that appends an answer.

    Raises:
        OSError: it can't be written.
    """
    size = read_journal(path).size
    with appending(path, size) as write:

        def write_line(record: Mapping[str, Any]) -> None:
            write(json.dumps(record).encode() + b"\n")

        if not size:
            write_line({"fingerprint": fingerprint})
        yield lambda timed: write_line(with_digest(_timed_record(timed)))


def answer_record(answer: SystemAnswer) -> dict[str, Any]:
    """Returns the object that reads as this answer again."""
    record: dict[str, Any] = {"id": answer.id, "text": answer.text}
    if answer.input:
        record["input"] = answer.input
    counts = {"tokens": answer.tokens, "forward_passes": answer.forward_passes}
    return record | {name: count for name, count in counts.items() if count is not None}


def _timed_record(timed: TimedAnswer) -> dict[str, Any]:
    cost = {"wall_s": round(timed.wall_s, 3), "peak_bytes": timed.peak_bytes}
    return answer_record(timed.answer) | cost | {"attempt": timed.attempt}


State = Literal["done", "texts", "partial", "failed", "missing", "stale"]
"""`texts`: all answers are there, but the texts have to be made again by other steps."""


@dataclass(frozen=True)
class CellRecord:
    """The content of `cell.json`.

    Attributes:
        fingerprint: what it was made from.
        version: of levelfield.
        asked, answered: number of texts.
        missing: ids of the requests without an answer.
        problems, failure, cost: as in `Cell`.
        attempts: number of times the system was started or read, all runs together.
        when: the end of the last run, in ISO 8601.
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

    def to_json(self, key: CellKey) -> dict[str, Any]:
        """Returns the object that reads as this record again."""
        when = self.when or datetime.now(UTC).isoformat(timespec="seconds")
        cost = self.cost.to_dict() if self.cost else None
        return {"key": key._asdict(), **asdict(self), "cost": cost, "when": when}

    @classmethod
    def from_json(cls, record: Any) -> CellRecord:
        """Returns the record in a JSON object.

        Raises:
            KeyError, TypeError: the object is not a record.
        """
        fields = {field.name: record[field.name] for field in dataclasses.fields(cls)}
        if not all(isinstance(fields[count], int) for count in ("asked", "answered", "attempts")):
            raise TypeError("a count is no number")
        return cls(
            **fields
            | {
                "fingerprint": Fingerprint(**record["fingerprint"]),
                "missing": tuple(record["missing"]),
                "problems": tuple(record["problems"]),
                "cost": Cost(**record["cost"]) if record["cost"] else None,
            }
        )
