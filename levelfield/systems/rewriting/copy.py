"""The copy baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.systems.rewriting.model_free import ModelFreeRewriting


@dataclass(frozen=True, kw_only=True)
class CopySource(ModelFreeRewriting):
    """The source itself, whatever the control: perfect content, no change of style.

    Whatever a metric of style finds in its texts is what the sources had already.
    """

    name: ClassVar[str] = "copy"

    def rewritten(self, source: str, control: Control) -> str:  # noqa: ARG002
        return source
