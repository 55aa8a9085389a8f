"""Straight-through tokens: one-hot where they are read, softmax where gradients go back.

o = onehot(argmax s) + softmax(s) − sg(softmax(s)), where sg stops gradients (Bengio et al. 2013,
"Estimating or propagating gradients through stochastic neurons"). The vectors o are never made:
what is computed of them is looked up, and gradients take the way through the softmax.
"""

from __future__ import annotations

from typing import Any

import torch


class StraightThrough:
    """The likeliest token of each row of scores.

    Args:
        scores: (rows, vocabulary); minus infinity for tokens that may not be chosen.

    Attributes:
        tokens: (rows,).
    """

    def __init__(self, scores: torch.Tensor) -> None:
        self._scores = scores
        self.tokens = scores.detach().argmax(-1)

    def vectors(self, table: torch.Tensor) -> torch.Tensor:
        """o · table: a table (vocabulary, d), which gets no gradient → (rows, d)."""
        vectors: torch.Tensor = _Vectors.apply(  # type: ignore[no-untyped-call]
            self._scores, self.tokens, table
        )
        return vectors

    def values(self, values: torch.Tensor) -> torch.Tensor:
        """Σ_v o_v values_v: (rows, vocabulary) → (rows,)."""
        sums: torch.Tensor = _Values.apply(  # type: ignore[no-untyped-call]
            self._scores, self.tokens, values
        )
        return sums

    def log_likelihood(self, logits: torch.Tensor) -> torch.Tensor:
        """Σ_v o_v log softmax(logits)_v: (rows, vocabulary) → (rows,)."""
        return self.values(logits) - logits.logsumexp(-1)

    def log_p(self, tokens: torch.Tensor) -> torch.Tensor:
        """log softmax(s) of given tokens: (rows, n) → (rows, n)."""
        return self._scores.gather(-1, tokens) - self._scores.logsumexp(-1, keepdim=True)


class _Vectors(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, tokens: torch.Tensor, table: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(scores, table)
        return table[tokens]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scores, table = ctx.saved_tensors
        of_o = gradients[0] @ table.T
        return _through_softmax(scores, of_o.to(scores.dtype)), None, None


class _Values(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, tokens: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(scores, tokens, values)
        return values.gather(-1, tokens[:, None])[:, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scores, tokens, values = ctx.saved_tensors
        gradient = gradients[0][:, None]
        of_scores = of_values = None
        if ctx.needs_input_grad[0]:
            of_scores = _through_softmax(scores, (gradient * values).to(scores.dtype))
        if ctx.needs_input_grad[2]:
            of_values = torch.zeros_like(values).scatter_(-1, tokens[:, None], gradient)
        return of_scores, None, of_values


def _through_softmax(scores: torch.Tensor, of_p: torch.Tensor) -> torch.Tensor:
    """Gradient with respect to softmax(scores) → gradient with respect to scores."""
    p = scores.softmax(-1)
    weighted = p * of_p
    return weighted - p * weighted.sum(-1, keepdim=True)
