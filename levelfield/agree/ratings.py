"""People's ratings: as a matrix, by part of the samples, and standardised by rater."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import Rated, Rating
from levelfield.scoring.summary import OVERALL
from levelfield.stats.estimate import finite

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
    """A rating and where it stands among those of its rater; `z` is NaN if all are equal."""

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
    """Every rating as z = (x − mean) / sd over the ratings of its rater on its aspect.

    Takes out that raters use a scale differently. sd with n, so that the z of a rater have mean 0
    and variance 1 exactly. With `by`, over those within the part.

    Undefined (NaN): all those ratings are equal, one rating among them.
    """
    ratings = of_aspects(rated.ratings, aspects)
    part = parts_of(ratings, rated.samples, by)
    z: dict[Rating, float] = {}
    for some in split(ratings, lambda r: (r.aspect, r.rater, part(r))).values():
        x = np.array([r.value for r in some])
        varied = x.min() < x.max()
        scores = (x - x.mean()) / x.std() if varied else np.full(x.shape, np.nan)
        z.update(zip(some, scores.tolist(), strict=True))
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
        there = dict.fromkeys(
            name
            for sample in samples.values()
            for name in ("system", "dataset", "seed", *(f"control.{a}" for a in sample.control))
            if part_of(sample, name) != NO_PART
        )
        there |= dict.fromkeys(name for sample in samples.values() for name in sample.extra)
        which = f"there are {', '.join(there)}" if there else "the files hold nothing to group by"
        raise UserError(f"--by {by}: no rated sample has it; {which}")
    return lambda r: part[r.id]


def of_aspects(ratings: Sequence[Rating], aspects: Sequence[str]) -> list[Rating]:
    """The ratings on some aspects; on all, if none is named."""
    there = dict.fromkeys(r.aspect for r in ratings)
    for aspect in aspects:
        if aspect not in there:
            raise UserError(f"--aspect {aspect}: nothing is rated on it; there are {list(there)}")
    return [r for r in ratings if not aspects or r.aspect in aspects]


def split(ratings: Sequence[Rating], key: Callable[[Rating], K]) -> dict[K, list[Rating]]:
    """The ratings by a key, keys sorted."""
    groups: dict[K, list[Rating]] = {}
    for rating in ratings:
        groups.setdefault(key(rating), []).append(rating)
    return dict(sorted(groups.items()))


def _cluster(id: str, sample: Sample | None) -> str:
    return repr(sample.shared if sample and sample.shared else id)
