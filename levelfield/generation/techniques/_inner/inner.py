"""A technique inside a technique: a name with options in words, a table, or a technique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import Options, choices, option
from levelfield.generation.contract import Technique
from levelfield.generation.table import make_technique, option_words, technique_class
from levelfield.io.problems import shown
from levelfield.models.loading import Loading

Inner = str | Mapping[str, Any] | Technique
"""A name; a mapping with `technique`, its name, and its options; or an instance."""


def inner_option(default: str, help: str, names: Sequence[str]) -> Any:
    """Declares the choice of an inner technique.

    Args:
        names: of the techniques that it may be.
    """
    tables = {
        "type": "object",
        "properties": {"technique": {"enum": list(names)}},
        "required": ["technique"],
    }
    return option(
        default,
        help,
        among=names,
        expected=_one_of(names),
        fits=lambda value: isinstance(value, str | Mapping) or hasattr(type(value), "generate"),
        schema=lambda: {"anyOf": [{"enum": list(names)}, tables]},
        metavar="NAME",
    )


def inner_technique(
    inner: Inner,
    words: str,
    names: Sequence[str],
    *,
    defaults: Mapping[str, object] = {},
    overrides: Mapping[str, object] = {},
    loading: Loading,
) -> Technique:
    """Returns an inner technique.

    Args:
        inner: as the user gave it.
        words: its options if it is a name, separated by blanks.
        names: of the techniques that it may be, if it is a table.
        defaults: options that the outer technique has for it, of those that it declares; an
            instance has its own.
        overrides: options that are the outer technique's.
        loading: how its models are loaded.

    Raises:
        UserError: there is no such technique or option.
    """
    if not isinstance(inner, str) and words:
        raise UserError("inner_options: only a technique that is a name has them; leave them out")
    if not isinstance(inner, str | Mapping):
        if not overrides or not isinstance(inner, Options):
            return inner
        replaced: Technique = inner.replace(**overrides, loading=loading)
        return replaced
    if isinstance(inner, str):
        name, options = inner, option_words(words, "inner_options")
    else:
        options = {key: value for key, value in inner.items() if key != "technique"}
        name = inner.get("technique", "")
        if name not in names:
            raise UserError(f"inner: technique is {shown(name)}; expected {_one_of(names)}")
    declared = choices(technique_class(name))
    options = {key: defaults[key] for key in defaults if key in declared} | options
    return make_technique(name, {**options, **overrides}, loading if "device" in declared else None)


def _one_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
