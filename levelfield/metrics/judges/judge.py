"""What a judge is made of, as data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import UserError
from levelfield.metrics.aspects import TEXT, load_aspect

Pairs = tuple[tuple[str, str], ...]

LABEL = "<label>"


class Spelling(NamedTuple):
    """A word that means a label of an attribute; `word` is case-folded."""

    attribute: str
    word: str
    label: str


@dataclass(frozen=True)
class Judge:
    """What a judge is made of: what `JudgeTable` declares, with pairs in place of tables.

    Attributes:
        attribute: of a control; empty for a classifier named on the spot, whose labels tell.
        spellings: how words of controls and of models mean labels.
    """

    name: str
    attribute: str = ""
    model: str = ""
    models: Pairs = ()
    lexicon: str = ""
    labels: Pairs = ()
    words: Pairs = ()
    template: str = TEXT
    aspect: str = ""
    spellings: tuple[Spelling, ...] = ()

    def label(self, word: str, attribute: str = "") -> str:
        """Returns the label that a word means: the one with this spelling, else the case-folded
        word."""
        word, attribute = word.strip(), attribute or self.attribute
        labels = (s.label for s in self.spellings if s[:2] == (attribute, word.casefold()))
        return next(labels, word.casefold())

    @property
    def all_models(self) -> tuple[str, ...]:
        """The models it is made of."""
        return tuple(dict.fromkeys(model for _, model in self.models)) or (self.model,)

    @property
    def digest(self) -> str:
        """Of everything else that could change a vote."""
        choices = (
            self.attribute,
            [label for label, _ in self.models],
            self.labels,
            self.words,
            self.template,
            load_aspect(self.aspect).digest if self.aspect else "",
            self.spellings,
        )
        return hashlib.sha256(repr(choices).encode()).hexdigest()[:8]


TIE = 1e-9
"""Probabilities no farther apart than this are equal."""

Ask = Callable[[Sequence[str]], tuple[Floats, Bools]]
"""Texts -> P(label | text), (texts, labels), and which texts were cut, (texts,)."""


class JudgeVerdict(NamedTuple):
    """The verdict of a judge on a text.

    Attributes:
        vote: the likeliest label; None where two are equally likely, or nothing in the text can
            be read.
        p: of the labels, in their order.
        cut: whether the judge saw less than all of the text.
    """

    judge: str
    vote: str | None
    labels: tuple[str, ...]
    p: Floats
    cut: bool


class LoadedJudge:
    """A judge with its model. It remembers its verdicts on recent texts, since several metrics ask
    for the same.

    Attributes:
        attribute: what it judges; empty where its labels do not tell, so that any may be meant.
        labels: at least two, in the order of the probabilities.
    """

    def __init__(self, judge: Judge, attribute: str, labels: Sequence[str], ask: Ask) -> None:
        self.judge = judge
        self.attribute = attribute
        # several labels of a model may mean one of ours
        self.labels = tuple(dict.fromkeys(judge.label(label, attribute) for label in labels))
        if len(self.labels) < 2:
            raise UserError(f"judge '{judge.name}' has only one label: {', '.join(self.labels)}")
        self._column = [self.labels.index(judge.label(label, attribute)) for label in labels]
        self._ask = ask
        self._known: dict[bytes, tuple[Floats, bool]] = {}

    def verdicts(self, texts: Sequence[str]) -> list[JudgeVerdict]:
        """Returns its verdict on each text."""
        keys = [_key(text) for text in texts]
        fresh = {k: text for k, text in zip(keys, texts, strict=True) if k not in self._known}
        answers = dict(self._new(fresh)) if fresh else {}
        answers |= {k: self._known[k] for k in keys if k not in answers}
        if len(self._known) + len(fresh) > _REMEMBERED:
            self._known.clear()
        self._known |= {k: answers[k] for k in fresh}
        return [
            JudgeVerdict(
                self.judge.name, vote(answers[k][0], self.labels), self.labels, *answers[k]
            )
            for k in keys
        ]

    def _new(self, texts: Mapping[bytes, str]) -> Iterator[tuple[bytes, tuple[Floats, bool]]]:
        p_model, cut = self._ask(list(texts.values()))
        p = np.zeros((len(texts), len(self.labels)))
        for column, values in zip(self._column, p_model.T, strict=True):
            p[:, column] += values
        return zip(texts, zip(p, cut.tolist(), strict=True), strict=True)


_REMEMBERED = 65_536
"""Texts of which a judge remembers what it said, about 25 MB."""


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def vote(p: Floats, labels: Sequence[str]) -> str | None:
    """Returns the likeliest label; None if several are equally likely or nothing is known.

    >>> vote(np.array([0.2, 0.8]), ("negative", "positive"))
    'positive'
    >>> vote(np.array([0.5, 0.5]), ("negative", "positive")) is None
    True
    """
    if np.isnan(p).any() or (p >= p.max() - TIE).sum() > 1:
        return None
    return labels[int(p.argmax())]
