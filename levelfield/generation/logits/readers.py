"""Models that read along with the base, each once for all terms that need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch

from levelfield.generation.sampling import PassCounter
from levelfield.models.torch.decoding import CausalRows, normalised
from levelfield.models.torch.language_model import LanguageModel

Prefix = tuple[int, ...]
"""Tokens that a model reads between BOS and the prompt."""


class Texts(NamedTuple):
    """What the base has read of each row: (rows, tokens), 0 in the mask for padding."""

    ids: torch.Tensor
    mask: torch.Tensor

    def rows(self, bos_id: int) -> list[list[int]]:
        """Returns the tokens of each row, without padding and without BOS."""
        tokens = [ids[mask.bool()].tolist() for ids, mask in zip(self.ids, self.mask, strict=True)]
        return [row[1:] if row and row[0] == bos_id else row for row in tokens]


class _Slot(NamedTuple):
    """What a model reads of every row.

    Attributes:
        prefixes: one a row.
        sees_prompt: whether it reads the whole prompt, or its last token only.
        scored: number of tokens at the end of each prefix that count as the text's.
    """

    prefixes: tuple[Prefix, ...]
    sees_prompt: bool
    scored: int

    def prompts(self, texts: Sequence[Sequence[int]]) -> list[list[int]]:
        """What it reads of the prompts, without the prefixes."""
        return [list(text if self.sees_prompt else text[-1:]) for text in texts]


class Reader:
    """One model that reads the rows of a batch, each after one or several prefixes.

    The prefixes of all terms are rows of one batch with one cache, so that no step reads a text
    again. Equal slots are one.
    """

    backward_passes = 0

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._slots: list[_Slot] = []
        self._scores_texts = False
        self._rows: CausalRows | None = None
        self._n = 0
        self._log_p: torch.Tensor | None = None
        self._text_log_p = torch.empty(0)
        self._lengths = torch.empty(0)
        self.passes = 0

    @property
    def slots(self) -> int:
        """The number of prefixes after which it reads each row."""
        return len(self._slots)

    def slot(
        self,
        prefixes: Sequence[Prefix],
        *,
        scores_texts: bool = False,
        sees_prompt: bool = True,
        scored: int = 0,
    ) -> int:
        """Returns the place of a prefix for every row, added if it is new; before the first step.

        Args:
            prefixes: one a row.
            scores_texts: `text_log_p` and `lengths` are asked for; they need a pass over prompts.
            sees_prompt: whether the model reads the whole prompt, or its last token only.
            scored: number of tokens at the end of each prefix that count as the text's.
        """
        self._scores_texts |= scores_texts
        if (slot := _Slot(tuple(prefixes), sees_prompt, scored)) not in self._slots:
            self._slots.append(slot)
        return self._slots.index(slot)

    def start(self, texts: Texts) -> None:
        """Reads what the base has read, after every prefix."""
        bos = self._model.bos_id
        rows = texts.rows(bos)
        self._n = len(rows)
        read = [text for slot in self._slots for text in slot.prompts(rows)]
        prefixes = [prefix for slot in self._slots for prefix in slot.prefixes]
        start = self._model.opening
        pairs = zip(prefixes, read, strict=True)
        prompts = [[*start, *prefix, *text] or [bos] for prefix, text in pairs]  # never nothing
        device = self._model.device
        self._rows = CausalRows.of(self._model.model, prompts, bos, device)
        self._log_p = None
        if self._scores_texts:
            scored = [slot.scored for slot in self._slots for _ in slot.prefixes]
            lengths = [len(text) + n for text, n in zip(read, scored, strict=True)]
            self._lengths = torch.tensor(lengths, device=device)
            places = torch.arange(self._rows.ids.shape[1], 0, -1, device=device)
            self._text_log_p = self._rows.log_likelihood(places <= self._lengths[:, None])

    def read(self, tokens: torch.Tensor) -> None:
        """Reads one more token a row, the same after every prefix: (rows,)."""
        assert self._rows is not None
        tokens = tokens.repeat(len(self._slots))
        if self._scores_texts:
            chosen = self._every_log_p().gather(1, tokens[:, None])[:, 0]
            self._text_log_p, self._lengths = self._text_log_p + chosen, self._lengths + 1
        self._rows.read(tokens)
        self._log_p = None

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only, in this order."""
        assert self._rows is not None
        every = torch.cat([rows + self._n * slot for slot in range(len(self._slots))])
        self._rows.keep(every)
        if self._log_p is not None:
            self._log_p = self._log_p[every]
        if self._scores_texts:
            self._text_log_p, self._lengths = self._text_log_p[every], self._lengths[every]
        self._n = len(rows)

    def log_p(self, slot: int) -> torch.Tensor:
        """log P(next token | prefix, text): (rows, vocabulary), float32 at least."""
        return self._of(slot, self._every_log_p())

    def text_log_p(self, slot: int) -> torch.Tensor:
        """log P(text so far | prefix), the sum over its tokens, the prompt's among them: (rows,),
        float64."""
        return self._of(slot, self._text_log_p)

    def lengths(self, slot: int) -> torch.Tensor:
        """Returns the number of these tokens: (rows,)."""
        return self._of(slot, self._lengths)

    def _of(self, slot: int, values: torch.Tensor) -> torch.Tensor:
        return values[slot * self._n : (slot + 1) * self._n]

    def _every_log_p(self) -> torch.Tensor:
        assert self._rows is not None
        if self._log_p is None:
            self._log_p = normalised(self._rows.logits())
            self.passes += len(self._slots)
        return self._log_p


class RowState(Protocol):
    """What is remembered of the rows of one batch."""

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only, in this order."""
        ...

    def read(self, tokens: torch.Tensor) -> None:
        """One more token a row: (rows,)."""
        ...


class Follower(RowState, PassCounter, Protocol):
    """What reads along with the base; a `Reader` is one."""

    def start(self, texts: Texts) -> None:
        """Reads what the base has read."""
        ...


AnyFollower = TypeVar("AnyFollower", bound=Follower)


class Readers:
    """What reads along with a batch: one reader a model, and what terms have of their own."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, bool], Reader] = {}
        self._followers: list[Follower] = []

    def of(self, model: LanguageModel) -> Reader:
        """Returns the reader of a model, made when it is first asked for."""
        key = (model.label, model.reads_bos)
        if key not in self._of:
            self._of[key] = self.add(Reader(model))
        return self._of[key]

    def add(self, follower: AnyFollower) -> AnyFollower:
        """Lets something else read along; returns it."""
        self._followers.append(follower)
        return follower

    def start(self, texts: Texts) -> None:
        for follower in self._followers:
            follower.start(texts)

    def read(self, tokens: torch.Tensor) -> None:
        for follower in self._followers:
            follower.read(tokens)

    def keep(self, rows: torch.Tensor) -> None:
        for follower in self._followers:
            follower.keep(rows)

    @property
    def rows(self) -> list[int]:
        """Returns the rows that each of them reads at once for each row of the batch."""
        return [getattr(follower, "slots", 1) for follower in self._followers]

    @property
    def passes(self) -> int:
        """Rows sent through the models so far, for each row of the batch."""
        return sum(follower.passes for follower in self._followers)

    @property
    def backward_passes(self) -> int:
        """Rows that gradients went back through so far, for each row of the batch."""
        return sum(follower.backward_passes for follower in self._followers)
