"""Ratings as meta-evaluation reads them: one number per row, whatever the format."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from levelfield.core.sample import Sample
from levelfield.io import fields
from levelfield.io.fields import FIELDS, BadRecord, FieldMapping, Record, has, unmatched
from levelfield.io.formats.answers import ANNOTATION
from levelfield.io.guesses import (
    field_guesses,
    id_mapping,
    map_words,
    numbers_mapping,
    rater_guess,
    several_columns,
    source_guess,
)
from levelfield.io.problems import Problems, listed, printable, shown
from levelfield.io.rows import Places, Rows, TableRow, inputs, table_rows
from levelfield.io.samples import Input

COLUMNS = ("aspect", "rater", "value")
"""What a record has, next to an id, if it is one rating and not a sample with its ratings."""

NO_RATINGS: Mapping[str, Mapping[str, float]] = MappingProxyType({})

_MERGED = tuple(name for name in FIELDS if name not in ("id", "ratings", "extra"))


class Rating(NamedTuple):
    """One rater's number for one sample on one aspect."""

    id: str
    aspect: str
    rater: str
    value: float


@dataclass(frozen=True)
class Rated:
    """The contents of files of ratings.

    Attributes:
        ratings: in the order of the files, without the missing ones.
        samples: id -> sample, with all its ratings, where the files say more of it than its id;
            where they hold no texts, its text is empty.
        notes: what a reader must know of the ratings, such as what is left out.
    """

    ratings: tuple[Rating, ...]
    samples: Mapping[str, Sample]
    notes: tuple[str, ...] = ()


def load_ratings(
    paths: Rows,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] = {},
    optional: Collection[str] = (),
) -> Rated:
    """Returns the ratings in files of samples, or of one rating a row.

    A record that has `aspect`, `rater` and `value` is one rating of the sample `id` (a file of one
    rater may leave `rater` out); its other fields (`system`, `source`, `survey`, …) are the
    sample's. Any other record is a sample with its `ratings`, as `open_samples` reads it; it may
    lack the text. If it has a `rater`, ratings without a rater's name, such as `ratings.fluency`,
    are that rater's. The same sample may come several times, such as in one file a rater, if what
    is said of it agrees. A field that is none of `Sample`'s and differs between the records of one
    sample (a comment, a time) says nothing of the sample and is left out.

    Args:
        paths: files, data frames or records; `-` is standard input.
        format: of all files; by default what content and suffix of each say.
        mapping: our field -> their field; also of `aspect`, `rater` and `value`.
        optional: fields of the mapping that no record needs to have.

    Raises:
        InputError: with all problems there are: what can't be read, values that are not finite
            numbers (in tables without types a cell may be text that is a number), two ratings of
            one rater for one sample and aspect, no ratings at all. Null and NaN are allowed:
            they are missing ratings.

    >>> rated = load_ratings(["ratings.jsonl"])  # doctest: +SKIP
    >>> rated.ratings[0]  # doctest: +SKIP
    Rating(id='7', aspect='fluency', rater='ann', value=81.0)
    """
    rules = FieldMapping(
        mapping={field: path for field, path in mapping.items() if field not in COLUMNS}
    )
    columns = {name: mapping.get(name, name) for name in COLUMNS}
    reader = _RatingReader(rules, columns, optional)
    sources = inputs(paths, "ratings", format, ids_named="id" in mapping)
    for source in sources:
        reader.read(source)
    reader.finish()
    reader.problems.raise_if_any()
    if not reader.ratings:
        reader.problems.add(
            f"no ratings in {', '.join(source.name for source in sources)}; expected samples with "
            f"ratings.ASPECT.RATER, or rows of id, {', '.join(COLUMNS)}"
        )
    reader.problems.raise_if_any()
    return reader.rated()


@dataclass(slots=True)
class _Known:
    """What the records so far say of one sample.

    Attributes:
        sample: their fields together, without ratings.
        source, number: where the first record is.
        texts_in: labels of the files that hold its text.
        varying: names of other fields that differ between records.
    """

    sample: Sample
    source: Input
    number: int
    texts_in: frozenset[str] = frozenset()
    varying: frozenset[str] = frozenset()


