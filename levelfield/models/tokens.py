"""Texts and their tokens: what is shared by all kinds of models."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from levelfield.core.errors import ModelError
from levelfield.models.batching import window
from levelfield.models.contracts import Gapped

UNLIMITED = int(1e30)
"""What `transformers` says of a tokenizer without a limit."""


AS_TEXT = {"special": "text"}
"""In signatures of metrics whose models read special tokens in a text, such as `[SEP]`, as the
characters that they are written with."""


class Tokens:
    """A tokenizer's ids without its special tokens, and the special tokens it puts around a text.

    A special token that is written in a text is text like any other: what a system wrote can't
    steer the model that measures it.

    Args:
        marks: special tokens in texts are marks, such as the gap of an infiller, and no text.

    `transformers` warns of texts longer than a model takes; whoever uses this cuts and counts
    them, so the warning is switched off.

    Attributes:
        before, after: ids that the tokenizer puts in front of and behind a text.
    """

    def __init__(self, tokenizer: Any, *, marks: bool = False) -> None:
        self.tokenizer = tokenizer
        self._marks = marks
        self._special = {
            int(id): token
            for token, id in zip(
                tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True
            )
            if id != tokenizer.unk_token_id
        }
        self.tokenizer.model_max_length = UNLIMITED
        bare, full = tokenizer("a", add_special_tokens=False), tokenizer("a")
        text, whole = bare["input_ids"], full["input_ids"]
        at = next(i for i in range(len(whole)) if whole[i : i + len(text)] == text)
        self.before: list[int] = whole[:at]
        self.after: list[int] = whole[at + len(text) :]

    def ids(self, texts: Sequence[str], *, marks: bool = False) -> list[list[int]]:
        """Vocabulary ids of each text; `marks` as for the class."""
        if not texts:
            return []
        marks = marks or self._marks
        ids = self._encoded(list(texts), marks)
        if not marks:
            for i, one in enumerate(ids):
                # the vocabulary of a unigram model holds its special tokens like any other piece
                if not self._special.keys().isdisjoint(one):
                    ids[i] = [
                        id
                        for part in self._apart(texts[i])
                        for id in self._encoded([part], marks)[0]
                    ]
        return ids

    def _encoded(self, texts: list[str], marks: bool) -> list[list[int]]:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            encoded = self.tokenizer(
                texts, add_special_tokens=False, split_special_tokens=not marks
            )
            return [list(ids) for ids in encoded["input_ids"]]
        # what `transformers` does, without its tables of offsets and masks
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = not marks
        return [one.ids for one in backend.encode_batch_fast(texts, add_special_tokens=False)]

    def _apart(self, text: str) -> list[str]:
        """The text in pieces, none of which holds a special token whole."""
        tokens = sorted(self._special.values(), key=len, reverse=True)
        within = "|".join(f"(?<={re.escape(t[0])})(?={re.escape(t[1:])})" for t in tokens if t[1:])
        return [part for part in re.split(within, text) if part]

    def single(self, token: str) -> int | None:
        """The id of a special token; None if the vocabulary does not have it."""
        ids = self.tokenizer(token, add_special_tokens=False)["input_ids"]
        return int(ids[0]) if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id else None

    def fit(
        self,
        sources: Sequence[Gapped],
        limit: int,
        *,
        join: Callable[[Gapped], str],
        gap_id: int | None = None,
        marks: bool = False,
    ) -> tuple[list[list[int]], list[bool]]:
        """Ids of sources with special tokens, at most `limit` each; and which of them were cut.

        A source that is too long keeps its gap and the tokens nearest to it. Of a very long one
        only the text around the gap is tokenised: more of it while that could change what is kept.

        Args:
            sources: what to read.
            limit: how many tokens the model takes, special ones included.
            join: a source as the text to tokenise.
            gap_id: the id of the gap in sources that have one.
            marks: as for the class.
        """
        room = limit - len(self.before) - len(self.after)
        ids: list[list[int]] = [[]] * len(sources)
        cut = [False] * len(sources)
        waiting = list(range(len(sources)))
        for characters in (6 * room, 60 * room, sys.maxsize):
            near = [sources[i].near(characters) for i in waiting]
            bodies = self.ids([join(source) for source in near], marks=marks)
            again = []
            for i, source, body in zip(waiting, near, bodies, strict=True):
                whole = sources[i]
                kept = body
                if len(body) > room or source is not whole:
                    if source.gap and gap_id is not None:
                        at, has_gap = body.index(gap_id), True
                    else:
                        at, has_gap = len(self.ids([source.left], marks=marks)[0]), False
                    after = at + has_gap
                    enough = room + _EDGE
                    if (at < enough and len(source.left) < len(whole.left)) or (
                        len(body) - after < enough and len(source.right) < len(whole.right)
                    ):
                        again.append(i)
                        continue
                    left, right = window(at, len(body) - after, room - has_gap)
                    kept = body[at - left : after + right]
                    cut[i] = True
                ids[i] = [*self.before, *kept, *self.after]
            waiting = again
        return ids, cut


def check_same_vocabulary(amateur: Any, expert: Any) -> None:
    """Nothing, if an id is the same token to both tokenizers; momentum needs that (CDM, §3.2).

    What else the tokenizers do may differ: texts are read with the amateur's only. How many rows
    the models' output layers have may differ too: some are padded beyond the vocabulary.

    Raises:
        ModelError: the first id at which they differ, and what each takes it for.
    """
    of_amateur = {int(i): token for token, i in amateur.get_vocab().items()}
    of_expert = {int(i): token for token, i in expert.get_vocab().items()}
    ids = sorted(of_amateur.keys() | of_expert.keys())
    differs = [i for i in ids if of_amateur.get(i) != of_expert.get(i)]
    if differs:
        first = differs[0]
        raise ModelError(
            f"amateur and expert have different vocabularies ({len(of_amateur):,} and "
            f"{len(of_expert):,} tokens, {len(differs):,} ids differ): id {first} is "
            f"{of_amateur.get(first)!r} to the amateur and {of_expert.get(first)!r} to the expert; "
            "take two models of one family"
        )
    if amateur.eos_token_id != expert.eos_token_id:
        raise ModelError(
            f"amateur and expert end texts with different tokens ({amateur.eos_token!r} and "
            f"{expert.eos_token!r}); take two models of one family"
        )


_EDGE = 8
"""So many tokens may differ from the whole text's where it is cut in the middle of a word."""
