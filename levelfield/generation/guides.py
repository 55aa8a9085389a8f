"""Guides on the base that they were made for: its model, and their weights or own models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from safetensors.torch import load_file

from levelfield.core.errors import ModelError
from levelfield.models.guides import Guide, GuideKind
from levelfield.models.loading import Loading, reading
from levelfield.models.resolve import Resolved
from levelfield.models.torch.language_model import LanguageModel, language_model

KEPT = 8
"""How many guides of a kind a process keeps, those used last."""


def base_of(guide: Guide, kind: GuideKind, model: str, loading: Loading) -> LanguageModel:
    """Returns the base of a guide of this kind.

    Raises:
        ModelError: the guide is of another kind or base.
    """
    if guide.kind != kind:
        raise ModelError(f"guide '{guide.name}' is of kind {guide.kind}; expected {kind}")
    guide.check_base(model, loading)
    return language_model(model, loading)


@contextmanager
def weights_on_base(
    guide: Guide, kind: GuideKind, model: str, loading: Loading
) -> Iterator[tuple[LanguageModel, dict[str, torch.Tensor]]]:
    """The base of a guide of this kind, and the guide's tensors, on the CPU. What is raised while
    networks are made of them is the damage of the guide's files.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    base = base_of(guide, kind, model, loading)
    with reading(guide.name):
        yield base, load_file(guide.weights)


def check_own_model(guide: Guide, resolved: Resolved) -> None:
    """Nothing, if this is the model that a guide which is a whole model was made with.

    Raises:
        ModelError: its files are others.
    """
    if resolved.revision != guide.revision:
        raise ModelError(
            f"guide '{guide.name}': the files in {guide.base} are not those that it was made with; "
            "convert it again"
        )
