"""Terms over class-conditional models: one class against the others, and the posterior of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from levelfield.core.sample import Control
from levelfield.generation.logits.readers import Prefix, Readers
from levelfield.generation.logits.terms import Bound, Stateless, Step, StepFunction, Term
from levelfield.models.torch.language_model import LanguageModel

Length = Literal["mean", "sum"]


class ClassModel(NamedTuple):
    """How texts of a class are read: by a model, after a prefix.

    Attributes:
        prefix: of every text, or what a control makes of it.
        scored: number of tokens at its end that count as the text's.
    """

    label: str
    model: LanguageModel
    prefix: Prefix | Callable[[Control], Prefix] = ()
    scored: int = 0

    def before(self, control: Control) -> Prefix:
        """Returns the prefix of a text with this control."""
        return self.prefix(control) if callable(self.prefix) else self.prefix


@dataclass(frozen=True)
class Classes:
    """The classes of an attribute.

    Attributes:
        models: one a class; one model may serve several.
        label_of: control -> the label that it asks for.
    """

    models: tuple[ClassModel, ...]
    label_of: Callable[[Control], str]

    def room(self, control: Control) -> float:
        """Returns the most tokens after BOS that every model can read."""
        return min(
            entry.model.tokens.limit - len(entry.model.opening) - len(entry.before(control))
            for entry in self.models
        )


@dataclass(frozen=True)
class ClassContrast(Term):
    """log P(x_t | x_<t, c) − log P(x_t | x_<t, not c) for the wanted class c.

    `not c` is the equal mixture of the other classes: a mixture of texts, not of tokens. So
    P(x_1..t | not c) is the mean of their P(x_1..t | c'), and the next token's probability under c'
    counts as much as c' explains the text so far. It is what a model of all other classes' texts,
    as many of each, learns. With two classes it is the other one.
    """

    classes: Classes

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        are_many = len(self.classes.models) > 2
        rows = _ClassRows(self.classes, controls, readers, scores_texts=are_many)

        def values(step: Step) -> torch.Tensor:
            log_p = rows.log_p(step)
            return rows.wanted_values(log_p) - rows.other_log_p(log_p, step)

        return StepFunction(values, rows)

    def room(self, control: Control) -> float:
        return self.classes.room(control)


@dataclass(frozen=True)
class ClassLikelihood(Term):
    """log P(x_t | x_<t, c) for the wanted class c."""

    classes: Classes

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        rows = _ClassRows(self.classes, controls, readers, scores_texts=False)
        return StepFunction(lambda step: rows.wanted_values(rows.log_p(step)), rows)

    def room(self, control: Control) -> float:
        return self.classes.room(control)


@dataclass(frozen=True)
class PosteriorFilter:
    """Leaves out tokens that speak against the wanted class (Krause et al. 2021, section 3.3).

    With the tokens in ascending order of P(c | x_1..t), left out are those up to which the
    probabilities p(x_t) P(c | x_1..t)^ω / Z sum to less than `mass`, where also
    P(c | x_1..t) < `target`. The token of the largest posterior always stays.

    Attributes:
        strength: ω.
        mass: 1 − ρ of the paper, `filter_p` of the authors' code.
        target: τ of the paper, `target_p` of the authors' code.
    """

    strength: float
    mass: float
    target: float

    def leaves_out(self, posterior: torch.Tensor, step: Step) -> torch.Tensor:
        """Returns which tokens: (rows, vocabulary), bool.

        Args:
            posterior: log P(c | x_1..t) of every token, (rows, vocabulary).
        """
        weighted = step.plain + self.strength * posterior
        weighted = weighted.masked_fill(~step.support, -torch.inf).softmax(-1)
        ordered, places = posterior.sort(-1)
        below = weighted.gather(-1, places).cumsum(-1) < self.mass
        left_out = below & (ordered < math.log(self.target) if self.target else False)
        return torch.zeros_like(left_out).scatter(-1, places, left_out)


@dataclass(frozen=True)
class ClassPosterior(Term):
    """log P(c | x_1..t) of the wanted class c for every next token x_t, by Bayes' rule.

    P(c | x_1..t) = softmax_c(s_c), s_c = (α / T) Σ_i≤t log P(x_i | x_<i, c) + b_c over the T tokens
    of the text, the prompt's and the candidate among them; with `sum`, s_c = Σ_i≤t log P(x_i |
    x_<i, c), Bayes' rule with equal priors.

    Attributes:
        length: `mean` or `sum`.
        scale: α; not of `sum`.
        bias: b_c of each class; not of `sum`.
        filter: leaves tokens out; None for none.
        wanted_bias: added to s_c of the wanted class.
    """

    classes: Classes
    length: Length = "mean"
    scale: float = 1.0
    bias: tuple[float, ...] = ()
    filter: PosteriorFilter | None = None
    wanted_bias: float = 0.0

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        rows = _ClassRows(self.classes, controls, readers, scores_texts=True)

        def values(step: Step) -> torch.Tensor:
            log_p, text = rows.log_p(step), rows.text_log_p(step)
            scores = (text - text.max(0).values).to(log_p)[..., None] + log_p
            if self.length == "mean":
                tokens = rows.lengths(step)[:, None].to(scores) + 1
                scores = self.scale / tokens * scores
                scores = scores + scores.new_tensor(self.bias)[:, None, None]
            if self.wanted_bias:
                scores = scores + self.wanted_bias * rows.is_wanted(scores)
            posterior = rows.wanted_values(scores.log_softmax(0))
            if self.filter is None:
                return posterior
            return posterior.masked_fill(self.filter.leaves_out(posterior, step), -torch.inf)

        return StepFunction(values, rows)

    def room(self, control: Control) -> float:
        return self.classes.room(control)


@dataclass(frozen=True)
class ReconstructedPosterior(Term):
    """log (d_c / Σ_c' d_c') of the wanted class c, with d_c = Π_i≤t −1 / log P(x_i | x_<i, c).

    The product is over the tokens of the continuation, the candidate x_t among them.

    −1 / log p rises with p as p itself does, but slowly where p is small, so that one token decides
    less (Zhong et al. 2023, Air-Decoding).
    """

    classes: Classes

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        return _ReconstructedRows(
            _ClassRows(self.classes, controls, readers, scores_texts=False), len(controls)
        )

    def room(self, control: Control) -> float:
        return self.classes.room(control)


class _ReconstructedRows:
    """The rows of a batch, with what their continuations amount to under each class."""

    def __init__(self, rows: _ClassRows, count: int) -> None:
        self._rows = rows
        self._written = torch.zeros(1, count)
        self._next = torch.empty(0)

    def values(self, step: Step) -> torch.Tensor:
        nats = -self._rows.log_p(step)
        limits = torch.finfo(nats.dtype)
        self._next = -nats.clamp(limits.tiny, limits.max).log()
        scores = self._written.to(self._next)[..., None] + self._next
        return self._rows.wanted_values(scores.log_softmax(0))

    def read(self, tokens: torch.Tensor) -> None:
        chosen = self._next.gather(2, tokens.expand(len(self._next), -1)[..., None])[..., 0]
        self._written = self._written.to(chosen) + chosen
        self._rows.read(tokens)

    def keep(self, rows: torch.Tensor) -> None:
        self._rows.keep(rows)
        self._written = self._written[:, rows.to(self._written.device)]
        self._next = self._next[:, rows.to(self._next.device)]


class _ClassRows(Stateless):
    """The texts of a batch, read under every class."""

    def __init__(
        self,
        classes: Classes,
        controls: Sequence[Control],
        readers: Readers,
        *,
        scores_texts: bool,
    ) -> None:
        labels = [model.label for model in classes.models]
        self._wanted = torch.tensor(
            [labels.index(classes.label_of(control)) for control in controls]
        )
        self._readers = [readers.of(class_model.model) for class_model in classes.models]
        self._slots = [
            reader.slot(
                [class_model.before(control) for control in controls],
                scores_texts=scores_texts,
                scored=class_model.scored,
            )
            for reader, class_model in zip(self._readers, classes.models, strict=True)
        ]

    def log_p(self, step: Step) -> torch.Tensor:
        """log P(next token | text, c): (classes, rows, vocabulary)."""
        width = step.log_p.shape[1]
        pairs = zip(self._readers, self._slots, strict=True)
        return torch.stack([reader.log_p(slot)[:, :width].to(step.log_p) for reader, slot in pairs])

    def text_log_p(self, step: Step) -> torch.Tensor:
        """log P(text so far | c): (classes, rows), float64."""
        pairs = zip(self._readers, self._slots, strict=True)
        return torch.stack([reader.text_log_p(slot).to(step.ids.device) for reader, slot in pairs])

    def lengths(self, step: Step) -> torch.Tensor:
        """Tokens of the text so far: (rows,)."""
        return self._readers[0].lengths(self._slots[0]).to(step.ids.device)

    def wanted_values(self, values: torch.Tensor) -> torch.Tensor:
        """(classes, rows, vocabulary) -> (rows, vocabulary) of the wanted classes."""
        return values[self._wanted.to(values.device), torch.arange(values.shape[1])]

    def is_wanted(self, values: torch.Tensor) -> torch.Tensor:
        """(classes, rows, vocabulary) -> whether a class is the wanted one: (classes, rows, 1)."""
        classes = torch.arange(len(values), device=values.device)
        return (classes[:, None] == self._wanted.to(values.device))[..., None]

    def other_log_p(self, log_p: torch.Tensor, step: Step) -> torch.Tensor:
        """(classes, rows, vocabulary) -> (rows, vocabulary) of the mixture of the others."""
        if len(log_p) == 2:
            return self.wanted_values(log_p.flip(0))
        text = self.text_log_p(step)
        places = torch.arange(len(text), device=text.device)
        is_wanted = places[:, None] == self._wanted.to(text.device)
        share = text.masked_fill(is_wanted, -torch.inf).log_softmax(0)
        return (share.to(log_p)[..., None] + log_p).logsumexp(0)

    def keep(self, rows: torch.Tensor) -> None:
        self._wanted = self._wanted[rows.to(self._wanted.device)]
