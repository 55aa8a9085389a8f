"""Texts and their tokens: what is shared by all kinds of models."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Ints
from levelfield.core.errors import ModelError
from levelfield.models.contracts import Gapped

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Sized)
Row = Sequence[int] | npt.NDArray[np.integer]


RECENT_TOKENS = 2**22
"""So many tokens' results are kept, so that metrics of the same samples share one pass, also where
one metric goes through all of a study's cell before the next: at 24 bytes a token, 100 MB."""

BYTES_OF_A_TOKEN = 24
"""Other results count as the number of tokens that take the same memory."""


class RecentResults(Mapping[K, V]):
    """What a model has computed last, as far as `RECENT_TOKENS` go; forgets the oldest first."""

    def __init__(self) -> None:
        self._results: dict[K, tuple[V, int]] = {}
        self._tokens = 0

    def __getitem__(self, key: K) -> V:
        return self._results[key][0]

    def __iter__(self) -> Iterator[K]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def clear(self) -> None:
        """Forgets all of them."""
        self._results.clear()
        self._tokens = 0

    def keep(self, key: K, result: V, tokens: int) -> None:
        """Keeps a result that has not been kept before.

        Args:
            tokens: that it counts as.
        """
        self._results[key] = result, tokens
        self._tokens += tokens
        while self._tokens > RECENT_TOKENS:
            self._tokens -= self._results.pop(next(iter(self._results)))[1]


def unique(items: Iterable[T]) -> tuple[list[T], list[int]]:
    """Returns the distinct items in order of first appearance, and for each item its place among
    them.

    >>> unique("abca")
    (['a', 'b', 'c'], [0, 1, 2, 0])
    """
    places: dict[T, int] = {}
    inverse = [places.setdefault(item, len(places)) for item in items]
    return list(places), inverse


