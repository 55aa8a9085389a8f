"""Scores, ratings and samples for the verbs: files, or what is loaded already."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io import Rated, Rating, ScoreColumn, Source, load_ratings, open_samples
from levelfield.io.arguments import items_of
from levelfield.io.comparisons import FIELDS, PairChoice, load_comparisons
from levelfield.io.fields import FieldMapping, has
from levelfield.io.opening import open_source
from levelfield.io.problems import shown
from levelfield.io.ratings import COLUMNS
from levelfield.io.reading import PathLike
from levelfield.io.samples import Input
from levelfield.io.scores import is_of_scores, load_score_files
from levelfield.io.streams import STDIN
from levelfield.scoring.result import ScoreResult, scores_within
from levelfield.scoring.summary import OVERALL
from levelfield.stats.estimate import finite

T = TypeVar("T")

Ratings = PathLike | Rated | Iterable[PathLike | Sample | Mapping[str, Any]]
"""Files, what `load_ratings` returns, samples with ratings, or data frames or records of them."""

ManyScores = (
    PathLike
    | Scores
    | ScoreColumn
    | ScoreResult
    | Iterable[PathLike | Scores | ScoreColumn | ScoreResult | Mapping[str, Any]]
)
"""Files of scores, scores, results of `score`, or data frames or records of scores."""

Choices = PathLike | Iterable[PathLike | PairChoice | Mapping[str, Any]]
"""Files of choices, what `load_comparisons` returns, or data frames or records of choices."""

Samples = PathLike | Iterable[PathLike | Sample | Mapping[str, Any]]
"""Files of samples, samples, or data frames or records of them."""


def read_all(
    scores: ManyScores,
    ratings: Ratings,
    samples: Samples,
    *,
    format: str | None,
    mapping: Mapping[str, str],
) -> tuple[list[tuple[str, ScoreColumn]], Rated, dict[str, Sample]]:
    """`read_scores`, `read_ratings` and `read_samples`.

    Args:
        mapping: of all files together; a field is looked for where it can be. An `id`, and what the
            samples have, need not be in the ratings.

    Raises:
        InputError: with all that is wrong in any of them.
    """
    problems: list[str] = []

    def attempt(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except InputError as error:
            problems.extend(str(error).splitlines())
            return None

    score_columns = attempt(lambda: read_scores(scores, mapping=mapping))
    samples = items_of(samples, "samples", (Sample,), ids_named="id" in mapping)
    known_samples = attempt(lambda: read_samples(samples, mapping=mapping))
    sources = [item for item in samples if not isinstance(item, Sample)]
    optional = {"id", *(name for source in sources for name in _words_of(source, mapping))}
    plain = {ours: column for ours, column in mapping.items() if not is_of_scores(ours)}
    people_ratings = attempt(
        lambda: read_ratings(ratings, format=format, mapping=plain, optional=optional)
    )
    if score_columns is None or people_ratings is None or known_samples is None:
        raise InputError(problems)
    return score_columns, people_ratings, known_samples


def read_ratings(
    ratings: Ratings,
    *,
    format: str | None,
    mapping: Mapping[str, str],
    optional: Collection[str] = (),
) -> Rated:
    """Ratings from whatever holds them; options as for `load_ratings`.

    Raises:
        InputError: a file can't be read as ratings.
    """
    items = items_of(ratings, "ratings", (Rated, Sample), ids_named="id" in mapping)
    rows = [item for item in items if not isinstance(item, Rated | Sample)]
    if rows and len(rows) < len(items):
        raise InputError(["ratings: samples and files together; pass one or the other"])
    if rows or not items:
        return load_ratings(rows, format=format, mapping=mapping, optional=optional)
    refuse_reading("ratings", format, {o: t for o, t in mapping.items() if o not in optional})
    if isinstance(items[0], Rated) and len(items) == 1:
        return items[0]
    samples = [item for item in items if isinstance(item, Sample)]
    if len(samples) < len(items):
        raise InputError(["ratings: expected what load_ratings returns by itself, not in a list"])
    by_id(samples, "ratings")
    return Rated(
        tuple(
            Rating(sample.id, aspect, rater, value)
            for sample in samples
            for aspect, raters in sample.ratings.items()
            for rater, value in raters.items()
            if not math.isnan(value)
        ),
        {sample.id: sample for sample in samples},
    )


def read_scores(
    scores: ManyScores, *, mapping: Mapping[str, str] = {}
) -> list[tuple[str, ScoreColumn]]:
    """The columns of every file or object, with the name of the file or the place of the object.

    Args:
        mapping: our field -> their field, in files of scores from elsewhere; fields that scores
            don't have are left out.
    """
    items = items_of(
        scores, "scores", (Scores, ScoreColumn), convert=scores_within, ids_named="id" in mapping
    )
    rows = [item for item in items if isinstance(item, str | Input)]
    words = {field: name for field, name in mapping.items() if field == "id" or is_of_scores(field)}
    if not rows:
        refuse_reading("scores", None, {o: t for o, t in words.items() if o != "id"})
    row_columns = iter(load_score_files(rows, mapping=words))
    columns: list[tuple[str, ScoreColumn]] = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, Scores):
            columns.append((str(number), _column(item)))
        elif isinstance(item, ScoreColumn):
            columns.append((str(number), item))
        else:
            name = item.name if isinstance(item, Input) else item
            columns += [(name, column) for column in next(row_columns)]
    return columns


def _column(scores: Scores) -> ScoreColumn:
    values = dict(zip(scores.ids, scores.values.tolist(), strict=True))
    if len(values) < len(scores.ids):
        id = Counter(scores.ids).most_common(1)[0][0]
        raise InputError([f"{scores.metric}: two values of id {shown(id)}; ids must differ"])
    return ScoreColumn(scores.metric, scores.signature, values)


def refuse_reading(noun: str, format: str | None, mapping: Mapping[str, str]) -> None:
    """Refuses options of reading where nothing is read.

    Raises:
        UserError: one of them is given.
    """
    for name in ["format"] * (format is not None) + ["mapping"] * bool(mapping):
        raise UserError(f"{name}: nothing is read, as the {noun} are objects already")


def by_id(samples: Iterable[Sample], noun: str) -> dict[str, Sample]:
    """Returns id -> sample.

    Raises:
        InputError: two samples have one id.
    """
    named: dict[str, Sample] = {}
    for sample in samples:
        if sample.id in named:
            raise InputError([f"{noun}: two samples have the id {shown(sample.id)}"])
        named[sample.id] = sample
    return named


def read_choices(
    choices: Choices, samples: Samples, *, format: str | None, mapping: Mapping[str, str]
) -> list[PairChoice]:
    """Returns the choices in whatever holds them; options as for `load_comparisons`.

    Args:
        samples: of which the choices are, for what these leave out.
        mapping: of the choices and of the samples.

    Raises:
        InputError: a file can't be read as choices.
    """
    items = items_of(choices, "choices", (PairChoice,), ids_named=True)
    rows = [item for item in items if not isinstance(item, PairChoice)]
    read = [item for item in items if isinstance(item, PairChoice)]
    sample_mapping = {ours: column for ours, column in mapping.items() if ours not in FIELDS}
    choice_mapping = {ours: column for ours, column in mapping.items() if ours in FIELDS}
    if items and not rows:
        refuse_reading("choices", format, choice_mapping)
        return read
    known_samples = read_samples(samples, mapping=sample_mapping)
    return read + load_comparisons(rows, known_samples, format=format, mapping=choice_mapping)


def read_samples(samples: Samples, *, mapping: Mapping[str, str] = {}) -> dict[str, Sample]:
    """Id -> sample. Of the mapping, a file takes what its first record has.

    Of samples in files only what says who wrote them and from what is kept, and the text.

    Raises:
        InputError: two different samples have one id, or a file can't be read.
    """
    items = items_of(samples, "samples", (Sample,), ids_named="id" in mapping)
    loaded = by_id((item for item in items if isinstance(item, Sample)), "samples")
    for item in items:
        if not isinstance(item, Sample):
            read = _samples_of(item, mapping)
            twice = [id for id in loaded.keys() & read.keys() if loaded[id] != read[id]]
            if twice:
                raise InputError(
                    [f"samples: {len(twice):,} ids are those of two samples, such as "
                     f"{shown(min(twice))}; ids must differ between files"]
                )  # fmt: skip
            loaded |= read
    return loaded


def whole_samples(
    samples: Samples, ids: Collection[str], *, mapping: Mapping[str, str] = {}
) -> dict[str, Sample]:
    """Id -> sample of these ids, with every field; otherwise as `read_samples`."""
    whole: dict[str, Sample] = {}
    for item in items_of(samples, "samples", (Sample,), ids_named="id" in mapping):
        several = [item] if isinstance(item, Sample) else _opened(item, mapping)
        whole |= {sample.id: sample for sample in several if sample.id in ids}
    return whole


def _opened(item: str | Input, mapping: Mapping[str, str]) -> Source:
    words = _words_of(item, mapping)
    if isinstance(item, Input):
        return Source([item], FieldMapping(words), "given")
    return open_source(item, mapping=words)


def _samples_of(item: str | Input, mapping: Mapping[str, str]) -> dict[str, Sample]:
    source = _opened(item, mapping)
    nothing: Mapping[str, Any] = {}
    return {
        (id := sys.intern(s.id)): Sample(
            id,
            s.text,
            prompt=sys.intern(s.prompt),
            source=sys.intern(s.source),
            context=tuple(map(sys.intern, s.context)),
            system=sys.intern(s.system),
            dataset=sys.intern(s.dataset),
            seed=s.seed,
            control=nothing,
            ratings=nothing,
            extra=nothing,
        )
        for s in source.checked()
    }


def _words_of(item: str | Input, mapping: Mapping[str, str]) -> dict[str, str]:
    """The part of a mapping whose fields the first record of samples has."""
    if item == STDIN:
        return {}  # can be read once only
    source = item if isinstance(item, Input) else open_samples([item]).inputs[0]
    if (first := source.first()) is None:
        return {}
    return {
        field: column
        for field, column in mapping.items()
        if field not in COLUMNS and not is_of_scores(field) and has(first, field, column)
    }


def file_names(source: object) -> tuple[str, ...]:
    """The files among what a verb was given."""
    items = source if isinstance(source, list | tuple) else [source]
    return tuple(os.fspath(item) for item in items if isinstance(item, str | os.PathLike))


K = TypeVar("K", str, tuple[str, ...])
"""What ratings are split by."""

NO_PART = "(none)"
"""The part of samples that do not say theirs."""


@dataclass(frozen=True)
class RatingTable:
    """Ratings as a matrix. An item is a sample on an aspect.

    Attributes:
        items: (id, aspect), sorted.
        raters: sorted.
        values: (items, raters); NaN where a rater did not rate.
        clusters: (items,) what an item shares with others, such as the source of its sample.
    """

    items: tuple[tuple[str, str], ...]
    raters: tuple[str, ...]
    values: Floats
    clusters: npt.NDArray[np.str_]


class Standardised(NamedTuple):
    """A rating and its z score among those of its rater; NaN if all of them are equal."""

    id: str
    aspect: str
    rater: str
    value: float
    z: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; an undefined z is None and has its reason beside it."""
        record = {**self._asdict(), "z": finite(self.z)}
        if math.isnan(self.z):
            record["undefined"] = f"all of these ratings by {self.rater} are {self.value:g}"
        return record


