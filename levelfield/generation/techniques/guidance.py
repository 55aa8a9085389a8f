"""Classifier-free guidance: the base against itself, asked for the control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.control_text import (
    SHIPPED_TEMPLATE,
    control_text,
    opposite,
    template_attributes,
    unspeakable,
)
from levelfield.generation.logits.readers import Prefix
from levelfield.generation.logits.terms import BaseLM, Formula, HelperLM, Term
from levelfield.generation.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class ClassifierFreeGuidance(LocalTechnique):
    """log p(x_t | x_<t) + s · (E − A): what a request for the control changes, s times.

    E is the base behind a text that asks for the control, A the base without that text, or behind
    the text that asks for the opposite. s = 0 is the base, s = 1 the prompted base (with A the base
    itself), and s > 1 guidance. In the form of contrastive decoding, (1 + β) z_E − β z_A, that is
    s = 1 + β with A the base itself. No training; an attribute is controlled as far as the base
    understands the request. Sanchez et al. (2023), "Stay on topic with classifier-free guidance".

    Controls any attribute with one value, keywords, and several attributes at once, in one request.

    Raises:
        UserError: the template has no place for a value.
    """

    name: ClassVar[str] = "cfg"
    strength: float = option(2.0, "Strength s: 0 is the base, 1 the prompted base.")
    against: Literal["base", "opposite"] = option(
        "base",
        "Model A that is subtracted: base, or opposite, the base asked for the other value, "
        "where each attribute has two known ones (sentiment).",
    )
    template: str = option(
        "",
        "Text that asks for the control, with {ATTRIBUTE} where a value stands, such as "
        "`A {sentiment} review: `.",
        otherwise="the one that ships",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            places = template_attributes(self.template)
        except ValueError as error:
            raise UserError(f"template: {error}; write {{sentiment}} or {{{{ for a brace") from None
        if self.template and not places:
            raise UserError(
                f"template is '{self.template:.40}'; expected a place such as {{sentiment}}"
            )

    @property
    def choices(self) -> Mapping[str, str]:
        template = self.template or f"shipped@{SHIPPED_TEMPLATE}"
        return {**self._shown("strength", "against"), "template": template}

    def refusal(self, control: Control) -> str:
        if reason := unspeakable(control):
            return f"{self.name}: {reason}"
        if self.template and (places := template_attributes(self.template)) != control.keys():
            return (
                f"{self.name}: the template shows {', '.join(sorted(places))}, and the control has "
                f"{', '.join(sorted(control)) or 'nothing'}"
            )
        if self.against == "opposite":
            for attribute, value in control.items():
                if opposite(attribute, value) is None:
                    return f"{self.name}: no opposite of {attribute} '{value}' is known"
        return ""

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes:
            return None
        expert = HelperLM(self.base, partial(self._request, attributes, False))
        anti: Term = BaseLM(penalised=False)
        if self.against == "opposite":
            anti = HelperLM(self.base, partial(self._request, attributes, True))
        return BaseLM() + self.strength * (expert - anti)

    def _request(self, attributes: frozenset[str], is_opposite: bool, control: Control) -> Prefix:
        values = {a: v for a, v in control.items() if a in attributes}
        if is_opposite:
            values = {a: opposite(a, v) or v for a, v in values.items()}
        return tuple(self.base.ids(control_text(values, self.template)))
