"""Techniques with a model that was tuned to the wanted class alone: proxy tuning and GenARM."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.generation.logits.classes import ClassLikelihood
from levelfield.generation.logits.terms import BaseLM, Formula, HelperLM, Term
from levelfield.generation.techniques.class_lm.class_guidance import ExpertTechnique


@dataclass(frozen=True, kw_only=True)
class TunedTechnique(ExpertTechnique, abc.ABC):
    """A technique that reads one model: the expert of the wanted label."""

    def _tuned(self, attribute: str) -> ClassLikelihood:
        """Returns log P(x_t | x_<t, c) of the wanted label's model; those of other labels are read
        only where they are whole models."""
        several = self._classes if self.experts else self._wanted_class
        return ClassLikelihood(several(attribute))


@dataclass(frozen=True, kw_only=True)
class ProxyTuning(TunedTechnique):
    """log p(x_t | x_<t) + α (log p⁺(x_t | x_<t) − log p°(x_t | x_<t)).

    p⁺ is a model that was tuned to texts with the wanted label, and p° the same model before
    tuning: the change that tuning made in a model, however small, is added to a base that is not
    tuned. p⁺ is a guide's class-conditional language model after the code of the label, or your own
    model (`experts`). With several attributes, their differences add up. Liu et al. (2024), "Tuning
    language models by proxy".

    Controls attributes with one value, by a guide of kind `class-lm` each, or one attribute by
    `experts`.

    Raises:
        UserError: `experts` can't be read or come without `untuned`, or, at the first text, a model
            of another vocabulary than the base's.
    """

    name: ClassVar[str] = "proxy-tuning"
    strength: float = option(1.0, "Strength α; 0 is the base. The paper uses 1.")
    untuned: str = option(
        "",
        "Model p° that the experts were tuned from; required with experts. That of a guide is its "
        "base.",
        otherwise="the base of the guide",
        metavar="NAME",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts and not self.untuned:
            raise UserError(
                f"{self.name}: experts require untuned, the model that they were tuned from; with "
                "the base in its place, strength 1 would be the expert alone"
            )

    @property
    def choices(self) -> Mapping[str, str]:
        untuned = {"untuned": self._label(self.untuned)} if self.untuned else {}
        return {**super().choices, **untuned}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        return self._steered(self.strength, self._difference, attributes)

    def _difference(self, attribute: str) -> Formula:
        before: Term = BaseLM(penalised=False)
        if self.untuned:
            before = HelperLM(self._helper(self.untuned))
        return self._tuned(attribute) - before


@dataclass(frozen=True, kw_only=True)
class GenARM(TunedTechnique):
    """log p(x_t | x_<t) + (1 / β) log p_r(x_t | x_<t).

    p_r is an autoregressive reward model: the reward of a text is the sum of its log-probabilities
    under p_r, so the reward of a next token is known before the rest is written. Here it is a
    guide's class-conditional language model after the code of the label, which learnt from labels,
    or your own model (`experts`), such as one trained on preferences with the loss of the paper.
    With several attributes, their rewards add up. Xu et al. (2025), "GenARM: Reward guided
    generation with autoregressive reward model for test-time alignment".

    Controls attributes with one value, by a guide of kind `class-lm` each, or one attribute by
    `experts`.

    Raises:
        UserError: `experts` can't be read, or, at the first text, a model of another vocabulary
            than the base's.
    """

    name: ClassVar[str] = "genarm"
    strength: float = option(1.0, "Strength 1 / β; 0 is the base.")

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        return self._steered(self.strength, self._tuned, attributes)
