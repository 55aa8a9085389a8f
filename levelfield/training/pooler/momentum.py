"""Momentum of rated texts: what a pooler is trained on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.metric import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.undefined import Undefined
from levelfield.metrics.cdm import CDMMomentum
from levelfield.metrics.pooling import LENGTH, Kind
from levelfield.training.pooler.fit import Selected, select


class RatedMomentum(NamedTuple):
    """A sequence, a target and a group for each rated text.

    `left_out` counts the texts without a sequence or a rating, by reason.
    """

    sequences: list[Floats]
    targets: list[float]
    groups: list[Hashable]
    left_out: Mapping[str, int]


def rated_momentum(
    metric: CDMMomentum,
    samples: Iterable[Sample],
    aspect: str,
    *,
    progress: Progress = no_progress,
) -> RatedMomentum:
    """Computes the momentum of the texts that are rated on an aspect."""
    sequences: list[Floats] = []
    targets: list[float] = []
    groups: list[Hashable] = []
    left_out: Counter[str] = Counter()
    for partition in partitions(samples):
        rated = [s for s in partition if math.isfinite(_rating(s, aspect))]
        left_out.update(["not rated"] * (len(partition) - len(rated)))
        for sample, units in zip(rated, metric.momentum(rated), strict=True):
            if isinstance(units, Undefined):
                left_out[units.reason] += 1
                continue
            sequences.append(np.concatenate([unit.m for unit in units]))
            targets.append(_rating(sample, aspect))
            groups.append(_group(sample))
        progress(len(partition))
    return RatedMomentum(sequences, targets, groups, left_out)


def train_pooler(
    rated: RatedMomentum,
    aspect: str,
    *,
    kind: Kind | Literal["auto"] = "auto",
    length: int = LENGTH,
    seed: int = 0,
    momentum: str = "",
) -> Selected:
    """Trains a pooler; `auto` takes a logistic one where all ratings are 0 or 1.

    Raises:
        UserError: the ratings are too few, or all alike; says what was left out.
    """
    if kind == "auto":
        kind = "logistic" if set(rated.targets) <= {0.0, 1.0} else "ridge"
    try:
        return select(
            rated.sequences,
            rated.targets,
            kind=kind,
            groups=rated.groups,
            length=length,
            seed=seed,
            momentum=momentum,
            trained_on=f"{len(rated.targets):,} ratings of {aspect}",
        )
    except UserError as error:
        left = ", ".join(f"{why}: {n}" for why, n in rated.left_out.items())
        raise UserError(f"--aspect {aspect}: {error}; left out: {left or 'none'}") from error


def _rating(sample: Sample, aspect: str) -> float:
    """The mean of a sample's ratings; NaN where there is none."""
    ratings = list(sample.ratings.get(aspect, {}).values())
    return math.fsum(ratings) / len(ratings) if ratings else math.nan


def _group(sample: Sample) -> Hashable:
    """What makes texts alike: prompt, source or context, keywords; else the text is alone."""
    keywords = sample.control.get("keywords", ())
    return sample.shared or keywords or sample.id
