"""DisCup: a soft prompt before the text, distilled from a discriminator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.guided import GuidedTechnique
from levelfield.generation.techniques.discup.soft_prompt import (
    SoftPrompts,
    soft_prompts,
)
from levelfield.models.guides import Guide, GuideKind
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class DisCup(GuidedTechnique):
    """p(x_t | P_c, x_<t): the base behind the soft prompt P_c of the wanted label c.

    P_c is a matrix of m embeddings that stand between BOS and the prompt and are read like tokens.
    A discriminator taught them, over the base's likeliest next tokens, which of these make a text
    of the label; at inference it is not needed. Zhang and Song (2022), "DisCup: Discriminator
    Cooperative Unlikelihood Prompt-tuning for Controllable Text Generation", section 3. No
    strength. A request without control is the base's.

    Controls attributes with one value, by a guide of kind `soft-prompt` each. For several
    attributes their prompts stand one behind the other, in alphabetical order of the attributes;
    the authors have one.
    """

    name: ClassVar[str] = "discup"
    guide_kind: ClassVar[GuideKind] = "soft-prompt"

    def _writer(self, control: Control) -> LanguageModel:
        return self._prompts(control).lm if control else self.base

    def _prefix(self, request: Request) -> list[int]:
        control = request.control
        return [
            id
            for attribute in sorted(control)
            for id in self._prompts(control).ids[attribute][self._wanted_label(attribute, control)]
        ]

    def _start(self, request: Request) -> list[int]:
        begins = all(
            guide.settings.get("reads_bos", True) for guide in self._guides(request.control)
        )
        return super()._start(request)[0 if begins else 1 :]

    def _guides(self, control: Control) -> tuple[Guide, ...]:
        return tuple(self._guide(attribute) for attribute in sorted(control))

    def _prompts(self, control: Control) -> SoftPrompts:
        return soft_prompts(self._guides(control), self.model, self.loading)
