"""The alternative annotator test: whether a judge may replace a rater (Calderon, Reichart and Dror
2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from levelfield.core.arrays import Bools, Floats

FEWEST = 30
"""Items that a rater needs for the test; the paper asks for 50 to 100."""

FALSE_DISCOVERIES = 0.05
"""The rate that the test keeps (q of Benjamini and Yekutieli)."""

PASSES = 0.5
"""The winning rate from which on a judge passes."""


@dataclass(frozen=True)
class ReplacedRater:
    """How a judge does in the place of one rater.

    Attributes:
        rater: the column of the rater.
        items: number of items that the rater, another rater and the judge rated.
        advantage: ρ_j, the share of items on which the judge is as close to the others as the
            rater, or closer.
        p: of the hypothesis that the judge is worse than the rater by ε or more, not adjusted.
        p_adjusted: for the number of raters.
    """

    rater: int
    items: int
    advantage: float
    p: float
    p_adjusted: float

    @property
    def won(self) -> bool:
        """Whether the judge is shown not to be worse by ε."""
        return self.p_adjusted <= FALSE_DISCOVERIES


@dataclass(frozen=True)
class AnnotatorTest:
    """The test over all raters.

    Attributes:
        raters: those that have `FEWEST` items or more.
        left_out: number of raters with fewer.
        items: number of items that two raters and the judge rated.
    """

    raters: tuple[ReplacedRater, ...]
    left_out: int
    items: int

    @property
    def winning_rate(self) -> float:
        """ω, the share of raters whom the judge may replace; NaN without raters."""
        return float(np.mean([r.won for r in self.raters])) if self.raters else math.nan

    @property
    def advantage(self) -> float:
        """ρ, the mean of `advantage` over raters; NaN without raters."""
        return float(np.mean([r.advantage for r in self.raters])) if self.raters else math.nan


def alternative_annotator_test(
    judge: Floats, ratings: Floats, *, epsilon: float, nominal: bool = False
) -> AnnotatorTest:
    """Compares a judge with each rater in closeness to the other raters (section 3 of the paper).

    On an item, the closeness of a value to the m ratings of the others is −√(Σ (value − rating)² /
    m), or the share of the m that are equal to it if ratings are names. For rater j with n items,
    W^f is 1 where the judge is as close as the rater or closer, W^h where the rater is as close as
    the judge or closer, and d = W^h − W^f. The test is Student's, of mean d ≥ ε against mean d < ε,
    with p adjusted by Benjamini and Yekutieli over raters; ε is what the judge's lower cost is
    worth. If all d are equal, p is 0 or 1.

    Args:
        judge: (items,) NaN where it has no value.
        ratings: (items, raters) NaN where a rater did not rate.
        epsilon: about 0.2 where raters are experts, 0.15 where they are trained, 0.1 for others.
        nominal: whether ratings are names.
    """
    from scipy.stats import false_discovery_control

    rated = ~np.isnan(ratings)
    usable = ~np.isnan(judge) & (rated.sum(axis=1) >= 2)
    f, h, rated = judge[usable], ratings[usable], rated[usable]
    columns, sizes, advantages, p_values = [], [], [], []
    for j in range(h.shape[1]):
        rows = rated[:, j]
        n = int(rows.sum())
        if n < FEWEST:
            continue
        others = np.delete(h[rows], j, axis=1)
        judge_distance = _distance(f[rows], others, nominal=nominal)
        rater_distance = _distance(h[rows, j], others, nominal=nominal)
        tied = np.isclose(judge_distance, rater_distance, rtol=1e-12, atol=0)
        judge_wins, rater_wins = (
            tied | (judge_distance < rater_distance),
            tied | (rater_distance < judge_distance),
        )
        columns.append(j)
        sizes.append(n)
        advantages.append(float(judge_wins.mean()))
        p_values.append(_p(rater_wins, judge_wins, epsilon))
    adjusted = false_discovery_control(p_values, method="by") if p_values else []
    return AnnotatorTest(
        raters=tuple(
            ReplacedRater(j, n, advantage, p, float(q))
            for j, n, advantage, p, q in zip(
                columns, sizes, advantages, p_values, adjusted, strict=True
            )
        ),
        left_out=int(rated.any(axis=0).sum()) - len(columns),
        items=int(usable.sum()),
    )


def _distance(values: Floats, others: Floats, *, nominal: bool) -> Floats:
    """Returns the mean squared distance to the others' ratings (n, m), or for names the share that
    differ: (n,)."""
    difference = values[:, None] - others
    each = (difference != 0) & ~np.isnan(difference) if nominal else difference**2
    return np.asarray(
        np.nansum(each, axis=1) / (~np.isnan(difference)).sum(axis=1), dtype=np.float64
    )


def _p(rater_wins: Bools, judge_wins: Bools, epsilon: float) -> float:
    d = rater_wins.astype(np.float64) - judge_wins
    n = d.size
    deviation = float(d.std(ddof=1))
    if deviation == 0:
        return float(d[0] >= epsilon)
    return float(scipy.special.stdtr(n - 1, (d.mean() - epsilon) / (deviation / math.sqrt(n))))
