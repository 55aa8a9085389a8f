"""Contrasts of a model with itself after a request, or with a smaller model."""

from __future__ import annotations

import abc
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
from levelfield.generation.logits.processor import Support, plausible
from levelfield.generation.logits.readers import Prefix
from levelfield.generation.logits.terms import BaseLM, Debiasing, Formula, HelperLM, Term
from levelfield.generation.table import controlled_by
from levelfield.generation.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class RequestTechnique(LocalTechnique, abc.ABC):
    """A technique that compares the base with the base after a text that asks for a control.

    Raises:
        UserError: the template has no place for a value.
    """

    needs_opposite: ClassVar[bool] = False
    template: str = option(
        "",
        "Text that asks for the control, with {ATTRIBUTE} in place of its value, such as "
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
        return {"template": self.template or f"shipped@{SHIPPED_TEMPLATE}"}

    def refusal(self, control: Control) -> str:
        if reason := unspeakable(control):
            return f"{self.name}: {reason}"
        if self.template and (places := template_attributes(self.template)) != control.keys():
            return (
                f"{self.name}: the template shows {', '.join(sorted(places))}, and the control has "
                f"{', '.join(sorted(control)) or 'nothing'}"
            )
        if self._asks_opposite:
            for attribute, value in control.items():
                if opposite(attribute, value) is None:
                    shown = value if isinstance(value, str) else ", ".join(value)
                    return (
                        f"{self.name}: no opposite of {attribute} '{shown}' is known; "
                        f"{controlled_by(attribute)}"
                    )
        return ""

    @property
    def _asks_opposite(self) -> bool:
        """Whether the opposite is asked for, too, so that each attribute needs one."""
        return self.needs_opposite

    def _asked(self, attributes: frozenset[str]) -> HelperLM:
        """log p of the base behind the text that asks for the control."""
        return HelperLM(self.base, partial(self._request, attributes, False))

    def _asked_opposite(self, attributes: frozenset[str]) -> HelperLM:
        """log p of the base behind the text that asks for the opposite."""
        return HelperLM(self.base, partial(self._request, attributes, True))

    def _request(self, attributes: frozenset[str], is_opposite: bool, control: Control) -> Prefix:
        values = {a: v for a, v in control.items() if a in attributes}
        if is_opposite:
            values = {a: opposite(a, v) or v for a, v in values.items()}
        return tuple(self.base.ids(control_text(values, self.template)))


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
        UserError: the template has no place for a value, or `negative` stands beside
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


@dataclass(frozen=True, kw_only=True)
class PREADD(RequestTechnique):
    """log p(x_t | x_<t) − s · (log p(x_t | r, x_<t) − log p(x_t | x_<t)), r the opposite request.

    The effect of a text that asks for the opposite is subtracted from the base s times; s = 0 is
    the base. The base is asked for what is not wanted, since it writes that readily. Pei et al.
    (2023), "PREADD: Prefix-adaptive decoding for controlled text generation", whose α is −s.

    Controls attributes with two known values (sentiment), several at once.

    Raises:
        UserError: the template has no place for a value.
    """

    name: ClassVar[str] = "preadd"
    needs_opposite: ClassVar[bool] = True
    strength: float = option(2.0, "Strength s, which is −α of the paper; 0 is the base.")

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength"), **super().choices}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes:
            return None
        undesired = self._asked_opposite(attributes)
        return BaseLM() - self.strength * (undesired - BaseLM(penalised=False))


@dataclass(frozen=True, kw_only=True)
class SelfDebiasing(RequestTechnique):
    """p(x_t | x_<t) · max(e^{λ min(Δ, 0)}, ε), Δ = p(x_t | x_<t) − p(x_t | r, x_<t).

    r is a text that asks for the opposite. Tokens that it makes likelier are scaled down, by the
    difference of the probabilities; all others keep theirs. λ = 0 is the base. Schick et al.
    (2021), "Self-diagnosis and self-debiasing: A proposal for reducing corpus-based bias in NLP",
    whose program has the floor ε.

    Controls attributes with two known values (sentiment), several at once.

    Raises:
        UserError: the template has no place for a value.
    """

    name: ClassVar[str] = "self-debiasing"
    needs_opposite: ClassVar[bool] = True
    strength: float = option(50.0, "Strength λ of the decay, at least 0; 0 is the base.")
    floor: float = option(
        0.01, "Smallest factor ε of a token, as in the authors' program.", above=0, most=1
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength"), **super().choices, **self._shown("floor")}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes or not self.strength:
            return None
        return BaseLM() + Debiasing(self._asked_opposite(attributes), self.strength, self.floor)


@dataclass(frozen=True, kw_only=True)
class ContrastiveDecoding(LocalTechnique):
    """The expert (the base) minus an amateur, on the tokens that the expert finds plausible.

    Plausible are the tokens v with p_E(v) ≥ α max p_E. On those the score is
    (1 + β) log p_E − β log p_A (form `beta`; O'Brien and Lewis 2023) or log p_E − λ log p_A (form
    `plain`; Li et al. 2022, section 3); log p_A is that of softmax(z_A / τ). Strength 0 is the base
    without any restriction to plausible tokens.

    Controls no attribute: takes any control and ignores it, as the base does.

    Raises:
        UserError: at the first text, an amateur with another vocabulary.
    """

    name: ClassVar[str] = "contrastive"
    strength: float = option(0.5, "Strength: β of the form beta, λ of plain; 0 is the base.")
    form: Literal["beta", "plain"] = option(
        "beta",
        "Form of the score: beta keeps the sum of the weights at 1, so that texts can be sampled; "
        "plain is flatter than the base and meant for beams or the likeliest token.",
    )
    amateur: str = option(
        "offline/smollm2-early", "Causal model with the vocabulary of the base.", metavar="NAME"
    )
    alpha: float = option(
        0.1,
        "Threshold α of plausible tokens; 1 leaves only the likeliest of the base.",
        above=0,
        most=1,
    )
    amateur_temperature: float = option(
        1.0, "Temperature τ of the amateur; the authors use 0.5 for GPT-2 and 1 for OPT.", above=0
    )
    sees_prompt: bool = option(
        True,
        "Let the amateur read the whole prompt; false: only its last token, as in the authors' "
        "repository.",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            **self._shown("strength", "form"),
            "amateur": self._label(self.amateur),
            **self._shown("alpha", "amateur_temperature", "sees_prompt"),
        }

    def _formula(self, _: frozenset[str]) -> Formula | None:
        if not self.strength:
            return None
        amateur = HelperLM(
            self._helper(self.amateur),
            temperature=self.amateur_temperature,
            sees_prompt=self.sees_prompt,
        )
        if self.form == "plain":
            return BaseLM() - self.strength * amateur
        return BaseLM() + self.strength * (BaseLM(penalised=False) - amateur)

    @property
    def _support(self) -> Support | None:
        return plausible(self.alpha)
