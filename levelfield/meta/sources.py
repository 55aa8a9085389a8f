"""Scores, ratings and samples for the verbs: files, or what is loaded already."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io import Rated, Rating, ScoreColumn, load_ratings, load_samples, load_scores
from levelfield.io.opening import PathLike

Ratings = PathLike | Rated | Sequence[PathLike] | Sequence[Sample]
"""Files, what `load_ratings` returns, or samples with ratings."""

ManyScores = PathLike | Scores | ScoreColumn | Collection[PathLike | Scores | ScoreColumn]
"""Files that `levelfield score` wrote, or scores."""

Samples = PathLike | Sequence[PathLike | Sample]
"""Files of samples, or samples."""


def read_ratings(ratings: Ratings, *, format: str | None, mapping: Mapping[str, str]) -> Rated:
    """Ratings from whatever holds them.

    Raises:
        InputError: a file can't be read as ratings.
    """
    if isinstance(ratings, Rated):
        return ratings
    if isinstance(ratings, str | os.PathLike):
        return load_ratings(ratings, format=format, mapping=mapping)
    samples = [one for one in ratings if isinstance(one, Sample)]
    if not samples:
        paths = [one for one in ratings if not isinstance(one, Sample)]
        return load_ratings(paths, format=format, mapping=mapping)
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


def read_scores(scores: ManyScores) -> list[tuple[str, ScoreColumn]]:
    """The columns of every file or object, with the name of the file or the place of the object."""
    one = isinstance(scores, str | os.PathLike | Scores | ScoreColumn)
    return list(_columns([scores] if one else scores))  # type: ignore[list-item, arg-type]


def _columns(
    scores: Collection[PathLike | Scores | ScoreColumn],
) -> Iterator[tuple[str, ScoreColumn]]:
    for number, item in enumerate(scores, start=1):
        if isinstance(item, Scores):
            values = dict(zip(item.ids, item.values.tolist(), strict=True))
            yield str(number), ScoreColumn(item.metric, item.signature, values)
        elif isinstance(item, ScoreColumn):
            yield str(number), item
        else:
            yield from ((os.fspath(item), column) for column in load_scores([item]))


def read_samples(samples: Samples) -> dict[str, Sample]:
    """Id -> sample."""
    items = [samples] if isinstance(samples, str | os.PathLike) else samples
    loaded: list[Sample] = []
    for item in items:
        loaded += [item] if isinstance(item, Sample) else load_samples(item)
    return {sample.id: sample for sample in loaded}


def file_names(source: object) -> tuple[str, ...]:
    """The files among what a verb was given."""
    items = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    return tuple(os.fspath(item) for item in items if isinstance(item, str | os.PathLike))
