"""RAD: the base's likeliest tokens, each with the score of the text that it leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.direction import direction_of
from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control, Sample
from levelfield.generation.logits.processor import Support, likeliest
from levelfield.generation.logits.readers import Readers, Texts
from levelfield.generation.logits.terms import BaseLM, Bound, Formula, Step, StepFunction, Term
from levelfield.generation.technique import LocalTechnique
from levelfield.generation.techniques._reward.ranking import RankingOptions
from levelfield.metrics.control import JudgedMetric
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True)
class Reward(Term):
    """min(max(r(text, x_t), 0), 1) for the tokens that may be chosen; 0 for the others.

    Attributes:
        model: whose tokens they are.
        worth: samples -> r of each; −∞ where there is none, which counts as 0.
    """

    model: LanguageModel
    worth: Callable[[Sequence[Sample]], Sequence[float]]

    def bind(self, controls: Sequence[Control], readers: Readers) -> Bound:
        rewards = readers.add(_Rewards(self, controls))
        return StepFunction(rewards.token_rewards)


class _Rewards:
    """Reads each text afresh with every token that may come next."""

    backward_passes = 0

    def __init__(self, reward: Reward, controls: Sequence[Control]) -> None:
        self._reward, self._controls = reward, [*controls]
        self.passes = 0

    def start(self, texts: Texts) -> None:
        """Texts are taken from the step."""

    def read(self, tokens: torch.Tensor) -> None:
        """Texts are taken from the step."""

    def keep(self, rows: torch.Tensor) -> None:
        self._controls = [self._controls[row] for row in rows.tolist()]

    def token_rewards(self, step: Step) -> torch.Tensor:
        model = self._reward.model
        texts = Texts(step.ids, step.mask).rows(model.bos_id)
        samples = [
            Sample(f"{row}:{token}", model.text([*text, token]), control=control)
            for row, (text, control) in enumerate(zip(texts, self._controls, strict=True))
            for token in step.support[row].nonzero()[:, 0].tolist()
        ]
        worth = torch.tensor(self._reward.worth(samples), dtype=step.log_p.dtype)
        self.passes += int(step.support.sum(-1).max())
        values = torch.zeros_like(step.log_p)
        values[step.support] = worth.clamp(0, 1).to(values.device)
        return values


@dataclass(frozen=True, kw_only=True)
class RAD(RankingOptions, LocalTechnique):
    """log p(x_t | x_<t) + β min(max(r(x_1 … x_t), 0), 1) on the base's k likeliest tokens.

    r is the value that a metric gives the text so far, including the prompt, with the token at its
    end: by default the probability of the wanted label by a judge, which may be any classifier. A
    text without a value has r = 0. Deng and Raffel (2023), "Reward-augmented decoding: efficient
    controlled text generation with a unidirectional reward model", section 2; their reward model
    continues from its own states, while a metric here reads each text afresh.

    Controls attributes that the metric judges, several at once.

    Raises:
        UserError: the metric needs more of a sample than its text and control, or lower is better.
    """

    name: ClassVar[str] = "rad"
    strength: float = option(10.0, "Strength β; 0 is the base, with all of its tokens.")
    candidates: int = option(
        20, "Number k of the base's most likely tokens that are considered.", least=1
    )

    def _check_metric(self) -> None:
        super()._check_metric()
        if more := sorted(self._metric.requires - {"text", "control"}):
            raise UserError(
                f"{self.name}: {self.metric} needs {' and '.join(more)}, and an incomplete text "
                "has none"
            )
        if direction_of(self._metric) != "higher":
            raise UserError(f"{self.name}: for {self.metric}, lower is better; expected a reward")

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength", "candidates"), "reward": self._metric_signature}

    def refusal(self, control: Control) -> str:
        reason = self._unjudged(control) if control else ""
        return f"{self.name}: {reason}" if reason else ""

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not self.strength or (isinstance(self._metric, JudgedMetric) and not attributes):
            return None
        return BaseLM() + self.strength * Reward(self.base, self._worth)

    @property
    def _support(self) -> Support | None:
        return likeliest(self.candidates)
