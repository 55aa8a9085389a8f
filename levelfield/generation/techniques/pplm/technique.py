"""PPLM: the base after a past that gradients push towards the control, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.pace import Regulator
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.terms import BaseLM, Formula
from levelfield.generation.open_rows import OpenRows, frozen
from levelfield.generation.sampling import Continuation, Growth, grow
from levelfield.generation.technique import Prompted
from levelfield.generation.techniques._bags.bags import bag_label, bag_problem, wanted_tokens
from levelfield.generation.techniques._head.network import head_model
from levelfield.generation.techniques.pplm.perturbed import Goal, Perturbation, PerturbedLM
from levelfield.generation.width import TextRows
from levelfield.models.guides import GuideKind, guides_for
from levelfield.models.resolve import OFFLINE_LM

PASTS = 6
"""Times the memory of a past that a step takes: the past, the changed one, their gradients, and
what these are computed from."""


@dataclass(frozen=True, kw_only=True)
class PPLM(Perturbation, GuidedTechnique):
    """log p(x_t | x_<t) + γ_gm (log p̃(x_t | x_<t) − log p(x_t | x_<t)), up to a constant.

    p̃ is the base with keys and values that gradients have changed, m times at every step, so that
    words of a bag or the label of a head become likelier (`PerturbedLM` has the formulas). The
    changed past is kept in addition to the base's own. Dathathri et al. (2020), "Plug and Play
    Language Models", section 3.

    Controls attributes that have a guide of kind `head`, sentiment by the one that comes with the
    package; topics of PPLM's word lists; and with your own bag whatever its words stand for. With
    several attributes, their energies add up.

    The gradients go through the base, so there is no processor for `generate` of `transformers`.
    """

    name: ClassVar[str] = "pplm"
    guide_kind: ClassVar[GuideKind] = "head"
    bag: str = option(
        "", "File with one word per line, for attributes without a head.", metavar="FILE"
    )

    @property
    def choices(self) -> Mapping[str, str]:
        steps = ("bag_scale", "iterations", "gamma", "fusion", "kl", "window", "horizon")
        others = {
            name: value
            for name, value in self._shown("window_at", "decay", "grad_length").items()
            if value not in ("last", "false", "0")
        }
        return {
            **self._shown("strength"),
            **super().choices,
            "bag": bag_label(self.bag),
            **self._shown(*steps),
            **others,
        }

    def _problem(self, attribute: str, control: Control) -> str:
        if self._is_by_bag(attribute):
            return bag_problem(attribute, control[attribute], self.bag)
        return super()._problem(attribute, control)

    @property
    def _no_processor(self) -> str:
        return f"{self.name} acts in the cache of the base, so it is not a logits processor"

    def _is_by_bag(self, attribute: str) -> bool:
        """Returns whether no head serves an attribute and a bag may."""
        heads = guides_for(self.guide_kind, self.guide)
        if not self.guide and self.model != OFFLINE_LM:
            heads = ()
        has_head = attribute in {guide.attribute for guide in heads}
        return not has_head and bool(self.bag or attribute == "topic")

    def _goals(self, attributes: frozenset[str]) -> list[Goal]:
        return [
            Goal(partial(wanted_tokens, self, attribute, bag=self.bag))
            if self._is_by_bag(attribute)
            else self._label_goal(attribute)
            for attribute in sorted(attributes)
        ]

    def _label_goal(self, attribute: str) -> Goal:
        head = head_model(self._guide(attribute), self.model, self.loading)
        labels = head.guide.labels
        return Goal(lambda control: labels.index(self._wanted_label(attribute, control)), head)

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:  # noqa: ARG002
        return TextRows(1, PASTS) if self.strength and request.control else TextRows()

    def _prompted(self, request: Request, budget: int) -> Prompted:
        return super()._prompted(request, budget + self.horizon - 1)  # which are read, too

    def _run(
        self,
        prompted: Sequence[Prompted],
        decoding: Decoding,
        growth: Growth,
        seed: int,  # noqa: ARG002
        pace: Regulator | None = None,
    ) -> list[Continuation]:
        """As of `LocalTechnique`; `pace` multiplies the size of the steps at each position."""
        controls = [entry.request.control for entry in prompted]
        goals = self._goals(frozenset(controls[0])) if self.strength else []
        prompts = [entry.ids for entry in prompted]
        base = self.base
        with torch.no_grad(), frozen(base.model):
            rows = OpenRows.of(base.model, prompts, base.bos_id, base.device)
            formula = Formula(((1.0, BaseLM()),))
            if goals:
                perturbed = PerturbedLM(rows, goals, self, base.bos_id, pace)
                formula = formula + self.fusion * (perturbed - BaseLM(penalised=False))
            steering = SteeringProcessor(formula, controls, mask=rows.mask, decoding=decoding)
            return grow(rows, steering, growth)
