"""Ratings and scores as meta-evaluation reads them: one row a number, whatever the file's form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from levelfield.core.sample import Sample
from levelfield.io import values
from levelfield.io.opening import PathLike, open_samples
from levelfield.io.problems import Problems, Wrong, listed, printable, shown
from levelfield.io.records import FIELDS, BadRecord, Rules, has
from levelfield.io.source import Input

COLUMNS = ("aspect", "rater", "value")
"""What a record has, next to an id, if it is one rating and not a sample with its ratings."""

_SCORE_COLUMNS = ("id", "metric", "value", "signature")
_MERGED = tuple(name for name in FIELDS if name not in ("id", "ratings", "extra"))


class Rating(NamedTuple):
    """One rater's number for one sample on one aspect."""

    id: str
    aspect: str
    rater: str
    value: float


@dataclass(frozen=True)
class Rated:
    """What files of ratings hold.

    Attributes:
        ratings: in the order of the files, without the missing ones.
        samples: id -> sample, with all its ratings, where the files say more of it than its id;
            where they hold no texts, its text is empty.
    """

    ratings: tuple[Rating, ...]
    samples: Mapping[str, Sample]


@dataclass(frozen=True)
class ScoreColumn:
    """The values of one metric.

    Attributes:
        metric: its name.
        signature: every choice that could change a value.
        values: id -> value; NaN where the metric is undefined.
    """

    metric: str
    signature: str
    values: Mapping[str, float]


def load_ratings(
    paths: Sequence[PathLike] | PathLike,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] = {},
) -> Rated:
    """The ratings in files of samples, or of one rating a row.

    A record that has `aspect`, `rater` and `value` is one rating of the sample `id`; its other
    fields (`system`, `source`, `survey`, …) are the sample's. Any other record is a sample with
    its `ratings`, as `open_samples` reads it. The same sample may come several times, such as in
    one file a rater, if what is said of it agrees. A field that is none of `Sample`'s and differs
    between the records of one sample (a comment, a time) says nothing of the sample and is left
    out.

    Args:
        paths: files; `-` is standard input.
        format: of all files; by default what a file's suffix says.
        mapping: our field -> their field; also of `aspect`, `rater` and `value`.

    Raises:
        InputError: with all problems there are: what can't be read, values that are no finite
            numbers (in tables without types a cell may be text that is a number), two ratings of
            one rater for one sample and aspect, no ratings at all. Null and NaN are no problem:
            they are missing ratings.

    >>> rated = load_ratings(["ratings.jsonl"])  # doctest: +SKIP
    >>> rated.ratings[0]  # doctest: +SKIP
    Rating(id='7', aspect='fluency', rater='ann', value=81.0)
    """
    rules = Rules(mapping={ours: path for ours, path in mapping.items() if ours not in COLUMNS})
    book = _Book(rules, {name: mapping.get(name, name) for name in COLUMNS})
    inputs = _inputs(paths, format)
    for source in inputs:
        for number, record in _records(source, book.problems, "ratings"):
            if book.add(source, number, record):
                break
    book.finish()
    book.problems.raise_if_any()
    if not book.ratings:
        book.problems.add(
            f"no ratings in {', '.join(source.name for source in inputs)}; expected samples with "
            f"ratings.ASPECT.RATER, or rows of id, {', '.join(COLUMNS)}"
        )
    book.problems.raise_if_any()
    return book.rated()


def load_scores(paths: Sequence[PathLike] | PathLike) -> list[ScoreColumn]:
    """The values in files that `levelfield score` wrote, by metric, in the order they come.

    Args:
        paths: files of one object a line: `id`, `metric`, `value` (null if undefined),
            `signature`; `-` is standard input.

    Raises:
        InputError: with all problems there are: what can't be read or is missing, two values of a
            metric for one id, two signatures of one metric.
    """
    problems = Problems()
    columns: dict[str, _Column] = {}
    for source in _inputs(paths, "jsonl"):
        first = True
        for number, record in _records(source, problems, "scores"):
            missing = [name for name in _SCORE_COLUMNS if name not in record]
            if missing:
                problems.add(
                    f"{source.place(0 if first else number)}: there is no {listed(missing)}; the "
                    f"fields are {listed(record)}; expected what `levelfield score` writes: "
                    f"{', '.join(_SCORE_COLUMNS)}"
                )
                if first:
                    break
            else:
                _add_score(columns, source.place(number), record, problems)
            first = False
    problems.raise_if_any()
    return [ScoreColumn(name, c.signature, c.values) for name, c in columns.items()]


