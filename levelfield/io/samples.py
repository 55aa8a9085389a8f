"""Files, or what is in memory, as samples: checked as a whole, read one by one."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

from levelfield.core.continuation import without_thought
from levelfield.core.errors import InputError, UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample, wanted_values
from levelfield.io.fields import (
    FIELDS,
    BadRecord,
    FieldMapping,
    Record,
    Required,
    absent,
    has,
    unmatched,
)
from levelfield.io.lines import Row
from levelfield.io.logged import LogFacts
from levelfield.io.problems import Problems, Wrong, printable, shown
from levelfield.io.reading import Ids
from levelfield.io.streams import STDIN, content_digest, copy_limited, open_bytes, sha256
from levelfield.io.writing import lasting_folder

PROGRESS_EVERY = 1_000

_BATCH = 64
"""Rows that are read together."""

MOST_LABELS = 1_000
"""Labels of an attribute that are counted apart; `keywords`, say, may have any number."""
OTHER_LABELS = "…"

_NAMES = ("system", "dataset", "seed")
_FILLED = [name for name in FIELDS if name not in ("id", *_NAMES)]
_contents = attrgetter(*_FILLED)


@dataclass
class Census:
    """Counts of samples by their contents.

    Attributes:
        n: samples.
        filled: field of `Sample` -> how many have something in it; every field is named.
        files: file -> samples in it, in the order given.
        systems, datasets, seeds: value -> samples; those without one are not counted here.
        control: attribute -> label -> samples that want it. A sample that wants several labels of
            an attribute counts for each; labels beyond `MOST_LABELS` are counted together under
            `OTHER_LABELS`.
        ratings: aspect -> rater -> samples rated.
        extra: name of a field that `Sample` lacks -> samples that have it.
        thoughts: samples whose text begins with a block in which a model thinks.
    """

    n: int = 0
    filled: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0))
    files: Counter[str] = field(default_factory=Counter)
    systems: Counter[str] = field(default_factory=Counter)
    datasets: Counter[str] = field(default_factory=Counter)
    seeds: Counter[int] = field(default_factory=Counter)
    control: dict[str, Counter[str]] = field(default_factory=dict)
    ratings: dict[str, Counter[str]] = field(default_factory=dict)
    extra: Counter[str] = field(default_factory=Counter)
    thoughts: int = 0

    def add(self, sample: Sample, file: str) -> None:
        """Counts a sample."""
        self.n += 1
        self.files[file] += 1
        self.filled["id"] += 1
        for name, value in zip(_FILLED, _contents(sample), strict=True):
            if value:
                self.filled[name] += 1
        named: tuple[Counter[Any], ...] = (self.systems, self.datasets, self.seeds)
        for name, counts in zip(_NAMES, named, strict=True):
            if (key := getattr(sample, name)) not in ("", None):
                self.filled[name] += 1
                counts[key] += 1
        if "<" in sample.text:
            self.thoughts += without_thought(sample.text, sample.prompt) != sample.text
        for attribute, values in sample.control.items():
            labels = self.control.setdefault(attribute, Counter())
            for label in dict.fromkeys(wanted_values(values)):
                is_counted = label in labels or len(labels) < MOST_LABELS
                labels[label if is_counted else OTHER_LABELS] += 1
        for aspect, ratings in sample.ratings.items():
            raters = self.ratings.setdefault(aspect, Counter())
            for rater in ratings:
                raters[rater] += 1
        for name in sample.extra:
            self.extra[name] += 1


class Spool:
    """Standard input, or another stream that can be read only once, kept as a temporary file.

    The file is made when it is first asked for and goes away with this object.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @functools.cached_property
    def file(self) -> Path:
        file = lasting_folder(self) / "input"
        with file.open("wb") as copy:
            if self._path != STDIN:
                with open_bytes(Path(self._path)) as stream:
                    copy_limited(stream, copy)
            elif sys.stdin is None or sys.stdin.closed:
                raise UserError("standard input is closed; name a file instead of -")
            else:
                copy_limited(sys.stdin.buffer, copy)
        return file


