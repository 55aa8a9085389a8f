"""Proxy tuning: the base plus the change that tuning made in a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.generation.logits.terms import BaseLM, Formula, HelperLM, Term
from levelfield.generation.techniques._class_lm.tuned import TunedTechnique


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
