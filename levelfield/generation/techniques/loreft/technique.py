"""LoReFT: learnt low-rank edits of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.generation.techniques._steering.intervention import (
    Intervention,
    LowRankEdit,
    low_rank_edits,
)
from levelfield.generation.techniques._steering.steering import StateTechnique, Wishes
from levelfield.generation.techniques._steering.vectors import guide_edits
from levelfield.models.guides import GuideKind


@dataclass(frozen=True, kw_only=True)
class LoReFT(StateTechnique):
    """h_l ← h_l + α R_lᵀ (W_l h_l + b_l − R_l h_l) for the output states of some layers l, for the
    tokens of `scope`.

    R_l, W_l and b_l are learnt so that texts of the wanted label become likely; the rows of R_l are
    orthonormal, so at α = 1 the edit sets the state's components along them. Wu et al. (2024),
    "ReFT: Representation Finetuning for Language Models", section 3.2; the authors edit the first
    and last tokens of a prompt alone. With several attributes, their edits add up.

    Controls attributes with one value, by a guide of kind `reft` each.

    Raises:
        ModelError: at the first text, a guide of another base or one whose edits don't fit it.
    """

    name: ClassVar[str] = "loreft"
    guide_kind: ClassVar[GuideKind] = "reft"

    def _intervention(self, wishes: Wishes) -> Intervention:
        total: dict[int, LowRankEdit] = {}
        for attribute, label in wishes:
            edits = guide_edits(self._guide(attribute), label, self.model, self.loading)
            for layer, edit in edits.items():
                total[layer] = total[layer] + edit if layer in total else edit
        device = self.base.device
        edits = {layer: edit.to(device) for layer, edit in total.items()}
        return low_rank_edits(self.base.model, edits, self.strength)
