"""A sample: one generated text with everything it was generated from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Control = Mapping[str, str | tuple[str, ...]]
Ratings = Mapping[str, Mapping[str, float]]

KEYWORDS = "keywords"
"""The attribute of a control whose values are words that the text should have."""

INPUT_FIELDS = ("dataset", "source", "prompt", "context", "control")
"""The fields that the parts of `Sample.input` come from."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One generated text.

    Attributes:
        id: unique within a run; scores carry it.
        text: what the system generated, the prompt included when the system continues one.
        prompt: the content prefix that the text continues.
        source: the sentence that a style transfer rewrites.
        references: what a person wrote for the same input.
        context: dialogue turns before the text.
        control: attribute -> wanted value or values, e.g. `{"sentiment": "positive"}`.
        system, dataset, seed: where the text comes from.
        ratings: aspect -> rater -> value.
        extra: every other field of the input, untouched.
    """

    id: str
    text: str
    prompt: str = ""
    source: str = ""
    references: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    control: Control = field(default_factory=dict)
    system: str = ""
    dataset: str = ""
    seed: int | None = None
    ratings: Ratings = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shared(self) -> tuple[str, ...]:
        """What other samples may share with this one: its source, else prompt, else context.

        Samples with equal `shared` are not independent, so intervals resample them together.
        Empty when the sample was generated from nothing: it then shares nothing.
        """
        return (self.source,) if self.source else (self.prompt,) if self.prompt else self.context

    @property
    def input(self) -> tuple[object, ...] | None:
        """The request that the text answers; samples of two systems with equal inputs are a pair.

        None when the sample was generated from nothing that could be equal.
        """
        control = tuple(sorted(self.control.items()))
        if not (self.shared or control):
            return None
        return (self.dataset, self.source, self.prompt, self.context, control)


Wanted = str | tuple[str, ...]


def wanted_values(value: Wanted) -> tuple[str, ...]:
    """Returns the values one by one.

    >>> wanted_values("positive"), wanted_values(("court", "culture"))
    (('positive',), ('court', 'culture'))
    """
    return (value,) if isinstance(value, str) else value


def single_value(value: Wanted) -> Wanted:
    """Returns the value of a group of one; anything else stays as it is.

    >>> single_value(("positive",)), single_value(("court", "culture"))
    ('positive', ('court', 'culture'))
    """
    return value if isinstance(value, str) or len(value) != 1 else value[0]


def wanted_name(value: Wanted) -> str:
    """Returns the values as one name.

    >>> wanted_name(("court", "culture"))
    'court, culture'
    """
    return ", ".join(wanted_values(value))
