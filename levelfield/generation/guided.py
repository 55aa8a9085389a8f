"""What techniques with guides have in common: which guide serves a control, and what refuses it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from levelfield.core.errors import UserError, first_line
from levelfield.core.options import option
from levelfield.core.sample import Control, single_value
from levelfield.generation.logits.classes import Classes, ClassModel
from levelfield.generation.technique import LocalTechnique
from levelfield.generation.techniques.class_lm.class_lm import ClassLM, Codes, class_lm
from levelfield.io.problems import shown
from levelfield.metrics.judges.file import shipped_judges
from levelfield.metrics.judges.judge import Judge
from levelfield.models.guides import Guide, GuideKind, guide_for, guides_for


def meant(attribute: str, value: str, labels: Sequence[str]) -> str | None:
    """Returns the label that a control's value means; None if it means none.

    Case never matters, and words that judges take for one label are one.

    >>> meant("topic", "Science/Technology", ["sci/tech", "sports"])
    'sci/tech'
    """
    if value.strip() in labels:
        return value.strip()
    judge = Judge(attribute, attribute, spellings=shipped_judges().spellings)
    meaning = judge.label(value).casefold()
    return next((label for label in labels if judge.label(label).casefold() == meaning), None)


@dataclass(frozen=True, kw_only=True)
class GuidedTechnique(LocalTechnique, abc.ABC):
    """A technique that controls the attributes of its guides."""

    guide_kind: ClassVar[GuideKind]
    guide: str = option(
        "",
        "Guides: names or folders, separated by commas, each of another attribute.",
        otherwise="those that come with the package",
        metavar="NAME",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        guides = guides_for(self.guide_kind, self.guide)
        return {"guide": ",".join(guide.label for guide in guides) or "none"}

    def refusal(self, control: Control) -> str:
        for attribute in control:
            try:
                self._wanted_label(attribute, control)
            except UserError as error:
                return f"{self.name}: {first_line(error)}"
        return ""

    def _guide(self, attribute: str) -> Guide:
        """Returns the guide of an attribute.

        Raises:
            UserError: there is none.
        """
        return guide_for(attribute, self.guide_kind, self.guide, self.model, self.loading)

    def _labels(self, attribute: str) -> tuple[str, tuple[str, ...]]:
        """What serves an attribute, in words, and the labels that it has.

        Raises:
            UserError: nothing does.
        """
        guide = self._guide(attribute)
        return f"guide {guide.name}", guide.labels

    def _wanted_label(self, attribute: str, control: Control) -> str:
        """Returns which of these labels a control asks for.

        Raises:
            UserError: none of them; names them.
        """
        owner, labels = self._labels(attribute)
        value = single_value(control[attribute])
        if not isinstance(value, str):
            raise UserError(f"{attribute} has {len(value)} values; expected one")
        if (label := meant(attribute, value, labels)) is None:
            raise UserError(
                f"{attribute} {shown(value)} is no label of {owner}: there are {', '.join(labels)}"
            )
        return label


@dataclass(frozen=True, kw_only=True)
class ClassGuidedTechnique(GuidedTechnique, abc.ABC):
    """A technique whose guides are class-conditional language models."""

    guide_kind: ClassVar[GuideKind] = "class-lm"

    def _class_lm(self, attribute: str) -> ClassLM:
        """Returns the model of an attribute's guide."""
        return class_lm(self._guide(attribute), self.model, self.loading)

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
