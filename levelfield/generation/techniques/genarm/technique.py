"""GenARM: the base plus the log-probabilities of a model that rewards each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.logits.terms import Formula
from levelfield.generation.techniques._class_lm.tuned import TunedTechnique


@dataclass(frozen=True, kw_only=True)
class GenARM(TunedTechnique):
    """log p(x_t | x_<t) + (1 / β) log p_r(x_t | x_<t).

    p_r is an autoregressive reward model: the reward of a text is the sum of its log-probabilities
    under p_r, so the reward of a next token is known before the rest is written. Here it is a
    guide's class-conditional language model after the code of the label, which learnt from labels,
    or your own model (`experts`), such as one trained on preferences with the loss of the paper.
    With several attributes, their rewards add up. Xu et al. (2025), "GenARM: Reward guided
    generation with autoregressive reward model for test-time alignment".

    Controls attributes with one value, by a guide of kind `class-lm` each, or one attribute by
    `experts`.

    Raises:
        UserError: `experts` can't be read, or, at the first text, a model of another vocabulary
            than the base's.
    """

    name: ClassVar[str] = "genarm"
    strength: float = option(1.0, "Strength 1 / β; 0 is the base.")

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        return self._steered(self.strength, self._tuned, attributes)
