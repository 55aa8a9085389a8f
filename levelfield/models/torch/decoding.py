"""A model that writes a batch of texts token by token and keeps their keys and values."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.loading import batch_of

PLACES = 1024
"""So many tokens of all rows are read at once where all of their logits are needed: 200 MB of them
where the vocabulary has 49,152 tokens."""


def normalised(logits: torch.Tensor) -> torch.Tensor:
    """Returns logits → log-probabilities over the last dimension, in float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


class GrowingRows(abc.ABC):
    """One model over rows of tokens that grow together.

    Args:
        ids: (rows, tokens), the tokens written so far.
        cache: of keys and values; None recomputes them at every step.
    """

    def __init__(self, model: Any, ids: torch.Tensor, cache: Any | None) -> None:
        self._model, self._ids, self._cache = model, ids, cache
        self._seen = 0

    @property
    def ids(self) -> torch.Tensor:
        """What is written so far: (rows, tokens)."""
        return self._ids

    @abc.abstractmethod
    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns logits after tokens that follow those seen: (rows, tokens or the last,
        vocabulary)."""

    def logits(self) -> torch.Tensor:
        """Returns the logits of the next token: (rows, vocabulary)."""
        logits = self._forward(self._ids[:, self._seen :])[:, -1]
        if self._cache is not None:
            self._seen = self._ids.shape[1]
        return logits

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only."""
        self._ids = self._ids[rows]
        if self._cache is not None:
            self._cache.batch_select_indices(rows)

    def read(self, tokens: torch.Tensor) -> None:
        """Appends a token to each row: (rows,)."""
        self._ids = torch.cat([self._ids, tokens[:, None]], dim=1)


def encoder_decoder_cache() -> Any:
    """Returns an empty cache for an encoder-decoder."""
    from transformers import DynamicCache, EncoderDecoderCache

    return EncoderDecoderCache(DynamicCache(), DynamicCache())


class EncoderDecoderRows(GrowingRows):
    """An encoder-decoder over encoded sources; states: (rows, length, d), ids: (rows, tokens)."""

    def __init__(
        self,
        model: Any,
        states: torch.Tensor,
        mask: torch.Tensor,
        ids: torch.Tensor,
        use_cache: bool,
    ) -> None:
        super().__init__(model, ids, encoder_decoder_cache() if use_cache else None)
        self._states, self._mask = states, mask

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._model(
            encoder_outputs=(self._states,),
            attention_mask=self._mask,
            decoder_input_ids=ids,
            **with_cache(self._cache),
            use_cache=self._cache is not None,
        ).logits
        return logits

    def keep(self, rows: torch.Tensor) -> None:
        super().keep(rows)
        self._states, self._mask = self._states[rows], self._mask[rows]


def prefix_cache(model: Any, prefix: torch.Tensor | None) -> Any:
    """Returns a cache for a causal model that holds a prefix; an empty one where there is none.

    Args:
        prefix: keys and values of P positions, (rows, layers, 2, heads, P, width); `heads` are
            those that keys and values have, `width` is that of one head.
    """
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    if prefix is not None:
        for layer, (keys, values) in enumerate(prefix.movedim((1, 2), (0, 1))):
            cache.update(keys, values, layer)
    return cache