class _RatingReader:
    """Takes in ratings and what is said of their samples, record by record.

    Attributes:
        ratings: id, aspect and rater -> value.
        notes: what a reader must know of the records.
    """

    def __init__(
        self, rules: FieldMapping, columns: Mapping[str, str], optional: Collection[str]
    ) -> None:
        self.problems = Problems()
        self.ratings: dict[tuple[str, str, str], float] = {}
        self.notes: list[str] = []
        self._fields: tuple[str, ...] = ()
        self._annotations: dict[tuple[str, str, str], str] = {}
        self._doubled = 0
        self._places = Places()
        self._known: dict[str, _Known] = {}
        self._rules = rules
        self._columns = columns
        self._text = rules.mapping.get("text", "text")
        self._without_raters: set[str] = set()
        unseen = {**rules.mapping, **{o: t for o, t in columns.items() if o != t}}
        self._unseen = {o: t for o, t in unseen.items() if o not in optional}

    def read(self, source: Input) -> None:
        """Takes in the records of a file: ratings, or samples with their ratings."""
        for row in table_rows(source, "ratings", self.problems, self.notes):
            if not (self._fields and self._add_plain(row)):
                self._add(row)

    def _add(self, row: TableRow) -> None:
        self._fields = self._fields or tuple(row.record)
        if self._unseen:
            self._unseen = {o: t for o, t in self._unseen.items() if not has(row.record, o, t)}
        record = self._with_rater(row)
        is_rating = not self._lacking(record)
        has_text = has(record, "text", self._text) or has(record, "text", "text")
        rater, rest = "", record
        if is_rating:
            columns = {*self._columns.values(), ANNOTATION}
            rest = {name: value for name, value in record.items() if name not in columns}
            has_text = has_text and not fields.absent(rest.get(self._text, "there"))
        elif self._has_ratings(record):
            if not fields.absent(record.get(self._columns["rater"])):
                rater = str(record[self._columns["rater"]])
                rest = {n: v for n, v in record.items() if n != self._columns["rater"]}
        elif not has_text:
            row.refuse(
                f"neither a sample, as there is no {shown(self._text)}, nor a rating, as there is "
                f"no {listed(self._lacking(record))}; the fields are {listed(record)}; name yours, "
                f"for example {self._example(record)}"
            )
            return
        has_own_id = has_text and not is_rating and not rater
        sample = self._sample(row, rest, has_text=has_text, has_own_id=has_own_id)
        if sample is None:
            return
        if is_rating:
            ratings = self._rating(row, record)
        else:
            ratings = [
                (aspect, rater if rater and raters.keys() == {"1"} else name, value)
                for aspect, raters in sample.ratings.items()
                for name, value in raters.items()
            ]
        self._remember(row, sample, has_text=has_text)
        annotation = str(record.get(ANNOTATION) or "") if is_rating else ""
        for aspect, name, value in ratings:
            key = sys.intern(sample.id), sys.intern(aspect), sys.intern(name)
            self._keep(row, key, value, annotation)

    def _lacking(self, record: Record) -> list[str]:
        """Returns the columns of ratings that a record does not have."""
        return [column for column in self._columns.values() if column not in record]

    def _with_rater(self, row: TableRow) -> Record:
        """Returns the record, with a rater if its file is that of a single one."""
        if self._lacking(row.record) != ["rater"]:
            return row.record
        if row.is_first:
            self._without_raters.add(row.source.name)
        is_of_one = row.source.name in self._without_raters
        return {**row.record, "rater": "1"} if is_of_one else row.record

    def _sample(
        self, row: TableRow, record: Record, *, has_text: bool, has_own_id: bool
    ) -> Sample | None:
        """Returns what a record says of a sample; None, and a problem, if that is not valid."""
        if not has_text:
            record = {n: v for n, v in record.items() if n != self._text} | {"text": ""}
        own_id = row.source.own_id(row.number) if has_own_id else ""
        try:
            sample = self._rules.sample(record, id=own_id, cells=row.source.cells)
        except BadRecord as bad:
            for problem in bad.problems:
                row.report(problem)
            return None
        if sample.id:
            return sample
        named = id_mapping(row.record, self._rules.mapping)
        has_id = has(row.record, "id", self._rules.mapping.get("id", "id"))
        if row.is_first and named and not has_id:
            row.refuse(
                f"no id; the fields are {listed(row.record)}; say which sample a rating is of, for "
                f"example {map_words(named)}"
            )
        else:
            row.report("id: missing; say which sample the rating is of")
        return None

    def _keep(
        self, row: TableRow, key: tuple[str, str, str], value: float, annotation: str
    ) -> None:
        if key not in self.ratings:
            self.ratings[key] = value
            self._places.add(row)
            if annotation:
                self._annotations[key] = annotation
        elif annotation and (annotation, value) == (self._annotations.get(key), self.ratings[key]):
            self._doubled += 1
        else:
            self._twice(row, key)

    def _add_plain(self, row: TableRow) -> bool:
        """Takes a rating of which nothing is said but id, aspect, rater and value; returns whether
        a record is plainly that."""
        record = row.record
        if len(record) != 4 or self._rules.mapping or not self._is_plain(record):
            return False
        id, aspect, rater = (sys.intern(record[name]) for name in ("id", "aspect", "rater"))
        if (id, aspect, rater) in self.ratings:
            return False
        self.ratings[id, aspect, rater] = float(record["value"])
        self._places.add(row)
        return True

    def _is_plain(self, record: Record) -> bool:
        for column in ("id", "aspect", "rater"):
            name = record.get(column)
            if not (name and fields.is_plain(name)):
                return False
        plain_columns = all(name == column for name, column in self._columns.items())
        return plain_columns and fields.is_finite_number(record.get("value"))

    def _has_ratings(self, record: Record) -> bool:
        mapping = {o: t for o, t in self._rules.mapping.items() if o.partition(".")[0] == "ratings"}
        return any(has(record, o, t) for o, t in mapping.items()) or any(
            name.partition(".")[0] == "ratings" for name in record
        )

    def _example(self, record: Record) -> str:
        """Returns `--map` words for what a record lacks: columns of ratings or of an aspect."""
        columns = {**self._rules.mapping, **self._columns}
        named = {o: t for o, t in columns.items() if o != t and has(record, o, t)}
        rest = {name: v for name, v in record.items() if name not in named.values()}
        present = {name: name for name in COLUMNS if name in record}
        guesses: dict[str, str] = {**source_guess(rest), **field_guesses(rest), **present, **named}
        numbers = numbers_mapping(rest, "ratings") or {"ratings.ASPECT": "COLUMN"}
        if "aspect" in guesses:
            numbers = {"value": guesses.get("value", next(iter(numbers.values())))}
        mapping: dict[str, str] = {
            **({} if "id" in named else id_mapping(rest)),
            **{o: guesses[o] for o in ("system", "source", "aspect", "rater") if o in guesses},
            **numbers,
        }
        return map_words({**named, **{o: t for o, t in mapping.items() if o != t}})

    def finish(self) -> None:
        """Reports the fields that the user named and no record has, and notes what was twice."""
        if self._doubled:
            self.notes.append(
                f"ratings that come twice with one {ANNOTATION} count once: {self._doubled:,}"
            )
        for name, column in self._unseen.items() if self._fields else ():
            if name in ("id", *COLUMNS) and self.problems.total:
                continue  # was said where it is missing
            self.problems.add(unmatched(name, column, self._fields))

    def rated(self) -> Rated:
        texts_in: set[str] = set().union(*(record.texts_in for record in self._known.values()))
        sample_ratings: dict[str, dict[str, dict[str, float]]] = {id: {} for id in self._known}
        for (id, aspect, rater), value in self.ratings.items():
            if id in sample_ratings:
                sample_ratings[id].setdefault(aspect, {})[rater] = value
        samples = {}
        for id, record in self._known.items():
            sample = replace(record.sample, ratings=sample_ratings[id])
            if len(texts_in) > 1 and len(record.texts_in) == 1 and not sample.system:
                # as `open_samples` has it: given several files, a file is a system
                sample = replace(sample, system=next(iter(record.texts_in)))
            if record.texts_in or sample != Sample(id, "", ratings=sample.ratings):
                samples[id] = sample
        ratings = (Rating(*key, value) for key, value in self.ratings.items())
        return Rated(tuple(ratings), samples, tuple(self.notes))

    def _rating(self, row: TableRow, record: Record) -> Iterable[tuple[str, str, float]]:
        """Returns the rating that a row is; none if its value is missing."""
        aspect, rater = (row.name(name, record[self._columns[name]]) for name in COLUMNS[:2])
        value = row.value("value", record[self._columns["value"]])
        if not (aspect and rater) or value is None or math.isnan(value):
            return []
        return [(aspect, rater, value)]

    def _twice(self, row: TableRow, key: tuple[str, str, str]) -> None:
        record = self._with_rater(row)
        id, aspect, rater = key
        column = rater_guess(record) if self._columns["rater"] not in record else ""
        mend = (
            f", or name who rated: {map_words({'rater': column})}"
            if column
            else several_columns(record, self._rules.mapping)
        )
        place_of_first = self._places.of(key, self.ratings)
        if key in self._annotations:
            two = f"{self._annotations[key]} and {record.get(ANNOTATION)}"
            place_of_first += f" ({ANNOTATION} {printable(two)})"
        row.report(
            f"{printable(rater)} already rated {printable(aspect)} of id {shown(id)} at "
            f"{place_of_first}; remove one of the two ratings{mend}"
        )

    def _remember(self, row: TableRow, sample: Sample, *, has_text: bool) -> None:
        """Puts together what several records say of one sample."""
        if sample.ratings:
            sample = replace(sample, ratings=NO_RATINGS)
        record = self._known.get(sample.id)
        if record is None:
            if has_text or sample != Sample(sample.id, "", ratings=NO_RATINGS):
                texts_in = frozenset([row.source.label]) if has_text else frozenset()
                self._known[sys.intern(sample.id)] = _Known(
                    sample, row.source, row.number, texts_in
                )
            return
        if has_text and row.source.label not in record.texts_in:
            record.texts_in |= {row.source.label}
        if sample == record.sample:
            return
        merged: dict[str, Any] = {}
        for name in _MERGED:
            old, new = getattr(record.sample, name), getattr(sample, name)
            if old in ("", (), {}, None):
                merged[name] = new
            elif new not in ("", (), {}, None) and new != old:
                place = record.source.place(record.number)
                row.report(
                    f"{name}: {shown(new)}, but {shown(old)} at {place} for the same id "
                    f"{shown(sample.id)}; correct one of them, or give other ids"
                )
        old_extra, new_extra = record.sample.extra, sample.extra
        shared = old_extra.keys() & new_extra.keys()
        record.varying |= {n for n in shared if not _same(old_extra[n], new_extra[n])}
        extra = {n: v for n, v in {**new_extra, **old_extra}.items() if n not in record.varying}
        record.sample = replace(record.sample, **merged, extra=extra)


def _same(a: object, b: object) -> bool:
    return bool(a == b) or (fields.absent(a) and fields.absent(b))