@dataclass
class _Column:
    """The values of one metric as they come in.

    Attributes:
        signature, place: those of the first value.
        places: id -> where its value stands.
        others: signatures that differ from the first and were reported.
    """

    signature: str
    place: str
    values: dict[str, float] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


def _add_score(
    columns: dict[str, _Column], place: str, record: Mapping[str, Any], problems: Problems
) -> None:
    fields: dict[str, Any] = {}
    for name in _SCORE_COLUMNS:
        try:
            if name == "value":
                fields[name] = values.rating(record[name], False)
                continue
            fields[name] = values.name(record[name], False)
            if not fields[name]:
                raise Wrong("is empty; name it")
        except Wrong as wrong:
            problems.add(f"{place}: {wrong.inside(name)}")
    if len(fields) < len(_SCORE_COLUMNS):
        return
    id, metric, signature = fields["id"], fields["metric"], fields["signature"]
    column = columns.setdefault(metric, _Column(signature, place))
    if signature != column.signature:
        if signature not in column.others:
            column.others.add(signature)
            problems.add(
                f"{place}: {printable(metric)} has the signature {shown(signature, 300)} here and "
                f"{shown(column.signature, 300)} at {column.place}, so the numbers can't stand in "
                "one column; give one of them only, or score again with the same options"
            )
    elif id in column.places:
        problems.add(
            f"{place}: {printable(metric)} of id {shown(id)} has a value at {column.places[id]} "
            "already; remove one of them"
        )
    else:
        column.values[id] = fields["value"]
        column.places[id] = place


@dataclass
class _Known:
    """What the records so far say of one sample.

    Attributes:
        sample: their fields together, without ratings.
        place: of the first record.
        texts_in: labels of the files that hold its text.
        varying: names of other fields that differ between records.
        ratings: aspect -> rater -> value.
    """

    sample: Sample
    place: str
    texts_in: set[str] = field(default_factory=set)
    varying: set[str] = field(default_factory=set)
    ratings: dict[str, dict[str, float]] = field(default_factory=dict)


