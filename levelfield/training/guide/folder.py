"""The files of a guide's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file

from levelfield.io import atomic_writer
from levelfield.models.guides import ABOUT, WEIGHTS, GuideKind

if TYPE_CHECKING:
    import torch


def write_guide(
    folder: Path,
    *,
    kind: GuideKind,
    attribute: str,
    labels: Sequence[str],
    base: str,
    revision: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Writes `guide.safetensors` and `guide.json`.

    Args:
        kind, attribute, labels, base, revision: as of `Guide`.
        settings: what readers of the guide's kind understand.
        tensors: the weights.
    """
    save_file(dict(tensors), folder / WEIGHTS)
    about = {
        "kind": kind,
        "attribute": attribute,
        "labels": list(labels),
        "base": base,
        "revision": revision,
        **settings,
    }
    with atomic_writer(folder / ABOUT) as file:
        file.write(json.dumps(about, indent=1, ensure_ascii=False) + "\n")