@dataclass(frozen=True)
class Input:
    """One place that records come from.

    Attributes:
        name: as the user knows it; begins every message.
        label: short and different from those of all other inputs.
        rows: opens it and reads from the start.
        unit, cells, is_table: as in `Format`.
        file: the file, or the folder, that holds the records; None where none does.
        facts: returns what a log says of all of its samples; None without a log.
        content: returns the digest of records that no file holds.
        parallel: what is read beside it, line by line.
    """

    name: str
    label: str
    rows: Callable[[], Iterator[Row]]
    unit: str = ""
    cells: bool = False
    is_table: bool = False
    file: Path | Spool | None = None
    facts: Callable[[], LogFacts] | None = None
    content: Callable[[], str] = lambda: ""
    parallel: tuple[Input, ...] = ()

    @functools.cached_property
    def digest(self) -> str:
        """The sha256 of the file, or of the files in the folder; where there is none, the digest
        of the records in memory."""
        path = self.file.file if isinstance(self.file, Spool) else self.file
        if path is None:
            return self.content()
        if not path.is_dir():
            return sha256(path)
        files = sorted(file for file in path.rglob("*") if file.is_file())
        names = [file.relative_to(path).as_posix() for file in files]
        return content_digest([*zip(names, map(sha256, files), strict=True)])

    def state(self) -> tuple[object, ...]:
        """Returns size, time and identity of the files; equal for as long as none is written."""
        states: list[object] = [i.state() for i in self.parallel]
        if isinstance(self.file, Path):
            try:
                below = self.file.rglob("*") if self.file.is_dir() else [self.file]
                for path in sorted(below):
                    stat = path.stat()
                    states.append((path, stat.st_size, stat.st_mtime_ns, stat.st_ino))
            except OSError as error:
                states.append(error.errno)
        return tuple(states)

    def change(self, state: tuple[object, ...]) -> str:
        """Returns the problem that a file has been written since it had a state; else empty."""
        if self.state() == state:
            return ""
        return f"{self.name}: changed while it was read; wait until it is complete, or read a copy"

    def batches(self) -> Iterator[list[Row]]:
        """Yields the rows in lists; if reading fails, the last list says so."""
        try:
            rows = iter(self.rows())
            while batch := list(islice(rows, _BATCH)):
                yield batch
        except OSError as error:
            yield [(0, Wrong(f"can't be read: {printable(error.strerror or str(error))}"))]

    def first(self) -> Record | None:
        """Returns the first record; None if there is none or it can't be read."""
        record = next((record for _, record in self.rows()), None)
        return None if isinstance(record, Wrong) else record

    def is_blank(self, record: Record | Wrong, required: Required = "text") -> bool:
        """Returns whether a record is a row of empty cells, which spreadsheets leave in tables.

        A single cell may be a text that is empty; as a request, which says nothing, it is blank.
        """
        if isinstance(record, Wrong):
            return False
        is_row = self.cells or (self.is_table and self.unit == "row ")
        may_be = (is_row and len(record) > 1) or (self.is_table and required != "text")
        return may_be and all(map(_is_empty, record.values()))

    def place(self, number: int) -> str:
        return f"{self.name}:{self.unit}{number}" if number else self.name

    def own_id(self, number: int) -> str:
        """Returns the id of a sample that was given none."""
        return f"{self.label}:{number}" if self.label else str(number)


def _is_empty(cell: object) -> bool:
    if isinstance(cell, list | dict):
        return not cell
    return absent(cell) or (isinstance(cell, str) and cell.isspace())


def blank_note(name: str, n: int) -> str:
    """Says how many rows of empty cells an input has."""
    return f"{name}: rows of empty cells are left out: {n:,}"


