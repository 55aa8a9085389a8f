"""The source itself, unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.generation.techniques._rewriting.model_free import ModelFreeRewriting


@dataclass(frozen=True, kw_only=True)
class CopySource(ModelFreeRewriting):
    """Returns the source, whatever the control: perfect content, no change of style.

    Any style that a metric finds in its texts was already in the sources.
    """

    name: ClassVar[str] = "copy"

    def rewritten(self, source: str, control: Control) -> str:  # noqa: ARG002
        return source
