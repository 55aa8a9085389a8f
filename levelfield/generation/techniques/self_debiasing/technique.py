"""Self-debiasing: tokens that a request for the opposite makes likelier are scaled down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.logits.terms import BaseLM, Debiasing, Formula
from levelfield.generation.techniques._request.request import RequestTechnique


@dataclass(frozen=True, kw_only=True)
class SelfDebiasing(RequestTechnique):
    """p(x_t | x_<t) · max(e^{λ min(Δ, 0)}, ε), Δ = p(x_t | x_<t) − p(x_t | r, x_<t).

    r is a text that asks for the opposite. Tokens that it makes likelier are scaled down, by the
    difference of the probabilities; all others keep theirs. λ = 0 is the base. Schick et al.
    (2021), "Self-diagnosis and self-debiasing: A proposal for reducing corpus-based bias in NLP",
    whose program has the floor ε.

    Controls attributes with two known values (sentiment), several at once.

    Raises:
        UserError: the template has no place for a value.
    """

    name: ClassVar[str] = "self-debiasing"
    needs_opposite: ClassVar[bool] = True
    strength: float = option(50.0, "Strength λ of the decay, at least 0; 0 is the base.")
    floor: float = option(
        0.01, "Smallest factor ε of a token, as in the authors' program.", above=0, most=1
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength"), **super().choices, **self._shown("floor")}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes or not self.strength:
            return None
        return BaseLM() + Debiasing(self._asked_opposite(attributes), self.strength, self.floor)
