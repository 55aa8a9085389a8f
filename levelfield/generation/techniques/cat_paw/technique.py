"""CAT-PAW: another technique, strong where the next word relates to the control."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.logits.pace import BagMass, LargestPace, Paced
from levelfield.generation.logits.processor import Support
from levelfield.generation.logits.terms import BaseLM, Formula
from levelfield.generation.sampling import Continuation, Growth
from levelfield.generation.table import TECHNIQUES, mechanism_of
from levelfield.generation.technique import LocalTechnique, Prompted
from levelfield.generation.techniques._bags.bags import bag_label, bag_problem, wanted_tokens
from levelfield.generation.techniques._inner.inner import Inner, inner_option, inner_technique
from levelfield.generation.techniques.pplm.technique import PPLM
from levelfield.generation.width import TextRows

TAU: Mapping[str, float] = {"sentiment": 0.05}
"""Attribute -> τ. The mass of VADER's words is about 0.05 on average in texts of
`offline/smollm2`."""

TAU_OF_OTHERS = 0.005
"""The mass of a topic's words is some thousandths on average."""

CAP = 2.0

PACED = (
    *(
        name
        for name, entry in TECHNIQUES.items()
        if entry.mechanism == "logits" and name != "cat-paw"
    ),
    PPLM.name,
)
"""Techniques that can be paced."""

TAU_OF_STEPS: Mapping[str, float] = {"sentiment": 0.02}
"""τ around PPLM, where the pace multiplies the size of its steps."""

TAU_OF_OTHER_STEPS = 0.01


@dataclass(frozen=True, kw_only=True)
class CATPAW(LocalTechnique):
    """log p + min(r_t / τ, m) · (s − log p) for the scores s of another technique.

    r_t = Σ_{w in bag} p(w | x_<t) of the base says how much the next position relates to the
    control: the bag for sentiment contains positive and negative words. So s acts where a word of
    the bag is likely, and elsewhere the base is unchanged. If r_t = τ the distribution is that of
    the technique s, if r_t = 0 that of the base. With several attributes, each has its own pace.
    Around PPLM min(r_t / τ, m) multiplies the size of its steps instead, with several attributes
    the largest of them. Gu et al. (2022), "Improving controllable text generation with
    position-aware weighted decoding", with their heuristic regulator.

    Controls what the inner technique controls, if there is a bag: sentiment, topics of PPLM's
    lists, and anything else with a bag in a file.

    Raises:
        UserError: options that the inner technique does not accept.
    """

    name: ClassVar[str] = "cat-paw"
    inner: Inner = inner_option(
        "dexperts", "Technique that is paced: one that acts at the logits, or pplm.", PACED
    )
    inner_options: str = option(
        "", "Options of the inner technique, separated by blanks: candidates=100 keep=0."
    )
    guide: str = option("", "Guide of the inner technique, if it has one.", metavar="NAME")
    strength: float | None = option(
        None, "Strength λ of the inner technique.", otherwise="that of the inner technique"
    )
    tau: float | None = option(
        None,
        "Mass τ of the bag at which the strength is λ.",
        above=0,
        otherwise="0.05 for sentiment, 0.005 for other attributes; around pplm 0.02 and 0.01",
    )
    cap: float | None = option(
        None,
        "Largest pace m: no position has a strength above m · λ.",
        above=0,
        otherwise="2; around pplm none",
    )
    bag: str = option(
        "",
        "File with one word per line, used for every attribute.",
        otherwise="the bags that ship",
        metavar="FILE",
    )
    words: Literal["whole", "first"] = option(
        "whole",
        "Words of the bag that count: whole, those that are one token; first, also the first "
        "tokens of longer words, as the authors do, including pieces that begin any word.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._technique

    @property
    def _technique(self) -> LocalTechnique:
        """The inner technique, on the same base."""
        overrides: dict[str, object] = {"model": self.model, "bos": self.bos}
        if self.guide:
            overrides["guide"] = self.guide
        if self.strength is not None:
            overrides["strength"] = self.strength
        inner = inner_technique(
            self.inner, self.inner_options, PACED, overrides=overrides, loading=self.loading
        )
        is_paced = isinstance(inner, PPLM) or mechanism_of(inner) == "logits"
        if not isinstance(inner, LocalTechnique) or not is_paced:
            raise UserError(f"{self.name}: {inner.name} does not act at the logits")
        return inner

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            "inner": self._technique.name,
            **self._technique.choices,
            "tau": "default" if self.tau is None else f"{self.tau:g}",
            "cap": f"{self._cap:g}",
            "bag": bag_label(self.bag),
            "words": self.words,
        }

    def refusal(self, control: Control) -> str:
        if reason := self._technique.refusal(control):
            return f"{self.name} around {reason}"
        problems = (bag_problem(a, value, self.bag) for a, value in control.items())
        return next((f"{self.name}: {reason}" for reason in problems if reason), "")

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        formula = Formula(((1.0, BaseLM()),))
        inner = self._technique
        if isinstance(inner, PPLM):
            raise UserError(
                f"{self.name} around {inner.name} acts in the cache, so it cannot be a term"
            )
        for attribute in sorted(attributes):
            steered = inner._formula(frozenset({attribute}))
            if steered is not None and not steered.is_base:
                bag, tau = self._regulator(attribute)
                formula = formula + (Paced(steered, bag, tau, self._cap) - BaseLM())
        return formula

    @property
    def _cap(self) -> float:
        """m."""
        if self.cap is not None:
            return self.cap
        return math.inf if isinstance(self._technique, PPLM) else CAP

    def _regulator(self, attribute: str) -> tuple[BagMass, float]:
        """r and τ of an attribute."""
        if isinstance(self._technique, PPLM):
            tau = TAU_OF_STEPS.get(attribute, TAU_OF_OTHER_STEPS)
        else:
            tau = TAU.get(attribute, TAU_OF_OTHERS)
        bag = partial(
            wanted_tokens,
            self,
            attribute,
            bag=self.bag,
            first=self.words == "first",
            hint="; set words=first",
        )
        return BagMass(bag), tau if self.tau is None else self.tau

    @property
    def _no_processor(self) -> str:
        return self._technique._no_processor

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:
        return self._technique._text_rows(request, decoding)

    def _prompted(self, request: Request, budget: int) -> Prompted:
        if isinstance(inner := self._technique, PPLM):
            return inner._prompted(request, budget)
        return super()._prompted(request, budget)

    def _run(
        self, prompted: Sequence[Prompted], decoding: Decoding, growth: Growth, seed: int
    ) -> list[Continuation]:
        if not isinstance(inner := self._technique, PPLM):
            return super()._run(prompted, decoding, growth, seed)
        regulators = tuple(map(self._regulator, sorted(prompted[0].request.control)))
        pace = LargestPace(regulators, self._cap) if regulators else None
        return inner._run(prompted, decoding, growth, seed, pace)

    @property
    def _support(self) -> Support | None:
        return self._technique._support