class _Book:
    """Collects ratings and what is said of their samples, record by record."""

    def __init__(self, rules: Rules, columns: Mapping[str, str]) -> None:
        self.problems = Problems()
        self.ratings: dict[tuple[str, str, str], tuple[float, str]] = {}
        self._known: dict[str, _Known] = {}
        self._rules = rules
        self._columns = columns
        self._files: set[str] = set()
        self._unseen = {**rules.mapping, **{o: t for o, t in columns.items() if o != t}}
        self._fields: Iterable[str] = ()

    def add(self, source: Input, number: int, record: Mapping[str, Any]) -> bool:
        """Takes a record; true if the file needs no further reading, as it is of another kind."""
        first = source.name not in self._files
        self._files.add(source.name)
        self._fields = self._fields or tuple(record)
        self._unseen = {o: path for o, path in self._unseen.items() if not has(record, path)}
        lacking = [theirs for theirs in self._columns.values() if theirs not in record]
        text = self._rules.mapping.get("text", "text")
        has_text = has(record, text) or has(record, "text")
        if lacking and not has_text:
            self.problems.add(
                f"{source.place(0 if first else number)}: no sample, as there is no "
                f"{shown(text)}, and no rating, as there is no {listed(lacking)}; the fields are "
                f"{listed(record)}; name the right ones: --map FIELD=COLUMN"
            )
            return first
        place = source.place(number)
        rest = record
        if not lacking:
            theirs = set(self._columns.values())
            rest = {name: value for name, value in record.items() if name not in theirs}
            if values.absent(rest.get(text, "" if not has_text else "there")):
                has_text = False
                rest = {n: v for n, v in rest.items() if n != text} | {"text": ""}
        try:
            sample = self._rules.sample(
                rest, id="" if not lacking else source.own_id(number), cells=source.cells
            )
        except BadRecord as bad:
            for problem in bad.problems:
                self.problems.add(f"{place}: {problem}")
            return False
        if not sample.id:
            self.problems.add(f"{place}: id: missing; say which sample the rating is of")
            return False
        given: Iterable[tuple[str, str, float]]
        if lacking:
            given = [(a, r, v) for a, raters in sample.ratings.items() for r, v in raters.items()]
        else:
            given = self._one(place, record, source.cells)
        self._remember(source, place, sample, has_text=has_text)
        for aspect, rater, value in given:
            self._rate(place, sample.id, aspect, rater, value)
        return False

    def finish(self) -> None:
        """Reports the fields that the user named and no record has."""
        for ours, path in self._unseen.items() if self._fields else ():
            if ours in COLUMNS and self.problems.total:
                continue  # was said where it is missing
            self.problems.add(
                f"mapping {printable(f'{ours}={path}')}: no record has {shown(path)}; "
                f"the fields are {listed(self._fields)}"
            )

    def rated(self) -> Rated:
        texts_in: set[str] = set().union(*(known.texts_in for known in self._known.values()))
        samples = {}
        for id, known in self._known.items():
            sample = replace(known.sample, ratings=known.ratings)
            if len(texts_in) > 1 and len(known.texts_in) == 1 and not sample.system:
                # as `open_samples` has it: given several files, a file is a system
                sample = replace(sample, system=next(iter(known.texts_in)))
            if known.texts_in or sample != Sample(id, "", ratings=known.ratings):
                samples[id] = sample
        ratings = (Rating(*key, value) for key, (value, _) in self.ratings.items())
        return Rated(tuple(ratings), samples)

    def _one(
        self, place: str, record: Mapping[str, Any], cells: bool
    ) -> Iterator[tuple[str, str, float]]:
        """The rating that a row is; none if its value is missing."""
        aspect, rater, value = (record[self._columns[name]] for name in COLUMNS)
        wrongs = []
        names = []
        for column, word in (("aspect", aspect), ("rater", rater)):
            try:
                if values.absent(word):
                    raise Wrong("is empty; name it")
                names.append(values.name(word, cells))
            except Wrong as wrong:
                wrongs.append(wrong.inside(column))
        number = math.nan
        try:
            number = values.rating(value, cells)
        except Wrong as wrong:
            wrongs.append(wrong.inside("value"))
        for problem in wrongs:
            self.problems.add(f"{place}: {problem}")
        if not (wrongs or math.isnan(number)):
            yield names[0], names[1], number

    def _rate(self, place: str, id: str, aspect: str, rater: str, value: float) -> None:
        _, first = self.ratings.setdefault((id, aspect, rater), (value, place))
        if first != place:
            self.problems.add(
                f"{place}: {printable(rater)} rated {printable(aspect)} of id {shown(id)} at "
                f"{first} already; remove one of the two ratings"
            )
        self._known[id].ratings.setdefault(aspect, {})[rater] = value

    def _remember(self, source: Input, place: str, sample: Sample, *, has_text: bool) -> None:
        """Puts together what several records say of one sample."""
        known = self._known.setdefault(sample.id, _Known(replace(sample, ratings={}), place))
        if has_text:
            known.texts_in.add(source.label)
        if known.place == place:
            return
        merged: dict[str, Any] = {}
        for name in _MERGED:
            old, new = getattr(known.sample, name), getattr(sample, name)
            if old in ("", (), {}, None):
                merged[name] = new
            elif new not in ("", (), {}, None) and new != old:
                self.problems.add(
                    f"{place}: {name}: {shown(new)}, but {shown(old)} at {known.place} for the "
                    f"same id {shown(sample.id)}; correct one of them, or give other ids"
                )
        old_extra, new_extra = known.sample.extra, sample.extra
        both = old_extra.keys() & new_extra.keys()
        known.varying |= {n for n in both if not _same(old_extra[n], new_extra[n])}
        extra = {n: v for n, v in {**new_extra, **old_extra}.items() if n not in known.varying}
        known.sample = replace(known.sample, **merged, extra=extra)


def _same(a: object, b: object) -> bool:
    return bool(a == b) or (values.absent(a) and values.absent(b))


def _inputs(paths: Sequence[PathLike] | PathLike, format: str | None) -> Sequence[Input]:
    """The files, checked to be there and to be named once."""
    files = [paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else paths
    return open_samples(files, format=format).inputs  # rows, not samples, are what is read here


def _records(
    source: Input, problems: Problems, what: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The records of a file that can be read; the others are reported."""
    rows = 0
    try:
        for number, record in source.rows():
            rows += 1
            if isinstance(record, Wrong):
                problems.add(f"{source.place(number)}: {record}")
            else:
                yield number, record
    except OSError as error:
        problems.add(f"{source.name}: can't be read: {printable(error.strerror or str(error))}")
        return
    if not rows:
        problems.add(f"no {what} in {source.name}; is it the file you mean?")
