"""Texts and their tokens: what is shared by all kinds of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Gapped(NamedTuple):
    """A source: the text left and right of the gap. With `gap` False nothing marks the place."""

    left: str
    right: str
    gap: bool = True

    @property
    def without_gap(self) -> str:
        """Both sides put together: one blank where the gap stood between two, none at the ends."""
        left, right = self.left, self.right
        if right[:1].isspace() and (not left or left[-1].isspace()):
            right = right[1:]
        if not right and left[-1:].isspace():
            left = left[:-1]
        return left + right


class Tokens:
    """A tokenizer's ids without its special tokens, and the special tokens it puts around a text.

    `transformers` warns of texts longer than a model takes; whoever uses this cuts and counts
    them, so the warning is switched off.

    Attributes:
        before, after: ids that the tokenizer puts in front of and behind a text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.model_max_length = int(1e30)
        bare, full = tokenizer("a", add_special_tokens=False), tokenizer("a")
        text, whole = bare["input_ids"], full["input_ids"]
        at = next(i for i in range(len(whole)) if whole[i : i + len(text)] == text)
        self.before: list[int] = whole[:at]
        self.after: list[int] = whole[at + len(text) :]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of each text."""
        if not texts:
            return []
        ids = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [list(one) for one in ids]

    def single(self, token: str) -> int | None:
        """The id of a special token; None if the vocabulary does not have it."""
        ids = self.tokenizer(token, add_special_tokens=False)["input_ids"]
        return int(ids[0]) if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id else None

    def around(self, body: Sequence[int]) -> list[int]:
        """Ids of a text with the special tokens around them."""
        return [*self.before, *body, *self.after]

    @property
    def room(self) -> int:
        """How many ids the special tokens take."""
        return len(self.before) + len(self.after)
