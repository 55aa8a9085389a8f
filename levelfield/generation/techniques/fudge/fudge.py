"""FUDGE: the base times what a discriminator expects of the complete text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Protocol

import torch

from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.processor import Support, likeliest
from levelfield.generation.logits.readers import Readers, RowState, Texts
from levelfield.generation.logits.terms import (
    Bound,
    Formula,
    Likeliest,
    Step,
    StepFunction,
    Term,
)
from levelfield.generation.technique import InChat
from levelfield.generation.techniques.fudge.future import future_model
from levelfield.models.guides import GuideKind

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
        wanted: control -> the label that it asks for.
        labels: of the estimator, in its order.
        bos_id: the token that precedes every text.
    """

    estimator: Callable[[], FutureEstimator]
    wanted: Callable[[Control], str]
    labels: tuple[str, ...]
    bos_id: int
    form: Form = "log-p"

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        reader = readers.add(self.reader(controls))
        return StepFunction(reader.log_b if self.form == "log-p" else reader.b)

    def reader(self, controls: Sequence[Control]) -> FutureGuide:
        """Returns what follows the rows of a batch, one control each."""
        labels = [self.labels.index(self.wanted(control)) for control in controls]
        return FutureGuide(self.estimator(), labels, self.bos_id)


def future_label(technique: GuidedTechnique, attribute: str, form: Form = "log-p") -> FutureLabel:
    """Returns the term of an attribute, by the guide of kind `future` that a technique has for
    it."""
    guide = technique._guide(attribute)
    learnt = future_model(guide, technique.model, technique.loading)
    wanted = partial(technique._wanted_label, attribute)
    return FutureLabel(learnt.rows, wanted, guide.labels, learnt.bos_id, form)


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


@dataclass(frozen=True, kw_only=True)
class FUDGE(InChat, GuidedTechnique):
    """log p(x_t | x_<t) + λ Σ_a log B_a(c_a | x_<t, x_t) on the base's likeliest tokens.

    B_a(c | x_1 … x_t) is the probability that the complete text has the label c of attribute a,
    given by a small model that was trained on beginnings of labelled texts. With λ = 1 and a
    perfect B this is Bayes' rule: the base given the label. Yang and Klein (2021), "FUDGE:
    Controlled Text Generation With Future Discriminators", section 3.

    With form=p it is log p + λ Σ_a B_a: B is then the value of a text so far, where the reward is 1
    for a complete text with the label and 0 for another. Mudgal et al. (2024), "Controlled decoding
    from language models", section 3.

    Controls attributes that have a guide of kind `future`, several at once; sentiment by the guide
    that comes with the package.
    """

    name: ClassVar[str] = "fudge"
    guide_kind: ClassVar[GuideKind] = "future"
    strength: float = option(15.0, "Strength λ; 0 is the base, with all of its tokens.")
    candidates: int = option(
        200, "Number of the base's most likely tokens that are considered; 0 for all.", least=0
    )
    keep: int = option(
        0,
        "Number of those tokens with the highest sums, among which one is chosen; 0 for all. The "
        "authors' programs use 10.",
        least=0,
    )

    form: Form = option(
        "log-p",
        "Term added to a token's logit: log-p adds λ log B; p adds λ B, as a value function does, "
        "so that a token that makes the label impossible loses at most λ nats.",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        form = {} if self.form == "log-p" else self._shown("form")
        shown = self._shown("candidates", "keep")
        return {**self._shown("strength"), **super().choices, **shown, **form}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        formula = self._steered(self.strength, self._future, attributes)
        if formula is None or not self.keep:
            return formula
        return Formula(((1.0, Likeliest(formula, self.keep)),))

    def _future(self, attribute: str) -> FutureLabel:
        return future_label(self, attribute, self.form)

    @property
    def _support(self) -> Support | None:
        return likeliest(self.candidates) if self.candidates else None
