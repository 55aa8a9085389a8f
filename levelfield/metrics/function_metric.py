"""A metric that is a function of one text."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from levelfield.core.direction import Direction
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import Undefined
from levelfield.metrics.sample_metric import SampleMetric, SampleValue

NO_VALUE = "no value"

Value = Callable[..., float | None]


def metric(function: Value | None = None, *, name: str = "", direction: Direction = "none") -> Any:
    """Makes a metric of a function; a decorator, with arguments or without.

    The function gets the fields of a sample that its parameters name, such as `text` and `prompt`,
    and returns the value of that sample. None and NaN mean that it has none. A field that a sample
    lacks has the default of its parameter; without a default it is required. The signature has a
    digest of the function's source. Values are not kept in the cache, since nothing tells when what
    the function calls changes.

    Args:
        function: of fields of a sample.
        name: of the metric; the function's by default.
        direction: which end of the values is better.

    Returns:
        The class of the metric. `score` takes it, and `--metric FILE.py:NAME`.

    Raises:
        UserError: a parameter is not a field of samples.

    >>> @metric(direction="lower")
    ... def words(text):
    ...     return len(text.split())
    >>> words().score([Sample("1", "A calm day.")]).values
    array([3.])
    """
    if function is None:
        return lambda decorated: metric(decorated, name=name, direction=direction)
    parameters = inspect.signature(function).parameters
    field_names = {field.name for field in fields(Sample)}
    if unknown := [parameter for parameter in parameters if parameter not in field_names]:
        raise UserError(
            f"metric '{name or function.__name__}': {', '.join(unknown)}: not a field of samples; "
            f"parameters can be {', '.join(sorted(field_names))}"
        )
    optional = {
        n for n, parameter in parameters.items() if parameter.default is not parameter.empty
    }
    members = {
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "name": name or function.__name__,
        "direction": direction,
        "requires": frozenset(parameters.keys() - optional),
        "reads": frozenset(optional),
        "cacheable": False,
        "signature": signature(name or function.__name__, {"function": _digest(function)}),
        "_function": staticmethod(function),
        "_fields": tuple(parameters),
    }
    return type(function.__name__, (FunctionMetric,), members)


class FunctionMetric(SampleMetric):
    """Base of the metrics that `metric` makes."""

    signature = ""
    reads: frozenset[str]
    _function: Value
    _fields: tuple[str, ...]

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return [self._value(sample) for sample in samples]

    def _value(self, sample: Sample) -> SampleValue | Undefined:
        there = {name: getattr(sample, name) for name in self._fields}
        lacks = {name for name in self.reads if there[name] in (None, "", (), {})}
        value = self._function(**{n: item for n, item in there.items() if n not in lacks})
        if value is None or math.isnan(value):
            return Undefined(NO_VALUE)
        return SampleValue(float(value), (), False)


def _digest(function: Value) -> str:
    """Names what the function does: its source where there is one, else its code."""
    try:
        content = inspect.getsource(function).encode()
    except (OSError, TypeError):  # of a line that was typed
        content = function.__code__.co_code
    return hashlib.sha256(content).hexdigest()[:12]
