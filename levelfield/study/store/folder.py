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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import as_record, atomic_writer
from levelfield.io.formats.text import jsonl
from levelfield.io.problems import Wrong, printable
from levelfield.io.records import BadRecord, Rules
from levelfield.study.ask.intake import TimedAnswer
from levelfield.study.ask.requests import parse_answer
from levelfield.study.cells import CellKey, SystemAnswer
from levelfield.study.fingerprint import Fingerprint
from levelfield.study.store.journal import answer_record, journal_writer, read_journal
from levelfield.study.store.record import CellRecord, State

_MEASURED = ("scores.jsonl", "parts.jsonl", "groups.jsonl")
_RECORD = "cell.json"
_ANSWERS, _PARTIAL, _STALE = "answers.jsonl", "answers.partial.jsonl", "answers.stale.jsonl"
_TEXTS = "texts.jsonl"


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
        """Returns the record of the last run of a cell; None if it never ended."""
        try:
            return CellRecord.of_json(json.loads((self.folder(key) / _RECORD).read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def state(self, key: CellKey, fingerprint: Fingerprint) -> State:
        """Returns how far a cell is that is made from what the fingerprint says."""
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
        if not (folder / _ANSWERS).is_file():
            return "missing"
        is_made = record.fingerprint == fingerprint and (folder / _TEXTS).is_file()
        return "done" if is_made else "texts"

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
        for name in (*_MEASURED, _TEXTS, _RECORD):
            (folder / name).unlink(missing_ok=True)
        return bool(answers)

    @contextlib.contextmanager
    def keeping(
        self, key: CellKey, fingerprint: Fingerprint
    ) -> Iterator[Callable[[TimedAnswer], None]]:
        """Yields a function that writes an answer at once, so that a crash does not lose it.

        Raises:
            OSError: it can't be written.
        """
        with journal_writer(self.folder(key) / _PARTIAL, fingerprint.answers) as write:
            yield write

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
        for name in _MEASURED:
            (folder / name).unlink(missing_ok=True)
        if not record.failure:
            self.write_lines(key, _ANSWERS, map(answer_record, answers))
        self.write_lines(key, _TEXTS, map(as_record, samples))
        self.write_record(key, record)
        if not record.failure:
            (folder / _PARTIAL).unlink(missing_ok=True)

    def write_record(self, key: CellKey, record: CellRecord) -> None:
        """Writes how a cell went."""
        with atomic_writer(self.folder(key) / _RECORD) as file:
            file.write(json.dumps(record.to_json(key), ensure_ascii=False, indent=1) + "\n")

    def write_lines(self, key: CellKey, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes a file of a cell, one JSON object a line; it is whole or not there."""
        with atomic_writer(self.folder(key) / name) as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")

    def read_lines(self, key: CellKey, name: str) -> Iterator[dict[str, Any]]:
        """Yields the objects in a file of a cell; none if there is no such file.

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

    def samples(self, key: CellKey) -> Iterator[Sample]:
        """Yields the post-processed texts of a cell."""
        rules = Rules()
        for record in self.read_lines(key, _TEXTS):
            try:
                yield rules.sample(record, id="")
            except BadRecord as bad:
                where = printable(str(self.folder(key) / _TEXTS))
                raise UserError(f"{where}: {bad}; remove {_RECORD} beside it") from None
