"""PREADD: the base minus the effect of a request for the opposite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.logits.terms import BaseLM, Formula
from levelfield.generation.techniques._request.request import RequestTechnique


@dataclass(frozen=True, kw_only=True)
class PREADD(RequestTechnique):
    """log p(x_t | x_<t) − s · (log p(x_t | r, x_<t) − log p(x_t | x_<t)), r the opposite request.

    The effect of a text that asks for the opposite is subtracted from the base s times; s = 0 is
    the base. The base is asked for what is not wanted, since it writes that readily. Pei et al.
    (2023), "PREADD: Prefix-adaptive decoding for controlled text generation", whose α is −s.

    Controls attributes with two known values (sentiment), several at once.

    Raises:
        UserError: the template has no place for a value.
    """

    name: ClassVar[str] = "preadd"
    needs_opposite: ClassVar[bool] = True
    strength: float = option(2.0, "Strength s, which is −α of the paper; 0 is the base.")

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength"), **super().choices}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes:
            return None
        undesired = self._asked_opposite(attributes)
        return BaseLM() - self.strength * (undesired - BaseLM(penalised=False))
