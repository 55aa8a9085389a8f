"""The algebra of logits techniques: terms that add up, as in `base + 2.0 * (expert - anti)`.

A term is a number for every next token, given what the text is so far. What the terms of a formula
add up to is the log-probability of the next token up to a constant; tokens that the base could not
choose stay out, whatever the terms say of them.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from levelfield.core.sample import Control
from levelfield.generation.logits.readers import Prefix, Readers, RowState
from levelfield.models.torch.language_model import LanguageModel


class Step:
    """One step of a batch.

    Attributes:
        ids: what the base has read, (rows, tokens), padding on the left.
        mask: (rows, tokens), 0 for padding.
        log_p: the base's log-probabilities of the next token, (rows, vocabulary).
        plain: the same without the repetition penalty.
        depends_on_support: whether a term has asked for `support` so far.
    """

    def __init__(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        log_p: torch.Tensor,
        plain: torch.Tensor,
        support: torch.Tensor,
    ) -> None:
        self.ids, self.mask, self.log_p, self.plain = ids, mask, log_p, plain
        self._support = support
        self.depends_on_support = False

    @property
    def support(self) -> torch.Tensor:
        """Which tokens may be chosen, (rows, vocabulary), bool."""
        self.depends_on_support = True
        return self._support


class Bound(RowState, Protocol):
    """A term that follows the rows of one batch.

    It is told of a token after the `values` of the step. Readers are told by the processor.
    """

    def values(self, step: Step) -> torch.Tensor:
        """Returns a number for every token, up to a constant a row: (rows, vocabulary)."""
        ...


class Stateless:
    """Base of bound terms that remember nothing of a text themselves."""

    def keep(self, rows: torch.Tensor) -> None:
        """Nothing to keep."""

    def read(self, tokens: torch.Tensor) -> None:
        """Nothing to remember."""


class StepFunction:
    """A bound term whose values are a function of the step.

    Args:
        values: the function.
        parts: what it reads that follows the rows.
    """

    def __init__(self, values: Callable[[Step], torch.Tensor], *parts: RowState) -> None:
        self.values, self._parts = values, parts

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only, in this order."""
        for part in self._parts:
            part.keep(rows)

    def read(self, tokens: torch.Tensor) -> None:
        """One more token a row: (rows,)."""
        for part in self._parts:
            part.read(tokens)


class Term(abc.ABC):
    """A number for every next token; terms add up to formulas."""

    @abc.abstractmethod
    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        """Makes the term follow the rows of a batch, one control each."""

    def room(self, control: Control) -> float:  # noqa: ARG002  (terms without a model)
        """The most tokens after BOS that the base may have while the term's models can read them
        all."""
        return math.inf

    def __add__(self, other: Term) -> Formula:
        return Formula((*_weighted(self), *_weighted(other)))

    def __sub__(self, other: Term) -> Formula:
        return self + -1.0 * other

    def __mul__(self, weight: float) -> Formula:
        return Formula(tuple((weight * w, term) for w, term in _weighted(self)))

    def __rmul__(self, weight: float) -> Formula:
        return self * weight

    def __neg__(self) -> Formula:
        return self * -1.0


def _weighted(term: Term) -> tuple[tuple[float, Term], ...]:
    return term.terms if isinstance(term, Formula) else ((1.0, term),)


@dataclass(frozen=True)
class Formula(Term):
    """A weighted sum of terms; those of weight 0 take no part.

    Attributes:
        terms: (weight, term).
    """

    terms: tuple[tuple[float, Term], ...]

    @property
    def is_base(self) -> bool:
        """Whether nothing but the base is left of it."""
        return self._effective() == [(1.0, BaseLM())]

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        terms = [(w, term.bind(controls, readers)) for w, term in self._effective()]

        def values(step: Step) -> torch.Tensor:
            total = torch.zeros_like(step.log_p)
            for weight, term in terms:
                total = total + (term.values(step) if weight == 1 else weight * term.values(step))
            return total

        return StepFunction(values, *(term for _, term in terms))

    def room(self, control: Control) -> float:
        return min((term.room(control) for _, term in self._effective()), default=math.inf)

    def _effective(self) -> list[tuple[float, Term]]:
        """Each term once, without those of weight 0."""
        together: dict[Term, float] = {}
        for weight, term in self.terms:
            together[term] = together.get(term, 0.0) + weight
        return [(weight, term) for term, weight in together.items() if weight]


@dataclass(frozen=True)
class Extreme(Term):
    """The largest or the least of the log-probabilities that formulas give each token.

    Attributes:
        formulas: each is normalised over the vocabulary.
        is_largest: the largest, not the least.
    """

    formulas: tuple[Formula, ...]
    is_largest: bool

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        formulas = [formula.bind(controls, readers) for formula in self.formulas]
        pick = torch.amax if self.is_largest else torch.amin

        def values(step: Step) -> torch.Tensor:
            every = [formula.values(step).log_softmax(-1) for formula in formulas]
            return pick(torch.stack(every), 0)

        return StepFunction(values, *formulas)

    def room(self, control: Control) -> float:
        return min(formula.room(control) for formula in self.formulas)


