"""What an infiller learns: the segments of a batch."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Bools, Codes
from levelfield.training.corpus import Corpus
from levelfield.training.infiller.examples import draw
from levelfield.training.infiller.format import IGNORED, Batch, InfillingFormat
from levelfield.training.loop import Loss


@dataclass(frozen=True)
class Infilling:
    """The task of filling gaps; a batch is a function of the seed and the step's number.

    Attributes:
        ends: (vocabulary,) which tokens end a sentence.
        batch: examples a step.
        window: tokens of the longest example.
        start: names the weights that training begins from.

    Examples of `POOL` batches are drawn together and sorted by the length of the segment, and of
    every `ALIKE` batches by the length of the rest, so that little of a batch is padding; the
    batches of a pool then come in random order.
    """

    corpus: Corpus
    format: InfillingFormat
    ends: Bools
    batch: int
    window: int
    seed: int
    start: str

    POOL = 32
    ALIKE = 4

    @property
    def identity(self) -> str:
        choices = (self.corpus.digest, self.batch, self.window, self.format.family, self.start)
        return " ".join(["infilling", *map(str, choices)])

    def loss(self, model: Any, step: int) -> Loss:
        """Cross-entropy of the segments of one batch, in nats."""
        pool, at = divmod(step, self.POOL)
        return _loss(model, self._pool(pool)[at])

    def validation(self, model: Any) -> Mapping[str, float]:
        """Mean loss a token over held-out documents; the same examples at every step."""
        total, count = 0.0, 0
        for batch in self._held_out:
            loss = _loss(model, batch)
            total, count = total + float(loss.total), count + loss.count
        return {"loss": total / max(1, count)}

    @functools.cached_property
    def _start(self) -> int | None:
        return None if self.format.family == "causal" else self.format.pad

    @functools.cached_property
    def _split(self) -> tuple[Codes, Codes]:
        return self.corpus.split()

    @functools.cached_property
    def _pools(self) -> dict[int, list[Batch]]:
        return {}

    def _pool(self, pool: int) -> list[Batch]:
        if pool not in self._pools:
            self._pools.clear()
            rng = np.random.default_rng([self.seed, 1, pool])
            self._pools[pool] = self._batches(rng, self._split[0], self.POOL)
        return self._pools[pool]

    @functools.cached_property
    def _held_out(self) -> list[Batch]:
        return self._batches(np.random.default_rng([self.seed, 0]), self._split[1], 16)

    def _batches(self, rng: np.random.Generator, among: Codes, count: int) -> list[Batch]:
        examples = draw(self.corpus, among, rng, self.batch * count, self.window, self.ends)
        examples.sort(key=lambda e: len(e.segment))
        some = self.ALIKE * self.batch
        for at in range(0, len(examples), some):
            examples[at : at + some] = sorted(
                examples[at : at + some], key=lambda e: len(e.left) + len(e.right)
            )
        batches = [
            self.format.batch(examples[at : at + self.batch], self._start)
            for at in range(0, len(examples), self.batch)
        ]
        return [batches[i] for i in rng.permutation(len(batches))]


def _loss(model: Any, batch: Batch) -> Loss:
    device = next(model.parameters()).device
    inputs, labels = batch.inputs.to(device), batch.labels.to(device)
    if batch.source is None:
        logits = model(input_ids=inputs, use_cache=False).logits
    else:
        source = batch.source.to(device)
        logits = model(
            input_ids=source,
            attention_mask=(source != model.config.pad_token_id).long(),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits
    total = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return Loss(total, int((batch.labels != IGNORED).sum()))
