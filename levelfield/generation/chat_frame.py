"""The chat template of a model's tokenizer, with the text begun."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jinja2

from levelfield.core.errors import ModelError, first_line
from levelfield.generation.techniques._prompts.prompts import Message, message
from levelfield.models.causal_tokens import Bos
from levelfield.models.files import load_tokenizer
from levelfield.models.resolve import Resolved
from levelfield.models.torch.language_model import KEPT, LanguageModel

_HERE = "\ufdd0"
"""Stands for the text while a template is filled in; Unicode assigns it to no character."""
_APART = "\ufdd1"
"""Stands within a control token that somebody has written into a message."""


class ChatFrame:
    """The chat template of a tokenizer, up to where the assistant's text begins.

    What a message holds is text: a control token that is written in it is read as the characters
    that it is. A template that takes no system message has it at the beginning of the first
    message of the user.

    Attributes:
        ends: control tokens of the template; whichever of them a model writes ends its turn.
        puts_bos: whether a chat begins with BOS.

    Raises:
        ModelError: the template takes no conversation.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = {int(id): token for id, token in tokenizer.added_tokens_decoder.items()}
        words = sorted({t.content for t in added.values() if len(t.content) > 1}, key=len)
        self._control = re.compile("|".join(map(re.escape, reversed(words))) or r"(?!)")
        special = {id for id, token in added.items() if token.special}
        chat = [message("user", "a"), message("assistant", "b")]
        with _usable_template():
            whole = tokenizer.apply_chat_template(chat, tokenize=False)
        ids = self._ids(whole)
        self.ends = frozenset(special & set(ids))
        self.puts_bos = ids[:1] == [tokenizer.bos_token_id]

    def ids(self, messages: Sequence[Message]) -> list[int]:
        """What precedes the assistant's text, without a BOS in front.

        Args:
            messages: the system's, if there is one, and the user's.

        Raises:
            ModelError: the template doesn't take such messages.
        """
        ids = self._ids(self._text(messages))
        while ids and ids[0] == self._tokenizer.bos_token_id:
            ids = ids[1:]
        return ids

    def opening(self, base: LanguageModel, bos: Bos) -> list[int]:
        """Returns the BOS before the chat: once, where the tokenizer has one and it or the template
        puts it there, or the option does."""
        if self._tokenizer.bos_token_id is None:
            return []
        return [base.bos_id] if base.reads_bos or (bos == "auto" and self.puts_bos) else []

    def _text(self, messages: Sequence[Message]) -> str:
        apart = [message(m["role"], self._written_apart(m["content"])) for m in messages]
        text = ""
        with contextlib.suppress(jinja2.TemplateError):
            text = self._rendered(apart)
        if apart[0]["content"] not in text:  # some templates leave system messages out
            with _usable_template():
                text = self._rendered(_without_system(apart) if len(apart) > 1 else apart)
        # the tokenizers of some models put a blank before a text by themselves
        first = self._tokenizer.tokenize("a")[0]
        return text.removesuffix(" ") if first[0] in "▁Ġ" else text

    def _written_apart(self, content: str) -> str:
        return self._control.sub(lambda token: f"{token[0][0]}{_APART}{token[0][1:]}", content)

    def _rendered(self, messages: Sequence[Message]) -> str:
        """Returns the chat up to where the assistant's text begins."""
        text: str = self._tokenizer.apply_chat_template(
            [dict(m) for m in (*messages, message("assistant", _HERE))],
            tokenize=False,
            continue_final_message=True,
            enable_thinking=False,
        )
        return text.partition(_HERE)[0]

    def _ids(self, text: str) -> list[int]:
        return [
            int(id)
            for part in text.split(_APART)
            for id in self._tokenizer(part, add_special_tokens=False)["input_ids"]
        ]


@functools.lru_cache(maxsize=KEPT)
def chat_frame(base: LanguageModel) -> ChatFrame | None:
    """Returns the chat template of a model's tokenizer; None if it has none."""
    return ChatFrame(base.tokenizer) if base.tokenizer.chat_template else None


@functools.lru_cache(maxsize=KEPT)
def chat_lacks_bos(resolved: Resolved) -> bool:
    """Returns whether a chat has no BOS although the tokenizer has that token, where the tokenizer
    puts none before a text; no weights are loaded."""
    tokenizer = load_tokenizer(resolved)
    if not tokenizer.chat_template:
        return True
    return tokenizer.bos_token_id is not None and not ChatFrame(tokenizer).puts_bos


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Returns the system message as the beginning of the user's."""
    system, first, *rest = messages
    return [message("user", f"{system['content']}\n\n{first['content']}"), *rest]


@contextlib.contextmanager
def _usable_template() -> Iterator[None]:
    try:
        yield
    except (jinja2.TemplateError, ValueError) as error:
        raise ModelError(f"the model's chat template can't be used: {first_line(error)}") from error
