"""Raters whose opinions are planted, so that results can be compared with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from levelfield.stats.resampling import Resampling
from levelfield_rating.model import Frozen, Item, RatingCriterion
from levelfield_rating.store.records import RaterState
from simulated_raters import Rule, clipped

SYSTEMS = {"owl": 80.0, "fox": 60.0, "elk": 35.0}


FAST = Resampling(resamples=400)


PAIR = RatingCriterion("better", "Better", "Which?", "pairwise")


ORDER = RatingCriterion("order", "Order", "Best first.", "ranking")


SLIDER = RatingCriterion("content", "Content", "Same.", "slider")


def quality_of(frozen: Frozen) -> dict[tuple[str, str], float]:
    """Returns (item, criterion) -> quality: the level of the system and a part of its own."""
    rng = np.random.default_rng(5)
    worth = {}
    for item in frozen.items.values():
        if not item.control:
            level = SYSTEMS[item.candidates[0].samples[0].split(":")[0]]
            for criterion in frozen.criteria:
                worth[item.key, criterion.id] = level + rng.normal(scale=8)
    return worth


def noisy(frozen: Frozen, seed: int, *, bias: float = 0, noise: float = 6, bad: float = 4) -> Rule:
    """Returns a rater who sees the quality of a text, with their own bias and noise."""
    rng = np.random.default_rng(seed)
    worth = quality_of(frozen)

    def rule(item: Item, criterion: RatingCriterion) -> int:
        if item.control:
            return clipped(bad)
        return clipped(worth[item.key, criterion.id] + bias + rng.normal(scale=noise))

    return rule


def state_of(_frozen: Frozen, answers: Mapping[str, Any], criterion: str = "content") -> RaterState:
    values = {key: {criterion: value} for key, value in answers.items()}
    return RaterState(
        0, "r1", "rating", "1", values, {}, frozenset(), {}, 1, None, None, "", False
    )  # fmt: skip
