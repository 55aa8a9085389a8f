"""The recipe of guides that learn from their texts in so many passes."""

from __future__ import annotations

from typing import Protocol

from levelfield.training.guide.kinds import GuideSpec
from levelfield.training.labelled import Labelled
from levelfield.training.recipe import Recipe


class PassSettings(Protocol):
    """Settings of a kind of guide: passes over the texts, texts a step, and the learning rate."""

    @property
    def epochs(self) -> float: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...


def passes_over(
    rows: Labelled, settings: PassSettings, spec: GuideSpec, *, every: int, warmup: float = 1 / 20
) -> Recipe:
    """The recipe: the rate rises over a share of the steps and falls to a tenth.

    Args:
        every: steps between checkpoints.
        warmup: that share.
    """
    steps = max(1, round(settings.epochs * int(rows.times.sum()) / settings.batch))
    return Recipe(
        steps=steps,
        learning_rate=settings.learning_rate,
        warmup=int(steps * warmup + 1e-9),
        decay=1.0,
        seed=spec.seed,
        precision="bfloat16" if spec.precision == "bfloat16" else "float32",
        every=every,
    )