class CausalRows(GrowingRows):
    """A causal model over prompts padded on the left; ids, mask: (rows, tokens).

    Positions count from the first token of a row, whatever padding precedes it.

    Args:
        prefix: a prepared cache of P virtual positions in front of each row, from `prefix_cache`;
            all rows see it, and their tokens have the positions from P on. It has no ids.
    """

    def __init__(
        self,
        model: Any,
        ids: torch.Tensor,
        mask: torch.Tensor,
        use_cache: bool,
        prefix: torch.Tensor | None = None,
    ) -> None:
        super().__init__(model, ids, prefix_cache(model, prefix) if use_cache else None)
        self._mask, self._prefix = mask, prefix
        self._before = 0 if prefix is None else prefix.shape[-2]
        self._takes = inspect.signature(model.forward).parameters.keys()

    @classmethod
    def of(
        cls,
        model: Any,
        prompts: Sequence[Sequence[int]],
        pad: int,
        device: torch.device,
        use_cache: bool = True,
        prefix: torch.Tensor | None = None,
    ) -> Self:
        """Returns rows over prompts of several lengths, padded on the left."""
        ids, mask = batch_of(prompts, pad, device, left=True).values()
        return cls(model, ids, mask, use_cache, prefix)

    @property
    def mask(self) -> torch.Tensor:
        """0 for padding: (rows, tokens)."""
        return self._mask

    def _forward(self, ids: torch.Tensor, last_only: bool = True) -> torch.Tensor:
        logits: torch.Tensor = self._output(ids, last_only).logits
        return logits

    def _output(self, ids: torch.Tensor, last_only: bool = True, **more: Any) -> Any:
        """Returns what the model makes of tokens that follow those seen."""
        end = self._seen + ids.shape[1]
        positions = self._before + self._positions(self._mask)[:, self._seen : end]
        virtual = self._mask.new_ones(len(ids), self._before)
        cache = self._cache
        if cache is None and self._prefix is not None:
            cache = prefix_cache(self._model, self._prefix)
        return self._model(
            input_ids=ids,
            attention_mask=torch.cat([virtual, self._mask[:, :end]], dim=1),
            **with_cache(cache),
            use_cache=cache is not None,
            **self._known({"position_ids": positions, "logits_to_keep": int(last_only)}),
            **more,
        )

    def _positions(self, mask: torch.Tensor) -> torch.Tensor:
        """Returns positions of tokens and padding, counted from the first token: (rows, tokens)."""
        return (mask.cumsum(-1) - 1).clamp(min=0)

    def _known(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options that the model takes. BLOOM takes no positions; it finds the
        distances in the mask."""
        return {name: value for name, value in options.items() if name in self._takes}

    def log_likelihood(self, scored: torch.Tensor) -> torch.Tensor:
        """Returns Σ log P(token | tokens before it) over the tokens so far: (rows,), float64.

        Reads all but the last token, so it comes before the first `logits`.

        Args:
            scored: (rows, tokens), which tokens count; never the first of a row.
        """
        total = torch.zeros(len(self._ids), dtype=torch.float64, device=self._ids.device)
        last = self._ids.shape[1] - 1
        size = max(1, PLACES // len(self._ids) if self._cache is not None else last)
        for begin in range(0, last, size):
            end = min(begin + size, last)
            log_p = normalised(self._forward(self._ids[:, begin:end], last_only=False))
            tokens = self._ids[:, begin + 1 : end + 1]
            chosen = log_p.gather(-1, tokens[..., None]).squeeze(-1)
            total += chosen.masked_fill(~scored[:, begin + 1 : end + 1].bool(), 0).sum(-1)
            if self._cache is not None:
                self._seen = end
        return total

    def logits_before(self, tokens: torch.Tensor) -> torch.Tensor:
        """Reads several tokens a row, (rows, tokens), at once; returns the logits before each:
        (rows, tokens, vocabulary). Rows have a cache."""
        first = self.logits()[:, None]
        for column in tokens[:, :-1].T:
            self.read(column)
        if self._seen == self._ids.shape[1]:
            return first
        rest = self._forward(self._ids[:, self._seen :], last_only=False)
        self._seen = self._ids.shape[1]
        return torch.cat([first, rest], dim=1)

    def keep(self, rows: torch.Tensor) -> None:
        super().keep(rows)
        self._mask = self._mask[rows]
        if self._prefix is not None:
            self._prefix = self._prefix[rows]

    def read(self, tokens: torch.Tensor) -> None:
        super().read(tokens)
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
