"""What a judge that reads ids learns: the labels of texts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from levelfield.core.arrays import Codes
from levelfield.train.labelled import Labelled
from levelfield.train.loop import Loss
from levelfield.train.passes import Passes
from levelfield.train.recipe import Recipe

CHECKPOINT_STEPS = 500
"""Fewest steps between two checkpoints."""


def passes(
    rows: Labelled,
    *,
    epochs: float,
    batch: int,
    learning_rate: float,
    warmup: int,
    seed: int,
) -> Recipe:
    """The recipe of so many passes over the texts; the learning rate falls to a tenth over all.

    Args:
        warmup: the rate rises over the first step in so many.
    """
    steps = max(1, round(epochs * int(rows.times.sum()) / batch))
    return Recipe(
        steps=steps,
        learning_rate=learning_rate,
        warmup=steps // warmup,
        decay=1.0,
        weight_decay=0.01,
        seed=seed,
        every=max(CHECKPOINT_STEPS, steps // 4),
    )


@dataclass(frozen=True)
class Classification:
    """The task of a model that reads ids.

    Attributes:
        rows: texts and their labels.
        ids: of each text.
        logits: of the ids of some texts: (texts, labels).
        read: names what made the ids, for the identity of the run.
        batch: texts a step.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    logits: Callable[[Sequence[Sequence[int]]], torch.Tensor]
    read: str
    batch: int
    seed: int

    @property
    def identity(self) -> str:
        return f"judge {self.rows.digest} {self.read} {self.batch}"

    def loss(self, _: Any, step: int) -> Loss:
        """Cross-entropy with the targets, in nats."""
        rows = self._batch(step)
        logits = self.logits([self.ids[i] for i in rows])
        targets = torch.from_numpy(self.rows.targets[rows]).float().to(logits.device)
        total = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return Loss(total, len(rows))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Nothing: held-out texts decide nothing, and are tried once, at the end."""
        return {}

    @functools.cached_property
    def _passes(self) -> Passes:
        lengths = [len(ids) for ids in self.ids]
        return Passes(self.rows.times, lengths, self.batch, self.seed)

    def _batch(self, step: int) -> Codes:
        return self._passes.rows(step)
