"""A causal model over a batch of texts whose states, keys and values can be seen and replaced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from levelfield.generation.rows import CausalRows

Past = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer: (rows, heads, tokens, width of a head) each."""


class TokenReading(NamedTuple):
    """What a model makes of the last token of each row.

    Attributes:
        logits: of the next token, (rows, vocabulary).
        states: of the last layer, after the norm that precedes the head: (rows, d).
        past: keys and values of all tokens, the last among them.
    """

    logits: torch.Tensor
    states: torch.Tensor
    past: Past


class OpenRows(CausalRows):
    """Rows that show what the model makes of their tokens, and read behind any past.

    Gradients flow through `read_behind` and `states_behind` where they are enabled.

    Attributes:
        states: of the last layer, for the tokens read by the last `logits`: (rows, tokens, d).
    """

    states: torch.Tensor

    @property
    def past(self) -> Past:
        """Keys and values of the tokens read so far."""
        assert self._cache is not None
        return [(layer.keys, layer.values) for layer in self._cache.layers]

    @property
    def embeddings(self) -> torch.Tensor:
        """What the model reads for each token: (vocabulary, d)."""
        weight: torch.Tensor = self._model.get_input_embeddings().weight
        return weight

    def _forward(self, ids: torch.Tensor, last_only: bool = True) -> torch.Tensor:
        output = self._output(ids, last_only, output_hidden_states=True)
        self.states = output.hidden_states[-1]
        logits: torch.Tensor = output.logits
        return logits

    def head(self, states: torch.Tensor) -> torch.Tensor:
        """Logits of states: (rows, d) → (rows, vocabulary)."""
        logits: torch.Tensor = self._model.get_output_embeddings()(states)
        return logits

    def read_behind(self, past: Past, mask: torch.Tensor, ids: torch.Tensor) -> TokenReading:
        """One token a row behind keys and values that need not be its own.

        Args:
            mask: of the past and the token, (rows, tokens), 0 for padding.
            ids: (rows,).
        """
        output = self._behind(self._model, past, mask, input_ids=ids[:, None])
        layers = output.past_key_values.layers
        return TokenReading(
            output.logits[:, -1],
            output.hidden_states[-1][:, -1],
            [(layer.keys, layer.values) for layer in layers],
        )

    def states_behind(
        self, past: Past, mask: torch.Tensor, embeddings: torch.Tensor
    ) -> tuple[torch.Tensor, Past]:
        """The states of one embedding a row behind a past, without logits: (rows, d), and the past
        with it.

        Args:
            mask: of the past and the embedding, (rows, tokens).
            embeddings: (rows, d).
        """
        body = self._model.base_model
        output = self._behind(body, past, mask, inputs_embeds=embeddings[:, None])
        layers = output.past_key_values.layers
        return output[0][:, -1], [(layer.keys, layer.values) for layer in layers]

    def _behind(self, model: Any, past: Past, mask: torch.Tensor, **read: torch.Tensor) -> Any:
        from transformers import DynamicCache

        return model(
            **read,
            attention_mask=mask,
            past_key_values=DynamicCache(past, config=self._model.config),
            use_cache=True,
            output_hidden_states=True,
            **self._known({"position_ids": self._positions(mask)[:, -1:]}),
        )


@contextlib.contextmanager
def frozen(model: torch.nn.Module) -> Iterator[None]:
    """Inside, no weight of a model takes part in gradients; afterwards all is as before."""
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learnt:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learnt:
            parameter.requires_grad_(True)
