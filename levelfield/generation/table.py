"""All techniques by name: what each controls, what it costs, and how it is made.

A technique is a folder in `levelfield/generation/techniques` with `entry.toml` and `technique.py`;
a distribution of its own announces an entry in the group `levelfield.techniques`.
"""

from __future__ import annotations

import importlib
import inspect
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter
from typing import Any, Literal

from levelfield.core.class_file import ClassFile
from levelfield.core.errors import UserError, models_needed
from levelfield.core.extensions import Extensible, load_foreign
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
        guide: the kind of guide that it needs, if it needs one.
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
    guide: str = ""


_PACKAGE = "levelfield.generation.techniques"


def _read_entries() -> Iterator[tuple[float, TechniqueEntry]]:
    """Yields the entry of each folder of a technique, by name, and its place in lists."""
    for folder in sorted(files(_PACKAGE).iterdir(), key=lambda folder: folder.name):
        if not (file := folder / "entry.toml").is_file():
            continue
        facts = read_toml(file)
        name = folder.name.replace("_", "-")
        target = f"{_PACKAGE}.{folder.name}.technique:{facts.pop('class')}"
        page = f"{_PACKAGE.replace('.', '/')}/{facts.pop('page', f'{folder.name}/page.md')}"
        yield (
            facts.pop("order", math.inf),
            TechniqueEntry(name, target, **facts, documentation=page),
        )


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


class TechniqueFile(ClassFile):
    """A technique in a file."""

    kind = "technique"
    method = "generate"

    def signature(self, options: Mapping[str, object]) -> str:
        """Returns what texts of the technique depend on, as far as its file and its options tell,
        so that nothing runs for it."""
        words = (f"{name}:{value}" for name, value in sorted(underscored(options).items()))
        return "|".join([self.cls, *words]) + self.mark

    @property
    def label(self) -> str:
        """How tables name it: without the folders of the file."""
        return f"{self.path.name}:{self.cls}"


def technique_entry(name: str) -> TechniqueEntry:
    """Returns what is known of a technique without loading it.

    Args:
        name: as lists have it; of `PATH.py:CLASS` only the class knows, so its file runs.

    Raises:
        UserError: there is no such technique; names those that are spelt alike.
    """
    if TechniqueFile.parse(name):
        cls = technique_class(name)
        facts = {fact: getattr(cls, fact, "") for fact in ("controls", "cost", "paper")}
        summary = (inspect.getdoc(cls) or "").partition("\n")[0]
        return TechniqueEntry(name, name, mechanism_of(cls), summary, **facts)
    if name not in TECHNIQUES:
        lists = "`levelfield techniques` lists them"
        hint = did_you_mean(name, TECHNIQUES, most=3, cutoff=0.5, otherwise=lists)
        raise UserError(f"there is no technique '{name}'; {hint}")
    return TECHNIQUES[name]


def mechanism_of(technique: Any) -> Mechanism:
    """Returns where control enters by a technique or its class: as its entry says, or, of one
    without an entry, its attribute `mechanism`, by default the logits."""
    entry = TECHNIQUES.get(getattr(technique, "name", ""), technique)
    mechanism: Mechanism = getattr(entry, "mechanism", "logits")
    return mechanism


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
    """Returns the class of a technique; of `PATH.py:CLASS`, the class in that file, which runs.

    Raises:
        UserError: there is no such technique, or its file can't be run.
    """
    if file := TechniqueFile.parse(name):
        return load_foreign(file.load, f"technique '{name}' can't be loaded from {file.path}")
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
    instance: Technique
    if TechniqueFile.parse(name):
        failure = f"technique '{name}' can't be created"
        instance = load_foreign(lambda: make(technique, values), failure)
        if lacking := [part for part in _CONTRACT if not hasattr(instance, part)]:
            raise UserError(f"{failure}: it has no {lacking[0]}")
    else:
        instance = make(technique, values)
    return instance


_CONTRACT = ("name", "signature", "refusal")
"""What every technique has beside `generate`."""


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
