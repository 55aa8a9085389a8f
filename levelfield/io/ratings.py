"""Ratings as meta-evaluation reads them: one number per row, whatever the format."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from levelfield.core.sample import Sample
from levelfield.io import fields
from levelfield.io.fields import FIELDS, BadRecord, Record, Rules, has, unmatched
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
from levelfield.io.rows import Book, Places, Rows, inputs
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
        InputError: with all problems there are: what can't be read, values that are no finite
            numbers (in tables without types a cell may be text that is a number), two ratings of
            one rater for one sample and aspect, no ratings at all. Null and NaN are no problem:
            they are missing ratings.

    >>> rated = load_ratings(["ratings.jsonl"])  # doctest: +SKIP
    >>> rated.ratings[0]  # doctest: +SKIP
    Rating(id='7', aspect='fluency', rater='ann', value=81.0)
    """
    rules = Rules(mapping={field: path for field, path in mapping.items() if field not in COLUMNS})
    columns = {name: mapping.get(name, name) for name in COLUMNS}
    book = _RatingBook(rules, columns, optional)
    sources = inputs(paths, "ratings", format, ids_named="id" in mapping)
    for source in sources:
        book.read(source)
    book.finish()
    book.problems.raise_if_any()
    if not book.ratings:
        book.problems.add(
            f"no ratings in {', '.join(source.name for source in sources)}; expected samples with "
            f"ratings.ASPECT.RATER, or rows of id, {', '.join(COLUMNS)}"
        )
    book.problems.raise_if_any()
    return book.rated()


@dataclass(slots=True)
class _Known:
    """What the records so far say of one sample.

    Attributes:
        sample: their fields together, without ratings.
        place: of the first record.
        texts_in: labels of the files that hold its text.
        varying: names of other fields that differ between records.
    """

    sample: Sample
    place: str
    texts_in: frozenset[str] = frozenset()
    varying: frozenset[str] = frozenset()


