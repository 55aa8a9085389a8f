"""What the trainings of guides share: passes over texts, and words for the card."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from levelfield.models.causal_tokens import CausalTokens
from levelfield.models.torch.softmax import Head
from levelfield.train.labelled import Labelled
from levelfield.train.loop import Passes
from levelfield.train.recipe import PassSettings, Recipe


class StepwiseSettings(PassSettings, Protocol):
    """Settings of a training on the beginnings of texts."""

    @property
    def tokens(self) -> int: ...


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


def scored_after_opening(
    tokens: CausalTokens, texts: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[Sequence[int]]]:
    """Returns what a model reads of texts, and which of their tokens it scores, the first after the
    first token that it reads: all after BOS, without BOS all but the first."""
    rows = [tokens.begun(text[:-1]) for text in texts]
    return rows, [text[tokens.unscored :] for text in texts]


def text_nats(
    head: Head, states: torch.Tensor, texts: Sequence[Sequence[int]], firsts: Sequence[int]
) -> torch.Tensor:
    """Returns −log P(text | what precedes it), the sum over the tokens of each text: (rows,).

    Args:
        head: states -> logits.
        states: of what a model has read, (rows, tokens, d).
        firsts: the place of each row after which its text begins.
    """
    lengths, device = [len(text) for text in texts], states.device
    places = [
        row * states.shape[1] + first + n
        for row, (first, length) in enumerate(zip(firsts, lengths, strict=True))
        for n in range(length)
    ]
    tokens = torch.tensor([token for text in texts for token in text], device=device)
    logits = head(states.flatten(0, 1)[torch.tensor(places, device=device)], slice(None)).float()
    nats = torch.nn.functional.cross_entropy(logits, tokens, reduction="none")
    rows = torch.arange(len(texts)).repeat_interleave(torch.tensor(lengths)).to(device)
    return nats.new_zeros(len(texts)).index_add(0, rows, nats)


def training_fact(settings: StepwiseSettings, recipe: Recipe) -> str:
    """Returns how a guide was trained, for the card."""
    return (
        f"{recipe.steps:,} steps of {settings.batch} texts of at most {settings.tokens} tokens, "
        f"learning rate {settings.learning_rate:g}, products in {recipe.precision}"
    )


def calibration_fact(ece: float) -> str:
    """Returns a calibration error as the card has it."""
    return f"{ece:.4f} (10 bins of equally many texts)"
