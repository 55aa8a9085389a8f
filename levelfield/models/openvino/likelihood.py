"""Log-probabilities of tokens in OpenVINO: causal models and encoder-decoders."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from levelfield.models.causal_tokens import Bos, rule
from levelfield.models.contracts import PLAIN, GapStyle, InfillingModel
from levelfield.models.infilling import ScoredTarget, load_gap_filler
from levelfield.models.loading import Loading
from levelfield.models.openvino import Tensors, forward_of, on_cpu, texts
from levelfield.models.resolve import Resolved, resolve, resolve_causal
from levelfield.models.tokens import buckets
from levelfield.models.torch.caches import cache_name, with_cache
from levelfield.models.torch.causal import TorchCausalModel, read_prefix
from levelfield.models.torch.infilling import EncodedSources, TorchInfillingModel
from levelfield.models.torch.loading import batch_of, load_pretrained
from levelfield.models.torch.softmax import Head

WHOLE_LOGITS = 2**23
"""So many logits are taken at once, which a processor's caches hold: 32 MiB in float32."""


class TokenLogP:
    """log p(token | state) = logit of the token − log Σ exp(logits of the vocabulary).

    Args:
        head: gives the logits.
        states: (n, d), an example.
        vocabulary: how many logits a state has.
    """

    def __init__(
        self,
        head: Head,
        states: torch.Tensor,
        vocabulary: int,
        resolved: Resolved,
        loading: Loading,
    ) -> None:
        def of_tokens(tensors: Tensors) -> list[torch.Tensor]:
            logits = head(tensors["states"], slice(None))
            which, tokens = tensors["which"], tensors["tokens"]
            return [logits[which, tokens] - logits.logsumexp(-1)[which]]

        example = {
            "states": states,
            "which": torch.zeros(3, dtype=torch.long),
            "tokens": torch.zeros(3, dtype=torch.long),
        }
        self._states = max(1, WHOLE_LOGITS // vocabulary)
        self._forward = forward_of(
            of_tokens, resolved, loading, kind="head", example=example, outputs=["log_p"]
        )

    def __call__(
        self, states: torch.Tensor, states_of_tokens: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """Returns the log-probabilities of tokens, float64; arguments as of `token_log_p`."""
        log_p = torch.empty(len(tokens), dtype=torch.float64)
        block_of_tokens = states_of_tokens // self._states
        for block, rows in enumerate(torch.split(states, self._states)):
            where = (block_of_tokens == block).nonzero()[:, 0]
            of_block = self._forward(
                {
                    "states": rows,
                    "which": states_of_tokens[where] - block * self._states,
                    "tokens": tokens[where],
                }
            )
            log_p[where] = of_block["log_p"].double()
        return log_p.clamp_(max=0)


class OpenVINOCausalModel(TorchCausalModel):
    """Causal checkpoints in OpenVINO, which reads trees and keeps prefixes where PyTorch does."""

    def __init__(self, resolved: Resolved, loading: Loading, bos: Bos = "auto") -> None:
        model, tokenizer = load_pretrained(resolved, "causal", on_cpu(loading))
        model.requires_grad_(False)
        bos = rule(resolved, bos)
        super().__init__(model, tokenizer, batch_tokens=loading.batch_tokens, bos=bos)
        with torch.inference_mode():
            few = self._body(self._few.expand(2, -1)).flatten(0, 1)
        self._token_log_p = TokenLogP(  # type: ignore[method-assign]
            self._head, few, self.vocabulary_size, resolved, loading
        )
        body, outputs = self._body, ["states"]
        example = {"input_ids": torch.ones(2, 8, dtype=torch.long)}
        has_past = self._reads_trees and self._reads_after_prefix
        self._reads_trees = self._reads_after_prefix = has_past
        if has_past:
            with torch.inference_mode():
                prefix = read_prefix(self._base, self._few[0, :3].tolist(), self._device)
            past = _stacked(prefix)
            self._no_past = past.new_empty(past[:, :, :0].shape)  # OpenVINO needs its own strides
            example["position_ids"] = torch.arange(3, 11).repeat(2, 1)
            example["attention_mask"] = torch.zeros(2, 1, 8, 11)
            example["past"] = past
            outputs = ["states", "present"]

        def read(tensors: Tensors) -> list[torch.Tensor]:
            ids, *_ = tensors.values()
            if not has_past:
                return [
                    body(ids, attention_mask=torch.ones_like(ids))
                ]  # else packing is looked for
            cache = _cache(tensors["past"], ids.shape[0])
            states = body(
                ids,
                position_ids=tensors["position_ids"],
                attention_mask=tensors["attention_mask"],
                **with_cache(cache),
            )
            length = tensors["past"].shape[2]
            present = _stacked([(layer.keys, layer.values) for layer in cache.layers])
            return [states, present[:, :, length:]]

        kind = "trees" if has_past else "causal"
        self._forward = forward_of(
            read, resolved, loading, kind=kind, example=example, outputs=outputs
        )
        self._body = self._states
        self._base = self._kept

    def _states(
        self,
        ids: torch.Tensor,
        *,
        position_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **after: Any,
    ) -> torch.Tensor:
        """Returns the states of tokens; arguments as a model of `transformers` has them."""
        if not self._reads_trees:
            return self._forward({"input_ids": ids})["states"]
        past = self._no_past
        if (cache := after.get(cache_name())) is not None:
            past = _stacked([(layer.keys, layer.values) for layer in cache.layers])
        return self._read_after(ids, past, position_ids, attention_mask)["states"]

    def _read_after(
        self,
        ids: torch.Tensor,
        past: torch.Tensor,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        (rows, tokens), length = ids.shape, past.shape[2]
        if mask is None or mask.ndim == 2:  # no tree: each token attends to those before it
            ahead = torch.ones(tokens, length + tokens).triu_(length + 1).bool()
            mask = torch.zeros(tokens, length + tokens).masked_fill_(ahead, _LOWEST)
            mask = mask.repeat(rows, 1, 1, 1)
        if positions is None:
            positions = torch.arange(length, length + tokens)[None]
        return self._forward(
            {
                "input_ids": ids,
                "position_ids": positions.expand(rows, -1).contiguous(),
                "attention_mask": mask,
                "past": past,
            }
        )

    def _kept(self, *, input_ids: torch.Tensor, use_cache: bool) -> SimpleNamespace:  # noqa: ARG002
        """Returns what `read_prefix` asks of a model of `transformers`."""
        present = self._read_after(input_ids, self._no_past)["present"]
        layers = [
            SimpleNamespace(keys=keys[None], values=values[None])
            for keys, values in zip(present[::2], present[1::2], strict=True)
        ]
        return SimpleNamespace(**with_cache(SimpleNamespace(layers=layers)))


_LOWEST = torch.finfo(torch.float32).min


def _stacked(layers: Any) -> torch.Tensor:
    """Returns keys and values of all layers in the first row: (2 · layers, heads, tokens, d)."""
    return torch.stack([tensor[0] for pair in layers for tensor in pair])


def _cache(past: torch.Tensor, rows: int) -> Any:
    """Returns what `_stacked` gives as a cache of `transformers` for so many rows."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    expanded = past[:, None].expand(-1, rows, -1, -1, -1)
    for i in range(len(past) // 2):
        layer: Any = DynamicLayer()
        layer.keys, layer.values = expanded[2 * i], expanded[2 * i + 1]
        layer.dtype, layer.device = past.dtype, past.device
        layer.is_initialized = True  # else it begins with tensors that have no dimensions
        cache.layers.append(layer)
    return cache


class OpenVINOInfillingModel(TorchInfillingModel):
    """PEGASUS, T5 and BART checkpoints in OpenVINO.

    A source is encoded once for all its targets. Targets of a source for which the decoder reads
    the same tokens, as it does for words of one token, share a row of the decoder.
    """

    def __init__(self, resolved: Resolved, loading: Loading, style: GapStyle) -> None:
        model, tokenizer = load_pretrained(resolved, "encoder-decoder", on_cpu(loading))
        model.requires_grad_(False)
        super().__init__(model, tokenizer, batch_tokens=loading.batch_tokens, style=style)
        encoder, decoder = model.get_encoder(), model.get_decoder()
        self._encoder = forward_of(
            lambda tensors: [encoder(**tensors).last_hidden_state],
            resolved,
            loading,
            kind="encoder",
            example=texts(),
            outputs=["states"],
        )
        with torch.inference_mode():
            states = encoder(**texts()).last_hidden_state
        self._reader = forward_of(
            lambda tensors: [decoder(**tensors, use_cache=False).last_hidden_state],
            resolved,
            loading,
            kind="decoder",
            example={
                "input_ids": torch.ones(2, 6, dtype=torch.long),
                "encoder_hidden_states": states,
                "encoder_attention_mask": texts()["attention_mask"],
            },
            outputs=["states"],
        )
        self._token_log_p = TokenLogP(  # type: ignore[method-assign]
            self._logits, states.flatten(0, 1), self.vocabulary_size, resolved, loading
        )
        self._model = SimpleNamespace(config=model.config)

    def _encode(self, ids: Sequence[list[int]]) -> EncodedSources:
        batch = batch_of(ids, self._pad, self._device)
        return EncodedSources(self._encoder(batch)["states"], batch["attention_mask"])

    def _decode(self, encoded: EncodedSources, pairs: Sequence[ScoredTarget]) -> None:
        """Fills in the log-probabilities of all pairs of one bucket of encoded sources."""
        start = tuple(self._start)
        keys = [(pair.source, (*start, *pair.ids[:-1])) for pair in pairs]
        row_of: dict[tuple[int, tuple[int, ...]], int] = {}
        rows: list[tuple[int, tuple[int, ...]]] = []
        for key in sorted(set(keys), key=lambda key: (-len(key[1]), key)):
            if key not in row_of:
                row_of[key] = len(rows)
                row_of.setdefault((key[0], start), len(rows))  # every row begins with it
                rows.append(key)
        pairs_of_rows: list[list[ScoredTarget]] = [[] for _ in rows]
        for key, pair in zip(keys, pairs, strict=True):
            pairs_of_rows[row_of[key]].append(pair)
        budget = max(1, self._batch_tokens // 8)
        for bucket in buckets([len(ids) for _, ids in rows], budget):
            sources = torch.tensor([rows[i][0] for i in bucket])
            inputs = self._padded([list(rows[i][1]) for i in bucket])
            hidden = self._decoder(inputs, encoded.select(sources), None)
            members = [(row, p) for row, i in enumerate(bucket) for p in pairs_of_rows[i]]
            log_p = self._scored(
                hidden,
                [row for row, _ in members],
                [[*start, *pair.ids] for _, pair in members],
                [self._before(pair) for _, pair in members],
            )
            for (_, pair), values in zip(members, log_p, strict=True):
                pair.results[pair.target] = values

    def _decoder(
        self,
        ids: torch.Tensor,
        encoded: EncodedSources,
        cache: Any,  # noqa: ARG002
    ) -> torch.Tensor:
        mask = encoded.mask
        if mask is None:
            mask = torch.ones(encoded.states.shape[:2], dtype=torch.long)
        return self._reader(
            {
                "input_ids": ids,
                "encoder_hidden_states": encoded.states,
                "encoder_attention_mask": mask,
            }
        )["states"]


def load_causal(name: str, loading: Loading, *, bos: Bos = "auto") -> OpenVINOCausalModel:
    """Returns the causal language model of this name.

    Args:
        bos: whether BOS precedes every text.

    Raises:
        ModelError: there is no such model, it is not a causal one, or OpenVINO can't convert it.
    """
    return OpenVINOCausalModel(resolve_causal(name, loading), loading, bos)


def load_infilling(name: str, loading: Loading) -> InfillingModel:
    """Returns the model of this name that fills gaps: an encoder-decoder of a family whose gap
    format is known, or a causal model that was trained to fill in the middle.

    Raises:
        ModelError: there is no such model, it fills no gaps, or OpenVINO can't convert it.
    """
    return load_gap_filler(name, loading, OpenVINOInfillingModel)


def load_encoder_decoder(name: str, loading: Loading) -> OpenVINOInfillingModel:
    """Returns the encoder-decoder model of this name for sources without gaps.

    Raises:
        ModelError: there is no such model, or OpenVINO can't convert it.
    """
    return OpenVINOInfillingModel(resolve(name, loading), loading, PLAIN)
