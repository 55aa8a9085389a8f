"""What a judge that reads ids learns: the labels of texts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Codes
from levelfield.training.judge.labelled import Labelled
from levelfield.training.loop import Loss, Recipe

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
    """The task of a model that reads ids; a batch is a function of the seed and the step's number.

    Every pass has all texts, each as often as it is to be learnt from, in an order of its own.
    Texts of `POOL` batches are sorted by length, so that little of a batch is padding, and the
    batches of a pool come in random order.

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

    POOL = 50

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
    def _repeated(self) -> Codes:
        return np.repeat(np.arange(len(self.rows)), self.rows.times)

    @functools.cached_property
    def _passes(self) -> dict[int, list[Codes]]:
        return {}

    def _batch(self, step: int) -> Codes:
        each = -(-len(self._repeated) // self.batch)
        epoch, at = divmod(step, each)
        if epoch not in self._passes:
            self._passes.clear()
            self._passes[epoch] = self._pass(np.random.default_rng([self.seed, epoch]))
        return self._passes[epoch][at]

    def _pass(self, rng: np.random.Generator) -> list[Codes]:
        order = rng.permutation(self._repeated)
        batches = []
        for begin in range(0, len(order), self.POOL * self.batch):
            pool = order[begin : begin + self.POOL * self.batch]
            pool = pool[np.argsort([len(self.ids[i]) for i in pool], kind="stable")]
            of_pool = [pool[i : i + self.batch] for i in range(0, len(pool), self.batch)]
            batches += [of_pool[i] for i in rng.permutation(len(of_pool))]
        return batches
