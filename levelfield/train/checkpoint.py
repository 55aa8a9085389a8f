"""Checkpoints of runs: tensors and what they belong to in one safetensors file, with a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch

from levelfield.core.errors import UserError
from levelfield.io.writing import file_replacement

CHECKPOINT = "checkpoint.safetensors"
"""The file in the folder of a run."""


class TrainingState(NamedTuple):
    """What a run keeps.

    Attributes:
        tensors: name -> values.
        about: words beside them, such as the number of steps.
    """

    tensors: Mapping[str, torch.Tensor]
    about: Mapping[str, str]


def write_checkpoint(folder: Path, run: str, checkpoint: TrainingState) -> None:
    """Replaces the checkpoint in a folder as a whole.

    Args:
        run: identifies data, model and choices.
    """
    about = {**checkpoint.about, "run": run}
    about["checksum"] = _checksum(TrainingState(checkpoint.tensors, about))
    with file_replacement(folder / CHECKPOINT) as path:
        safetensors.torch.save_file(dict(checkpoint.tensors), path, about)


def read_checkpoint(folder: Path, run: str) -> TrainingState | None:
    """Returns the checkpoint in a folder, its tensors on the CPU; None if there is none.

    Raises:
        UserError: it is damaged, or another run's.
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = dict(file.metadata() or {})
        tensors = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise damaged(folder, str(error)) from error
    checksum = about.pop("checksum", "")
    if _checksum(TrainingState(tensors, about)) != checksum:
        raise damaged(folder, "its content was not written by this version")
    if about.pop("run") != run:
        raise UserError(
            f"{folder} holds a checkpoint of another run (other data, model or recipe); give "
            "another folder, or delete it to begin again"
        )
    return TrainingState(tensors, about)


def damaged(folder: Path, cause: str) -> UserError:
    """Returns the error for a checkpoint that can't be used."""
    return UserError(f"{folder / CHECKPOINT} is damaged; delete it to begin again: {cause}")


def _checksum(checkpoint: TrainingState) -> str:
    """Returns the CRC-32 of words and tensors, which a flipped bit changes."""
    tensors, about = checkpoint
    crc = zlib.crc32(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].cpu().reshape(-1).view(torch.uint8).numpy()
        crc = zlib.crc32(values.data, zlib.crc32(name.encode(), crc))
    return str(crc)