def z_scores(
    rated: Rated, *, aspects: Sequence[str] = (), by: str = ""
) -> tuple[Standardised, ...]:
    """Returns every rating as z = (x − mean) / sd over the ratings of its rater on its aspect.

    This removes differences in how raters use the scale. sd with n, so that the z of a rater have
    mean 0 and variance 1 exactly. With `by`, over those within the part.

    Undefined (NaN): all those ratings are equal, one rating among them.
    """
    ratings = ratings_on(rated.ratings, aspects)
    part = parts_of(ratings, rated.samples, by)
    z: dict[Rating, float] = {}
    for rater_ratings in split(ratings, lambda r: (r.aspect, r.rater, part(r))).values():
        x = np.array([r.value for r in rater_ratings])
        varied = x.min() < x.max()
        scores = (x - x.mean()) / x.std() if varied else np.full(x.shape, np.nan)
        z.update(zip(rater_ratings, scores.tolist(), strict=True))
    return tuple(Standardised(*r, z[r]) for r in ratings)


def rating_table(ratings: Iterable[Rating], samples: Mapping[str, Sample] = {}) -> RatingTable:
    """Ratings as a matrix, the same whatever order they come in.

    Args:
        ratings: no rater twice on the same sample and aspect.
        samples: id -> sample; items whose samples share something are one cluster, see `Sample`.
    """
    ratings = list(ratings)
    items = sorted({(r.id, r.aspect) for r in ratings})
    raters = sorted({r.rater for r in ratings})
    row = {item: n for n, item in enumerate(items)}
    column = {rater: n for n, rater in enumerate(raters)}
    values = np.full((len(items), len(raters)), np.nan)
    for r in ratings:
        values[row[r.id, r.aspect], column[r.rater]] = r.value
    clusters = [_cluster(id, samples.get(id)) for id, _ in items]
    return RatingTable(tuple(items), tuple(raters), values, np.array(clusters, dtype=np.str_))


