"""The one loop in which every technique that writes from left to right chooses its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from levelfield.models.torch.decoding import GrowingRows
from levelfield.models.torch.draws import Exponentials


class PassCounter(Protocol):
    """What sends rows through models beside the base."""

    @property
    def passes(self) -> int:
        """Rows sent through a model so far, for each row of the batch."""
        ...

    @property
    def backward_passes(self) -> int:
        """Rows that gradients went back through so far, for each row of the batch."""
        ...


class Steering(PassCounter, Protocol):
    """What changes the logits of the base; `SteeringProcessor` is one."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocabulary) → scores (rows, vocabulary)."""
        ...

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only."""
        ...


class Choice(Protocol):
    """How a token is chosen among scores."""

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary) → tokens (rows,)."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these rows only."""
        ...


class Draw:
    """Draws each row's token from softmax(scores), with noise of its own; without noise the most
    likely token."""

    def __init__(self, noise: Exponentials | None) -> None:
        self._noise = noise

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.argmax(-1) if self._noise is None else self._noise.draw(scores)

    def keep(self, rows: Sequence[int]) -> None:
        if self._noise is not None:
            self._noise.keep(rows)


class Forced:
    """Takes tokens that exist already, and notes their log-probabilities.

    Attributes:
        log_p: of the tokens of each text so far.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self._texts = texts
        self._live = list(range(len(texts)))
        self.log_p: list[list[float]] = [[] for _ in texts]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return [*map(len, self._texts)]

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        step = len(self.log_p[self._live[0]])
        tokens = torch.tensor([self._texts[i][step] for i in self._live], device=scores.device)
        log_p = scores.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        for i, value in zip(self._live, log_p.tolist(), strict=True):
            self.log_p[i].append(value)
        return tokens

    def keep(self, rows: Sequence[int]) -> None:
        self._live = [self._live[row] for row in rows]


@dataclass
class Continuation:
    """Tokens that follow a prompt.

    Attributes:
        ids: without a token that ends the text.
        steps: tokens chosen, one that ends the text included.
        passes: rows sent through any model.
        backward_passes: rows that gradients went back through.
    """

    ids: list[int]
    steps: int = 0
    passes: int = 0
    backward_passes: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether a token ended the text, and not the budget."""
        return self.steps > len(self.ids)


@dataclass(frozen=True)
class Growth:
    """How texts grow.

    Attributes:
        choice: how a token is chosen.
        budgets: the most tokens of each text, at least 1.
        ends: ids that end a text.
        is_over: whether a text ends with the tokens that it has, for other reasons.
        watch: called with what steered a step before its tokens are chosen.
    """

    choice: Choice
    budgets: Sequence[int]
    ends: frozenset[int] = frozenset()
    is_over: Callable[[Sequence[int]], bool] = lambda _: False
    watch: Callable[[Steering], object] = lambda _: None


def grow(rows: GrowingRows, steering: Steering, growth: Growth) -> list[Continuation]:
    """Continues rows token by token; texts that have ended leave them. The caller says whether
    gradients are recorded.

    Args:
        rows: the model after its prompts or sources.
        steering: changes its logits.
    """
    choice, budgets = growth.choice, growth.budgets
    continuations = [Continuation([]) for _ in budgets]
    live = list(range(len(budgets)))
    step = 0
    while live:
        step += 1
        scores = steering(rows.ids, rows.logits())
        growth.watch(steering)
        tokens = choice(scores)
        going = []
        for row, token in enumerate(tokens.tolist()):
            continuation = continuations[live[row]]
            continuation.steps, continuation.passes = step, step + steering.passes
            continuation.backward_passes = steering.backward_passes
            if token not in growth.ends:
                continuation.ids.append(token)
                if step < budgets[live[row]] and not growth.is_over(continuation.ids):
                    going.append(row)
        if not going:
            break
        if len(going) < len(live):
            live = [live[row] for row in going]
            kept = torch.tensor(going, device=tokens.device)
            tokens = tokens[kept]
            choice.keep(going)
            rows.keep(kept)
            steering.keep(kept)
        rows.read(tokens)
    return continuations
