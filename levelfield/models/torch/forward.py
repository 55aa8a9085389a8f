"""Where another engine takes the place of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self


class ForwardPass:
    """Base of models around a module whose forward pass another engine may compute; tokens, batches
    and pooling stay theirs."""

    _model: Any

    def computed_by(self, engine: Callable[[Any], Any]) -> Self:
        """Itself, with what an engine makes of the module in the module's place."""
        self._model = engine(self._model)
        return self
