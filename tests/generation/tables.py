"""Bigram tables as language models: small enough to write out what is done with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from levelfield.generation.logits.classes import Classes, ClassModel
from levelfield.models.torch.language_model import LanguageModel

BOS = 0
WORDS = 6
"""Size of the vocabulary, BOS included."""


class Bigrams(torch.nn.Module):
    """Called like a causal model of `transformers`; log_p: (previous token, next token)."""

    def __init__(self, log_p: torch.Tensor) -> None:
        super().__init__()
        self.config = None
        self.log_p = torch.nn.Parameter(log_p, requires_grad=False)
        self.columns = 0

    def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
        self.columns += input_ids.shape[1]
        return SimpleNamespace(logits=self.log_p[input_ids])


def table(seed: int) -> torch.Tensor:
    """A random table of log-probabilities, float64."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(WORDS, WORDS, dtype=torch.float64, generator=generator)
    return (2 * logits).log_softmax(-1)


def language_model(log_p: torch.Tensor, label: str) -> LanguageModel:
    tokens: Any = SimpleNamespace(
        bos_id=BOS,
        limit=100,
        vocabulary_size=WORDS,
        reads_bos=True,
        opening=[BOS],
        begun=lambda ids: [BOS, *ids],
    )
    return LanguageModel(Bigrams(log_p), None, label, tokens, frozenset())


def classes(tables: dict[str, torch.Tensor]) -> Classes:
    """Classes that a control's `label` names."""
    models = [ClassModel(label, language_model(log_p, label)) for label, log_p in tables.items()]
    return Classes(tuple(models), lambda control: str(control["label"]))


def log_p_of(log_p: torch.Tensor, text: Sequence[int]) -> float:
    """log P(text | BOS), added up token by token."""
    return math.fsum(float(log_p[a, b]) for a, b in zip([BOS, *text], text, strict=False))


def padded(texts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of BOS and texts, padded on the left: (rows, tokens) each."""
    longest = max(map(len, texts))
    ids = [[BOS] * (longest - len(text)) + [BOS, *text] for text in texts]
    mask = [[0] * (longest - len(text)) + [1] * (len(text) + 1) for text in texts]
    return torch.tensor(ids), torch.tensor(mask)
