"""A number for two texts read together, from sequence classifiers with a single output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError
from levelfield.models.batching import buckets, padded, token_mask, unique
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.tokens import Tokens
from levelfield.models.torch.classifier import positions
from levelfield.models.torch.forward import ForwardPass
from levelfield.models.torch.loading import load_pretrained


class TorchPairRegressor(ForwardPass):
    """Sequence classifiers of `transformers` with one output, over pairs of texts.

    The value is the output as it is, without a sigmoid. Of a pair longer than the model takes, the
    longer text loses its end first (the tokenizer's `longest_first`).
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._limit = int(min(tokenizer.model_max_length, positions(model)))
        self._tokens = Tokens(tokenizer)  # lifts the tokenizer's own limit
        self._device = next(model.parameters()).device
        self._batch_tokens = batch_tokens or (4096 if self._device.type == "cpu" else 65536)

    def values(self, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Bools]:
        """The model's number for each pair, NaN if either text has no tokens: (pairs,); and
        whether the model saw less than all of it, (pairs,)."""
        distinct, place = unique(pairs)
        texts, of = unique(text for pair in distinct for text in pair)
        has_tokens = np.array([bool(ids) for ids in self._tokens.ids(texts)], np.bool_)
        readable = np.flatnonzero(has_tokens[of].reshape(-1, 2).all(axis=1))
        values = np.full(len(distinct), np.nan)
        cut = np.zeros(len(distinct), np.bool_)
        if readable.size:
            inputs, cut[readable] = self._inputs([distinct[i] for i in readable])
            for bucket in buckets([len(ids) for ids, _ in inputs], self._batch_tokens):
                values[readable[bucket]] = self._outputs([inputs[i] for i in bucket])
        return values[place], cut[place]

    def _inputs(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[list[tuple[list[int], list[int]]], list[bool]]:
        """Ids of each pair with special tokens, which of the two texts each belongs to, and whether
        the pair was cut."""
        whole = self._read(pairs)
        cut = [len(ids) > self._limit for ids, _ in whole]
        for i in (i for i, is_cut in enumerate(cut) if is_cut):
            whole[i] = self._read([pairs[i]], truncation="longest_first", max_length=self._limit)[0]
        return whole, cut

    def _read(
        self, pairs: Sequence[tuple[str, str]], **options: Any
    ) -> list[tuple[list[int], list[int]]]:
        first, second = ([pair[side] for pair in pairs] for side in (0, 1))
        read = self._tokenizer(
            first, second, return_token_type_ids=True, split_special_tokens=True, **options
        )
        return list(zip(read["input_ids"], read["token_type_ids"], strict=True))

    def _outputs(self, inputs: Sequence[tuple[list[int], list[int]]]) -> Floats:
        """(pairs,)"""
        rows, types = zip(*inputs, strict=True)
        pad = self._tokenizer.pad_token_id or 0
        given = {"input_ids": padded(rows, pad), "attention_mask": token_mask(rows)}
        if getattr(self._model.config, "type_vocab_size", 0) > 1:
            given["token_type_ids"] = padded(types, 0)
        with torch.inference_mode():
            z = self._model(
                **{name: torch.from_numpy(v).to(self._device) for name, v in given.items()}
            ).logits
        outputs: Floats = z[:, 0].float().cpu().numpy().astype(np.float64)
        return outputs


def load_regressor(name: str, loading: Loading) -> TorchPairRegressor:
    """The regressor of this name.

    Raises:
        ModelError: there is no such model, it is no sequence classifier, or it has labels.
    """
    resolved = resolve(name, loading)
    model, tokenizer = load_pretrained(resolved, "classifier", loading)
    if model.config.num_labels != 1:
        raise ModelError(
            f"model '{resolved.name}' has {model.config.num_labels} labels; a model with one "
            "output is needed, such as Elron/bleurt-base-512"
        )
    return TorchPairRegressor(model, tokenizer, batch_tokens=loading.batch_tokens)
