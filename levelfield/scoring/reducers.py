"""How the log of a harness makes one value of an item from the values of its draws."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

Reducer = Callable[[Sequence[float]], float]
"""One value for those of several draws, in their order; at least one, all defined."""

_ENOUGH = 1.0
"""A value of at least this is a success."""


def mode(values: Sequence[float]) -> float:
    """The most frequent value; of several, the one that comes first.

    >>> mode([0.0, 1.0, 1.0]), mode([1.0, 0.0])
    (1.0, 1.0)
    """
    return Counter(values).most_common(1)[0][0]


def majority(values: Sequence[float]) -> float:
    """The value of more than half of the draws.

    Undefined (NaN): there is none.
    """
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else math.nan


def enough_successes(k: int) -> Reducer:
    """1 where k draws or more are successes, else 0.

    >>> enough_successes(2)([1.0, 0.0, 1.0])
    1.0
    """
    return lambda values: float(_successes(values) >= k)


def pass_at(k: int) -> Reducer:
    """The chance that k of the n draws hold one of the c successes, `1 − C(n − c, k) / C(n, k)`
    (Chen et al. 2021).

    Undefined (NaN): fewer than k draws.

    >>> round(pass_at(2)([1.0, 0.0, 0.0, 0.0]), 3)
    0.5
    """

    def reduce(values: Sequence[float]) -> float:
        n, c = len(values), _successes(values)
        return 1 - math.comb(n - c, k) / math.comb(n, k) if n >= k else math.nan

    return reduce


def pass_all(k: int) -> Reducer:
    """The chance that k of the n draws are all successes, `C(c, k) / C(n, k)`.

    Undefined (NaN): fewer than k draws.
    """

    def reduce(values: Sequence[float]) -> float:
        n, c = len(values), _successes(values)
        return math.comb(c, k) / math.comb(n, k) if n >= k else math.nan

    return reduce


def _successes(values: Sequence[float]) -> int:
    return sum(value >= _ENOUGH for value in values)


_PLAIN: dict[str, Reducer] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "mode": mode,
    "majority": majority,
    "max": max,
}
_PARAMETRIC: dict[str, Callable[[int], Reducer]] = {
    "at_least": enough_successes,
    "pass_at": pass_at,
    "pass_k": pass_all,
}


def reducer_named(name: str) -> Reducer | None:
    """Returns the reducer of a name, such as `mode` or `pass_at_5`; None of a name that is unknown.

    >>> reducer_named("at_least_2")([1.0, 1.0, 0.0]), reducer_named("my_reducer")
    (1.0, None)
    """
    if name in _PLAIN:
        return _PLAIN[name]
    match = re.fullmatch(r"(.+)_(\d{1,6})", name)
    make = _PARAMETRIC.get(match[1]) if match else None
    return make(int(match[2])) if match and make and int(match[2]) else None
