"""What users write after options."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.core.errors import UserError


def pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as a mapping."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise UserError(f"{option} {word}: expected NAME=VALUE")
        if name in found:
            raise UserError(f"{option} {name} is given twice")
        found[name.strip()] = value.strip()
    return found
