"""Encoders that read the base's own tokens: what a whole text is, by a guide of kind `encoder`.

A classifier whose table of embeddings has a row for each token of the base, so that gradients come
back to the tokens of a text (Liu et al. 2023, "BOLT", section 4.1).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from levelfield.core.errors import ModelError
from levelfield.generation.guides import base_of, check_own_model
from levelfield.models.batching import token_mask
from levelfield.models.files import check_finite, quiet
from levelfield.models.guides import Guide
from levelfield.models.loading import Loading
from levelfield.models.reading import reading
from levelfield.models.resolve import OFFLINE_LM, resolve
from levelfield.models.torch.loading import fuse_activations, placement

KEPT = 2
"""How many of these a process keeps, those used last."""


@dataclass(frozen=True, eq=False)
class EncoderModel:
    """A guide of kind `encoder` with its weights.

    Attributes:
        guide: what was learnt.
        network: a classifier of `transformers`.
        limit: the most tokens of a text.
    """

    guide: Guide
    network: Any
    limit: int

    @property
    def table(self) -> torch.Tensor:
        """What it reads for each token of the base: (vocabulary, d)."""
        weight: torch.Tensor = self.network.get_input_embeddings().weight
        return weight

    def logits(self, texts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Of the labels: (texts, labels).

        Args:
            texts: (tokens, d) each, rows of the table in place of tokens, without special ones.
        """
        vectors = pad_sequence(list(texts), batch_first=True)
        mask = torch.from_numpy(token_mask(texts)).to(vectors.device)
        logits: torch.Tensor = self.network(inputs_embeds=vectors, attention_mask=mask).logits
        return logits


@functools.lru_cache(maxsize=KEPT)
def encoder_model(
    guide: Guide,
    model: str = OFFLINE_LM,
    loading: Loading = Loading(),  # noqa: B008
) -> EncoderModel:
    """The encoder of a guide beside its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind, its files are damaged, or the base has another
            vocabulary.
    """
    import transformers

    base = base_of(guide, "encoder", model, loading)
    if base.tokens.digest != guide.settings.get("vocabulary"):
        raise ModelError(
            f"guide '{guide.name}' has another vocabulary than the base {base.label}; take a base "
            "with the tokenizer that it was made for"
        )
    resolved = resolve(str(guide.path / guide.base))
    check_own_model(guide, resolved)
    quiet()
    device, dtype = placement(loading)
    with reading(guide.name):
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            resolved.path, local_files_only=True, trust_remote_code=False, dtype=dtype
        )
    check_finite(resolved, network.named_parameters())
    fuse_activations(network)
    config = network.config
    limit = int(config.max_position_embeddings) - int(config.pad_token_id) - 1
    return EncoderModel(guide, network.requires_grad_(False).eval().to(device), limit)
