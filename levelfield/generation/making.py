"""A technique from its name and the options that the user wrote."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import choices, make, parsed, required
from levelfield.generation.contract import Technique
from levelfield.generation.table import TECHNIQUES, TechniqueEntry
from levelfield.models.loading import Loading


def technique_entry(name: str) -> TechniqueEntry:
    """What is known of a technique without loading it.

    Raises:
        UserError: there is no such technique; names those that are spelt alike.
    """
    if name not in TECHNIQUES:
        near = difflib.get_close_matches(name, TECHNIQUES, n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "`levelfield techniques` lists them"
        )
        raise UserError(f"there is no technique '{name}'; {hint}")
    return TECHNIQUES[name]


def technique_class(name: str) -> Callable[..., Technique]:
    """The class behind a technique's name.

    Raises:
        UserError: there is no such technique.
    """
    module, _, attribute = technique_entry(name).target.partition(":")
    made: Callable[..., Technique] = getattr(importlib.import_module(module), attribute)
    return made


def make_technique(
    name: str, options: Mapping[str, object] = {}, loading: Loading | None = None
) -> Technique:
    """A technique with options; loads no model.

    Args:
        options: by name, as the user wrote them or as values.
        loading: how models are loaded, in place of the default; options go before it.

    Raises:
        UserError: there is no such technique or option, or a value is none of the option's.

    >>> make_technique("base", {"batch": "8"}).batch  # doctest: +SKIP
    8
    """
    technique = technique_class(name)
    values = technique_options(name, options)
    if missing := required(choices(technique), values):
        raise UserError(f"technique '{name}' needs --option {missing[0]}=…")
    if loading is not None:
        values["loading"] = loading
    made: Technique = make(technique, values)
    return made


def technique_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The values of a technique's options.

    Args:
        options: by name, as the user wrote them or as values.

    Raises:
        UserError: there is no such technique or option, or a value is none of the option's.
    """
    known = choices(technique_class(name))
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UserError(f"{name}: there is no option '{option}'; {hint}")
    return parsed(name, known, options)
