"""What a graph of gradients keeps in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


class SavedTensors:
    """Tensors that are kept for gradients; storages count once.

    Args:
        model: whose weights do not count.
    """

    def __init__(self, model: Any) -> None:
        self._weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
        self._sizes: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(self._sizes.values())

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Counts what is saved in this context; the graph has to live until its end."""
        with torch.autograd.graph.saved_tensors_hooks(self._note, lambda tensor: tensor):
            yield

    def _note(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._sizes[storage.data_ptr()] = storage.nbytes()
        return tensor
