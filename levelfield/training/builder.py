"""From data to the folder of a trained model: one way for all kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.core.progress import Progress

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Workplace:
    """Where and how a model is trained.

    Attributes:
        out: the folder of the model.
        notes: called with what the user should know.
        progress: called with steps done.
    """

    out: Path
    device: torch.device
    notes: Callable[[str], object]
    progress: Progress

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint; it is there."""
        return self.out / "training"
