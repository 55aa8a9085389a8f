"""DisCup: soft prompts before the text, embeddings that the base reads like tokens.

Zhang and Song 2022, "DisCup: Discriminator Cooperative Unlikelihood Prompt-tuning for Controllable
Text Generation", section 3. A discriminator teaches them (`soft_prompt_training`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.techniques.discup.network import SoftPrompts, soft_prompts
from levelfield.models.guides import Guide, GuideKind
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class DisCup(GuidedTechnique):
    """p(x_t | P_c, x_<t): the base after the soft prompt P_c of the wanted label c.

    P_c is a matrix of m embeddings that precede the prompt, after BOS if the guide was trained
    after BOS, and are read like tokens.
    In training, a discriminator shows them which of the base's likeliest next tokens lead to a text
    of the label; generation does not need it. Zhang and Song (2022), "DisCup: Discriminator
    Cooperative Unlikelihood Prompt-tuning for Controllable Text Generation", section 3. There is
    no strength. A request without control uses the base.

    Controls attributes with one value, by a guide of kind `soft-prompt` each. The prompts of
    several attributes follow one another, in alphabetical order of the attributes; the authors use
    only one.
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
        guides = self._guides(request.control)
        if not guides:
            return super()._start(request)
        begins = self.bos is not False and all(guide.reads_bos for guide in guides)
        return [*([self.base.bos_id] if begins else ()), *self._prefix(request)]

    def _guides(self, control: Control) -> tuple[Guide, ...]:
        return tuple(self._guide(attribute) for attribute in sorted(control))

    def _prompts(self, control: Control) -> SoftPrompts:
        return soft_prompts(self._guides(control), self.model, self.loading)
