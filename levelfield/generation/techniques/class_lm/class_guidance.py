"""Techniques whose guides are class-conditional language models: CTRL-lite, DExperts and GeDi."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.classes import (
    ClassContrast,
    Classes,
    ClassModel,
    ClassPosterior,
    Length,
    PosteriorFilter,
)
from levelfield.generation.logits.terms import Formula, ScaledPenalty
from levelfield.generation.technique import InChat
from levelfield.generation.techniques.class_lm.class_lm import ClassLM, Codes, class_lm
from levelfield.models.guides import GuideKind
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class ClassGuidedTechnique(GuidedTechnique, abc.ABC):
    """A technique whose guides are class-conditional language models."""

    guide_kind: ClassVar[GuideKind] = "class-lm"

    def _class_lm(self, attribute: str) -> ClassLM:
        """Returns the model of an attribute's guide."""
        return class_lm(self._guide(attribute), self.model, self.loading)

    def _wanted_class(self, attribute: str) -> Classes:
        """The class of the wanted label alone."""
        learnt = self._class_lm(attribute)
        prefix = partial(_code, learnt.codes, partial(self._wanted_label, attribute))
        return Classes((ClassModel("", learnt.lm, prefix, learnt.scored),), lambda _: "")

    def _classes(self, attribute: str) -> Classes:
        """The classes of an attribute's guide: its labels, or the wanted one and its opposite."""
        learnt = self._class_lm(attribute)
        label_of = partial(self._wanted_label, attribute)
        if learnt.opposites:
            pair = (
                ClassModel(name, learnt.lm, partial(_code, codes, label_of), learnt.scored)
                for name, codes in zip(learnt.bias, (learnt.opposites, learnt.codes), strict=True)
            )
            yes = [*learnt.bias][1]
            return Classes(tuple(pair), lambda _: yes)
        models = [ClassModel(label, learnt.lm, learnt.codes[label]) for label in learnt.labels]
        return Classes(tuple(models), label_of)


def _code(codes: Codes, label_of: Callable[[Control], str], control: Control) -> tuple[int, ...]:
    return codes[label_of(control)]


@dataclass(frozen=True, kw_only=True)
class CTRLLite(ClassGuidedTechnique):
    """p(x_t | code of c, x_<t) of the base under a guide's adapter.

    The code of the wanted label stands before the prompt. The model was trained on texts after the
    codes of their labels, as CTRL was with codes for the source of its texts (Keskar et al. 2019,
    "CTRL: A Conditional Transformer Language Model for Controllable Generation", section 3), but as
    an adapter on a base that other techniques also use. There is no strength. A request without
    control uses the base.

    Controls one attribute with one value, by a guide of kind `class-lm`.
    """

    name: ClassVar[str] = "ctrl-lite"

    def refusal(self, control: Control) -> str:
        if len(control) > 1:
            return f"{self.name}: accepts one attribute at a time; there are {', '.join(control)}"
        return super().refusal(control)

    def _writer(self, control: Control) -> LanguageModel:
        for attribute in control:
            return self._class_lm(attribute).lm
        return self.base

    def _start(self, request: Request) -> list[int]:
        for attribute in request.control:
            learnt = self._class_lm(attribute)
            code = learnt.codes[self._wanted_label(attribute, request.control)]
            return [*(() if self.bos is False else learnt.lm.opening), *code]
        return super()._start(request)


