"""Rules that make a sentence formal or informal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.sample import Control, single_value
from levelfield.generation.techniques._rewriting.model_free import ModelFreeRewriting
from levelfield.generation.techniques.rules.formality import STYLES, digest, rewrite
from levelfield.io.problems import shown

ATTRIBUTE = "formality"


@dataclass(frozen=True, kw_only=True)
class FormalityRules(ModelFreeRewriting):
    """Rules for English that make a sentence formal or informal: contractions, abbreviations,
    capitals, marks at the end, and a small table of words.

    Controls `formality`: `formal` or `informal`. Applied to its own output it changes nothing.
    Addresses, mentions, words with digits, words with a capital inside a sentence, and letters
    outside ASCII stay as they are.
    """

    name: ClassVar[str] = "rules"

    @property
    def choices(self) -> Mapping[str, str]:
        return {"rules": f"{ATTRIBUTE}@{digest()}"}

    def refusal(self, control: Control) -> str:
        if set(control) != {ATTRIBUTE}:
            names = ", ".join(control) or "nothing"
            return f"{self.name}: there are rules for {ATTRIBUTE} only, and {names} is requested"
        value = single_value(control[ATTRIBUTE])
        if value not in STYLES:
            return f"{self.name}: {ATTRIBUTE} is {shown(value)}; expected {' or '.join(STYLES)}"
        return ""

    def rewritten(self, source: str, control: Control) -> str:
        return rewrite(source, str(single_value(control[ATTRIBUTE])))
