"""Embeddings of sentences, by sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from levelfield.core.arrays import Singles
from levelfield.core.errors import ModelError
from levelfield.models.contracts import Gapped
from levelfield.models.files import check_finite
from levelfield.models.loading import Loading, quiet
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.tokens import BYTES_OF_A_TOKEN, RecentResults, batches, unique
from levelfield.models.torch.bert import load_bert_mean
from levelfield.models.torch.loading import (
    ForwardPass,
    load_body,
    pick_device,
    placement,
    places,
)


class TorchSentenceEncoder(ForwardPass):
    """Sentence embeddings of unit length.

    Sentence models pool as they say themselves; any other encoder takes the mean of its last
    layer. Texts longer than the model takes keep what is nearest to their gap, and their
    beginning when there is none.
    """

    def __init__(self, resolved: Resolved, loading: Loading) -> None:
        if resolved.kind != "encoder":
            raise ModelError(f"model '{resolved.name}' is a {resolved.kind} model, not an encoder")
        bert = load_bert_mean(resolved.path, loading)
        model: Any = bert or _sentence_transformer(resolved, loading)
        check_finite(resolved, model.named_parameters())
        limit, device = bert.limit if bert else _limit(model), pick_device(loading.device)
        self.vocabulary_size = len(model.tokenizer)
        self._recent: RecentResults[tuple[int, ...], Singles] = RecentResults()
        super().__init__(model, model.tokenizer, limit, device, loading.batch_tokens)

    def sentences(self, texts: Sequence[str | Gapped]) -> tuple[Singles, list[bool]]:
        """Returns unit-length embeddings: (texts, d), and for each text whether it was cut.

        NaN for a text without tokens: a model gives a number for it, but one that says nothing.
        """
        distinct, place = unique(texts)
        ids, cut = self._cut_ids(distinct)
        keys = [tuple(row) for row in ids]
        vectors = {key: self._recent[key] for key in keys if key in self._recent}
        new, _ = unique(key for key in keys if key not in vectors)
        for rows, batch in batches(new, self._batch_tokens):
            with torch.inference_mode():
                output = self._model(self._batch(batch))
            pooled = torch.nn.functional.normalize(output["sentence_embedding"].float(), dim=-1)
            for row, embedding in zip(rows, pooled.cpu().numpy(), strict=True):
                key = new[row]
                vector = embedding if len(key) > self._tokens.around else embedding * np.nan
                vectors[key] = vector.copy()  # else it would hold the whole batch in memory
                size = len(key) + vector.nbytes // BYTES_OF_A_TOKEN
                self._recent.keep(key, vectors[key], size)
        dimension = len(vectors[keys[0]]) if keys else 0
        embeddings = np.array([vectors[keys[i]] for i in place], np.float32)
        return embeddings.reshape(-1, dimension), [cut[i] for i in place]

    def _cut_ids(self, texts: Sequence[str | Gapped]) -> tuple[list[list[int]], list[bool]]:
        gapped = [t if isinstance(t, Gapped) else Gapped("", t, gap=False) for t in texts]
        return self._tokens.fit(gapped, self._limit, join=lambda source: source.without_gap)


def _sentence_transformer(resolved: Resolved, loading: Loading) -> Any:
    from sentence_transformers import SentenceTransformer

    device, dtype = placement(loading)
    quiet()
    weights = {"dtype": dtype, "use_safetensors": not resolved.pickled}
    model = SentenceTransformer(
        str(resolved.path), device=str(device), local_files_only=True, model_kwargs=weights
    ).eval()
    if _may_lack_weights(resolved, model):
        load_body(resolved, loading)  # raises if it does: sentence-transformers says nothing
    return model


def _limit(model: Any) -> int:
    limit = int(model.max_seq_length or 512)
    return min(limit, places(model) or limit)


def _may_lack_weights(resolved: Resolved, model: Any) -> bool:
    """Returns whether the weights of an encoder are stored under other names than it has, or not at
    all: those would be drawn at random."""
    encoder = getattr(model[0], "auto_model", None)
    stored: set[str] = set()
    for file in resolved.path.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            stored.update(weights.keys())
    if encoder is None or not stored:
        return False
    prefix = encoder.base_model_prefix
    return any(
        {name, f"{prefix}.{name}"}.isdisjoint(stored)
        for name, _ in encoder.named_parameters()
        if not name.startswith("pooler.")
    )


def load_encoder(name: str, loading: Loading) -> TorchSentenceEncoder:
    """Returns the encoder of this name.

    Raises:
        ModelError: the model does not exist, or is not an encoder.
    """
    return TorchSentenceEncoder(resolve(name, loading), loading)