@dataclass(frozen=True, kw_only=True)
class ExpertTechnique(InChat, ClassGuidedTechnique, abc.ABC):
    """A technique whose experts are guides, or whole models in their place.

    Raises:
        UserError: `experts` can't be read.
    """

    strength: float
    experts: str = option(
        "",
        "Whole models instead of guides, one per label: positive=MODEL,negative=MODEL; without a "
        "name (negative=) the label has the base itself.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts and self.guide:
            raise UserError(f"{self.name}: give a guide or experts, not both")
        pairs = [part.partition("=") for part in self.experts.split(",")]
        labels = {label.strip() for label, is_said, _ in pairs if is_said} - {""}
        if self.experts and len(labels) < max(2, len(pairs)):
            raise UserError(
                f"experts is '{self.experts}'; expected labels, each with a model, e.g. "
                "positive=MODEL,negative=MODEL; an empty name is the base"
            )

    @property
    def _expert_names(self) -> Mapping[str, str]:
        """Label -> model, empty for the base; nothing where guides are used."""
        pairs = [part.partition("=") for part in self.experts.split(",") if part]
        return {label.strip(): model.strip() for label, _, model in pairs}

    @property
    def choices(self) -> Mapping[str, str]:
        experts = ",".join(
            f"{label}={self._label(model) if model else 'base'}"
            for label, model in self._expert_names.items()
        )
        which = {"experts": experts} if experts else super().choices
        return {"strength": f"{self.strength:g}", **which}

    def refusal(self, control: Control) -> str:
        if self._expert_names and len(control) > 1:
            return (
                f"{self.name}: experts serve one attribute at a time; there are "
                f"{', '.join(control)}"
            )
        return super().refusal(control)

    def _labels(self, attribute: str) -> tuple[str, tuple[str, ...]]:
        if self.experts:
            return "the experts", tuple(self._expert_names)
        return super()._labels(attribute)

    def _classes(self, attribute: str) -> Classes:
        if not self.experts:
            return super()._classes(attribute)
        models = [
            ClassModel(label, self._helper(model) if model else self.base)
            for label, model in self._expert_names.items()
        ]
        return Classes(tuple(models), partial(self._wanted_label, attribute))


@dataclass(frozen=True, kw_only=True)
class DExperts(ExpertTechnique):
    """log p(x_t | x_<t) + α (log p⁺(x_t | x_<t) − log p⁻(x_t | x_<t)) on the base's own tokens.

    The expert p⁺ is a model of texts with the wanted label. The anti-expert p⁻ is one of texts with
    the other label; for several others, it is the equal mixture of their models, as if one had
    learnt the same number of texts of each. Both are a guide's class-conditional language model
    after the codes of its labels, or your own models (`experts`). With several attributes, their
    differences add up. Liu et al. (2021), "DExperts: Decoding-Time Controlled Text Generation with
    Experts and Anti-Experts", section 2.

    Controls attributes with one value, by a guide of kind `class-lm` each, or one attribute by
    `experts`.

    Raises:
        UserError: `experts` can't be read, or, at the first text, a model has a different
            vocabulary from the base.
    """

    name: ClassVar[str] = "dexperts"
    strength: float = option(
        3.2, "Strength α; 0 is the base. The paper uses 3.2 for sentiment and 2 for toxicity."
    )

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        return self._steered(self.strength, self._contrast, attributes)

    def _contrast(self, attribute: str) -> ClassContrast:
        return ClassContrast(self._classes(attribute))


@dataclass(frozen=True, kw_only=True)
class GeDi(InChat, ClassGuidedTechnique):
    """log p(x_t | x_<t) + ω log P(c | x_1..t) for every candidate x_t.

    P(c | x_1..t) = softmax_c(s_c) over all labels of the guide, with
    s_c = (α / T) Σ_i≤t log P(x_i | x_<i, c) + b_c over the T tokens of the text, the prompt's and
    the candidate among them. P(· | c) is the guide's class-conditional language model, which also
    has α and b_c. Krause et al. (2021), "GeDi: Generative Discriminator Guided Sequence
    Generation", section 3.

    Controls attributes with one value, by a guide of kind `class-lm` each; several at once.
    """

    name: ClassVar[str] = "gedi"
    strength: float = option(30.0, "Strength ω, by default as published; 0 is the base.")
    length: Length = option(
        "mean",
        "Share of a token in s_c: mean, α / T of its log-probability; sum, all of it, without α "
        "and b_c, which is Bayes' rule with equal priors and grows more certain with every token.",
    )
    filter_p: float = option(
        0.0,
        "Leave out the tokens with the smallest posteriors, as long as their new probabilities "
        "sum to less than this (section 3.3); 0 leaves none out. The authors' program uses 0.8.",
        least=0,
        below=1,
    )
    target_p: float = option(
        0.8,
        "Posterior at or above which the filter keeps a token. The authors' program uses 0.8.",
        above=0,
        most=1,
    )

    class_bias: float = option(
        0.0,
        "Number added to s_c of the wanted label; the authors' program uses 2 against toxicity and "
        "0 otherwise.",
    )
    scaled_penalty: float = option(
        1.0,
        "Repetition penalty θ of the authors' program, 1.2 there: the sum is shifted so that its "
        "largest value is 10, and the values of tokens of the continuation are divided by θ as "
        "often as they occur; those of the prompt do not count. 1 means no penalty.",
        above=0,
    )

    @property
    def choices(self) -> Mapping[str, str]:
        rest = self._shown("length", "filter_p", "target_p")
        rest |= self._shown("class_bias") if self.class_bias else {}
        rest |= self._shown("scaled_penalty") if self.scaled_penalty != 1 else {}
        return {**self._shown("strength"), **super().choices, **rest}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        formula = self._steered(self.strength, self._posterior, attributes)
        if formula is None or self.scaled_penalty == 1:
            return formula
        return Formula(((1.0, ScaledPenalty(formula, self.scaled_penalty)),))

    def _posterior(self, attribute: str) -> ClassPosterior:
        learnt = self._class_lm(attribute)
        classes = self._classes(attribute)
        return ClassPosterior(
            classes,
            self.length,
            learnt.scale,
            tuple(learnt.bias[model.label] for model in classes.models),
            PosteriorFilter(self.strength, self.filter_p, self.target_p) if self.filter_p else None,
            self.class_bias,
        )
