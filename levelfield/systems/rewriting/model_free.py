"""Techniques that rewrite without a model."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.options import Options
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Control
from levelfield.core.signature import signature
from levelfield.systems.contract import Answer, Decoding, Request, check_requests


@dataclass(frozen=True, kw_only=True)
class ModelFreeRewriting(Options, abc.ABC):
    """A technique whose text is a function of source and control: no model, no tokens, no draws.

    The decoding changes nothing: `tokens` and `forward_passes` of its answers are 0.
    """

    name: ClassVar[str] = ""
    rewrites: ClassVar[bool] = True

    @property
    def choices(self) -> Mapping[str, str]:
        """Every choice that could change a text, by name."""
        return {}

    @property
    def signature(self) -> str:
        return signature(self.name, self.choices)

    def refusal(self, control: Control) -> str:  # noqa: ARG002  (a copy takes any control)
        """Why a control is not supported; empty if it is."""
        return ""

    @abc.abstractmethod
    def rewritten(self, source: str, control: Control) -> str:
        """The text for a source."""

    def generate(
        self,
        requests: Sequence[Request],
        *,
        decoding: Decoding = Decoding(),  # noqa: ARG002, B008
        seed: int = 0,  # noqa: ARG002
        progress: Progress = no_progress,
    ) -> Iterator[Answer]:
        """Yields an answer a request, in their order.

        Raises:
            UserError: ids that occur twice, requests without a source, or controls that are not
                supported; all of them named.
        """
        check_requests(self, requests)
        for request in requests:
            begin = time.perf_counter()
            text = self.rewritten(request.source, request.control)
            yield Answer(
                id=request.id,
                prompt=request.prompt,
                continuation=text,
                text=text,
                tokens=0,
                forward_passes=0,
                seconds=time.perf_counter() - begin,
                control=request.control,
                source=request.source,
                references=request.references,
            )
            progress(1)

    def log_probs(
        self,
        requests: Sequence[Request],  # noqa: ARG002
        continuations: Sequence[str],  # noqa: ARG002
        *,
        decoding: Decoding = Decoding(),  # noqa: ARG002, B008
    ) -> list[Floats]:
        """Nothing: there are no probabilities.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.name} defines no distribution over texts")
