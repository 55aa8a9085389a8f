"""Classifier-free guidance: the effect of a request for the control, amplified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.control_text import control_text, template_attributes
from levelfield.generation.logits.readers import Prefix
from levelfield.generation.logits.terms import BaseLM, Formula, HelperLM, Term
from levelfield.generation.techniques._request.request import RequestTechnique


@dataclass(frozen=True, kw_only=True)
class ClassifierFreeGuidance(RequestTechnique):
    """log p(x_t | x_<t) + s · (E − A): the effect of a request for the control, s times.

    E is the base after a text that asks for the control. A is the base without that text, after the
    text that asks for the opposite, or after your own text (`negative`). s = 0 is the base, s = 1
    the prompted base (with A the base itself), and s > 1 guidance. In the form of contrastive
    decoding, (1 + β) z_E − β z_A, that is s = 1 + β with A the base itself. Nothing is trained; an
    attribute is controlled as far as the base understands the request. Sanchez et al. (2023), "Stay
    on topic with classifier-free guidance", who also have negative prompts.

    Controls any attribute with one value, keywords, and several attributes at once, in one request.

    Raises:
        UserError: the template has no place for a value, or `negative` is given with
            `against=opposite`.
    """

    name: ClassVar[str] = "cfg"
    strength: float = option(2.0, "Strength s: 0 is the base, 1 the prompted base.")
    against: Literal["base", "opposite"] = option(
        "base",
        "Model A to subtract: base; or opposite, the base asked for the other value, if each "
        "attribute has two known ones (sentiment).",
    )
    negative: str = option(
        "",
        "Negative prompt: text before the prompt of model A, with {ATTRIBUTE} in place of each "
        "value of the control.",
        otherwise="what `against` says",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negative and self.against == "opposite":
            raise UserError("cfg: give a negative prompt or against=opposite, not both")
        try:
            template_attributes(self.negative)
        except ValueError as error:
            raise UserError(f"negative: {error}; write {{sentiment}} or {{{{ for a brace") from None

    @property
    def choices(self) -> Mapping[str, str]:
        negative = self._shown("negative") if self.negative else {}
        return {**self._shown("strength", "against"), **super().choices, **negative}

    def refusal(self, control: Control) -> str:
        if missing := template_attributes(self.negative) - control.keys():
            return f"{self.name}: the negative prompt shows {min(missing)}, which is not asked for"
        return super().refusal(control)

    @property
    def _asks_opposite(self) -> bool:
        return self.against == "opposite"

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes:
            return None
        anti: Term = BaseLM(penalised=False)
        if self.negative:
            anti = HelperLM(self.base, self._negative)
        elif self.against == "opposite":
            anti = self._asked_opposite(attributes)
        return BaseLM() + self.strength * (self._asked(attributes) - anti)

    def _negative(self, control: Control) -> Prefix:
        values = {a: control[a] for a in template_attributes(self.negative)}
        return tuple(self.base.ids(control_text(values, self.negative)))