class Source:
    """Samples that are read again by every `iter`, so that they are never all in memory.

    Attributes:
        names: of the files, as in messages and `Census.files`.
        inputs: where the records come from.
        notes: what a reader must know of the records, after `check`.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        rules: FieldMapping,
        ids: Ids,
        refusal: Callable[[Sample], str] = lambda _: "",
    ) -> None:
        self.names = tuple(i.name for i in inputs)
        self.inputs = tuple(inputs)
        self._rules = rules
        self._ids = ids
        self._refusal = refusal
        self._states: list[tuple[object, ...]] | None = None
        self._blank: Counter[str] = Counter()

    def as_requests(
        self, refusal: Callable[[Sample], str], required: Required = "prompt"
    ) -> Source:
        """Returns the same records as requests: each needs a prompt or a source, and none a text.

        Args:
            refusal: why a request can't be answered, which is a problem as any other; empty if it
                can.
            required: the field that each needs.
        """
        rules = replace(self._rules, required=required)
        return Source(self.inputs, rules, self._ids, refusal)

    def apart(self) -> list[Source]:
        """Returns a source for each input; an id may be in several of them."""
        return [Source([file], self._rules, self._ids, self._refusal) for file in self.inputs]

    def with_ids(self, ids: Ids) -> Source:
        """Returns the same records with ids that are read otherwise."""
        return Source(self.inputs, self._rules, ids, self._refusal)

    def __iter__(self) -> Iterator[Sample]:
        """Yields the samples in the order of the files.

        Raises:
            InputError: at the first problem. After a `check` the only one is that a file has been
                written since, and ids are no more remembered.
        """

        def fail(problem: str) -> NoReturn:
            self.check_unchanged()
            raise InputError([problem])

        compared = self._states is None and self._ids != "any"
        for sample, _ in self._read(fail, {} if compared else None):
            yield sample
        self.check_unchanged()

    def check_unchanged(self) -> None:
        """Makes sure that the files are those that `check` has read; does nothing before it.

        Raises:
            InputError: one of them has been written since.
        """
        states = zip(self.inputs, self._states or (), strict=False)
        if changes := [change for i, state in states if (change := i.change(state))]:
            raise InputError(changes)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(blank_note(name, n) for name, n in self._blank.items())

    def check(self, *, progress: Progress = no_progress, needed: Sequence[str] = ()) -> Census:
        """Reads everything once.

        Args:
            needed: fields that will be needed; where the text is missing, the message asks for
                them as well.

        Raises:
            InputError: with all problems there are: the first 20, and how many more.
        """
        self._rules = replace(self._rules, needed=tuple(needed))
        census = Census()
        for sample, name in self._checked():
            census.add(sample, name)
            if census.n % PROGRESS_EVERY == 0:
                progress(PROGRESS_EVERY)
        if census.n % PROGRESS_EVERY:
            progress(census.n % PROGRESS_EVERY)
        return census

    def checked(self) -> Iterator[Sample]:
        """Yields the samples in one reading; who reads them has room for all.

        Raises:
            InputError: at the end, with all problems there are, as `check` does.
        """
        return (sample for sample, _ in self._checked())

    def _checked(self) -> Iterator[tuple[Sample, str]]:
        """Yields samples with the names of their inputs, and raises all problems at the end."""
        problems = Problems()
        self._blank.clear()
        self._states = None
        states = [i.state() for i in self.inputs]
        yield from self._read(problems.add, None if self._ids == "any" else {})
        self._states = states
        self.check_unchanged()
        problems.raise_if_any()

    def _read(
        self, report: Callable[[str], object], seen: dict[str, int] | None
    ) -> Iterator[tuple[Sample, str]]:
        """Yields samples with the names of their inputs.

        Args:
            report: called with each problem.
            seen: id -> place of its first use; None if ids need not be compared.
        """
        unseen = dict(self._rules.mapping)
        columns: Iterable[str] = ()
        for index, source in enumerate(self.inputs):
            is_empty = True
            for number, record, sample in self._outcomes(index):
                is_empty = False
                if unseen and not isinstance(record, Wrong):
                    columns = columns or tuple(record)
                    unseen = {o: t for o, t in unseen.items() if not has(record, o, t)}
                if isinstance(sample, Wrong):
                    report(f"{source.place(number)}: {sample}")
                elif isinstance(sample, BadRecord):
                    if sample.no_required_field:
                        unseen.pop(self._rules.required, None)  # the problem names it
                    is_whole_table = sample.no_required_field and source.is_table
                    place = source.place(0 if is_whole_table else number)
                    for wrong in sample.problems:
                        report(f"{place}: {wrong}")
                    if is_whole_table:
                        break
                elif problem := self._problem(sample, index, number, seen):
                    report(f"{source.place(number)}: {problem}")
                else:
                    yield sample, source.name
            if is_empty:
                report(f"no samples in {source.name}; is it the file you mean?")
        for name, column in unseen.items() if columns else ():
            report(unmatched(name, column, columns))

    def _outcomes(
        self, index: int
    ) -> Iterator[tuple[int, Record | Wrong, Sample | BadRecord | Wrong]]:
        """Yields the rows of an input that are not blank: number, record, and its sample or what is
        wrong with it."""
        source = self.inputs[index]
        model = None if "system" in self._rules.mapping else self._shared_models.get(index)
        counts = self._states is None
        for batch in source.batches():
            rows = [row for row in batch if not source.is_blank(row[1], self._rules.required)]
            if counts and len(rows) < len(batch):
                self._blank[source.name] += len(batch) - len(rows)
            records = [
                {**record, "system": source.label}
                if model and not isinstance(record, Wrong) and record.get("system") == model
                else record
                for _, record in rows
            ]
            ids = [source.own_id(number) for number, _ in rows]
            samples = self._rules.samples(
                zip(ids, records, strict=True),
                prefix=f"{source.label}/" if self._ids == "file" else "",
                system=source.label if len(self.inputs) > 1 else "",
                cells=source.cells,
            )
            for (number, _), record, sample in zip(rows, records, samples, strict=True):
                yield number, record, sample

    @functools.cached_property
    def _shared_models(self) -> dict[int, str]:
        """Input -> the model of its log, where another log is of the same model.

        Their samples have the names of their files as systems: two prompts of a model, or two runs
        of it, are what is to be told apart.
        """
        logs = enumerate(self.inputs if len(self.inputs) > 1 else ())
        models = {i: file.facts().model for i, file in logs if file.facts is not None}
        counts = Counter(models.values())
        return {i: model for i, model in models.items() if model and counts[model] > 1}

    def _problem(self, sample: Sample, index: int, number: int, seen: dict[str, int] | None) -> str:
        """Returns that an id was used before, or why a request can't be answered; else empty."""
        here = index << 40 | number
        first = here if seen is None else seen.setdefault(sample.id, here)
        if first == here:
            return self._refusal(sample)
        mend = (
            "ids must differ: leave them out, or number the samples"
            if index == first >> 40
            else "with --ids file, each id begins with the name of its file"
        )
        place = self.inputs[first >> 40].place(first & (1 << 40) - 1)
        return f"id {shown(sample.id)} was used at {place}; {mend}"


