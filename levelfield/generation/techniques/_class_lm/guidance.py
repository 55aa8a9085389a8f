"""Base of the techniques whose guides are class-conditional language models."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.classes import Classes, ClassModel
from levelfield.generation.techniques._class_lm.network import ClassLM, Codes, class_lm
from levelfield.models.guides import GuideKind


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
