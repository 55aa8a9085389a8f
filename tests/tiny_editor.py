"""Random small editors: the encoder-decoders of `tiny` with a random head."""

from __future__ import annotations

from pathlib import Path

import torch

import tiny
from levelfield.generation.techniques.cbart.network import EditingHead, EditorNetwork
from levelfield.generation.techniques.cbart.training import save_editor

FAMILIES = ("bart", "t5")


def save(
    folder: Path,
    family: str = "bart",
    *,
    seed: int = 0,
    bias: tuple[float, float, float] = (0.0, 0.0, 30.0),
) -> Path:
    """The folder of an editor.

    Args:
        bias: of copying, replacing, inserting; large numbers leave the head no choice.
    """
    words = tiny.tokenizer(family)
    body = tiny.model(family, len(words), seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = EditingHead(body.config.d_model)
        for parameter in head.parameters():
            parameter.data.normal_(std=0.7)
        head.out_proj.bias.data = torch.tensor(bias)
    save_editor(EditorNetwork(body, head), words, folder)
    return folder
