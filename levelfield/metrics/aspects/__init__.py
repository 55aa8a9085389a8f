"""Aspects of attribute relevance as data: labels, prompts and verbalizers in TOML files.

A user's own aspect is a file of the same form and no code:

    attribute = "formality"
    labels = ["formal", "informal"]
    prompts = ["<text> The tone is <gap>."]

    [[verbalizers]]
    formal = "formal"
    informal = "casual"

Every prompt times every verbalizer is one pattern evaluator.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.paths import user_path
from levelfield.io.toml import TomlTable, read_toml

TEXT, GAP = "<text>", "<gap>"


@dataclass(frozen=True)
class Aspect(Options):
    """How to ask a model for one attribute: labels, prompts and words."""

    attribute: str = option(
        help="Key of a sample's `control`.", example='"formality"', positional=True
    )
    labels: tuple[str, ...] = option(
        help="Labels of the attribute, at least two, all different.",
        fewest=2,
        expected='at least two different words, such as ["formal", "casual"]',
        positional=True,
    )
    prompts: tuple[str, ...] = option(
        help=f"Prompts of the evaluators, each with {TEXT} and {GAP} once.",
        fewest=1,
        example=f'"{TEXT} The tone is {GAP}."',
        positional=True,
    )
    verbalizers: tuple[Mapping[str, str], ...] = option(
        help="Words that stand for the labels, each a table with a word for every label.",
        fewest=1,
        positional=True,
    )

    @functools.cached_property
    def digest(self) -> str:
        """The digest of all that, for signatures."""
        fields = (self.attribute, [*self.labels], [*self.prompts], [*self.verbalizers])
        return hashlib.sha256(repr(fields).encode()).hexdigest()[:12]

    def label(self, value: object) -> str | None:
        """Returns the label that a control's value means, ignoring case; None if there is none."""
        folded = value.strip().casefold() if isinstance(value, str) else None
        return next((label for label in self.labels if label.casefold() == folded), None)


@functools.cache
def shipped() -> Mapping[str, Aspect]:
    """Returns the aspects that come with the package, by attribute."""
    files = [f for f in resources.files(__name__).iterdir() if f.name.endswith(".toml")]
    aspects = [_parse(f.name, read_toml(f)) for f in sorted(files, key=lambda f: f.name)]
    return {aspect.attribute: aspect for aspect in aspects}


def load_aspect(name: str) -> Aspect:
    """Returns a shipped aspect by its attribute, or the one in a TOML file.

    Raises:
        UserError: there is none, or the file is not an aspect; names the file, the field, the mend.
    """
    if name in shipped():
        return shipped()[name]
    path = user_path(name)
    if not name.endswith(".toml"):
        raise UserError(
            f"there is no aspect '{name}'; there are {', '.join(shipped())}, or give a TOML file"
        )
    return _parse(name, read_toml(path, name, kind="aspect file"))


def _parse(name: str, data: Mapping[str, Any]) -> Aspect:
    problems: list[str] = []
    table = TomlTable(data, name, problems)
    values = table.values(Aspect, without=("verbalizers",))
    labels = values.get("labels", ())
    if len(set(labels)) < len(labels):
        table.wrong_field("labels", "expected at least two different words; one occurs twice")
    for n, prompt in enumerate(values.get("prompts", ()), 1):
        for mark in (TEXT, GAP):
            if (count := prompt.count(mark)) != 1:
                table.wrong_field(f"prompts[{n}]", f"{mark} occurs {count} times, expected once")
    values["verbalizers"] = tuple(
        _words(row, labels)
        for row in table.list_of_tables("verbalizers", "[[verbalizers]] with a word for each label")
        if labels
    )
    if problems:
        raise UserError("\n".join(problems))
    return Aspect(**values)


def _words(table: TomlTable, labels: Collection[str]) -> dict[str, str]:
    """Returns label -> word, in the order of the file."""
    names = [label for label in table if label in labels]
    names += [label for label in labels if label not in table]
    words = {label: table.text(label, f'"{label}"') for label in names}
    table.finish()
    return words
