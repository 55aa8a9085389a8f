"""Soft prompts: embeddings that a model reads like tokens, and the network that learns them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class PromptedModel:
    """A model that also reads virtual tokens, called like the model itself.

    Ids from `vocabulary` on are virtual: the first is the first row of `prompts`. Logits are of the
    model's own vocabulary.

    Args:
        base: a causal model of `transformers`, whose weights it shares.
        prompts: (virtual tokens, width of the embeddings).
        vocabulary: how many tokens the model has.
    """

    def __init__(self, base: Any, prompts: torch.Tensor, vocabulary: int) -> None:
        self._base, self._prompts, self._vocabulary = base, prompts, vocabulary
        self._embed = base.get_input_embeddings()
        self.config = base.config

    @property
    def forward(self) -> Any:
        """The base's, with the same parameters."""

        @functools.wraps(self._base.forward)
        def forward(*args: Any, **options: Any) -> Any:
            return self(*args, **options)

        return forward

    def __call__(self, input_ids: torch.Tensor, **options: Any) -> Any:
        virtual = input_ids >= self._vocabulary
        if not virtual.any():
            return self._base(input_ids=input_ids, **options)
        embeddings = self._embed(input_ids.masked_fill(virtual, 0))
        rows = self._prompts[input_ids[virtual] - self._vocabulary]
        embeddings = embeddings.masked_scatter(virtual[..., None], rows.to(embeddings))
        return self._base(inputs_embeds=embeddings, **options)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Those of the base."""
        parameters: Iterator[torch.nn.Parameter] = self._base.parameters()
        return parameters


class PromptEncoder(nn.Module):
    """start + MLP(BiLSTM(E)): a soft prompt while it is learnt (Zhang and Song 2022, section 3).

    E is an embedding a position, the LSTM has two layers, d / 2 wide each way, and the MLP is
    linear, ReLU, linear. Calling it gives the prompt, (tokens, d); once it is learnt that matrix is
    all that is kept.

    Args:
        start: what the network's output is added to, (tokens, d). Unless it is 0 itself, the last
            layer begins at 0, so that the prompt begins with it.
    """

    start: torch.Tensor

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        tokens, d = start.shape
        half = -(-d // 2)
        self.register_buffer("start", start.detach().float(), persistent=False)
        self.embedding = nn.Embedding(tokens, d)
        self.lstm = nn.LSTM(d, half, num_layers=2, bidirectional=True, batch_first=True)
        last = nn.Linear(d, d)
        if start.any():
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.mlp = nn.Sequential(nn.Linear(2 * half, d), nn.ReLU(), last)

    def forward(self) -> torch.Tensor:
        states, _ = self.lstm(self.embedding.weight[None])
        prompt: torch.Tensor = self.start + self.mlp(states)[0]
        return prompt
