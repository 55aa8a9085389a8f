"""Weighted means of pattern evaluators: S = Σ_j β_j s_j (equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.metrics.sample_metric import SampleValue

Combine = Literal["mean", "max", "min"]


class ScoredEvaluator(NamedTuple):
    """The score s_j of an evaluator on a sample, and the mass that β_j is proportional to.

    `cut` says whether the model saw less than all.
    """

    part: str
    s: float
    mass: float
    cut: bool


def combine(s: Floats, mass: Floats, how: Combine | None) -> tuple[float, Floats]:
    """Returns S = Σ_j β_j s_j and β: (evaluators,).

    β is `mass` normalised (the plain mean when all of it is zero), or by `how`: equal for `mean`,
    all on the largest or smallest s_j for `max` and `min`.
    """
    n = len(s)
    if how in ("max", "min"):
        beta = np.zeros(n)
        beta[s.argmax() if how == "max" else s.argmin()] = 1.0
    elif how == "mean" or mass.sum() == 0:
        beta = np.full(n, 1 / n)
    else:
        beta = mass / mass.sum()
    return float(beta @ s), beta


def ensemble(scored: Sequence[ScoredEvaluator], how: Combine | None) -> SampleValue:
    """Returns the value of one sample, with what each evaluator contributes."""
    parts, s, mass, cut = zip(*scored, strict=True)
    value, beta = combine(np.array(s), np.array(mass), how)
    rows = list(zip(parts, np.array(s).tolist(), beta.tolist(), strict=True))
    return SampleValue(value, rows, any(map(bool, cut)))
