"""How families of encoder-decoders mark a gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelfield.models.contracts import Gapped


@dataclass(frozen=True)
class GapStyle:
    """How a family of models writes a gap, and what its decoder is given before the target.

    Attributes:
        token: marks the gap in the source.
        blanks: whether the token stands between blanks whatever the text around it.
        given: tokens that the decoder reads after its start token and before the target; they
            are part of the pre-training format, not of the target, and are scored on demand only.
    """

    token: str
    blanks: bool
    given: tuple[str, ...] = ()

    def join(self, source: Gapped) -> str:
        """The source as the model reads it."""
        if not source.gap:
            return source.without_gap
        left, right = source.left, source.right
        if self.blanks:
            left = left if not left or left[-1:].isspace() else f"{left} "
            right = right if not right or right[:1].isspace() else f" {right}"
        return left + self.token + right


GAP_STYLES: Mapping[str, GapStyle] = {
    "pegasus": GapStyle("<mask_1>", blanks=True),
    "t5": GapStyle("<extra_id_0>", blanks=False, given=("<extra_id_0>",)),
    "bart": GapStyle("<mask>", blanks=False, given=("<s>",)),
}

PLAIN = GapStyle("", blanks=False)
"""Sources without gaps."""

FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
"""Tokens of causal models that were trained to fill in the middle: what stands before each part."""
