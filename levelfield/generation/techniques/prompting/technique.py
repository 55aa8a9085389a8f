"""Prompting of a model on this machine, through its chat template, with the text already begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from levelfield.generation.chat_frame import chat_frame, chat_lacks_bos
from levelfield.generation.contract import Request
from levelfield.generation.technique import LocalTechnique
from levelfield.generation.techniques._prompts.prompts import Message, PromptOptions, filled
from levelfield.io.streams import content_digest
from levelfield.models.files import load_tokenizer
from levelfield.models.resolve import resolve_causal


def plain_text(messages: Sequence[Message], turns: Mapping[str, str]) -> str:
    """Messages up to where the assistant's text begins, for a model without a chat template.

    Args:
        turns: role -> a message; `{content}` stands for what it says.
    """
    before = turns["assistant"].partition("{content}")[0]
    chat = "".join(filled(turns[m["role"]], content=m["content"]) for m in messages)
    return chat + before


@dataclass(frozen=True, kw_only=True)
class Prompting(PromptOptions, LocalTechnique):
    """Describes the text in words.

    p(x_t | system message, shots, task, prompt, x_<t) of the base. The messages go through the
    chat template of the base's tokenizer, and the assistant's turn begins with the prompt, so that
    every text does. A base without a template reads them as plain text. One BOS precedes
    everything where the tokenizer or the template puts one.

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

    @property
    def _names_bos(self) -> bool:
        return super()._names_bos or (
            self.bos == "auto" and not chat_lacks_bos(resolve_causal(self.model, self.loading))
        )

    def _start(self, request: Request) -> list[int]:
        base = self.base
        messages = self._prompts.messages(request.control)
        if not (frame := chat_frame(base)):
            turns = self._prompts.instructions.plain
            return [*base.opening, *base.ids(plain_text(messages, turns))]
        return [*frame.opening(base, self.bos), *frame.ids(messages)]

    @property
    def _ends(self) -> frozenset[int]:
        frame = chat_frame(self.base)
        return self.base.ends | frame.ends if frame else self.base.ends

    @property
    def _stops(self) -> tuple[str, ...]:
        return self._prompts.instructions.stop
