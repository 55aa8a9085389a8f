"""CAT-PAW: another technique, strong where the next word has to do with the control."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.generation.language_model import LanguageModel
from levelfield.systems.bags import bag_label, bag_problem, bag_words
from levelfield.systems.logits.pace import BagMass, Paced
from levelfield.systems.logits.processor import Support
from levelfield.systems.logits.terms import BaseLM, Formula
from levelfield.systems.making import make_technique, technique_entry
from levelfield.systems.technique import SHARED, LocalTechnique

TAU: Mapping[str, float] = {"sentiment": 0.05}
"""Attribute -> τ. The mass of VADER's words is about 0.05 on average in texts of
`offline/smollm2`."""

TAU_OF_OTHERS = 0.005
"""The mass of a topic's words is some thousandths on average."""


@dataclass(frozen=True, kw_only=True)
class CATPAW(LocalTechnique):
    """log p + min(r_t / τ, m) · (s − log p) for the scores s of another technique.

    r_t = Σ_{w in bag} p(w | x_<t) of the base says how much the next position has to do with the
    control: the bag of sentiment has positive and negative words. So s acts where a word of the bag
    may well come, and elsewhere the base is left alone. Where r_t = τ the text is that of the
    technique s, where r_t = 0 that of the base. Of several attributes each has a pace of its own.
    Gu et al. (2022), "Improving controllable text generation with position-aware weighted
    decoding", with their heuristic regulator.

    Controls what the inner technique does, as far as there is a bag: sentiment, topics of PPLM's
    lists, and anything else with a bag in a file.

    Args:
        inner: the technique that is paced, by name: one that acts at the logits.
        inner_options: its options, as in `candidates=100 keep=0`.
        guide: its guide, for a technique that has one.
        strength: λ, the inner technique's strength, in place of its default.
        tau: τ, the mass of the bag at which the strength is λ; by default 0.05 for sentiment and
            0.005 for other attributes.
        cap: m; no position has a strength above m · λ.
        bag: a file with a word in each line, which serves every attribute in place of the shipped
            bags.
        words: `whole` counts the words that are one token; `first` also the first tokens of longer
            words, as the authors do, among which are pieces that begin any word.
        model, batch, device, dtype, batch_tokens, allow_pickle: as of every technique
            (`LocalTechnique`).

    Raises:
        UserError: no such technique or option, a technique that can't be paced, or a number out of
            range.
    """

    name: ClassVar[str] = "cat-paw"
    inner: str = "dexperts"
    inner_options: str = ""
    guide: str = ""
    strength: float | None = None
    tau: float | None = None
    cap: float = 2.0
    bag: str = ""
    words: Literal["whole", "first"] = "whole"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, value in (("tau", self.tau), ("cap", self.cap)):
            if value is not None and not value > 0:
                raise UserError(f"{option} is {value}; expected a number above 0")
        _ = self._technique

    @property
    def _technique(self) -> LocalTechnique:
        """The inner technique, on the same base."""
        if technique_entry(self.inner).mechanism != "logits" or self.inner == self.name:
            raise UserError(
                f"inner is {self.inner}, which can't be paced; expected a technique that acts at "
                "the logits, for example dexperts"
            )
        options: dict[str, object] = {}
        for word in shlex.split(self.inner_options):
            option, is_pair, value = word.partition("=")
            if not is_pair:
                raise UserError(f"inner_options has '{word}'; expected NAME=VALUE")
            options[option] = value
        if self.guide:
            options["guide"] = self.guide
        if self.strength is not None:
            options["strength"] = self.strength
        shared = {option: getattr(self, option) for option in SHARED}
        inner = make_technique(self.inner, {**options, **shared})
        assert isinstance(inner, LocalTechnique)
        return inner

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            "inner": self.inner,
            **self._technique.choices,
            "tau": "default" if self.tau is None else f"{self.tau:g}",
            "cap": f"{self.cap:g}",
            "bag": bag_label(self.bag),
            "words": self.words,
        }

    def refusal(self, control: Control) -> str:
        if why := self._technique.refusal(control):
            return f"{self.name} around {why}"
        problems = (bag_problem(a, _hashable(value), self.bag) for a, value in control.items())
        return next((f"{self.name}: {why}" for why in problems if why), "")

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        formula = Formula(((1.0, BaseLM()),))
        inner = self._technique
        for attribute in sorted(attributes):
            steered = inner._formula(frozenset({attribute}))
            if steered is not None and not steered.is_base:
                tau = TAU.get(attribute, TAU_OF_OTHERS) if self.tau is None else self.tau
                bag = BagMass(partial(self._tokens, attribute))
                formula = formula + (Paced(steered, bag, tau, self.cap) - BaseLM())
        return formula

    @property
    def _support(self) -> Support | None:
        return self._technique._support

    def _tokens(self, attribute: str, control: Control) -> frozenset[int]:
        """The bag of an attribute in tokens, as words stand within a text."""
        words = bag_words(attribute, _hashable(control[attribute]), self.bag)
        tokens = _tokens_of(words, self.base, self.words == "first")
        if not tokens:
            raise UserError(
                f"bag of {attribute}: none of its {len(words)} words is one token of {self.model}; "
                "set words=first"
            )
        return tokens


@functools.lru_cache(maxsize=16)
def _tokens_of(words: Sequence[str], base: LanguageModel, first: bool) -> frozenset[int]:
    """The tokens of words within a text: of those that are one token, or the first of each."""
    of_words = base.tokens.ids([f" {word}" for word in words])
    return frozenset(ids[0] for ids in of_words if ids and (first or len(ids) == 1))


def _hashable(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else tuple(value)
