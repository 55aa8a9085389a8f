"""Which end of a metric's values is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast, get_args

Direction = Literal["higher", "lower", "none"]
"""`none` is that of a metric with a target between both ends, such as a length."""

SIGNS: Mapping[Direction, int] = {"higher": 1, "lower": -1, "none": 0}
"""Direction -> the sign that makes a better value a higher one; 0 where none is better."""


def direction_named(value: object) -> Direction:
    """Returns a direction by its name, or that of a boolean `higher_is_better`.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, bool):
        return "higher" if value else "lower"
    if isinstance(value, str) and value in get_args(Direction):
        return cast(Direction, value)
    raise ValueError(f"expected one of {', '.join(get_args(Direction))}, got {value!r:.80}")


def direction_of(metric: object) -> Direction:
    """Returns the direction of a metric or of its class.

    A metric says it by `direction`, or by the boolean `higher_is_better`; of a class and its bases,
    the first that says either counts.

    Raises:
        AttributeError: it says neither.
        ValueError: what it says is not a direction.
    """
    cls = metric if isinstance(metric, type) else type(metric)
    for holder in (metric, *cls.__mro__):
        for name in ("direction", "higher_is_better"):
            if name in getattr(holder, "__dict__", ()):
                return direction_named(getattr(metric, name))
    name = "direction" if hasattr(metric, "direction") else "higher_is_better"
    return direction_named(getattr(metric, name))


def higher_is_better(direction: Direction) -> bool | None:
    """Returns the direction as documents for programs have it; None where no end is better.

    >>> higher_is_better("lower"), higher_is_better("none")
    (False, None)
    """
    return None if direction == "none" else direction == "higher"


def in_words(direction: Direction) -> str:
    """
    >>> in_words("lower"), in_words("none")
    ('lower is better', 'no end is better')
    """
    return "no end is better" if direction == "none" else f"{direction} is better"
