"""Base of the techniques that rewrite a source without a model."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.generation.contract import Answer, AnsweringTechnique, Decoding, Request


@dataclass(frozen=True, kw_only=True)
class ModelFreeRewriting(AnsweringTechnique, abc.ABC):
    """A technique whose text is a function of source and control: no model, no tokens, no draws.

    The decoding changes nothing: `tokens` and `forward_passes` of its answers are 0.
    """

    rewrites: ClassVar[bool] = True

    @abc.abstractmethod
    def rewritten(self, source: str, control: Control) -> str:
        """Returns the text for a source."""

    def _answers(
        self,
        requests: Sequence[Request],
        decoding: Decoding,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Iterator[Answer]:
        for request in requests:
            begin = time.perf_counter()
            text = self.rewritten(request.source, request.control)
            seconds = time.perf_counter() - begin
            yield Answer.of(request, text, text=text, tokens=0, forward_passes=0, seconds=seconds)
