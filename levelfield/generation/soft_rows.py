"""Continuations with gradients: prompts that a model reads once, and vectors that follow them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from levelfield.generation.open_rows import OpenRows, Past


def token_vectors(model: Any) -> torch.Tensor:
    """What a model reads in place of each token: (vocabulary, d)."""
    layer = model.get_input_embeddings()
    if type(layer) is torch.nn.Embedding:
        table: torch.Tensor = layer.weight
    else:  # which may scale its weights
        table = layer(torch.arange(layer.weight.shape[0], device=layer.weight.device))
    return table.detach()


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    """x, in float32 where its own precision is less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class ReadPrompts:
    """Prompts that a model has read, each from its own position 0 on, without gradients.

    Args:
        prompts: of several lengths, BOS included.
        pad: stands before shorter ones.
        skip: of each, so many tokens at the beginning do not count in `log_likelihood`; at least 1.

    Attributes:
        ids, mask: (rows, tokens), padded on the left; the mask is 0 for padding.
        logits: of the token behind each, (rows, vocabulary).
        states: the sum of the last layer's states over the tokens of each, BOS not among them,
            (rows, d), in float32 at least.
        log_likelihood: Σ log P(token | tokens before it) over the tokens that count, (rows,),
            float64; zeros if `skip` is not given.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        pad: int,
        device: torch.device,
        *,
        skip: Sequence[int] | None = None,
    ) -> None:
        with torch.no_grad():
            rows = OpenRows.of(model, prompts, pad, device)
            self._model, self.ids, self.mask = model, rows.ids, rows.mask
            self.log_likelihood = torch.zeros(len(prompts), dtype=torch.float64, device=device)
            if skip is not None:
                place = self.mask.cumsum(-1) * self.mask
                scored = place > torch.tensor(skip, device=device)[:, None]
                self.log_likelihood = rows.log_likelihood(scored)
            self.logits = rows.logits()
            place = self.mask.cumsum(-1)[:, -rows.states.shape[1] :]
            self.states = (at_least_float32(rows.states) * (place > 1)[..., None]).sum(1)
        self._past: Past = rows.past

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only."""
        self.ids, self.mask, self.logits = self.ids[rows], self.mask[rows], self.logits[rows]
        self.log_likelihood, self.states = self.log_likelihood[rows], self.states[rows]
        self._past = [(keys[rows], values[rows]) for keys, values in self._past]

    def continuation(self) -> SoftRows:
        """What follows the prompts; as many of these as one likes."""
        return SoftRows(self._model, self.mask, self._past)


class SoftRows:
    """Vectors behind prompts; keys and values stay in the graph of gradients."""

    def __init__(self, model: Any, mask: torch.Tensor, past: Past) -> None:
        from transformers import DynamicCache

        self._model, self._mask = model, mask
        self._cache = DynamicCache(past, config=model.config)
        self._takes = inspect.signature(model.forward).parameters.keys()

    def read(self, vectors: torch.Tensor, **options: Any) -> Any:
        """What the model makes of some more vectors, (rows, tokens, d); its `logits` are (rows,
        tokens, vocabulary).

        Args:
            options: of the model's `forward`.
        """
        new = vectors.shape[1]
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(vectors), new)], dim=1)
        # BLOOM has no positions to be told, and finds the distances in the mask
        if "position_ids" in self._takes:
            options["position_ids"] = self._mask.cumsum(-1)[:, -new:] - 1
        return self._model(
            inputs_embeds=vectors,
            attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
            **options,
        )
