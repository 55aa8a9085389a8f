"""What a judge is made of, as data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from levelfield.aspects import TEXT, load_aspect

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
        """The label that a word means: one that is spelled so, else the word case-folded."""
        word, attribute = word.strip(), attribute or self.attribute
        known = (s.label for s in self.spellings if s[:2] == (attribute, word.casefold()))
        return next(known, word.casefold())

    @property
    def all_models(self) -> tuple[str, ...]:
        """The models it is made of."""
        return tuple(dict.fromkeys(model for _, model in self.models)) or (self.model,)

    @property
    def digest(self) -> str:
        """Of everything else that could change a vote."""
        said = (
            self.attribute,
            [label for label, _ in self.models],
            self.labels,
            self.words,
            self.template,
            load_aspect(self.aspect).digest if self.aspect else "",
            self.spellings,
        )
        return hashlib.sha256(repr(said).encode()).hexdigest()[:8]
