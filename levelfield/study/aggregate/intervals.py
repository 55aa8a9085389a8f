"""Intervals of means over cells, with prompts as a sample, and seeds if there are several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.undefined import OF_CORPUS, ONE_PROMPT, ONLY_CELLS
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.seeds import Contrast
from levelfield.stats.shares import share_ends
from levelfield.study.aggregate.control import ControlData
from levelfield.study.aggregate.seeds import MeasuredTexts, weights_of_mean
from levelfield.study.observations import Observed


def interval_of_mean(
    control: ControlData,
    o: Observed,
    texts: MeasuredTexts | None,
    positions: Sequence[int],
    *,
    mean: float,
    n: int,
    value: int,
    votes: int,
) -> Estimate:
    """Returns the interval of a weighted mean.

    It is that of `stats.seeds.contrast`, of shares that of `share_ends` with its variance. With one
    seed it holds for this run. No interval where only cells are known or no dataset has two
    prompts.

    Args:
        o: the measure.
        texts: of the system with a value of the measure; None if only cells are known.
        positions: of the cells that the mean is taken over.
        mean: of the measure.
        n: number of values it rests on.
        value: 0 for all values of the control together, else 1 and the position of one.
        votes: of how many votes the values are shares, in percent; 0 if they are none.
    """
    if texts is None:
        why = OF_CORPUS if o.measure.kind == "corpus" else ONLY_CELLS
        return estimate_of_mean(mean, math.nan, math.nan, n=n, clusters=0, why_no_interval=why)
    w = weights_of_mean(control, o, texts, positions, value)
    of_clusters = np.bincount(texts.clusters[texts.inputs], w).astype(np.float64)
    clusters = int(np.count_nonzero(of_clusters))
    c = texts.mean(w)
    if c is None:
        why = ONE_PROMPT if clusters else ONLY_CELLS
        return estimate_of_mean(
            mean, math.nan, math.nan, n=n, clusters=clusters, why_no_interval=why
        )
    level = control.resampling.level
    low, high = _ends_of_share(c, w, of_clusters, votes, level) if votes else c.ends(level)
    if o.measure.percent:
        low, high = max(low, 0.0), min(high, 100.0)
    return estimate_of_mean(mean, low, high, n=n, clusters=clusters)


def _ends_of_share(
    c: Contrast, weights: Floats, of_clusters: Floats, votes: int, level: float
) -> tuple[float, float]:
    """Returns the ends in percent, from the weights of texts and of clusters, which sum to 1."""
    low, high = share_ends(
        min(max(c.value / 100, 0.0), 1.0),
        c.variance / 100**2,
        n=_effective(weights),
        clusters=_effective(of_clusters),
        level=level,
        df=c.df,
        votes=votes,
    )
    return 100 * low, 100 * high


def _effective(weights: Floats) -> float:
    """Returns how many equal weights tell as much as these, which sum to 1 (Kish 1965)."""
    return round(1 / float(weights @ weights), 6)
