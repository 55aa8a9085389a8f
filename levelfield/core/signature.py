"""Signatures: one line that names every choice that could change a number, as sacreBLEU does it."""

from __future__ import annotations

from collections.abc import Mapping

from levelfield.version import SIGNED

_RESERVED = str.maketrans({"|": "/", "\n": " ", "\r": " "})


def signature(metric: str, choices: Mapping[str, object]) -> str:
    """Returns the signature of a metric with the choices made for it.

    >>> signature("ctrleval.coherence", {"weights": "nisf", "dtype": "float32"})
    'ctrleval.coherence|weights:nisf|dtype:float32|v:0.1.0'

    Two runs with equal signatures give equal numbers. A `|` in a choice (a model folder may hold
    one) is written as `/`.
    """
    return f"{with_choices(metric, choices)}|v:{SIGNED}"


def with_choices(metric: str, choices: Mapping[str, object]) -> str:
    """Returns a signature without our version, of numbers that another program computed.

    >>> with_choices("elsewhere.bleurt", {"file": "scores.csv"})
    'elsewhere.bleurt|file:scores.csv'
    """
    fields = [f"{name}:{str(choice).translate(_RESERVED)}" for name, choice in choices.items()]
    return "|".join([metric.translate(_RESERVED), *fields])


def with_run(signature: str, *, n: int, undefined: int, truncated: int) -> str:
    """Returns a signature with its run part: how many samples, how many undefined, how many cut.

    >>> with_run("m|v:0.1.0", n=360, undefined=2, truncated=0)
    'm|v:0.1.0|n:360 undefined:2 truncated:0'
    """
    return f"{signature}|n:{n} undefined:{undefined} truncated:{truncated}"
