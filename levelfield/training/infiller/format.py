"""How each family of infillers writes an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from levelfield.core.errors import ModelError
from levelfield.models.batching import padded
from levelfield.models.gaps import FIM
from levelfield.training.infiller import Family
from levelfield.training.infiller.examples import InfillingExample

SENTINELS = tuple(f"<extra_id_{i}>" for i in range(10))
IGNORED = -100
"""The label of a token that is not learnt."""


@dataclass(frozen=True)
class Batch:
    """Padded ids, (rows, tokens) each; labels are `IGNORED` where nothing is learnt. A causal
    model has no source."""

    source: torch.Tensor | None
    inputs: torch.Tensor
    labels: torch.Tensor


class InfillingFormat:
    """How a family writes an example.

    Raises:
        ModelError: the tokenizer lacks the tokens of the format.
    """

    def __init__(self, tokenizer: Any, family: Family) -> None:
        self.family = family
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.end = tokenizer.eos_token_id
        names = SENTINELS[:1] if family == "t5" else FIM
        self.marks = [tokenizer.convert_tokens_to_ids(name) for name in names]
        known = tokenizer.get_vocab()
        missing = [name for name in names if name not in known]
        if missing or self.end is None:
            raise ModelError(
                f"the tokenizer has no {', '.join(missing) or 'end-of-text token'}, which "
                f"the format of {family} infillers needs"
            )

    def source(self, example: InfillingExample) -> list[int]:
        """What an encoder reads; nothing for a causal model."""
        if self.family == "causal":
            return []
        return [*example.left.tolist(), *self.marks, *example.right.tolist(), self.end]

    def target(self, example: InfillingExample) -> tuple[list[int], int]:
        """What is written, and how many of its first tokens are not learnt."""
        segment = [*example.segment.tolist(), self.end]
        if self.family == "t5":
            return [*self.marks, *segment], 1
        prefix, suffix, middle = self.marks
        left, right = example.left.tolist(), example.right.tolist()
        return [prefix, *left, suffix, *right, middle, *segment], 1

    def batch(self, examples: Sequence[InfillingExample], start: int | None) -> Batch:
        """Padded on the right. `start` is the token a decoder begins with, None for causal."""
        targets = [self.target(example) for example in examples]
        full = padded([ids for ids, _ in targets], self.pad)
        labels = padded([ids for ids, _ in targets], IGNORED)
        for row, (_, first) in zip(labels, targets, strict=True):
            row[:first] = IGNORED
        if self.family == "causal":
            labels[np.isin(labels, self.marks)] = IGNORED
            return Batch(None, torch.from_numpy(full[:, :-1]), torch.from_numpy(labels[:, 1:]))
        source = torch.from_numpy(padded([self.source(e) for e in examples], self.pad))
        begin = np.full((len(full), 1), start, np.int64)
        inputs = np.concatenate([begin, full[:, :-1]], axis=1)
        return Batch(source, torch.from_numpy(inputs), torch.from_numpy(labels))
