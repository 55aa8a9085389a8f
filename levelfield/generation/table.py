"""All techniques by name: what each controls, what it costs, and how it is made.

A technique is a folder in `levelfield/generation/techniques` with `entry.toml` and `technique.py`;
a distribution of its own announces an entry in the group `levelfield.techniques`.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter
from typing import Any, Literal

from levelfield.core.errors import UserError, models_needed
from levelfield.core.extensions import Extensible
from levelfield.core.options import choices, make, parsed, required, underscored
from levelfield.core.strings import did_you_mean
from levelfield.generation.contract import Technique
from levelfield.io.toml import read_toml
from levelfield.models.loading import Loading

Mechanism = Literal["none", "logits", "input", "states", "gradient", "editing", "search"]


@dataclass(frozen=True)
class TechniqueEntry:
    """What is known of a technique without loading it.

    Attributes:
        name: as commands and study files have it.
        target: `MODULE:CLASS`.
        mechanism: where control enters.
        summary: what it does, in one sentence.
        controls: what it controls, in words.
        cost: forward passes per token, in words; F is one of the base model.
        paper: where it comes from.
        attributes: those that it controls without a guide of the user's, `any` for all; empty where
            it ignores every control.
        documentation: its page, in the repository.
    """

    name: str
    target: str
    mechanism: Mechanism
    summary: str
    controls: str
    cost: str
    paper: str = ""
    attributes: Sequence[str] = ()
    documentation: str = ""


_PACKAGE = "levelfield.generation.techniques"


def _read_entries() -> Iterator[tuple[int, TechniqueEntry]]:
    """Yields the entry of each folder of a technique, and its place in lists."""
    for folder in files(_PACKAGE).iterdir():
        if not (file := folder / "entry.toml").is_file():
            continue
        facts = read_toml(file)
        name = folder.name.replace("_", "-")
        target = f"{_PACKAGE}.{folder.name}.technique:{facts.pop('class')}"
        page = f"{_PACKAGE.replace('.', '/')}/{facts.pop('page', f'{folder.name}/page.md')}"
        yield facts.pop("order"), TechniqueEntry(name, target, **facts, documentation=page)


_ENTRIES = {entry.name: entry for _, entry in sorted(_read_entries(), key=itemgetter(0))}

TECHNIQUES: Mapping[str, TechniqueEntry] = Extensible(
    "levelfield.techniques", TechniqueEntry, _ENTRIES
)
"""Name -> entry, in the order in which they are listed; those of other distributions come last."""

PUBLIC: Mapping[str, str] = {
    **{e.target.partition(":")[2]: e.target.partition(":")[0] for e in _ENTRIES.values()},
    "ModelTerm": f"{_PACKAGE}.combination.technique",
    "TechniqueTerm": f"{_PACKAGE}.combination.technique",
    "class_lm": f"{_PACKAGE}._class_lm.network",
    "FutureEstimator": f"{_PACKAGE}._future.guidance",
    "write_adapter": f"{_PACKAGE}._class_lm.network",
    "write_vectors": f"{_PACKAGE}._steering.vectors",
}
"""What `levelfield.generation` exports beside the contract: the classes of techniques, what they
are combined of, and what reads, writes or replaces their guides -> module."""


def technique_entry(name: str) -> TechniqueEntry:
    """What is known of a technique without loading it.

    Raises:
        UserError: there is no such technique; names those that are spelt alike.
    """
    if name not in TECHNIQUES:
        lists = "`levelfield techniques` lists them"
        hint = did_you_mean(name, TECHNIQUES, most=3, cutoff=0.5, otherwise=lists)
        raise UserError(f"there is no technique '{name}'; {hint}")
    return TECHNIQUES[name]


def controlled_by(*attributes: str) -> str:
    """Returns which techniques control attributes together, in words; empty if none does.

    >>> controlled_by("sentiment", "keywords")
    'bolt, cfg, chat and prompting control sentiment and keywords'
    """
    names = sorted(
        name
        for name, entry in TECHNIQUES.items()
        if "any" in entry.attributes or set(attributes) <= set(entry.attributes)
    )
    verb = "controls" if len(names) == 1 else "control"
    return f"{_listed(names)} {verb} {_listed(attributes)}" if names else ""


def _listed(names: Sequence[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def technique_class(name: str) -> Callable[..., Technique]:
    """Returns the class of a technique.

    Raises:
        UserError: there is no such technique.
    """
    module, _, attribute = technique_entry(name).target.partition(":")
    with models_needed():
        target: Callable[..., Technique] = getattr(importlib.import_module(module), attribute)
    return target


def make_technique(
    name: str, options: Mapping[str, object] = {}, loading: Loading | None = None
) -> Technique:
    """Returns a technique with options; loads no model.

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
    instance: Technique = make(technique, values)
    return instance


def option_words(words: str, option: str) -> dict[str, object]:
    """Returns options that are written as one text, separated by blanks.

    >>> option_words("strength=20 template='A {sentiment} review: '", "inner_options")
    {'strength': '20', 'template': 'A {sentiment} review: '}

    Raises:
        UserError: the option of this name is not written so.
    """
    try:
        pairs = [word.partition("=") for word in shlex.split(words)]
    except ValueError as error:  # a quote that does not end
        raise UserError(f"{option}: {error}; expected NAME=VALUE, separated by blanks") from None
    for name, is_pair, _ in pairs:
        if not is_pair:
            raise UserError(f"{option} has '{name}'; expected NAME=VALUE")
    return {name: value for name, _, value in pairs}


def technique_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Returns the values of a technique's options.

    Args:
        options: by name, as the user wrote them or as values.

    Raises:
        UserError: there is no such technique or option, or a value is none of the option's.
    """
    declared = choices(technique_class(name))
    options = underscored(options)
    for option in options:
        if option not in declared:
            hint = did_you_mean(option, declared)
            raise UserError(f"{name}: there is no option '{option}'; {hint}")
    return parsed(name, declared, options)
