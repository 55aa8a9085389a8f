"""What the text will be when it is complete, as a term: log B(c | x_<t, x_t)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from levelfield.core.sample import Control
from levelfield.systems.logits.readers import Readers, Texts
from levelfield.systems.logits.terms import Bound, Stateless, Step, Term


class FutureEstimator(Protocol):
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

    def read(self, tokens: torch.Tensor) -> None:
        """One more token a text: (rows,)."""
        ...

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these texts only, in this order."""
        ...


@dataclass(frozen=True)
class FutureLabel(Term):
    """log B(c | x_<t, x_t), where c is the wanted label, for the tokens that may be chosen; 0 for
    the others.

    Attributes:
        estimator: makes B for a batch.
        wanted: control -> the label that it asks for.
        labels: of the estimator, in its order.
        bos_id: the token that precedes every text.
    """

    estimator: Callable[[], FutureEstimator]
    wanted: Callable[[Control], str]
    labels: tuple[str, ...]
    bos_id: int

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        wanted = [self.labels.index(self.wanted(control)) for control in controls]
        return _OfFuture(readers.add(_Estimation(self.estimator(), wanted, self.bos_id)))


class _Estimation:
    """An estimator that reads along with the base."""

    backward_passes = 0

    def __init__(self, estimator: FutureEstimator, wanted: Sequence[int], bos_id: int) -> None:
        self._estimator, self._bos_id = estimator, bos_id
        self._wanted = torch.tensor(wanted)

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

    def log_b(self, candidates: torch.Tensor) -> torch.Tensor:
        """Of the label that each row wants: (rows, n) → (rows, n)."""
        every_label = self._estimator.scores(candidates)
        places = self._wanted[:, None, None].expand(*candidates.shape, 1)
        return every_label.gather(-1, places)[..., 0]


class _OfFuture(Stateless):
    def __init__(self, estimation: _Estimation) -> None:
        self._estimation = estimation

    def values(self, step: Step) -> torch.Tensor:
        n = int(step.support.sum(-1).max())
        likely = step.log_p.masked_fill(~step.support, -torch.inf)
        candidates = likely.topk(n, dim=-1).indices
        log_b = self._estimation.log_b(candidates).to(step.log_p.dtype)
        return torch.zeros_like(step.log_p).scatter(-1, candidates, log_b)
