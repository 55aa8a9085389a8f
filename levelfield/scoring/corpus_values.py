"""Values of a whole corpus that logs make from sums over its documents: perplexities, and bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from levelfield.core.arrays import Floats


@dataclass(frozen=True)
class Aggregation:
    """A value f(R) of the rate `R = Σ l_i / Σ w_i` of documents i.

    l_i is the log-likelihood of a document, w_i what it is divided by: its words, its bytes, or 1.

    Attributes:
        formula: for signatures.
        value, slope: f and its derivative.
    """

    formula: str
    value: Callable[[float], float]
    slope: Callable[[float], float]


def _exp(x: float) -> float:
    return float(np.exp(min(x, 1e3)))  # infinite rather than an error


PERPLEXITY = Aggregation("exp(-sum/weights)", lambda r: _exp(-r), lambda r: -_exp(-r))
BITS = Aggregation("-sum/weights/ln2", lambda r: -r / math.log(2), lambda _: -1 / math.log(2))

AGGREGATIONS: Mapping[str, Aggregation] = {
    "perplexity": PERPLEXITY,
    "weighted_perplexity": PERPLEXITY,
    "bits_per_byte": BITS,
}
"""By the names that lm-evaluation-harness gives them."""


def rate(l: Floats, w: Floats) -> float:  # noqa: E741 (l is the log-likelihood)
    """Returns R; NaN without documents."""
    total = float(w.sum())
    return float(l.sum()) / total if total else math.nan


def rates(l: Floats, w: Floats) -> Floats:  # noqa: E741
    """Returns what each document adds to R to first order, `R + (l_i − R w_i) / w̄`.

    Their mean is R, and the variance of that mean is the one of a ratio (Cochran 1977, section
    6.4). Where all weights are 1 they are l_i.
    """
    R = rate(l, w)
    return np.asarray(R + (l - R * w) / w.mean(), dtype=np.float64)


def shares_of_value(aggregation: Aggregation, r: Floats) -> Floats:
    """Returns what each document adds to f(R) to first order, `f(R) + f'(R) (r_i − R)`, of `rates`;
    their mean is f(R)."""
    R = float(r.mean())
    return np.asarray(aggregation.value(R) + aggregation.slope(R) * (r - R), dtype=np.float64)