def buckets(
    lengths: Sequence[int], budget: int, *, waste: float = 0.1
) -> Iterator[npt.NDArray[np.intp]]:
    """Yields the indices of items in batches, items of like length together, longest first.

    A bucket of m items holds at most `budget` tokens, padding included (one item always goes in,
    however long), and no item is shorter than (1 − waste) of the longest, once the bucket holds
    an eighth of the budget: tiny batches would waste more than padding does.

    >>> [bucket.tolist() for bucket in buckets([3, 10, 3, 9], budget=20)]
    [[1, 3], [0, 2]]
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.intp), kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])
        end = start + 1
        while end < len(order) and (end - start + 1) * longest <= budget:
            full_enough = (end - start) * longest * 8 >= budget
            if full_enough and lengths[order[end]] < (1 - waste) * longest:
                break
            end += 1
        yield order[start:end]
        start = end


def batches(
    rows: Sequence[R], budget: int, *, shortest: int = 0
) -> Iterator[tuple[list[int], list[R]]]:
    """Yields rows of tokens in the batches that `buckets` makes: their indices, and the rows.

    Args:
        budget: the most tokens in a batch, padding included.
        shortest: rows of fewer tokens are left out.

    >>> list(batches([[1, 2], [], [3]], budget=2, shortest=1))
    [([0], [[1, 2]]), ([2], [[3]])]
    """
    kept = [i for i, row in enumerate(rows) if len(row) >= shortest]
    for bucket in buckets([len(rows[i]) for i in kept], budget):
        indices = [kept[i] for i in bucket]
        yield indices, [rows[i] for i in indices]


def padded(rows: Sequence[Row], pad: int, *, left: bool = False) -> Ints:
    """Returns rows of ids, filled up to the longest on the right, or on the left: (rows, longest).

    >>> padded([[5, 6, 7], [8]], 0).tolist(), padded([[5, 6, 7], [8]], 0, left=True).tolist()
    ([[5, 6, 7], [8, 0, 0]], [[5, 6, 7], [0, 0, 8]])
    """
    longest = max(map(len, rows))
    filled = np.full((len(rows), longest), pad, np.int64)
    for place, row in zip(filled, rows, strict=True):
        begin = longest - len(row) if left else 0
        place[begin : begin + len(row)] = row
    return filled


def token_mask(rows: Sequence[Sized], *, left: bool = False) -> Ints:
    """Returns 1 where `padded` has a token of a row, 0 where it has padding: (rows, longest).

    >>> token_mask([[5, 6, 7], [8]]).tolist()
    [[1, 1, 1], [1, 0, 0]]
    """
    lengths = np.array([len(row) for row in rows])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    return mask[:, ::-1].copy() if left else mask


def window(left: int, right: int, room: int) -> tuple[int, int]:
    """Returns how many tokens to keep on each side of a place when only `room` fit: those nearest
    to it.

    What one side leaves free goes to the other.

    >>> window(10, 100, 30), window(100, 100, 31), window(3, 4, 30)
    ((10, 20), (15, 16), (3, 4))
    """
    keep_left = min(left, max(room // 2, room - right))
    return keep_left, min(right, room - keep_left)


def put_around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Returns the ids that a tokenizer puts before a text, and those that it puts after it."""
    bare, full = tokenizer("a", add_special_tokens=False), tokenizer("a")
    text, whole = list(bare["input_ids"]), list(full["input_ids"])
    begin = next(i for i in range(len(whole)) if whole[i : i + len(text)] == text)
    return whole[:begin], whole[begin + len(text) :]


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
        before, after: ids that the tokenizer puts in front of and after a text.
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
        self.before, self.after = put_around(tokenizer)

    def ids(self, texts: Sequence[str], *, marks: bool = False) -> list[list[int]]:
        """Returns vocabulary ids of each text; `marks` as for the class."""
        if not texts:
            return []
        marks = marks or self._marks
        ids = self._encoded(list(texts), marks)
        if not marks:
            for i, row in enumerate(ids):
                # the vocabulary of a unigram model holds its special tokens like any other piece
                if not self._special.keys().isdisjoint(row):
                    ids[i] = [
                        id
                        for part in self._apart(texts[i])
                        for id in self._encoded([part], marks)[0]
                    ]
        return ids

    @property
    def around(self) -> int:
        """The number of special tokens around a text."""
        return len(self.before) + len(self.after)

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
        return [
            encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=False)
        ]

    def _apart(self, text: str) -> list[str]:
        """Returns the text in pieces, none of which holds a special token whole."""
        tokens = sorted(self._special.values(), key=len, reverse=True)
        within = "|".join(f"(?<={re.escape(t[0])})(?={re.escape(t[1:])})" for t in tokens if t[1:])
        return [part for part in re.split(within, text) if part]

    def single(self, token: str) -> int | None:
        """Returns the id of a special token; None if the vocabulary does not have it."""
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
        """Returns ids of sources with special tokens, at most `limit` each; and which of them were
        cut.

        A source that is too long keeps its gap and the tokens nearest to it. Of a very long one
        only the text around the gap is tokenised: more of it while that could change what is kept.

        Args:
            sources: what to read.
            limit: how many tokens the model takes, special ones included.
            join: a source as the text to tokenise.
            gap_id: the id of the gap in sources that have one.
            marks: as for the class.
        """
        room = limit - self.around
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
                        gap_begin, has_gap = body.index(gap_id), True
                    else:
                        gap_begin, has_gap = len(self.ids([source.left], marks=marks)[0]), False
                    gap_end = gap_begin + has_gap
                    enough = room + _EDGE
                    if (gap_begin < enough and len(source.left) < len(whole.left)) or (
                        len(body) - gap_end < enough and len(source.right) < len(whole.right)
                    ):
                        again.append(i)
                        continue
                    left, right = window(gap_begin, len(body) - gap_end, room - has_gap)
                    kept = body[gap_begin - left : gap_end + right]
                    cut[i] = True
                ids[i] = [*self.before, *kept, *self.after]
            waiting = again
        return ids, cut

    def fit_texts(
        self, texts: Sequence[str], limit: int, *, keeps_end: bool = False, marks: bool = False
    ) -> tuple[list[list[int]], list[bool]]:
        """Returns what `fit` does for texts without a gap, of which the beginning is kept.

        Args:
            keeps_end: keep the end instead.
            marks: as for the class.
        """
        sources = [
            Gapped(text, "", gap=False) if keeps_end else Gapped("", text, gap=False)
            for text in texts
        ]
        return self.fit(sources, limit, join=lambda source: source.left + source.right, marks=marks)


def check_same_vocabulary(amateur: Any, expert: Any) -> None:
    """Checks that an id is the same token to both tokenizers; momentum needs that (CDM, §3.2).

    What else the tokenizers do may differ: texts are read with the amateur's only. How many rows
    the models' output layers have may differ too: some are padded beyond the vocabulary.

    Raises:
        ModelError: the first id at which they differ, and what each takes it for.
    """
    token_a = {int(i): token for token, i in amateur.get_vocab().items()}
    token_e = {int(i): token for token, i in expert.get_vocab().items()}
    ids = sorted(token_a.keys() | token_e.keys())
    differs = [i for i in ids if token_a.get(i) != token_e.get(i)]
    if differs:
        first = differs[0]
        raise ModelError(
            f"amateur and expert have different vocabularies ({len(token_a):,} and "
            f"{len(token_e):,} tokens, {len(differs):,} ids differ): id {first} is "
            f"{token_a.get(first)!r} to the amateur and {token_e.get(first)!r} to the expert; "
            "use two models of one family"
        )
    if amateur.eos_token_id != expert.eos_token_id:
        raise ModelError(
            f"amateur and expert end texts with different tokens ({amateur.eos_token!r} and "
            f"{expert.eos_token!r}); use two models of one family"
        )


_EDGE = 8
"""So many tokens may differ from the whole text's where it is cut in the middle of a word."""
