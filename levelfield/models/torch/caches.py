"""Caches of keys and values, by the name that the installed `transformers` has for them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any


@functools.cache
def cache_name() -> str:
    """Returns the name of a cache among a model's arguments and in its output: `cache`, or
    `past_key_values` in older versions."""
    from transformers.modeling_outputs import BaseModelOutputWithPast

    names = {field.name for field in dataclasses.fields(BaseModelOutputWithPast)}
    return "cache" if "cache" in names else "past_key_values"


def with_cache(cache: Any) -> dict[str, Any]:
    """Returns the argument that hands a model a cache, or None for none."""
    return {cache_name(): cache}


def cache_of(output: Any) -> Any:
    """Returns the cache that a model gives back."""
    return getattr(output, cache_name())
