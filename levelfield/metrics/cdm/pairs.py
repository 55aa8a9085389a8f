"""Pairs of an amateur and an expert, and the momentum of what they read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.models.contracts import CausalModel, Gapped, InfillingModel, Target
from levelfield.models.resolve import Resolved

Form = Literal["infilling", "conditional"]

TURN_MARK = "</UTT>"
"""Joins turns in some data sets of dialogues."""


class Reading(NamedTuple):
    """What the models read of a sample.

    Attributes:
        before: precedes the text and is not scored: a prompt, keywords, earlier turns.
        units: what is scored, in order: sentences, turns, or the whole text as one unit.
        joiner: separates all of these.
    """

    before: tuple[str, ...]
    units: tuple[str, ...]
    joiner: str

    def around(self, j: int, form: Form) -> Gapped:
        """Returns what a model is shown when unit j is scored: the rest, with its place marked."""
        glue = self.joiner or " "
        left = self.joiner.join([*self.before, *self.units[:j]])
        left = left if not left or left[-1].isspace() else left + glue
        after = self.units[j + 1 :] if form == "infilling" else ()
        return Gapped(left, glue + self.joiner.join(after) if after else "")

    def whole(self) -> tuple[str, list[tuple[int, int]]]:
        """Returns all of it as one text, and where in it each unit begins and ends."""
        text = self.joiner.join([*self.before, *self.units])
        spans = []
        place = len(text) + len(self.joiner)
        for unit in reversed(self.units):
            place -= len(self.joiner) + len(unit)
            spans.append((place, place + len(unit)))
        return text, spans[::-1]


class UnitMomentum(NamedTuple):
    """The momentum of one unit.

    Attributes:
        m: (tokens,) in nats; empty if the unit has no tokens, or lies beyond what a model takes.
        pieces: what of the text each token stands for; put together they are the unit up to its
            last token. Empty strings where the tokenizer can't say.
        cut: whether a model saw less than all.
    """

    m: Floats
    pieces: list[str]
    cut: bool


class ContrastPair(Protocol):
    """Amateur and expert with one vocabulary."""

    @property
    def gap_token(self) -> str: ...
    def momentum(self, readings: Sequence[Reading]) -> list[list[UnitMomentum]]: ...


class EncoderDecoderPair:
    """A pair of encoder-decoders, or of causal models that fill in the middle: each unit is a
    target, the rest its source.

    Args:
        form: `infilling` shows what precedes and follows a unit, `conditional` only what precedes
            it.
        gap: whether the place of the unit is marked in the source.
    """

    def __init__(
        self, amateur: InfillingModel, expert: InfillingModel, form: Form, *, gap: bool
    ) -> None:
        self._amateur, self._expert = amateur, expert
        self._form = form
        self._gap = gap

    @property
    def gap_token(self) -> str:
        return self._amateur.gap_token

    def momentum(self, readings: Sequence[Reading]) -> list[list[UnitMomentum]]:
        """Returns the momentum of the units of each reading, in one pass of each model."""
        sources = [
            reading.around(j, self._form)._replace(gap=self._gap)
            for reading in readings
            for j in range(len(reading.units))
        ]
        units = [unit for reading in readings for unit in reading.units]
        if self._amateur.token_ids(units) != self._expert.token_ids(units):
            raise _reads_differently()
        targets = [[Target(unit, False)] for unit in units]
        amateur = self._amateur.log_likelihood(sources, targets)
        expert = self._expert.log_likelihood(sources, targets)
        ends = self._amateur.token_ends(units)
        momenta = iter(
            UnitMomentum(
                m := _difference(expert.log_p[i][0], amateur.log_p[i][0]),
                _pieces(unit, 0, ends[i], len(m)),
                any(
                    likelihood.source_cut[i] or likelihood.target_cut[i][0]
                    for likelihood in (amateur, expert)
                ),
            )
            for i, unit in enumerate(units)
        )
        return [[next(momenta) for _ in reading.units] for reading in readings]


class CausalPair:
    """A pair of causal models: all of a reading is one text; a token belongs to the unit that it
    ends in, and one that ends in what joins the units belongs to none."""

    gap_token = ""

    def __init__(self, amateur: CausalModel, expert: CausalModel) -> None:
        self._amateur, self._expert = amateur, expert

    def momentum(self, readings: Sequence[Reading]) -> list[list[UnitMomentum]]:
        """Returns the momentum of the units of each reading, in one pass of each model."""
        wholes = [reading.whole() for reading in readings]
        texts = [text for text, _ in wholes]
        momenta = []
        for (text, spans), a, e in zip(
            wholes,
            self._amateur.log_likelihood(texts),
            self._expert.log_likelihood(texts),
            strict=True,
        ):
            n = min(len(a.ids), len(e.ids))
            if not np.array_equal(a.ids[:n], e.ids[:n]):
                raise _reads_differently()
            if n and not a.ends.size:
                raise ModelError(
                    "the tokenizer of the models does not say where in a text its tokens are, "
                    "which momentum of a causal pair (form=conditional) requires"
                )
            m, ends = _difference(e.log_p, a.log_p), a.ends[:n]
            units = []
            for start, stop in spans:
                inside = (ends > start) & (ends <= stop)
                begin = max(start, a.unscored)  # without BOS the first token has no momentum
                pieces = _pieces(text, begin, ends[inside].tolist(), int(inside.sum()))
                units.append(UnitMomentum(m[inside], pieces, a.cut or e.cut))
            momenta.append(units)
        return momenta


def _difference(log_p_e: Floats, log_p_a: Floats) -> Floats:
    """Returns m of the tokens that both models took: (T,)."""
    T = min(len(log_p_e), len(log_p_a))
    with np.errstate(invalid="ignore"):  # −∞ − −∞ is NaN, and NaN has its reason
        m: Floats = log_p_e[:T] - log_p_a[:T]
    return m


def _pieces(text: str, start: int, ends: Sequence[int], count: int) -> list[str]:
    """Returns the stretch of a text from `start` that each token stands for, blanks before it too.

    A character of several tokens, such as an emoji, belongs to the first of them.
    """
    if len(ends) < count:
        return [""] * count
    pieces = []
    for end in ends[:count]:
        pieces.append(text[start:end])
        start = max(start, end)
    return pieces


def _reads_differently() -> ModelError:
    return ModelError(
        "amateur and expert split a text into different tokens, so their probabilities can't be "
        "compared; use two models with the same tokenizer"
    )


@functools.lru_cache(maxsize=4)
def check_pair(amateur: Resolved, expert: Resolved) -> None:
    """Raises an error unless two models have one vocabulary; reads their tokenizers only."""
    from levelfield.models.files import load_tokenizer
    from levelfield.models.tokens import check_same_vocabulary

    if amateur.path != expert.path:
        check_same_vocabulary(load_tokenizer(amateur), load_tokenizer(expert))
