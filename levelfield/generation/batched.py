"""What techniques on a model of this machine have in common: batches, time, signatures."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Control
from levelfield.core.signature import signature
from levelfield.generation.contract import Answer, Decoding, Request, check_requests
from levelfield.models.loading import TorchOptions
from levelfield.models.resolve import OFFLINE_LM, resolve_causal


@dataclass(frozen=True, kw_only=True)
class BatchedTechnique(TorchOptions, abc.ABC):
    """A technique that writes a batch of texts at once with models of this machine.

    A technique says what loads its models (`_ready`) and how a batch is written (`_write`);
    `refusal` says what it does not control.
    """

    name: ClassVar[str] = ""
    model: str = option(OFFLINE_LM, "Base model: a hub name or a folder.", metavar="NAME")
    batch: int = option(
        16, "Number of texts written at once; the texts do not depend on it.", least=1
    )

    @property
    def choices(self) -> Mapping[str, str]:
        """Every choice that could change a text, by name; the base and its precision come first.
        No model is loaded."""
        return {}

    @property
    def signature(self) -> str:
        base = {"base": self._label(self.model), "dtype": self.loading.dtype}
        return signature(self.name, {**base, **self.choices})

    def _label(self, model: str) -> str:
        """How signatures name a model; its weights are not loaded."""
        return resolve_causal(model, self.loading).label

    def refusal(self, control: Control) -> str:  # noqa: ARG002  (techniques without control)
        """Why a control is not supported; empty if it is."""
        return ""

    def generate(
        self,
        requests: Sequence[Request],
        *,
        decoding: Decoding = Decoding(),  # noqa: B008
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> Iterator[Answer]:
        """Yields an answer a request as batches end.

        Requests of the same attributes are written together, in their order.

        Raises:
            UserError: ids that occur twice, or controls that are not supported; all of them named.
        """
        check_requests(self, requests)
        for batch in self._batches(requests):
            ready = self._ready(batch, decoding)
            begin = time.perf_counter()  # the models are loaded by now
            answers = self._write(ready, decoding, seed)
            seconds = (time.perf_counter() - begin) / len(batch)
            for answer in answers:
                yield replace(answer, seconds=seconds)
                progress(1)

    def log_probs(
        self,
        requests: Sequence[Request],  # noqa: ARG002
        continuations: Sequence[str],  # noqa: ARG002
        *,
        decoding: Decoding = Decoding(),  # noqa: ARG002, B008
    ) -> list[Floats]:
        """Nothing, unless the technique says otherwise.

        Raises:
            UserError: the technique defines no distribution over texts.
        """
        raise UserError(f"{self.name} defines no distribution over texts")

    @abc.abstractmethod
    def _ready(self, batch: Sequence[Request], decoding: Decoding) -> Any:
        """What is written from, for requests of the same attributes; loads models."""

    @abc.abstractmethod
    def _write(self, ready: Any, decoding: Decoding, seed: int) -> Sequence[Answer]:
        """An answer a request, in their order."""

    def _batches(self, requests: Sequence[Request]) -> Iterator[list[Request]]:
        """Requests of the same attributes together, in their order, `batch` at a time."""
        by_attributes = sorted(requests, key=lambda request: sorted(request.control))
        for _, group in groupby(by_attributes, key=lambda request: sorted(request.control)):
            alike = list(group)
            for begin in range(0, len(alike), self.batch):
                yield alike[begin : begin + self.batch]
