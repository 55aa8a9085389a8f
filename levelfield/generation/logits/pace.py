"""Pace: how strongly a formula acts at each position (CAT-PAW, Gu et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from levelfield.core.sample import Control
from levelfield.generation.logits.readers import Readers, RowState
from levelfield.generation.logits.terms import (
    Bound,
    Formula,
    Stateless,
    Step,
    StepFunction,
    Term,
)


class BoundRegulator(RowState, Protocol):
    """A regulator that follows the rows of one batch."""

    def values(self, step: Step) -> torch.Tensor:
        """r of the next position of each row: (rows,), 0 or more."""
        ...


class Regulator(Protocol):
    """Says how much a position relates to a control."""

    def bind(self, controls: Sequence[Control]) -> BoundRegulator:
        """Follows the rows of a batch, one control each."""
        ...


@dataclass(frozen=True)
class Paced(Term):
    """log p + min(r / τ, m) · (s − log p): a formula s, as strong as the position asks for.

    Where r = τ that is the formula itself, and where r = 0 the base. Tokens that the formula
    leaves out stay out wherever r > 0.

    Attributes:
        inner: s.
        regulator: r.
        tau: τ, above 0.
        cap: m, above 0.
    """

    inner: Formula
    regulator: Regulator
    tau: float
    cap: float

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        inner = self.inner.bind(controls, readers)
        regulator = self.regulator.bind(controls)

        def values(step: Step) -> torch.Tensor:
            values = inner.values(step)
            pace = (regulator.values(step) / self.tau).clamp(max=self.cap)[:, None]
            paced = step.log_p + pace * (values - step.log_p)
            # exact at both ends, and no 0 · ∞ for tokens that the formula leaves out
            paced = torch.where(pace == 1, values, paced)
            return torch.where(pace == 0, step.log_p, paced)

        return StepFunction(values, inner, regulator)

    def room(self, control: Control) -> float:
        return self.inner.room(control)


@dataclass(frozen=True)
class LargestPace:
    """max_a min(r_a / τ_a, m) over attributes a: a pace for what has one strength for all of them.

    Attributes:
        regulators: r_a and τ_a, above 0.
        cap: m; infinite for none.
    """

    regulators: tuple[tuple[Regulator, float], ...]
    cap: float = math.inf

    def bind(self, controls: Sequence[Control]) -> BoundRegulator:
        bound = [(regulator.bind(controls), tau) for regulator, tau in self.regulators]

        def values(step: Step) -> torch.Tensor:
            paces = torch.stack([regulator.values(step) / tau for regulator, tau in bound])
            return paces.amax(0).clamp(max=self.cap)

        return StepFunction(values, *(regulator for regulator, _ in bound))


@dataclass(frozen=True)
class BagMass:
    """r = Σ_{w in bag} p(w | x_<t) of the base.

    Attributes:
        bag: token ids, by the control of a row.
    """

    bag: Callable[[Control], frozenset[int]]

    def bind(self, controls: Sequence[Control]) -> BoundRegulator:
        return _BagMass([sorted(self.bag(control)) for control in controls])


class _BagMass(Stateless):
    def __init__(self, bags: Sequence[Sequence[int]]) -> None:
        self._bags = [torch.tensor(bag, dtype=torch.long) for bag in bags]

    def values(self, step: Step) -> torch.Tensor:
        p = step.log_p.exp()
        return torch.stack(
            [row[bag.to(row.device)].sum() for row, bag in zip(p, self._bags, strict=True)]
        )

    def keep(self, rows: torch.Tensor) -> None:
        self._bags = [self._bags[row] for row in rows.tolist()]