def part_of(sample: Sample | None, by: str) -> str:
    """The part of the samples that one belongs to; `NO_PART` if it does not say.

    Args:
        by: `system`, `dataset`, `seed`, `control.ATTRIBUTE`, or a field of `extra` as `survey`.
    """
    if sample is None:
        return NO_PART
    if by in ("system", "dataset", "seed"):
        value = getattr(sample, by)
    elif by.startswith("control."):
        value = sample.control.get(by.removeprefix("control."), "")
        value = value if isinstance(value, str) else ", ".join(value)
    else:
        value = sample.extra.get(by)
    return NO_PART if value is None or value == "" else str(value)


def parts_of(
    ratings: Sequence[Rating], samples: Mapping[str, Sample], by: str
) -> Callable[[Rating], str]:
    """The part of each rating; `OVERALL` if the user names none."""
    if not by:
        return lambda _: OVERALL
    part = {id: part_of(samples.get(id), by) for id in {r.id for r in ratings}}
    if all(name == NO_PART for name in part.values()):
        fields = dict.fromkeys(
            name
            for sample in samples.values()
            for name in ("system", "dataset", "seed", *(f"control.{a}" for a in sample.control))
            if part_of(sample, name) != NO_PART
        )
        fields |= dict.fromkeys(name for sample in samples.values() for name in sample.extra)
        which = f"there are {', '.join(fields)}" if fields else "the files hold nothing to group by"
        raise UserError(f"--by {by}: no rated sample has it; {which}")
    return lambda r: part[r.id]


def ratings_on(ratings: Sequence[Rating], aspects: Sequence[str]) -> list[Rating]:
    """Returns the ratings on the named aspects; on all, if none is named."""
    names = dict.fromkeys(r.aspect for r in ratings)
    for aspect in aspects:
        if aspect not in names:
            raise UserError(f"--aspect {aspect}: nothing is rated on it; there are {list(names)}")
    return [r for r in ratings if not aspects or r.aspect in aspects]


def split(ratings: Sequence[Rating], key: Callable[[Rating], K]) -> dict[K, list[Rating]]:
    """Groups ratings by a key; the keys are sorted."""
    groups: dict[K, list[Rating]] = {}
    for rating in ratings:
        groups.setdefault(key(rating), []).append(rating)
    return dict(sorted(groups.items()))


def _cluster(id: str, sample: Sample | None) -> str:
    return repr(sample.shared if sample and sample.shared else id)