@dataclass(frozen=True)
class Likeliest(Term):
    """A formula on the tokens that it makes likeliest; −∞ elsewhere.

    Attributes:
        formula: what the terms add up to.
        keep: number of tokens to keep; more are kept where the last of them are equal.
    """

    formula: Formula
    keep: int

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        formula = self.formula.bind(controls, readers)

        def values(step: Step) -> torch.Tensor:
            values = formula.values(step).masked_fill(~step.support, -torch.inf)
            least = values.topk(min(self.keep, values.shape[-1]), dim=-1).values[:, -1:]
            return values.masked_fill(values < least, -torch.inf)

        return StepFunction(values, formula)

    def room(self, control: Control) -> float:
        return self.formula.room(control)


LARGEST = 10.0
"""What `ScaledPenalty` shifts the largest value to."""


@dataclass(frozen=True)
class ScaledPenalty(Term):
    """A formula with the repetition penalty of GeDi's authors (Krause et al. 2021, section 5.1).

    The values of the tokens that may be chosen are shifted so that the largest is 10. Then for each
    token of the continuation so far, in their order and as often as it occurs, its value is divided
    by θ, whatever its sign; where it was the largest, all are shifted again. The prompt's tokens do
    not count.

    Attributes:
        formula: what the terms add up to.
        penalty: θ.
    """

    formula: Formula
    penalty: float

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        formula, written = self.formula.bind(controls, readers), WrittenTokens(len(controls))

        def values(step: Step) -> torch.Tensor:
            values = _shifted(formula.values(step).masked_fill(~step.support, -torch.inf))
            for row, tokens in enumerate(written.rows):
                for token in tokens:
                    is_largest = bool(values[row, token] == LARGEST)
                    values[row, token] /= self.penalty
                    if is_largest:
                        values[row] = _shifted(values[row])
            return values

        return StepFunction(values, formula, written)

    def room(self, control: Control) -> float:
        return self.formula.room(control)


def _shifted(values: torch.Tensor) -> torch.Tensor:
    """Returns values whose largest is `LARGEST`; rows without a finite one as they are."""
    largest = values.max(-1, keepdim=True).values
    return values - largest.masked_fill(largest.isneginf(), 0.0) + LARGEST


class WrittenTokens:
    """The tokens that each row has got since the first step."""

    def __init__(self, rows: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(rows)]

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only, in this order."""
        self.rows = [list(self.rows[row]) for row in rows.tolist()]

    def read(self, tokens: torch.Tensor) -> None:
        """One more token a row: (rows,)."""
        for row, token in zip(self.rows, tokens.tolist(), strict=True):
            row.append(token)


@dataclass(frozen=True)
class BaseLM(Term):
    """log p(x_t | x_<t) of the base model, which the processor has already.

    Attributes:
        penalised: whether the repetition penalty is in it. What is subtracted from a model without
            the penalty has none either, so that the penalty of the sum stays as it is.
    """

    penalised: bool = True

    def bind(self, _: Sequence[Control], __: Readers) -> Bound:
        return StepFunction(lambda step: step.log_p if self.penalised else step.plain)


def no_prefix(_: Control) -> Prefix:
    """Returns the prefix of a model that reads the text alone."""
    return ()


@dataclass(frozen=True)
class HelperLM(Term):
    """log p(x_t | prefix, x_<t) / τ of a model beside the base, up to a constant.

    Attributes:
        model: a causal model with the base's vocabulary; may be the base itself.
        prefix: the tokens that it reads between BOS and the text, by the control of a row.
        temperature: τ.
        sees_prompt: whether it reads the whole prompt, or its last token only.
    """

    model: LanguageModel
    prefix: Callable[[Control], Prefix] = no_prefix
    temperature: float = 1.0
    sees_prompt: bool = True

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        reader = readers.of(self.model)
        prefixes = [self.prefix(control) for control in controls]
        slot = reader.slot(prefixes, sees_prompt=self.sees_prompt)

        def values(step: Step) -> torch.Tensor:
            log_p = reader.log_p(slot)[:, : step.log_p.shape[1]]
            return log_p.to(step.log_p.dtype) / self.temperature

        return StepFunction(values)

    def room(self, control: Control) -> float:
        return self.model.tokens.limit - 1 - len(self.prefix(control))


@dataclass(frozen=True)
class Debiasing(Term):
    """log max(e^{λ min(Δ, 0)}, ε), Δ = p(x_t | x_<t) − p'(x_t | x_<t).

    p' is a model of what is not wanted (Schick et al. 2021).

    Attributes:
        undesired: log p'.
        decay: λ.
        floor: ε.
    """

    undesired: HelperLM
    decay: float
    floor: float

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        undesired = self.undesired.bind(controls, readers)

        def values(step: Step) -> torch.Tensor:
            less = (step.plain.exp() - undesired.values(step).exp()).clamp(max=0.0)
            return (self.decay * less).clamp(min=math.log(self.floor))

        return StepFunction(values, undesired)

    def room(self, control: Control) -> float:
        return self.undesired.room(control)
