"""CTRL-lite: the base with an adapter that was trained on texts after the codes of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.techniques._class_lm.guidance import ClassGuidedTechnique
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class CTRLLite(ClassGuidedTechnique):
    """p(x_t | code of c, x_<t) of the base under a guide's adapter.

    The code of the wanted label precedes the prompt. The model was trained on texts after the
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
