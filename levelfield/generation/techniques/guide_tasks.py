"""What the trainings of guides share: passes over texts, and words for the card."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from levelfield.train.guide.settings import ClassLMSettings, LatentSettings, SoftPromptSettings
from levelfield.train.labelled import Labelled
from levelfield.train.loop import Passes
from levelfield.train.recipe import Recipe

StepwiseSettings = ClassLMSettings | LatentSettings | SoftPromptSettings


class GuideTask:
    """Base of the tasks of guides, none of which measures anything while it learns."""

    def validation(self, _: Any) -> Mapping[str, float]:
        """Returns nothing: held-out texts decide nothing, and are tried once, at the end."""
        return {}


class TextTask(GuideTask):
    """Base of the tasks that read each text with all of its labels.

    Attributes:
        rows: texts and their labels.
        ids: of each text, at least one.
        batch: texts a step.
        seed: of their order.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    batch: int
    seed: int

    @functools.cached_property
    def _passes(self) -> Passes:
        return Passes(self.rows.times, [len(ids) for ids in self.ids], self.batch, self.seed)


def training_fact(settings: StepwiseSettings, recipe: Recipe) -> str:
    """Returns how a guide was trained, for the card."""
    return (
        f"{recipe.steps:,} steps of {settings.batch} texts of at most {settings.tokens} tokens, "
        f"learning rate {settings.learning_rate:g}, products in {recipe.precision}"
    )


def calibration_fact(ece: float) -> str:
    """Returns a calibration error as the card has it."""
    return f"{ece:.4f} (10 bins of equally many texts)"
