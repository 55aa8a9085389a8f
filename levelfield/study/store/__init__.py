"""A study's folder on disk: one folder per cell, in files that people can open.

In a cell's folder are

- `answers.partial.jsonl`: answers as they come, one line written at once for each;
- `answers.jsonl`: all answers as the system gave them, in the order of the requests;
- `texts.jsonl`: the post-processed texts as samples;
- `scores.jsonl`, `parts.jsonl`, `groups.jsonl`: what metrics say of them;
- `cell.json`: what it is made from and how it went, written after answers and texts;
- `measured.json`: what the values were computed from, written after them;
- `stderr.txt`: what a command said.

Every file but the first and the last is whole or not there. Of the first, a line that a crash has
torn is not an answer, so its request is asked again. `cell.json` and `measured.json` are sealed:
of any other file that is not as it was written nothing is read.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import as_record, atomic_writer
from levelfield.io.fields import BadRecord, FieldMapping
from levelfield.io.lines import jsonl
from levelfield.io.problems import Wrong, printable
from levelfield.study.ask.requests import TimedAnswer, parse_answer
from levelfield.study.cells import CellKey, SystemAnswer
from levelfield.study.fingerprint import Fingerprint
from levelfield.study.store.journal import (
    CellRecord,
    State,
    answer_record,
    file_digest,
    journal_writer,
    opened,
    read_journal,
    seal,
)

_MEASURED = ("scores.jsonl", "parts.jsonl", "groups.jsonl")
_RECORD, _STAMP = "cell.json", "measured.json"
_ANSWERS, _PARTIAL, _STALE = "answers.jsonl", "answers.partial.jsonl", "answers.stale.jsonl"
_TEXTS = "texts.jsonl"
_SEALED = {_RECORD: (_ANSWERS, _TEXTS), _STAMP: _MEASURED}
"""Records with a seal -> the files that each vouches for."""
_MENDS = {
    _TEXTS: "`levelfield study run` makes it again from the answers",
    **dict.fromkeys((_STAMP, *_MEASURED), "`levelfield study run` measures the cell again"),
}
_ASKS_ANEW = (
    "restore it, or `levelfield study run` requests the cell again and sets the old answers aside"
)


class StudyStore:
    """The folder of a study.

    Attributes:
        out: its path; made when something is first written.
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    def folder(self, key: CellKey) -> Path:
        """Returns the folder of a cell; it may not exist yet."""
        return self.out / key.folder

    def record(self, key: CellKey) -> CellRecord | None:
        """Returns the record of the last run of a cell; None if it never ended, or nobody knows."""
        try:
            return CellRecord.from_json(self._opened(key, _RECORD)[0])
        except (ValueError, KeyError, TypeError):
            return None

    def measured(self, key: CellKey) -> dict[str, Any] | None:
        """Returns what the values of a cell were computed from; None if they are not all there as
        they were written."""
        if not all(self.is_intact(key, name) for name in (_STAMP, *_MEASURED)):
            return None
        return self._opened(key, _STAMP)[0] or None

    def is_intact(self, key: CellKey, name: str) -> bool:
        """Returns whether a file of a cell is as it was written, as far as anybody can know."""
        folder = self.folder(key)
        if name in _MEASURED and not (folder / _STAMP).exists():
            return not (folder / name).exists()  # a run was killed while it wrote values
        try:
            for record, files in _SEALED.items():
                if name == record:
                    self._opened(key, name)
                elif name in files:
                    digest = self._opened(key, record)[1].get(name)
                    return not digest or file_digest(folder / name) == digest
        except ValueError:
            return False
        return True

    def damage(self, key: CellKey) -> str:
        """Returns which file of a cell is not as it was written, and what mends it; empty if all
        are."""
        for name in (name for record, files in _SEALED.items() for name in (record, *files)):
            if not self.is_intact(key, name):
                return self._damage(key, name)
        return ""

    def _damage(self, key: CellKey, name: str) -> str:
        where = printable(str(self.folder(key) / name))
        return f"{where}: is not as it was written; {_MENDS.get(name, _ASKS_ANEW)}"

    def check(self, key: CellKey) -> None:
        """Checks that all files of a cell are as they were written.

        Raises:
            UserError: names one that is not, and what mends it.
        """
        if damage := self.damage(key):
            raise UserError(damage)

    def _opened(self, key: CellKey, name: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Returns a sealed record and the digests of its files; both empty if it is not there.

        Raises:
            ValueError: it is not as it was written.
        """
        try:
            content = (self.folder(key) / name).read_text("utf-8")
        except FileNotFoundError:
            return {}, {}
        except OSError as error:
            raise ValueError(str(error)) from error
        try:
            record = json.loads(content)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(record, dict):
            raise ValueError("no object")
        return opened(record)

    def state(self, key: CellKey, fingerprint: Fingerprint) -> State:
        """Returns the state of a cell with this fingerprint."""
        record = self.record(key)
        folder = self.folder(key)
        if record is None:
            journal = read_journal(folder / _PARTIAL)
            if not journal.answers:
                return "missing"
            return "partial" if journal.fingerprint == fingerprint.answers else "stale"
        if record.fingerprint.answers != fingerprint.answers:
            return "stale"
        if record.failure:
            return "failed"
        if not (folder / _ANSWERS).is_file() or not self.is_intact(key, _ANSWERS):
            return "missing"
        has_texts = (folder / _TEXTS).is_file() and self.is_intact(key, _TEXTS)
        return "done" if has_texts and record.fingerprint == fingerprint else "texts"

    @contextlib.contextmanager
    def lock(self, key: CellKey) -> Iterator[bool]:
        """Yields whether the cell is ours until the end of the block; False if another process has
        it."""
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

    def resume(self, key: CellKey, fingerprint: Fingerprint) -> list[TimedAnswer]:
        """Returns the answers of earlier runs, if they are of this fingerprint."""
        journal = read_journal(self.folder(key) / _PARTIAL)
        if journal.fingerprint == fingerprint.answers:
            return journal.answers
        record = self.record(key)
        if record and record.fingerprint.answers == fingerprint.answers:
            return [TimedAnswer(parse_answer(line)) for line in self.read_lines(key, _ANSWERS)]
        return []

    def attempts(self, key: CellKey, fingerprint: Fingerprint) -> int:
        """Returns how often the system was started for the answers that came one by one."""
        journal = read_journal(self.folder(key) / _PARTIAL)
        return journal.attempts if journal.fingerprint == fingerprint.answers else 0

    def set_aside(self, key: CellKey) -> bool:
        """Resets a cell as if it had never run; returns whether there were answers.

        They stay in `answers.stale.jsonl`, until the next that are set aside take their place:
        they may have taken days.
        """
        folder = self.folder(key)
        if not read_journal(folder / _PARTIAL).answers:
            (folder / _PARTIAL).unlink(missing_ok=True)
        answers = [folder / name for name in (_PARTIAL, _ANSWERS) if (folder / name).is_file()]
        for path in answers:
            path.replace(folder / _STALE)
        # last, as without it nobody would know that the answers were stale
        for name in (_STAMP, *_MEASURED, _TEXTS, _RECORD):
            (folder / name).unlink(missing_ok=True)
        return bool(answers)

    def keeping(
        self, key: CellKey, fingerprint: Fingerprint
    ) -> contextlib.AbstractContextManager[Callable[[TimedAnswer], None]]:
        """Returns a context of a function that writes an answer at once, safe from a crash.

        Raises:
            OSError: it can't be written.
        """
        return journal_writer(self.folder(key) / _PARTIAL, fingerprint.answers)

    def finish(
        self,
        key: CellKey,
        record: CellRecord,
        answers: Sequence[SystemAnswer],
        samples: Sequence[Sample],
    ) -> None:
        """Writes the answers and texts of a run; removes values of other texts.

        Without failure all answers are there, and the file of those that came one by one goes.
        """
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        self._forget_values(key)
        files = {_TEXTS: map(as_record, samples)}
        if not record.failure:
            files[_ANSWERS] = map(answer_record, answers)
        self._write_sealed(key, _RECORD, record.to_json(key), self._write_files(key, files))
        if not record.failure:
            (folder / _PARTIAL).unlink(missing_ok=True)

    def write_record(self, key: CellKey, record: CellRecord) -> None:
        """Writes how a cell went whose answers and texts stay as they are."""
        try:
            _, digests = self._opened(key, _RECORD)
        except ValueError:  # nobody knows any more what the texts were
            (self.folder(key) / _TEXTS).unlink(missing_ok=True)
            digests = {}
        self._write_sealed(key, _RECORD, record.to_json(key), digests)

    def write_measured(
        self,
        key: CellKey,
        stamp: Mapping[str, Any],
        files: Mapping[str, Iterable[Mapping[str, Any]]],
    ) -> None:
        """Writes the values of a cell in place of those that are there.

        Args:
            stamp: what they were computed from.
            files: name -> objects, one a line.
        """
        self._forget_values(key)
        self._write_sealed(key, _STAMP, stamp, self._write_files(key, files))

    def _forget_values(self, key: CellKey) -> None:
        for name in (_STAMP, *_MEASURED):
            (self.folder(key) / name).unlink(missing_ok=True)

    def _write_files(
        self, key: CellKey, files: Mapping[str, Iterable[Mapping[str, Any]]]
    ) -> dict[str, str]:
        """Writes files of a cell; returns their digests."""
        for name, records in files.items():
            self.write_lines(key, name, records)
        return {name: file_digest(self.folder(key) / name) for name in files}

    def _write_sealed(
        self, key: CellKey, name: str, record: Mapping[str, Any], digests: Mapping[str, str]
    ) -> None:
        with atomic_writer(self.folder(key) / name) as file:
            indent = 1 if name == _RECORD else None
            sealed = seal(record, digests)
            file.write(json.dumps(sealed, ensure_ascii=False, indent=indent) + "\n")

    def write_lines(self, key: CellKey, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes a file of a cell, one JSON object a line; it is whole or not there."""
        with atomic_writer(self.folder(key) / name) as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")

    def read_lines(self, key: CellKey, name: str) -> Iterator[dict[str, Any]]:
        """Yields the objects in a file of a cell; none if there is no such file.

        Raises:
            UserError: the file is not as it was written, or a line is broken.
        """
        path = self.folder(key) / name
        if not self.is_intact(key, name):
            raise UserError(self._damage(key, name))
        if not path.is_file():
            return
        for number, record in jsonl(path):
            if isinstance(record, Wrong):
                mend = f"remove {_RECORD} beside it, and the next run makes it again"
                raise UserError(f"{printable(str(path))}:{number}: {record}; {mend}")
            yield record

    def samples(self, key: CellKey) -> Iterator[Sample]:
        """Yields the post-processed texts of a cell."""
        rules = FieldMapping()
        for record in self.read_lines(key, _TEXTS):
            try:
                yield rules.sample(record, id="")
            except BadRecord as bad:
                where = printable(str(self.folder(key) / _TEXTS))
                raise UserError(f"{where}: {bad}; remove {_RECORD} beside it") from None
