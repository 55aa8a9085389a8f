"""BOLT's biases of one text, and how they are tuned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Gradients = Literal["accumulate", "zero"]


@dataclass(frozen=True)
class BiasTuning:
    """How biases are tuned.

    Attributes:
        learning_rate, weight_decay: of AdamW.
        initial: the standard deviation of the biases to begin with.
        noise: mean and standard deviation of what is added to them after each step.
        gradients: whether those of all iterations so far are summed up, or only the last count.
        ramp: whether w_t is t / T for t = 1 … T, and fixed; if not, it is learnt, from 1 on.
    """

    learning_rate: float
    weight_decay: float
    initial: float
    noise: float
    gradients: Gradients
    ramp: bool


class Biases:
    """b_t and w_t of the T positions of a text, in float32.

    Args:
        generator: of the text; draws the biases to begin with and the noise.
    """

    def __init__(
        self,
        tokens: int,
        width: int,
        tuning: BiasTuning,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._tuning, self._generator = tuning, generator
        b = tuning.initial * torch.randn(tokens, width, generator=generator)
        self.b = b.to(device).requires_grad_()
        w = torch.arange(1, tokens + 1) / tokens if tuning.ramp else torch.ones(tokens)
        self.w = w.to(device).requires_grad_(not tuning.ramp)
        self._optimizer = torch.optim.AdamW(
            [self.b] if tuning.ramp else [self.b, self.w],
            lr=tuning.learning_rate,
            weight_decay=tuning.weight_decay,
        )

    @property
    def weighted(self) -> torch.Tensor:
        """w_t b_t: (tokens, d)."""
        return self.w[:, None] * self.b

    def gumbel(self, n: int) -> torch.Tensor:
        """Gumbel noise: (tokens, n)."""
        u = torch.rand(len(self.b), n, generator=self._generator, dtype=torch.float64)
        tiny = torch.finfo(torch.float64).tiny
        return -(-u.clamp(min=tiny).log()).clamp(min=tiny).log().to(self.b)

    def step(self) -> None:
        """One step along the gradients, then noise."""
        self._optimizer.step()
        if self._tuning.gradients == "zero":
            self._optimizer.zero_grad()
        if self._tuning.noise:
            normal = torch.randn(self.b.shape, generator=self._generator).to(self.b)
            with torch.no_grad():
                self.b += self._tuning.noise * (1 + normal)
