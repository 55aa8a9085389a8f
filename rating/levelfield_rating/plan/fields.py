"""Fields that several parts of a study file have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield_rating.units import TAG, is_language

LANGUAGE: Mapping[str, Any] = {
    "fits": is_language,
    "expected": "the tag of a language, such as en or pt-BR",
    "example": '"en"',
    "schema": lambda: {"pattern": f"^{TAG.pattern}$"},
}
"""What the tag of a language has to be, for `option`."""

TASK = '"Make it formal."'

MISPLACED = dict.fromkeys(
    (
        *("id", "version", "title", "language", "contact", "duration", "consent_version"),
        *("samples", "map", "ids", "show", "direction", "task"),
    ),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""