@dataclass(frozen=True)
class Parallel:
    """Plain texts beside every file of outputs: line n belongs to text n.

    Attributes:
        sources: at most one.
        references: an empty line is not a reference.
    """

    sources: tuple[Input, ...]
    references: tuple[Input, ...]

    def beside(self, outputs: Input) -> Input:
        """Returns the input with the fields `source` and `references`."""
        if not self.all:
            return outputs
        return replace(outputs, rows=lambda: self._rows(outputs), parallel=self.all)

    @property
    def all(self) -> tuple[Input, ...]:
        """All the files."""
        return self.sources + self.references

    def _rows(self, outputs: Input) -> Iterator[Row]:
        counts = [0] * (len(self.all) + 1)
        for rows in zip_longest(*(source.rows() for source in (outputs, *self.all))):
            counts = [n + (row is not None) for n, row in zip(counts, rows, strict=True)]
            output, *parallel_rows = rows
            wrongs = [
                Wrong(f"{source.place(row[0])}: {row[1]}")
                for source, row in zip(self.all, parallel_rows, strict=True)
                if row is not None and isinstance(row[1], Wrong)
            ]
            if output is not None and None not in parallel_rows:
                number, record = output
                yield number, wrongs[0] if wrongs else self._record(record, parallel_rows)
        for source, n in zip(self.all, counts[1:], strict=True):
            if n != counts[0]:
                problem = (
                    f"{counts[0]:,} lines, and {source.name} has {n:,}; line n of one belongs to "
                    "line n of the other"
                )
                yield 0, Wrong(problem)

    def _record(
        self, record: dict[str, Any] | Wrong, parallel_rows: Sequence[Row]
    ) -> dict[str, Any] | Wrong:
        if isinstance(record, Wrong):
            return record
        texts = [row["text"] for _, row in parallel_rows if isinstance(row, dict)]
        sources, references = texts[: len(self.sources)], texts[len(self.sources) :]
        return {
            **record,
            **({"source": sources[0]} if sources else {}),
            **({"references": [text for text in references if text]} if references else {}),
        }
