"""Heads: linear classifiers of the base's mean states."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from levelfield.core.errors import ModelError
from levelfield.generation.guides import KEPT, weights_on_base
from levelfield.models.guides import Guide
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.tokens import padded, token_mask
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True, eq=False)
class HeadModel:
    """A guide of kind `head` with its weights: logits = h̄ · W + b.

    Attributes:
        guide: what was learnt.
        weight: W, (d, labels).
        bias: b, (labels,).
        counts_bos: whether the mean is over BOS, too, as of the heads of PPLM's authors.
    """

    guide: Guide
    weight: torch.Tensor
    bias: torch.Tensor
    counts_bos: bool = False

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Mean states (rows, d) → logits (rows, labels)."""
        return states @ self.weight + self.bias


@functools.lru_cache(maxsize=KEPT)
def head_model(guide: Guide, model: str = OFFLINE_LM, loading: Loading = AS_USUAL) -> HeadModel:
    """Returns the head of a guide on its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    with weights_on_base(guide, "head", model, loading, ("weight", "bias")) as (base, tensors):
        weight, bias = tensors["weight"].float(), tensors["bias"].float()
    width, labels = base.model.get_input_embeddings().weight.shape[1], len(guide.labels)
    if weight.shape != (width, labels) or bias.shape != (labels,):
        raise ModelError(
            f"guide '{guide.name}': weight is {tuple(weight.shape)} and bias {tuple(bias.shape)}; "
            f"expected ({width}, {labels}) and ({labels},)"
        )
    counts_bos = bool(guide.settings.get("counts_bos"))
    return HeadModel(guide, weight.to(base.device), bias.to(base.device), counts_bos)


def mean_states(base: LanguageModel, texts: Sequence[Sequence[int]]) -> torch.Tensor:
    """The mean of the last layer's states over the tokens of each text, BOS not among them: (texts,
    d), float32.

    Args:
        texts: ids without BOS, at least one each.
    """
    opening = base.opening
    rows = torch.from_numpy(padded([[*opening, *text] for text in texts], base.bos_id))
    real = torch.from_numpy(token_mask(texts)).to(base.device)
    with torch.inference_mode():
        # padding follows the texts, where a causal model does not see it
        ids = rows.to(base.device)
        states = base.model.base_model(input_ids=ids, use_cache=False)[0].float()
        states = states[:, len(opening) :]
        mean: torch.Tensor = (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return mean
