"""Predictions of the complete text's label, as terms of formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch

from levelfield.core.sample import Control
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.readers import Readers, RowState, Texts
from levelfield.generation.logits.terms import Bound, Step, StepFunction, Term
from levelfield.generation.techniques._future.network import future_model

Form = Literal["log-p", "p"]


class FutureEstimator(RowState, Protocol):
    """P(label of the complete text | text so far), for the texts of a batch as they grow."""

    @property
    def passes(self) -> int:
        """How often each text was sent through a model so far."""
        ...

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Begins with these tokens of each text, without BOS."""
        ...

    def scores(self, candidates: torch.Tensor) -> torch.Tensor:
        """log P(label | text, candidate): candidates (rows, n) → (rows, n, labels)."""
        ...

    def log_p(self) -> torch.Tensor:
        """log P(label | text): (rows, labels). SMC asks for it once after `start` and after each
        `read`, and FUDGE never."""
        ...


@dataclass(frozen=True)
class FutureLabel(Term):
    """log B(c | x_<t, x_t), where c is the wanted label, for the tokens that may be chosen; 0 for
    the others.

    Attributes:
        form: `p` is B itself.
        estimator: makes B for a batch.
        label_of: control -> the label that it asks for.
        labels: of the estimator, in its order.
        bos_id: the token that precedes every text.
    """

    estimator: Callable[[], FutureEstimator]
    label_of: Callable[[Control], str]
    labels: tuple[str, ...]
    bos_id: int
    form: Form = "log-p"

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        reader = readers.add(self.reader(controls))
        return StepFunction(reader.log_b if self.form == "log-p" else reader.b)

    def reader(self, controls: Sequence[Control]) -> FutureGuide:
        """Returns what follows the rows of a batch, one control each."""
        labels = [self.labels.index(self.label_of(control)) for control in controls]
        return FutureGuide(self.estimator(), labels, self.bos_id)


def future_label(technique: GuidedTechnique, attribute: str, form: Form = "log-p") -> FutureLabel:
    """Returns the term of an attribute, by the guide of kind `future` that a technique has for
    it."""
    guide = technique._guide(attribute)
    learnt = future_model(guide, technique.model, technique.loading)
    label_of = partial(technique._wanted_label, attribute)
    return FutureLabel(learnt.rows, label_of, guide.labels, learnt.bos_id, form)


class FutureGuide:
    """An estimator that reads along with the base, and the label that each row wants."""

    backward_passes = 0

    def __init__(self, estimator: FutureEstimator, labels: Sequence[int], bos_id: int) -> None:
        self._estimator, self._bos_id = estimator, bos_id
        self._wanted = torch.tensor(labels)

    @property
    def passes(self) -> int:
        return self._estimator.passes

    def start(self, texts: Texts) -> None:
        self._wanted = self._wanted.to(texts.ids.device)
        self._estimator.start(texts.rows(self._bos_id))

    def read(self, tokens: torch.Tensor) -> None:
        self._estimator.read(tokens)

    def keep(self, rows: torch.Tensor) -> None:
        self._wanted = self._wanted[rows]
        self._estimator.keep(rows)

    def log_b_of_texts(self) -> torch.Tensor:
        """log P(label that the row wants | text): (rows,)."""
        return self._estimator.log_p().gather(-1, self._wanted[:, None])[:, 0]

    def log_b(self, step: Step) -> torch.Tensor:
        """Of the label that each row wants, for the tokens that may be chosen: (rows,
        vocabulary)."""
        n = int(step.support.sum(-1).max())
        likely = step.log_p.masked_fill(~step.support, -torch.inf)
        candidates = likely.topk(n, dim=-1).indices
        places = self._wanted[:, None, None].expand(*candidates.shape, 1)
        log_b = self._estimator.scores(candidates).gather(-1, places)[..., 0]
        return torch.zeros_like(step.log_p).scatter(-1, candidates, log_b.to(step.log_p.dtype))

    def b(self, step: Step) -> torch.Tensor:
        """The same without the logarithm; 1 for the others, which nobody may choose."""
        return self.log_b(step).exp()
