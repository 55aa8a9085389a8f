"""Prompting of a model on this machine: through its chat template with the text begun."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.generation.language_model import KEPT, LanguageModel
from levelfield.io.digest import content_digest
from levelfield.models.files import load_tokenizer
from levelfield.models.resolve import resolve_causal
from levelfield.systems.contract import Request
from levelfield.systems.prompting.frames import ChatFrame, plain_text
from levelfield.systems.prompting.prompts import PromptOptions
from levelfield.systems.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class Prompting(PromptOptions, LocalTechnique):
    """Says in words what the text should be.

    p(x_t | system message, shots, task, prompt, x_<t) of the base. The messages go through the
    chat template of the base's tokenizer, and the assistant's turn begins with the prompt, so that
    every text does. A base without a template reads them as plain text. One BOS precedes
    everything where the tokenizer has one.

    The control may have any attributes, several of them at once; few-shot prompts need examples
    that have them.

    Raises:
        UserError: a file that can't be read, or more shots than examples.
    """

    name: ClassVar[str] = "prompting"

    @property
    def choices(self) -> Mapping[str, str]:
        template = load_tokenizer(resolve_causal(self.model, self.loading)).chat_template
        frame = f"chat@{content_digest(template)}" if template else "plain"
        return {**self._prompts.choices, "frame": frame}

    def _start(self, request: Request) -> list[int]:
        base = self.base
        messages = self._prompts.messages(request.control)
        if not (frame := _frame(base)):
            turns = self._prompts.instructions.plain
            return [base.bos_id, *base.ids(plain_text(messages, turns))]
        ids = frame.ids(messages)
        return ids if base.tokenizer.bos_token_id is None else [base.bos_id, *ids]

    @property
    def _ends(self) -> frozenset[int]:
        frame = _frame(self.base)
        return self.base.ends | frame.ends if frame else self.base.ends

    @property
    def _stops(self) -> tuple[str, ...]:
        return self._prompts.instructions.stop


@functools.lru_cache(maxsize=KEPT)
def _frame(base: LanguageModel) -> ChatFrame | None:
    """The chat template of a model's tokenizer; None if it has none."""
    return ChatFrame(base.tokenizer) if base.tokenizer.chat_template else None
