"""Soft prompts before a base that writes: learnt embeddings that it reads like tokens.

Zhang and Song 2022, "DisCup: Discriminator Cooperative Unlikelihood Prompt-tuning for Controllable
Text Generation", section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from levelfield.core.errors import ModelError
from levelfield.generation.guides import weights_on_base
from levelfield.generation.language_model import LanguageModel, language_model
from levelfield.models.guides import Guide
from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.torch.soft_prompt import PromptedModel

KEPT = 8
"""How many of these a process keeps, those used last."""


@dataclass(frozen=True, eq=False)
class SoftPrompts:
    """A base that also reads the soft prompts of guides.

    Attributes:
        lm: the base with virtual tokens, whose ids follow those of its vocabulary. It shares the
            base's weights and is the base where no virtual token is read.
        ids: attribute -> label -> the virtual tokens of its prompt.
    """

    lm: LanguageModel
    ids: Mapping[str, Mapping[str, tuple[int, ...]]]


@functools.lru_cache(maxsize=KEPT)
def soft_prompts(
    guides: tuple[Guide, ...],
    model: str = OFFLINE_LM,
    loading: Loading = Loading(),  # noqa: B008
) -> SoftPrompts:
    """The soft prompts of guides before their base, loaded once a process.

    Raises:
        ModelError: a guide is of another kind or base, or its files are damaged.
    """
    base = language_model(model, loading)
    ids: dict[str, dict[str, tuple[int, ...]]] = {}
    matrices: list[torch.Tensor] = []
    end = base.tokens.vocabulary_size
    for guide in guides:
        ids[guide.attribute] = {}
        for label, matrix in matrices_of(guide, model, loading).items():
            ids[guide.attribute][label] = tuple(range(end, end + len(matrix)))
            matrices.append(matrix)
            end += len(matrix)
    names = "+".join([base.label, *(guide.label for guide in guides)])
    return SoftPrompts(with_prompts(base, torch.cat(matrices), names), ids)


def with_prompts(base: LanguageModel, prompts: torch.Tensor, label: str) -> LanguageModel:
    """A base that reads the rows of a matrix as the tokens that follow its vocabulary.

    Args:
        prompts: (virtual tokens, width of the base's embeddings).
        label: how signatures name it.
    """
    model = PromptedModel(base.model, prompts, base.tokens.vocabulary_size)
    return LanguageModel(model, base.tokenizer, label, base.tokens, base.ends)


def matrices_of(guide: Guide, model: str, loading: Loading) -> dict[str, torch.Tensor]:
    """The soft prompt of each label of a guide, (tokens, width of the base's embeddings) each.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    with weights_on_base(guide, "soft-prompt", model, loading) as (base, tensors):
        table = base.model.get_input_embeddings().weight
        matrices = {label: tensors[label].to(table) for label in guide.labels}
    for label, matrix in matrices.items():
        if matrix.ndim != 2 or matrix.shape[1] != table.shape[1]:
            raise ModelError(
                f"guide '{guide.name}': the prompt of {label} has the shape {tuple(matrix.shape)}; "
                f"the embeddings of {base.label} have the width {table.shape[1]}"
            )
    return matrices
