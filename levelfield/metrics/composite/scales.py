"""Scales of components: mean and standard deviation on reference text, shipped as data.

A scale is found by what determines a component's values: its signature without our version, without
`dtype` and `engine`, whose rounding is far below a hundredth of any standard deviation, and without
`match` and `empty`, which decide what has a value and not which.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.paths import user_path
from levelfield.core.strings import json_text
from levelfield.io.toml import TomlTable, read_toml

SHIPPED = "shipped"

Scales = Mapping[str, "StandardScale"]
"""`scale_key` -> scale."""

_DETERMINES_NOTHING = ("v", "dtype", "engine", "match", "empty")


class StandardScale(NamedTuple):
    """Mean and standard deviation of a component on reference text."""

    mean: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class ScaleTable(Options):
    """What a file says of a scale."""

    component: str = option(
        help="Key of the component, as `scale_key` gives it.",
        example='"ctrleval.coherence|model:…"',
    )
    mean: float = option(help="Mean of the component on reference text.")
    sd: float = option(help="Standard deviation of the component on reference text.", above=0)


class MeasuredScale(NamedTuple):
    """A scale as a file has it.

    Attributes:
        key: as `scale_key` gives it.
        part: the component, in words: `coherence: share`.
        n: values that it rests on.
        scale: rounded as the file has it.
    """

    key: str
    part: str
    n: int
    scale: StandardScale


def scale_key(signature: str, attribute: str = "", label: str = "") -> str:
    """Returns the key of the choices that determine the values of a component, with the label if
    its scale depends on one.

    >>> scale_key("ctrleval.coherence|model:m@1|dtype:float32|v:0.1.0")
    'ctrleval.coherence|model:m@1'
    """
    metric, *choices = signature.split("|")
    kept = [c for c in choices if c.partition(":")[0] not in _DETERMINES_NOTHING]
    group = f" of {attribute}" if attribute else ""
    return "|".join([f"{metric}{group}{f' {label}' if label else ''}", *kept])


def scales_digest(scales: Scales) -> str:
    """Names some scales and the components that they belong to, for signatures."""
    rows = [(key, scale.mean, scale.sd) for key, scale in sorted(scales.items())]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:12]


def read_scales(choice: str) -> Scales:
    """Returns the shipped scales, overridden by those of a user's file.

    Args:
        choice: `shipped`, or a file of `levelfield train scales`.

    Raises:
        UserError: the file can't be read, or is not a file of scales.
    """
    shipped = _shipped()
    return shipped if choice == SHIPPED else {**shipped, **_own(choice)}


@functools.cache
def _shipped() -> Scales:
    file = resources.files(__package__) / "scales.toml"
    return _parsed("scales.toml", read_toml(file))


@functools.lru_cache(maxsize=4)
def _own(choice: str) -> Scales:
    path = user_path(choice)
    return _parsed(choice, read_toml(path, choice, kind="file of scales"))


def _parsed(name: str, data: Mapping[str, Any]) -> Scales:
    problems: list[str] = []
    table = TomlTable(data, name, problems)
    rows = table.list_of_tables("scales", "[[scales]] with component, mean and sd")
    scales = [row.values(ScaleTable) for row in rows]
    if problems:
        raise UserError("\n".join(problems))
    return {row["component"]: StandardScale(row["mean"], row["sd"]) for row in scales}


def scales_text(header: str, facts: Mapping[str, object], scales: Sequence[MeasuredScale]) -> str:
    """Returns the text of a file of scales.

    Args:
        header: lines of comment.
        facts: what the scales rest on: numbers, strings and lists of tables.
    """
    # JSON writes strings, numbers and lists of them as TOML does
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    lines += [f"{name} = {json_text(value)}" for name, value in facts.items()]
    for measured in scales:
        lines += [
            "",
            "[[scales]]",
            f"part = {json_text(measured.part)}",
            f"component = {json_text(measured.key)}",
            f"n = {measured.n}",
            f"mean = {measured.scale.mean!r}",
            f"sd = {measured.scale.sd!r}",
        ]
    return "\n".join(lines) + "\n"
