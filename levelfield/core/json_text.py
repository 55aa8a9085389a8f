"""JSON that every program reads: no NaN and no infinity in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def json_text(value: object, *, indent: int | None = None) -> str:
    """A JSON document; numbers that JSON has none of, NaN and the infinite, become null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
