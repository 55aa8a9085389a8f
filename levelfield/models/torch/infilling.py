"""P(target | source) from encoder-decoder models, with a gap for those trained to fill gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.models.causal import BatchedCausalModel
from levelfield.models.contracts import GAP_STYLES, PLAIN, GapStyle, InfillingModel, Target
from levelfield.models.infilling import BatchedInfillingModel, FimModel, ScoredTarget
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.tokens import batches, buckets, padded, token_mask
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.decoding import encoder_decoder_cache
from levelfield.models.torch.loading import batch_tokens_on, load_pretrained
from levelfield.models.torch.softmax import Block, token_log_p


class TorchInfillingModel(BatchedInfillingModel):
    """PEGASUS, T5 and BART checkpoints in PyTorch.

    The work is arranged so that nothing is computed twice: a source that occurs several times is
    encoded once; the keys and values of its cross-attention are computed once for all its
    targets; tokens that all targets begin with are decoded once; the vocabulary-wide softmax is
    taken at scored positions only.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        batch_tokens: int | None = None,
        style: GapStyle | None = None,
    ) -> None:
        config = model.config
        super().__init__(tokenizer, config, style or GAP_STYLES[config.model_type])
        self._model = model.eval()
        self._device = next(model.parameters()).device
        self._batch_tokens = batch_tokens_on(self._device, batch_tokens)
        self._pad = config.pad_token_id
        self._block = Block.on(self._device)

    @torch.inference_mode()
    def _score(
        self,
        sources: Sequence[list[int]],
        ids: Mapping[Target, list[int]],
        results: Sequence[dict[Target, Floats]],
    ) -> None:
        for numbers, batch in batches(sources, self._batch_tokens):
            pairs = [
                ScoredTarget(row, ids[target], target, results[source])
                for row, source in enumerate(numbers)
                for target in results[source]
                if ids[target]
            ]
            if pairs:
                self._decode(self._encode(batch), pairs)

    # -- passes

    def _encode(self, ids: Sequence[list[int]]) -> EncodedSources:
        real = token_mask(ids)
        mask = None if real.all() else torch.from_numpy(real).to(self._device)
        encoder = self._model.get_encoder()
        states = encoder(input_ids=self._padded(ids), attention_mask=mask).last_hidden_state
        return EncodedSources(states, mask)

    def _decode(self, encoded: EncodedSources, pairs: Sequence[ScoredTarget]) -> None:
        """Fills in the log-probabilities of all pairs of one bucket of encoded sources."""
        rows = len(encoded.states)
        if len(pairs) == len({pair.source for pair in pairs}):
            for batch in self._by_length(pairs):
                sources = torch.tensor([pair.source for pair in batch], device=self._device)
                self._continue(encoded.select(sources), None, self._start, batch)
            return
        cache = encoder_decoder_cache()
        start = torch.tensor([self._start] * rows, device=self._device)
        first = [[*self._start, pair.ids[0]] for pair in pairs]
        rows_of = [pair.source for pair in pairs]
        before = [self._before(pair) for pair in pairs]
        hidden = self._decoder(start, encoded, cache)
        for pair, log_p in zip(pairs, self._scored(hidden, rows_of, first, before), strict=True):
            pair.results[pair.target] = log_p
        longer = [pair for pair in pairs if len(pair.ids) > 1]
        for batch in self._by_length(longer):
            sources = torch.tensor([pair.source for pair in batch], device=self._device)
            self._continue(encoded.like(sources), self._cache_of(cache, sources), None, batch)

    def _by_length(self, pairs: Sequence[ScoredTarget]) -> Iterator[list[ScoredTarget]]:
        """Yields pairs in batches of like target length. A target token costs about what eight cost
        in the encoder, since the softmax goes over the whole vocabulary."""
        for bucket in buckets([len(pair.ids) for pair in pairs], max(1, self._batch_tokens // 8)):
            yield [pairs[i] for i in bucket.tolist()]

    def _continue(
        self,
        encoded: EncodedSources,
        cache: Any,
        start: list[int] | None,
        batch: Sequence[ScoredTarget],
    ) -> None:
        """Runs the decoder over targets: whole (with `start`) or after the first token (cached)."""
        sequences = [[*(start or ()), *pair.ids] for pair in batch]
        inputs = self._padded([sequence[:-1] for sequence in sequences])
        hidden = self._decoder(inputs, encoded, cache)
        before = [self._before(pair) if start else 0 for pair in batch]
        log_p = self._scored(hidden, range(len(batch)), sequences, before)
        for pair, values in zip(batch, log_p, strict=True):
            already = np.empty(0) if start else pair.results[pair.target]
            pair.results[pair.target] = np.concatenate([already, values])

    def _before(self, pair: ScoredTarget) -> int:
        """Returns the place in `[*start, *ids]` after which the tokens of a pair are scored."""
        return 0 if pair.target.begin else len(self._start) - 1

    def _scored(
        self,
        hidden: torch.Tensor,
        rows: Sequence[int],
        sequences: Sequence[list[int]],
        before: Sequence[int],
    ) -> list[Floats]:
        """Returns log-probabilities of each sequence's tokens after the place `before`.

        Args:
            hidden: (rows, steps, d), the decoder's states.
            rows: in which row of `hidden` each sequence was read, its last token left out.
        """
        lengths = [
            len(sequence) - 1 - begin for sequence, begin in zip(sequences, before, strict=True)
        ]
        tokens = [sequence[begin + 1 :] for sequence, begin in zip(sequences, before, strict=True)]
        steps = [np.arange(begin, begin + n) for begin, n in zip(before, lengths, strict=True)]
        places = np.repeat(rows, lengths) * hidden.shape[1] + np.concatenate(steps)
        distinct, place_index = np.unique(places, return_inverse=True)  # many words after one start
        log_p = self._token_log_p(
            self._scaled(hidden.flatten(0, 1)[torch.from_numpy(distinct).to(self._device)]),
            torch.from_numpy(place_index).to(self._device),
            torch.from_numpy(np.concatenate(tokens)).to(self._device),
        )
        return np.split(log_p.cpu().numpy(), np.cumsum(lengths)[:-1])

    def _token_log_p(
        self, states: torch.Tensor, states_of_tokens: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Returns what `token_log_p` does."""
        return token_log_p(
            self._logits,
            states,
            states_of_tokens,
            tokens,
            vocabulary=self.vocabulary_size,
            block=self._block,
        )

    def _decoder(self, ids: torch.Tensor, encoded: EncodedSources, cache: Any) -> torch.Tensor:
        # Targets are padded on the right, so no scored position ever attends to padding and the
        # decoder needs no mask beside the causal one.
        hidden: torch.Tensor = self._model.get_decoder()(
            input_ids=ids,
            encoder_hidden_states=encoded.states,
            encoder_attention_mask=encoded.mask,
            **with_cache(cache),
            use_cache=cache is not None,
        ).last_hidden_state
        return hidden

    def _scaled(self, hidden: torch.Tensor) -> torch.Tensor:
        config = self._model.config
        if getattr(config, "scale_decoder_outputs", False):
            hidden = hidden * config.d_model**-0.5
        return hidden

    def _logits(self, states: torch.Tensor, part: slice) -> torch.Tensor:
        """Returns logits of a part of the vocabulary: (n, part)."""
        layer, bias = self._model.lm_head, getattr(self._model, "final_logits_bias", None)
        layer_bias = None if layer.bias is None else layer.bias[part]
        logits: torch.Tensor = torch.nn.functional.linear(
            states, layer.weight[part], layer_bias
        ).float()
        if bias is not None:
            logits += bias[..., part].float()
        return logits

    def _padded(self, ids: Sequence[list[int]]) -> torch.Tensor:
        return torch.from_numpy(padded(ids, self._pad)).to(self._device)

    @staticmethod
    def _cache_of(cache: Any, rows: torch.Tensor) -> Any:
        """Returns a cache with some rows of another, each as often as it is named."""
        chosen = encoder_decoder_cache()
        for i in range(len(cache.self_attention_cache)):
            for kind in ("self_attention_cache", "cross_attention_cache"):
                layer = getattr(cache, kind).layers[i]
                getattr(chosen, kind).update(layer.keys[rows], layer.values[rows], i)
            chosen.is_updated[i] = True
        return chosen


class EncodedSources(NamedTuple):
    """Encoder states (rows, length, d) and their mask (rows, length), None without padding."""

    states: torch.Tensor
    mask: torch.Tensor | None

    def select(self, rows: torch.Tensor) -> EncodedSources:
        """Returns the states of the given rows, without columns that are padding in all of them."""
        if self.mask is None:
            return EncodedSources(self.states[rows], None)
        mask = self.mask[rows]
        mask = mask[:, : int(mask.sum(1).max())]
        return EncodedSources(
            self.states[rows, : mask.shape[1]], None if bool(mask.all()) else mask
        )

    def like(self, rows: torch.Tensor) -> EncodedSources:
        """Returns what a decoder needs beside cached keys and values: the mask, and states of a
        shape."""
        shape = self.states[:1].expand(len(rows), -1, -1)
        return EncodedSources(shape, None if self.mask is None else self.mask[rows])


def load_infilling(name: str, loading: Loading) -> InfillingModel:
    """Returns the model of this name that fills gaps: an encoder-decoder of a family whose gap
    format is known, or a causal model that was trained to fill in the middle.

    Raises:
        ModelError: the model does not exist, or does not fill gaps.
    """
    resolved = resolve(name, loading)
    if resolved.kind == "causal":
        return FimModel(cast(BatchedCausalModel, load("causal", name, loading)))
    if resolved.model_type not in GAP_STYLES:
        raise ModelError(
            f"model '{name}' is a {resolved.model_type} {resolved.kind} and does not fill gaps in "
            f"a known format; families that do: {', '.join(GAP_STYLES)}"
        )
    return _load(resolved, loading, GAP_STYLES[resolved.model_type])


def load_encoder_decoder(name: str, loading: Loading) -> TorchInfillingModel:
    """Returns the encoder-decoder model of this name for sources without gaps.

    Before a target, its decoder reads what its tokenizer puts in front of a text (BART: `<s>`), as
    in training; this is scored only for targets with `begin`.

    Raises:
        ModelError: the model does not exist, or is not an encoder-decoder.
    """
    return _load(resolve(name, loading), loading, PLAIN)


def _load(resolved: Resolved, loading: Loading, style: GapStyle) -> TorchInfillingModel:
    model, tokenizer = load_pretrained(resolved, "encoder-decoder", loading)
    return TorchInfillingModel(model, tokenizer, batch_tokens=loading.batch_tokens, style=style)
