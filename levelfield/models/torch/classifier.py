"""P(label | text) from sequence classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError
from levelfield.models.loading import Loading
from levelfield.models.resolve import ATTRIBUTE, resolve
from levelfield.models.tokens import UNLIMITED, batches, buckets, padded, unique
from levelfield.models.torch.loading import (
    ForwardPass,
    load_pretrained,
    places,
)


class SequenceClassifier(ForwardPass):
    """Base of the models around a sequence classifier of `transformers`."""

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        limit = int(min(tokenizer.model_max_length, positions(model)))
        device = next(model.parameters()).device
        super().__init__(model.eval(), tokenizer, limit, device, batch_tokens)


class TorchClassifier(SequenceClassifier):
    """Sequence classifiers of `transformers`.

    Probabilities are the softmax of the logits; a head of one logit z has the two labels
    `not LABEL` and LABEL with 1 − σ(z) and σ(z). A text longer than the model takes keeps its
    beginning, or its end if the tokenizer's `truncation_side` is `left`.

    Attributes:
        labels: the model's own names of its labels, in the order of the columns.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        super().__init__(model, tokenizer, batch_tokens=batch_tokens)
        self._keeps_end = tokenizer.truncation_side == "left"
        if tokenizer.pad_token_id is None:
            self._batch_tokens = 1  # nothing to pad with: one text at a time
        names = model.config.id2label
        labels = tuple(str(names[i]) for i in range(model.config.num_labels))
        self.labels = (f"not {labels[0]}", *labels) if len(labels) == 1 else labels

    def read(
        self, texts: Sequence[str], *, marks: bool = False
    ) -> tuple[list[list[int]], list[bool]]:
        """Returns the ids that the model sees of texts, with special tokens; and whether that is
        less than all of a text. `marks` as for `probabilities`."""
        return self._tokens.fit_texts(texts, self._limit, keeps_end=self._keeps_end, marks=marks)

    def probabilities(self, texts: Sequence[str], *, marks: bool = False) -> tuple[Floats, Bools]:
        """Returns P(label | text), (texts, labels), NaN for a text without tokens; and whether the
        model saw less than all of it, (texts,).

        Args:
            texts: what to read.
            marks: special tokens in the texts are marks, as in a judge's template, and no text.
        """
        distinct, place = unique(texts)
        ids, cut = self.read(distinct, marks=marks)
        p = np.full((len(distinct), len(self.labels)), np.nan)
        shortest = self._tokens.around + 1
        for rows, batch in batches(ids, self._batch_tokens, shortest=shortest):
            with torch.inference_mode():
                z = self.logits(batch).cpu().numpy().astype(np.float64)
            p[rows] = softmax(np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z, axis=1)
        return p[place], np.array(cut, np.bool_)[place]

    def logits(self, ids: Sequence[Sequence[int] | npt.NDArray[np.integer]]) -> torch.Tensor:
        """Returns the logits of ids with special tokens: (texts, labels), in float32."""
        logits: torch.Tensor = self._model(**self._batch(ids)).logits
        return logits.float()

    def save(self, folder: Path, *, attribute: str = "") -> None:
        """Leaves the model and its tokenizer in a folder as `transformers` has them."""
        setattr(self._model.config, ATTRIBUTE, attribute)  # a start may have had another
        self._model.save_pretrained(folder)
        tokenizer = self._tokens.tokenizer
        tokenizer.model_max_length = self._limit
        tokenizer.save_pretrained(folder)
        tokenizer.model_max_length = UNLIMITED


def positions(model: Any) -> int:
    """Returns how many tokens the model takes."""
    config = model.config
    limit = getattr(config, "max_position_embeddings", None)
    limit = limit or getattr(config, "n_positions", None) or _USUAL
    return min(int(limit), places(model) or int(limit))


_USUAL = 512
"""Tokens for models with relative positions that name no limit."""


def load_classifier(name: str, loading: Loading) -> TorchClassifier:
    """Returns the classifier of this name.

    Raises:
        ModelError: the model does not exist, or is not a classifier.
    """
    resolved = resolve(name, loading)
    model, tokenizer = load_pretrained(resolved, "classifier", loading)
    if model.config.problem_type == "regression":
        raise ModelError(f"model '{resolved.name}' gives a number, not a label")
    return TorchClassifier(model, tokenizer, batch_tokens=loading.batch_tokens)


class TorchPairRegressor(SequenceClassifier):
    """Sequence classifiers of `transformers` with one output, over pairs of texts.

    The value is the output as it is, without a sigmoid. Of a pair longer than the model takes, the
    longer text loses its end first (the tokenizer's `longest_first`).
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        super().__init__(model, tokenizer, batch_tokens=batch_tokens)
        self._tokenizer = tokenizer

    def values(self, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Bools]:
        """Returns the model's number for each pair, NaN if either text has no tokens: (pairs,); and
        whether the model saw less than all of it, (pairs,)."""
        distinct, place = unique(pairs)
        texts, text_numbers = unique(text for pair in distinct for text in pair)
        has_tokens = np.array([bool(ids) for ids in self._tokens.ids(texts)], np.bool_)
        readable = np.flatnonzero(has_tokens[text_numbers].reshape(-1, 2).all(axis=1))
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
        """Returns ids of each pair with special tokens, which of the two texts each belongs to, and
        whether the pair was cut."""
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
        """Returns the model's outputs: (pairs,)."""
        rows, types = zip(*inputs, strict=True)
        features = self._batch(rows)
        if getattr(self._model.config, "type_vocab_size", 0) > 1:
            features["token_type_ids"] = torch.from_numpy(padded(types, 0)).to(self._device)
        with torch.inference_mode():
            z = self._model(**features).logits
        outputs: Floats = z[:, 0].float().cpu().numpy().astype(np.float64)
        return outputs


def load_regressor(name: str, loading: Loading) -> TorchPairRegressor:
    """Returns the regressor of this name.

    Raises:
        ModelError: the model does not exist, is not a sequence classifier, or has labels.
    """
    resolved = resolve(name, loading)
    model, tokenizer = load_pretrained(resolved, "classifier", loading)
    if model.config.num_labels != 1:
        raise ModelError(
            f"model '{resolved.name}' has {model.config.num_labels} labels; a model with one "
            "output is needed, such as Elron/bleurt-base-512"
        )
    return TorchPairRegressor(model, tokenizer, batch_tokens=loading.batch_tokens)