class _RatingBook(Book):
    """Collects ratings and what is said of their samples, record by record."""

    noun = "ratings"

    def __init__(self, rules: Rules, columns: Mapping[str, str], optional: Collection[str]) -> None:
        super().__init__(Problems())
        self.ratings: dict[tuple[str, str, str], float] = {}
        self._annotations: dict[tuple[str, str, str], str] = {}
        self._doubled = 0
        self._places = Places()
        self._known: dict[str, _Known] = {}
        self._rules = rules
        self._columns = columns
        self._without_raters: set[str] = set()
        unseen = {**rules.mapping, **{o: t for o, t in columns.items() if o != t}}
        self._unseen = {o: t for o, t in unseen.items() if o not in optional}

    def add(self, source: Input, number: int, record: Record, *, first: bool) -> str:
        """Takes a record: a rating, or a sample with its ratings."""
        if self.fields and self._add_plain(source, number, record):
            return ""
        self.fields = self.fields or tuple(record)
        if self._unseen:
            self._unseen = {o: t for o, t in self._unseen.items() if not has(record, o, t)}
        lacking = [column for column in self._columns.values() if column not in record]
        if first and lacking == ["rater"]:
            self._without_raters.add(source.name)
        if source.name in self._without_raters and lacking == ["rater"]:
            record, lacking = {**record, "rater": "1"}, []
        text = self._rules.mapping.get("text", "text")
        has_text = has(record, "text", text) or (text != "text" and has(record, "text", "text"))
        if lacking and not has_text and not self._has_ratings(record):
            return (
                f"neither a sample, as there is no {shown(text)}, nor a rating, as there is no "
                f"{listed(lacking)}; the fields are {listed(record)}; name yours, for example "
                f"{self._example(record)}"
            )
        place = source.place(number)
        rest = record
        rater = ""
        if not lacking:
            columns = {*self._columns.values(), ANNOTATION}
            rest = {name: value for name, value in record.items() if name not in columns}
            has_text = has_text and not fields.absent(rest.get(text, "there"))
        elif self._has_ratings(record) and not fields.absent(record.get(self._columns["rater"])):
            rater = str(record[self._columns["rater"]])
            rest = {n: v for n, v in record.items() if n != self._columns["rater"]}
        if not has_text:
            rest = {n: v for n, v in rest.items() if n != text} | {"text": ""}
        try:
            sample = self._rules.sample(
                rest,
                id=source.own_id(number) if has_text and lacking and not rater else "",
                cells=source.cells,
            )
        except BadRecord as bad:
            for problem in bad.problems:
                self.problems.add(f"{place}: {problem}")
            return ""
        if not sample.id:
            named = id_mapping(record, self._rules.mapping)
            if first and named and not has(record, "id", self._rules.mapping.get("id", "id")):
                return (
                    f"no id; the fields are {listed(record)}; say which sample a rating is of, for "
                    f"example {map_words(named)}"
                )
            self.problems.add(f"{place}: id: missing; say which sample the rating is of")
            return ""
        entries: Iterable[tuple[str, str, float]]
        if lacking:
            entries = [
                (aspect, rater if rater and raters.keys() == {"1"} else name, value)
                for aspect, raters in sample.ratings.items()
                for name, value in raters.items()
            ]
        else:
            entries = self._one(place, record, source.cells)
        self._remember(source, place, sample, has_text=has_text)
        for aspect, name, value in entries:
            key = sys.intern(sample.id), sys.intern(aspect), sys.intern(name)
            annotation = "" if lacking else str(record.get(ANNOTATION) or "")
            if key not in self.ratings:
                self.ratings[key] = value
                self._places.add(source, number)
                if annotation:
                    self._annotations[key] = annotation
            elif annotation and (annotation, value) == (
                self._annotations.get(key), self.ratings[key],
            ):  # fmt: skip
                self._doubled += 1
            else:
                self._twice(place, key, record)
        return ""

    def _add_plain(self, source: Input, number: int, record: Record) -> bool:
        """Takes a rating of which nothing is said but id, aspect, rater and value; returns whether
        a record is plainly that."""
        if len(record) != 4 or self._rules.mapping or not self._is_plain(record):
            return False
        id, aspect, rater = (sys.intern(record[name]) for name in ("id", "aspect", "rater"))
        if (id, aspect, rater) in self.ratings:
            return False
        self.ratings[id, aspect, rater] = float(record["value"])
        self._places.add(source, number)
        return True

    def _is_plain(self, record: Record) -> bool:
        for column in ("id", "aspect", "rater"):
            name = record.get(column)
            if not (name and fields.is_plain(name)):
                return False
        plain_columns = all(theirs == ours for ours, theirs in self._columns.items())
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
        for name, column in self._unseen.items() if self.fields else ():
            if name in ("id", *COLUMNS) and self.problems.total:
                continue  # was said where it is missing
            self.problems.add(unmatched(name, column, self.fields))

    def rated(self) -> Rated:
        texts_in: set[str] = set().union(*(record.texts_in for record in self._known.values()))
        of_samples: dict[str, dict[str, dict[str, float]]] = {id: {} for id in self._known}
        for (id, aspect, rater), value in self.ratings.items():
            if id in of_samples:
                of_samples[id].setdefault(aspect, {})[rater] = value
        samples = {}
        for id, record in self._known.items():
            sample = replace(record.sample, ratings=of_samples[id])
            if len(texts_in) > 1 and len(record.texts_in) == 1 and not sample.system:
                # as `open_samples` has it: given several files, a file is a system
                sample = replace(sample, system=next(iter(record.texts_in)))
            if record.texts_in or sample != Sample(id, "", ratings=sample.ratings):
                samples[id] = sample
        ratings = (Rating(*key, value) for key, value in self.ratings.items())
        return Rated(tuple(ratings), samples, tuple(self.notes))

    def _one(self, place: str, record: Record, cells: bool) -> Iterator[tuple[str, str, float]]:
        """Yields the rating that a row is; none if its value is missing."""
        aspect, rater = (
            self.name(place, name, record[self._columns[name]], cells) for name in COLUMNS[:2]
        )
        value = self.number(place, "value", record[self._columns["value"]], cells)
        if aspect and rater and value is not None and not math.isnan(value):
            yield aspect, rater, value

    def _twice(self, place: str, key: tuple[str, str, str], record: Record) -> None:
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
        self.problems.add(
            f"{place}: {printable(rater)} already rated {printable(aspect)} of id {shown(id)} at "
            f"{place_of_first}; remove one of the two ratings{mend}"
        )

    def _remember(self, source: Input, place: str, sample: Sample, *, has_text: bool) -> None:
        """Puts together what several records say of one sample."""
        if sample.ratings:
            sample = replace(sample, ratings=NO_RATINGS)
        record = self._known.get(sample.id)
        if record is None:
            if has_text or sample != Sample(sample.id, "", ratings=NO_RATINGS):
                texts_in = frozenset([source.label]) if has_text else frozenset()
                self._known[sys.intern(sample.id)] = _Known(sample, place, texts_in)
            return
        if has_text and source.label not in record.texts_in:
            record.texts_in |= {source.label}
        if sample == record.sample:
            return
        merged: dict[str, Any] = {}
        for name in _MERGED:
            old, new = getattr(record.sample, name), getattr(sample, name)
            if old in ("", (), {}, None):
                merged[name] = new
            elif new not in ("", (), {}, None) and new != old:
                self.problems.add(
                    f"{place}: {name}: {shown(new)}, but {shown(old)} at {record.place} for the "
                    f"same id {shown(sample.id)}; correct one of them, or give other ids"
                )
        old_extra, new_extra = record.sample.extra, sample.extra
        shared = old_extra.keys() & new_extra.keys()
        record.varying |= {n for n in shared if not _same(old_extra[n], new_extra[n])}
        extra = {n: v for n, v in {**new_extra, **old_extra}.items() if n not in record.varying}
        record.sample = replace(record.sample, **merged, extra=extra)


def _same(a: object, b: object) -> bool:
    return bool(a == b) or (fields.absent(a) and fields.absent(b))
