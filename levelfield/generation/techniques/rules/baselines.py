"""Baselines that rewrite a source without a model."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control, single_value
from levelfield.generation.contract import Answer, AnsweringTechnique, Decoding, Request
from levelfield.generation.techniques.rules.formality import STYLES, digest, rewrite
from levelfield.io.problems import shown


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


@dataclass(frozen=True, kw_only=True)
class CopySource(ModelFreeRewriting):
    """The source itself, whatever the control: perfect content, no change of style.

    Whatever a metric of style finds in its texts is what the sources had already.
    """

    name: ClassVar[str] = "copy"

    def rewritten(self, source: str, control: Control) -> str:  # noqa: ARG002
        return source


ATTRIBUTE = "formality"


@dataclass(frozen=True, kw_only=True)
class FormalityRules(ModelFreeRewriting):
    """Rules for English that make a sentence formal or informal: contractions, abbreviations,
    capitals, marks at the end, and a small table of words.

    Controls `formality`: `formal` or `informal`. Applied to its own output it changes nothing.
    Addresses, mentions, words with digits, words with a capital inside a sentence, and letters
    outside ASCII stay as they are.
    """

    name: ClassVar[str] = "rules"

    @property
    def choices(self) -> Mapping[str, str]:
        return {"rules": f"{ATTRIBUTE}@{digest()}"}

    def refusal(self, control: Control) -> str:
        if set(control) != {ATTRIBUTE}:
            names = ", ".join(control) or "nothing"
            return f"{self.name}: there are rules for {ATTRIBUTE} alone, and {names} is asked for"
        value = single_value(control[ATTRIBUTE])
        if value not in STYLES:
            return f"{self.name}: {ATTRIBUTE} is {shown(value)}; expected {' or '.join(STYLES)}"
        return ""

    def rewritten(self, source: str, control: Control) -> str:
        return rewrite(source, str(single_value(control[ATTRIBUTE])))
