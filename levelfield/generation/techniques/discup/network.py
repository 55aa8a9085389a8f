"""Soft prompts: embeddings before a text, and the base that reads them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from levelfield.core.errors import ModelError
from levelfield.generation.guides import KEPT, GuidedModel, weights_on_base
from levelfield.models.guides import Guide
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.torch.language_model import LanguageModel, language_model


class PromptedModel(GuidedModel):
    """A model that also reads virtual tokens, called like the model itself.

    Ids from `vocabulary` on are virtual: the first is the first row of `prompts`. Logits are of the
    model's own vocabulary.

    Args:
        base: a causal model of `transformers`, whose weights it shares.
        prompts: (virtual tokens, width of the embeddings).
        vocabulary: how many tokens the model has.
    """

    def __init__(self, base: Any, prompts: torch.Tensor, vocabulary: int) -> None:
        super().__init__(base)
        self._prompts, self._vocabulary = prompts, vocabulary
        self._embed = base.get_input_embeddings()

    def __call__(self, input_ids: torch.Tensor, **options: Any) -> Any:
        virtual = input_ids >= self._vocabulary
        if not virtual.any():
            return self._base(input_ids=input_ids, **options)
        embeddings = self._embed(input_ids.masked_fill(virtual, 0))
        rows = self._prompts[input_ids[virtual] - self._vocabulary]
        embeddings = embeddings.masked_scatter(virtual[..., None], rows.to(embeddings))
        return self._base(inputs_embeds=embeddings, **options)


class PromptEncoder(nn.Module):
    """start + MLP(BiLSTM(E)): a soft prompt while it is learnt (Zhang and Song 2022, section 3).

    E is an embedding a position, the LSTM has two layers, d / 2 wide each way, and the MLP is
    linear, ReLU, linear. Calling it gives the prompt, (tokens, d); once it is learnt that matrix is
    all that is kept.

    Args:
        start: what the network's output is added to, (tokens, d). Unless it is 0 itself, the last
            layer begins at 0, so that the prompt begins with it.
    """

    start: torch.Tensor

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        tokens, d = start.shape
        half = -(-d // 2)
        self.register_buffer("start", start.detach().float(), persistent=False)
        self.embedding = nn.Embedding(tokens, d)
        self.lstm = nn.LSTM(d, half, num_layers=2, bidirectional=True, batch_first=True)
        last = nn.Linear(d, d)
        if start.any():
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.mlp = nn.Sequential(nn.Linear(2 * half, d), nn.ReLU(), last)

    def forward(self) -> torch.Tensor:
        states, _ = self.lstm(self.embedding.weight[None])
        prompt: torch.Tensor = self.start + self.mlp(states)[0]
        return prompt


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
    guides: tuple[Guide, ...], model: str = OFFLINE_LM, loading: Loading = AS_USUAL
) -> SoftPrompts:
    """Returns the soft prompts of guides before their base, loaded once a process.

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
    """Returns a base that reads the rows of a matrix as the tokens that follow its vocabulary.

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
    with weights_on_base(guide, "soft-prompt", model, loading, guide.labels) as (base, tensors):
        table = base.model.get_input_embeddings().weight
        matrices = {label: tensors[label].to(table) for label in guide.labels}
    for label, matrix in matrices.items():
        if matrix.ndim != 2 or matrix.shape[1] != table.shape[1]:
            raise ModelError(
                f"guide '{guide.name}': the prompt of {label} has the shape {tuple(matrix.shape)}; "
                f"the embeddings of {base.label} have the width {table.shape[1]}"
            )
    return matrices
