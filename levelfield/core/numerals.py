"""Numbers as people write them: what Python reads beyond that is refused."""

from __future__ import annotations

import math


def whole_number(text: str) -> int:
    """The whole number that a word is; `1_0`, which Python takes for 10, is none.

    Raises:
        ValueError: it is none.
    """
    if "_" in text:
        raise ValueError(text)
    return int(text)


def finite_number(text: str) -> float:
    """The number that a word is; `nan`, `inf` and `1_0` are none.

    Raises:
        ValueError: it is none.
    """
    number = math.nan if "_" in text else float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
