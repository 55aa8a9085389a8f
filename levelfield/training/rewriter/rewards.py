"""Rewards of rewrites: style by a judge, content by a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.registry import create
from levelfield.core.sample import Sample
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.training.rewriter import RewardSpec
from levelfield.training.rewriter.pairs import RewritingPair


class Rewards:
    """r(y) = λ_style P(style | y) + λ_content c(y), as Lai et al. (2021) have it, in Mao (2021),
    section 2.2.2. What a metric leaves undefined (a text without words) counts 0.

    Raises:
        UserError: no such metric or judge, or a metric of which lower is better or that has no
            value a text.
    """

    def __init__(self, spec: RewardSpec, attribute: str, loading: Loading = AS_USUAL) -> None:
        self._attribute = attribute
        self._terms: list[tuple[float, Metric]] = []
        common = {"device": loading.device}
        if spec.style:
            words = {"judges": spec.judges}
            (judged,) = create(["control.probability"], common, words)
            self._terms.append((spec.style, judged))
        if spec.content:
            (metric,) = create([spec.metric], common, {})
            if metric.level != "sample" or not metric.higher_is_better:
                raise UserError(f"--content {spec.metric}: expected a metric of single texts, of "
                                "which higher is better")  # fmt: skip
            self._terms.append((spec.content / getattr(metric, "best", 1.0), metric))

    @property
    def signatures(self) -> tuple[str, ...]:
        """Every choice that could change a reward."""
        return tuple(f"{weight:g} {metric.signature}" for weight, metric in self._terms)

    def of(self, texts: Sequence[str], pairs: Sequence[RewritingPair]) -> Floats:
        """The reward of a text for each pair: (texts,)."""
        samples = samples_of(texts, pairs, self._attribute)
        total = np.zeros(len(texts))
        for weight, metric in self._terms:
            total += weight * np.nan_to_num(metric.score(samples).values)
        return total


def samples_of(
    texts: Sequence[str], pairs: Sequence[RewritingPair], attribute: str
) -> list[Sample]:
    """Rewrites as metrics take them; the text of a pair is the reference."""
    return [
        Sample(
            id=str(n),
            text=text,
            source=pair.source,
            references=(pair.text,),
            control={attribute: pair.label},
        )
        for n, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]


def policy_loss(log_p: torch.Tensor, rewards: Any, baselines: Any) -> torch.Tensor:
    """−(r(y) − b) log P(y | x) of sampled texts: (rows,).

    Its expectation over y ~ P has the gradient of −E[r(y)] for any b that does not depend on y
    (Williams 1992). Here b is the reward of the greedy text (self-critical; Rennie et al. 2017), so
    only texts that are better than what the model would write become likelier.

    Args:
        log_p: (rows,) of whole texts, with gradients.
        rewards, baselines: (rows,).
    """
    advantage = np.asarray(rewards, np.float64) - np.asarray(baselines, np.float64)
    return -torch.as_tensor(advantage).to(log_p) * log_p
