"""What a rewriter learns: the texts of pairs, and what is rewarded."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Codes
from levelfield.generation.seq2seq import (
    MostLikely,
    Sampled,
    Seq2Seq,
    WrittenIds,
    token_log_p,
    write,
)
from levelfield.models.rewriters import code
from levelfield.training.loop import Loss
from levelfield.training.passes import Passes
from levelfield.training.rewriter.pairs import RewritingPair, RewritingPairs
from levelfield.training.rewriter.rewards import Rewards, policy_loss

LONGER = 10
"""A rewrite may have so many tokens more than one and a half times its source."""


@dataclass(frozen=True)
class Rewriting:
    """−Σ_t log P(y_t | y_<t, code, x) of the pairs, a token, plus the policy's loss, a text.

    Attributes:
        pairs: to learn from and held out.
        model: that learns.
        batch: pairs a step.
        start: names the weights that training begins from.
        rewards: of sampled texts; None for likelihood alone.
    """

    pairs: RewritingPairs
    model: Seq2Seq
    batch: int
    seed: int
    start: str
    rewards: Rewards | None = None

    @property
    def identity(self) -> str:
        rewards = self.rewards.signatures if self.rewards else ()
        return " ".join(["rewriter", self.pairs.digest, str(self.batch), self.start, *rewards])

    def loss(self, _: Any, step: int) -> Loss:
        """Of one batch, in nats; the count is of tokens."""
        rows = [int(i) for i in self._passes.rows(step)]
        pairs = [self.pairs.train[i] for i in rows]
        sources, targets = zip(*(self._ids[i] for i in rows), strict=True)
        log_p, is_token = token_log_p(self.model, sources, targets)
        total, count = -log_p.sum(), int(is_token.sum())
        if self.rewards:
            total = total + count * self._policy(pairs, sources).mean()
        return Loss(total, count)

    def _policy(
        self, pairs: Sequence[RewritingPair], sources: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """The loss of sampled texts against greedy ones: (pairs,)."""
        assert self.rewards
        model = self.model
        budgets = [budget(model, source) for source in sources]
        learns = model.model.training
        model.model.eval()  # texts come from the model as it will write
        sampled = write(model, sources, Sampled(), budgets)
        greedy = write(model, sources, MostLikely(), budgets)
        model.model.train(learns)
        both = self.rewards.of(
            [model.text(one.ids) for one in (*sampled, *greedy)], [*pairs, *pairs]
        )
        log_p, _ = token_log_p(model, sources, [_whole(one, model) for one in sampled])
        return policy_loss(log_p.sum(-1), both[: len(pairs)], both[len(pairs) :])

    def validation(self, _: Any) -> Mapping[str, float]:
        """Mean loss a token over held-out pairs; nothing without any."""
        if not self.pairs.test:
            return {}
        return {"loss": mean_loss(self.model, self.pairs.test, self.batch)}

    @functools.cached_property
    def _ids(self) -> list[tuple[list[int], list[int]]]:
        return [ids_of(self.model, pair) for pair in self.pairs.train]

    @functools.cached_property
    def _passes(self) -> Passes:
        times: Codes = np.ones(len(self._ids), np.intp)
        lengths = [len(source) + len(target) for source, target in self._ids]
        return Passes(times, lengths, self.batch, self.seed)


def ids_of(model: Seq2Seq, pair: RewritingPair) -> tuple[list[int], list[int]]:
    """What the encoder reads and what the decoder writes."""
    return model.source(code(pair.label, pair.source))[0], model.target(pair.text)


def budget(model: Seq2Seq, source: Sequence[int]) -> int:
    """The most tokens that a rewrite of these tokens may have."""
    return min(model.limit - 1, len(source) * 3 // 2 + LONGER)


def mean_loss(model: Seq2Seq, pairs: Sequence[RewritingPair], batch: int) -> float:
    """−log P a token of the texts, the tokens that end them included, in nats."""
    total, count = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(pairs), batch):
            ids = [ids_of(model, pair) for pair in pairs[begin : begin + batch]]
            sources, targets = zip(*ids, strict=True)
            log_p, is_token = token_log_p(model, sources, targets)
            total, count = total - float(log_p.double().sum()), count + int(is_token.sum())
    return total / max(1, count)


def greedy_texts(model: Seq2Seq, pairs: Sequence[RewritingPair], batch: int) -> list[str]:
    """What the model writes for the sources of pairs."""
    texts = []
    for begin in range(0, len(pairs), batch):
        sources = [ids_of(model, pair)[0] for pair in pairs[begin : begin + batch]]
        written = write(model, sources, MostLikely(), [budget(model, one) for one in sources])
        texts += [model.text(one.ids) for one in written]
    return texts


def _whole(one: WrittenIds, model: Seq2Seq) -> list[int]:
    """The tokens chosen, that which ended the text included."""
    return [*one.ids, *([model.end] if one.ended else ())]
