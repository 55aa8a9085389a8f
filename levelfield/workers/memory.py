"""How many workers fit into memory, with the models of what they work on."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from levelfield.core.errors import LevelfieldError
from levelfield.core.machine import usable_memory, usable_processors
from levelfield.core.partitions import PARTITION
from levelfield.models.presence import MODEL_OPTIONS
from levelfield.workers.executor import Subject

WORKER_BYTES = 700 << 20
"""What a worker takes beside the weights of its models: Python, PyTorch, a batch."""


def worker_count(
    workers: int | Literal["auto"], subjects: Sequence[Subject], items: int, device: str = "auto"
) -> int:
    """How many processes work: `auto` is as many as processors, memory and items allow; one where
    models are on a GPU.

    Args:
        subjects: each worker holds the weights of their models, as far as they name them.
        items: of the run; a worker takes at least four partitions of them.
    """
    if workers != "auto":
        return workers
    if device != "cpu" and _has_gpu():
        return 1
    memory_limit = usable_memory() // (WORKER_BYTES + weights(subjects))
    return max(1, min(usable_processors(), memory_limit, items // (4 * PARTITION)))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def weights(subjects: Sequence[Subject]) -> int:
    """Bytes of the models that subjects name, each once; what can't be resolved has none."""
    from levelfield.models.resolve import files_of

    names = {getattr(subject, option, None) for subject in subjects for option in MODEL_OPTIONS}
    files: dict[Path, int] = {}
    for name in names:
        with contextlib.suppress(LevelfieldError):
            if isinstance(name, str) and name:
                resolved = files_of(name, allow_pickle=True)
                if resolved.gguf:  # four or five bits a weight there, 32 in memory
                    files[resolved.gguf] = 6 * resolved.gguf.stat().st_size
                else:
                    files |= {f: f.stat().st_size for f in resolved.path.glob("*.safetensors")}
    return sum(files.values())
