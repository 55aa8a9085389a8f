"""A causal model over a batch of texts whose states, keys and values can be seen and replaced."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from levelfield.models.torch.caches import cache_of, with_cache
from levelfield.models.torch.decoding import CausalRows

Past = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer: (rows, heads, tokens, width of a head) each."""


def _kept(cache: Any) -> Past:
    """Returns the keys and values in a cache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


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
    """Rows that show what the model makes of their tokens, and read on after any past.

    Gradients flow through `read_after` and `states_after` where they are enabled.

    Attributes:
        states: of the last layer, for the tokens read by the last `logits`: (rows, tokens, d).
    """

    states: torch.Tensor

    @property
    def past(self) -> Past:
        """Keys and values of the tokens read so far."""
        return _kept(self._cache)

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

    def read_after(self, past: Past, mask: torch.Tensor, ids: torch.Tensor) -> TokenReading:
        """Reads one token a row after keys and values that need not be its own.

        Args:
            mask: of the past and the token, (rows, tokens), 0 for padding.
            ids: (rows,).
        """
        output = self._after_past(self._model, past, mask, input_ids=ids[:, None])
        states = output.hidden_states[-1][:, -1]
        return TokenReading(output.logits[:, -1], states, _kept(cache_of(output)))

    def states_after(
        self, past: Past, mask: torch.Tensor, embeddings: torch.Tensor
    ) -> tuple[torch.Tensor, Past]:
        """The states of one embedding a row after a past, without logits: (rows, d), and the past
        with it.

        Args:
            mask: of the past and the embedding, (rows, tokens).
            embeddings: (rows, d).
        """
        body = self._model.base_model
        output = self._after_past(body, past, mask, inputs_embeds=embeddings[:, None])
        return output[0][:, -1], _kept(cache_of(output))

    def _after_past(self, model: Any, past: Past, mask: torch.Tensor, **read: torch.Tensor) -> Any:
        from transformers import DynamicCache

        return model(
            **read,
            attention_mask=mask,
            **with_cache(DynamicCache(past, config=self._model.config)),
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


def token_vectors(model: Any) -> torch.Tensor:
    """What a model reads in place of each token: (vocabulary, d)."""
    layer = model.get_input_embeddings()
    if type(layer) is torch.nn.Embedding:
        table: torch.Tensor = layer.weight
    else:  # which may scale its weights
        table = layer(torch.arange(layer.weight.shape[0], device=layer.weight.device))
    return table.detach()


def float32_or_wider(x: torch.Tensor) -> torch.Tensor:
    """x, in float32 where its own precision is less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class ReadPrompts:
    """Prompts that a model has read, each from its own position 0 on, without gradients.

    Args:
        prompts: of several lengths; all of them begin with BOS, or none does.
        pad: BOS, which fills up shorter ones on the left.
        skip: number of tokens at the beginning of each that do not count in `log_likelihood`; at
            least 1.

    Attributes:
        ids, mask: (rows, tokens), padded on the left; the mask is 0 for padding.
        logits: of the token after each, (rows, vocabulary).
        begins: how many of the tokens of each are BOS and not its text: 1 or 0, (rows,).
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
            self.begins = torch.tensor([int(p[0] == pad) for p in prompts], device=device)
            is_text = (place > self.begins[:, None])[..., None]
            self.states = (float32_or_wider(rows.states) * is_text).sum(1)
        self._past: Past = rows.past

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only."""
        self.ids, self.mask, self.logits = self.ids[rows], self.mask[rows], self.logits[rows]
        self.log_likelihood, self.states = self.log_likelihood[rows], self.states[rows]
        self.begins = self.begins[rows]
        self._past = [(keys[rows], values[rows]) for keys, values in self._past]

    def continuation(self) -> SoftRows:
        """What follows the prompts; as many of these as one likes."""
        return SoftRows(self._model, self.mask, self._past)


class SoftRows:
    """Vectors after prompts; keys and values stay in the graph of gradients."""

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
            **with_cache(self._cache),
            use_cache=True,
            **options,
        )
