"""The first numbers of an engine beside PyTorch's, before any of them is used.

An engine may be wrong without an error: a converter that misreads one line of a configuration gives
probabilities that look like any others. So the first batch that a model of another engine computes
is computed by PyTorch as well, a few inputs of it, and an engine that differs is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.io.problems import printable
from levelfield.models.contracts import Gapped, Target
from levelfield.models.loading import Kind, Loading

MOST_INPUTS = 8
"""So many inputs of a batch are compared, the shortest and the longest among them."""


class Tolerance(NamedTuple):
    """How far the numbers of an engine may be from PyTorch's in float32.

    Attributes:
        quantity: what the numbers are.
        each: float32: no number differs by more.
        mean: other precisions: the mean difference of all numbers is not larger; of embeddings, the
            mean distance.
    """

    quantity: str
    each: float
    mean: Mapping[str, float]


NATS = Tolerance("log-probability in nats", 5e-4, {"bfloat16": 0.1})
PROBABILITY = Tolerance("probability", 1e-4, {"bfloat16": 0.02})
NUMBER = Tolerance("number", 1e-4, {"bfloat16": 0.02})
UNIT = Tolerance("component of a vector of unit length", 1e-5, {"bfloat16": 0.02})
STATE = UNIT._replace(quantity="component of a token's state of unit length", each=5e-5)
"""Of many tokens, the one that rounding moves most."""


class Place(NamedTuple):
    """An input of a call.

    Attributes:
        i, j: where it stands: among the first argument, and among what the second has for it.
        text: what is read there.
    """

    i: int
    j: int
    text: str


class MethodComparison(NamedTuple):
    """How the results of a method are compared.

    Attributes:
        tolerance: of its numbers.
        places: all inputs of a call.
        narrowed: the arguments of a call with these places only, the n-th of which is at the place
            `at(n)` of its result.
        at: see `narrowed`.
        numbers: what a result has for the input at i and j.
    """

    tolerance: Tolerance
    places: Callable[..., list[Place]]
    narrowed: Callable[..., tuple[Any, ...]]
    at: Callable[[int], tuple[int, int]]
    numbers: Callable[[Any, int, int], Any]


def _flat(tolerance: Tolerance, numbers: Callable[[Any, int], Any]) -> MethodComparison:
    """Returns the comparison of a method with one result for each item of its first argument."""

    def places(items: Sequence[Any], *_: object) -> list[Place]:
        return [Place(i, 0, _text(item)) for i, item in enumerate(items)]

    def narrowed(chosen: Sequence[Place], items: Sequence[Any], *more: object) -> tuple[Any, ...]:
        return ([items[place.i] for place in chosen], *more)

    return MethodComparison(
        tolerance, places, narrowed, lambda n: (n, 0), lambda result, i, _: numbers(result, i)
    )


def _nested(numbers: Callable[[Any, int, int], Any]) -> MethodComparison:
    """Returns the comparison of a method whose second argument has several items for each item
    of the first."""

    def narrowed(
        chosen: Sequence[Place], items: Sequence[Any], several: Sequence[Sequence[Any]]
    ) -> tuple[Any, ...]:
        return [items[p.i] for p in chosen], [[several[p.i][p.j]] for p in chosen]

    return MethodComparison(NATS, _places, narrowed, lambda n: (n, 0), numbers)


def _crossed(numbers: Callable[[Any, int, int], Any]) -> MethodComparison:
    """Returns the comparison of a method that combines every item of its first argument with every
    item of its second."""

    def places(items: Sequence[Any], others: Sequence[Any]) -> list[Place]:
        return _places(items, [others] * len(items))

    def narrowed(
        chosen: Sequence[Place], items: Sequence[Any], others: Sequence[Any]
    ) -> tuple[Any, ...]:
        return [items[p.i] for p in chosen], [others[p.j] for p in chosen]

    return MethodComparison(NATS, places, narrowed, lambda n: (n, n), numbers)


def _places(items: Sequence[Any], several: Sequence[Sequence[Any]]) -> list[Place]:
    """Returns a place for each of the several things that belong to each item."""
    return [
        Place(i, j, f"{_text(item)} {_text(part)}")
        for i, (item, of_item) in enumerate(zip(items, several, strict=True))
        for j, part in enumerate(of_item)
    ]


def _text(item: Any) -> str:
    """Returns what is read of an input."""
    if isinstance(item, str):
        return item
    if isinstance(item, Gapped):
        return item.without_gap
    if isinstance(item, Target):
        return item.text
    return " ".join(_text(part) for part in item)  # a pair, or a frame with its words


_TARGETS = _nested(lambda result, i, j: result.log_p[i][j])
COMPARISONS: Mapping[Kind, Mapping[str, MethodComparison]] = {
    "infilling": {"log_likelihood": _TARGETS},
    "encoder-decoder": {"log_likelihood": _TARGETS},
    "causal": {
        "log_likelihood": _flat(NATS, lambda result, i: result[i].log_p),
        "words_after": _nested(lambda result, i, j: np.concatenate(result[i].log_p[j])),
        "log_likelihood_after": _crossed(lambda result, i, j: result[i][j].log_p),
        "unigram_bos": MethodComparison(
            NATS,
            lambda: [Place(0, 0, "BOS")],
            lambda _: (),
            lambda _: (0, 0),
            lambda result, *_: result,
        ),
    },
    "encoder": {"sentences": _flat(UNIT, lambda result, i: result[0][i])},
    "states": {
        "of": _flat(STATE, lambda result, i: result[i].states),
        "input_vectors": _flat(NUMBER, lambda result, i: () if result[i] is None else result[i]),
    },
    "classifier": {"probabilities": _flat(PROBABILITY, lambda result, i: result[0][i])},
    "regressor": {"values": _flat(NUMBER, lambda result, i: result[0][i])},
    "choices": {"log_p": _flat(NATS, lambda result, i: result[i])},
}
"""Kind -> the methods whose numbers depend on the engine."""


class Checked:
    """A model of an engine, each of whose methods is compared with PyTorch's at its first use.

    It has every member of the model that it stands for. PyTorch's model is dropped after a
    comparison.
    """

    def __init__(
        self, model: Any, kind: Kind, name: str, loading: Loading, reference: Callable[[], Any]
    ) -> None:
        self._model = model
        self._where = f"model '{name}'"
        self._loading = loading
        self._reference = reference
        self._unchecked = dict(COMPARISONS.get(kind, {}))

    def __getattr__(self, name: str) -> Any:
        if name == "_unchecked":  # not made yet: this is a copy of one
            raise AttributeError(name)
        member = getattr(self._model, name)
        if name not in self._unchecked:
            return member
        return functools.partial(self._checked, name, member)

    def _checked(self, name: str, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        # the method may have been taken before its first use
        if (comparison := self._unchecked.get(name)) is None:
            return result
        if not (chosen := _chosen(comparison.places(*args))):
            return result
        narrow = comparison.narrowed(chosen, *args)
        reference = getattr(self._reference(), name)(*narrow, **kwargs)
        pairs = [
            BothNumbers(
                place,
                np.asarray(comparison.numbers(result, place.i, place.j), np.float64),
                np.asarray(comparison.numbers(reference, *comparison.at(n)), np.float64),
            )
            for n, place in enumerate(chosen)
        ]
        if problem := difference(pairs, comparison.tolerance, self._loading.dtype):
            engine = self._loading.engine
            raise ModelError(
                f"{self._where}: engine {engine} does not compute what torch does: {problem}; none "
                "of its results are kept; use --engine torch"
            )
        # texts without tokens have no numbers, and the next batch is compared
        if any(np.isfinite(pair.reference).any() for pair in pairs):
            del self._unchecked[name]
        return result


class BothNumbers(NamedTuple):
    """What an engine and PyTorch say of one input, in arrays of the same shape if they agree."""

    place: Place
    engine: Floats
    reference: Floats

    def differences(self) -> Floats:
        """Returns |engine − reference| of every number; 0 where neither has a number, and infinite
        where only one has."""
        a, b = np.atleast_1d(self.engine, self.reference)
        if a.shape != b.shape:
            return np.array([np.inf])
        with np.errstate(invalid="ignore"):  # ∞ − ∞
            d = np.abs(a - b)
        d[np.isnan(d)] = np.inf
        d[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
        flat: Floats = d.ravel()
        return flat


def difference(pairs: Sequence[BothNumbers], tolerance: Tolerance, dtype: str) -> str:
    """Says where an engine differs from PyTorch by more than it may; empty if it does not.

    Args:
        pairs: numbers of the engine with this precision, and of PyTorch in float32.
    """
    d = [pair.differences() for pair in pairs]
    n, worst = max(
        ((n, float(of_pair.max())) for n, of_pair in enumerate(d) if of_pair.size),
        default=(0, 0.0),
        key=lambda numbered: numbered[1],
    )
    place, a, b = pairs[n]
    where = f"text {place.i + 1} of the first batch ('{printable(place.text.strip())[:40]}')"
    if a.shape != b.shape:
        return f"{where} has {a.size:,} numbers, and {b.size:,} by torch"
    if dtype == "float32":
        size, allowed, relation = worst, tolerance.each, "differ by"
    else:
        if tolerance in (UNIT, STATE):  # rows of a text are vectors
            d = [np.atleast_1d(np.linalg.norm(p.engine - p.reference, axis=-1)) for p in pairs]
        every = np.concatenate([of_pair[~np.isnan(of_pair)] for of_pair in d])
        size, allowed, relation = float(every.mean()), tolerance.mean[dtype], "differ on average by"
    if size <= allowed:
        return ""
    largest = int(pairs[n].differences().argmax())
    x, y = a.ravel()[largest], b.ravel()[largest]
    return (
        f"{where}: {tolerance.quantity} {x:.6g}, and {y:.6g} by torch; "
        f"they {relation} {size:.2g}, and {allowed:g} is allowed"
    )


def _chosen(places: Sequence[Place]) -> list[Place]:
    """Returns some places, the shortest and the longest text among them; blank texts only if there
    are no others."""
    readable = [place for place in places if place.text.strip()] or places
    by_length = sorted(readable, key=lambda place: len(place.text))
    ranks = np.linspace(0, len(by_length) - 1, min(MOST_INPUTS, len(by_length))).round()
    return [by_length[int(rank)] for rank in ranks]
