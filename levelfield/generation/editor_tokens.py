"""The tokens of an editor: what surrounds a text, fills a gap, goes on with a word."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import regex

from levelfield.core.arrays import Bools
from levelfield.core.errors import ModelError

_MASKS = ("<extra_id_0>", "<mask_1>")
"""What marks a gap where the tokenizer names no mask of its own."""
_BLANKS = ("▁", "Ġ", " ")
"""What the pieces of vocabularies begin with where a word begins."""
_GOES_ON = regex.compile(r"[\p{L}\p{N}\p{M}\p{Pc}\p{C}\N{REPLACEMENT CHARACTER}'’‐‑-]")
"""What the first character of a piece is if the piece belongs to the word before it."""
_ANCHOR = "."
"""A text that the pieces of another are decoded behind."""


class EditorTokens:
    """The tokenizer of an encoder-decoder, as an editor uses it.

    Attributes:
        begin, end: the special tokens before and behind a text.
        mask: the token of a gap.
        pad: fills up the rows of a batch.
        decoder_start: what the decoder reads first.
        vocabulary_size: how many tokens the decoder gives probabilities to.

    Raises:
        ModelError: the tokenizer has no token for gaps, or none that ends a text.
    """

    def __init__(self, tokenizer: Any, config: Any) -> None:
        self._tokenizer = tokenizer
        inner = tokenizer("a", add_special_tokens=False)["input_ids"]
        whole = tokenizer("a")["input_ids"]
        at = next(i for i in range(len(whole)) if whole[i : i + len(inner)] == inner)
        self.begin: tuple[int, ...] = tuple(whole[:at])
        self.end: tuple[int, ...] = tuple(whole[at + len(inner) :])
        known = tokenizer.get_vocab()
        marks = [m for m in (tokenizer.mask_token, *_MASKS) if m and m in known]
        if not marks or not self.end:
            raise ModelError(
                f"the tokenizer has no {'token for gaps' if self.end else 'end-of-text token'}, "
                "which an editor needs"
            )
        self.mask: int = known[marks[0]]
        self.pad: int = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.decoder_start: int = config.decoder_start_token_id
        self.vocabulary_size: int = config.vocab_size

    def ids(self, text: str) -> list[int]:
        """The tokens of words that stand within a text, without special ones."""
        return self.all_ids([text])[0]

    def all_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """`ids` of several texts."""
        if not texts:
            return []
        within = [f" {text.strip()}" for text in texts]
        encoded = self._tokenizer(within, add_special_tokens=False, split_special_tokens=True)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """What tokens add to a text that they follow, a blank before their first word included; a
        character cut in two is left out."""
        behind: str = self._decode([*self._anchor, *ids])
        return behind.removeprefix(self._decode(self._anchor)).replace(
            "\N{REPLACEMENT CHARACTER}", ""
        )

    @functools.cached_property
    def goes_on(self) -> Bools:
        """(vocabulary,) which tokens belong to the word before them: letters, digits, parts of a
        character, apostrophes and hyphens without a blank before them."""
        goes_on = np.zeros(self.vocabulary_size, bool)
        pieces = self._tokenizer.convert_ids_to_tokens(list(range(self._count)))
        for id, piece in enumerate(pieces):
            if id in self._special or piece is None or piece.startswith(_BLANKS):
                continue
            written = self._decode([*self._anchor, id]).removeprefix(self._decode(self._anchor))
            goes_on[id] = not written or _GOES_ON.match(written) is not None
        return goes_on

    @functools.cached_property
    def never(self) -> Bools:
        """(vocabulary,) which tokens no gap is filled with: special ones, line breaks, and those
        that the tokenizer does not know."""
        never = np.ones(self.vocabulary_size, bool)
        for id in range(self._count):
            never[id] = id in self._special or "\n" in self._decode([id])
        return never

    @functools.cached_property
    def _count(self) -> int:
        return min(self.vocabulary_size, len(self._tokenizer))

    @functools.cached_property
    def _special(self) -> frozenset[int]:
        added = self._tokenizer.added_tokens_decoder.items()
        return frozenset(self._tokenizer.all_special_ids) | {id for id, t in added if t.special}

    @functools.cached_property
    def _anchor(self) -> list[int]:
        return self.ids(_ANCHOR)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text
