"""The order in which a person lists names: by the numbers in them."""

from __future__ import annotations

import re

_NUMBER = re.compile("([0-9]+)")


def natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """A key that sorts `model-2` before `model-10`.

    >>> sorted(["r10", "r9", "a", "r"], key=natural)
    ['a', 'r', 'r9', 'r10']
    """
    # texts have even places and numbers odd ones, so that no text is compared with a number
    parts: list[str | tuple[int, str]] = []
    for i, part in enumerate(_NUMBER.split(name)):
        digits = part.lstrip("0")
        parts.append((len(digits), digits) if i % 2 else part)
    return parts, name
