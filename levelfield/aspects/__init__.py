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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeGuard

from levelfield.core.errors import UserError
from levelfield.io.toml import read_toml

TEXT, GAP = "<text>", "<gap>"


@dataclass(frozen=True)
class Aspect:
    """How to ask a model for one attribute: labels, prompts and words.

    Attributes:
        attribute: the key of a sample's `control`.
        labels: the attribute's values, at least two.
        prompts: each holds `<text>` and `<gap>` once.
        verbalizers: label -> the word that stands for it; each names every label.
        digest: of all that, for signatures.
    """

    attribute: str
    labels: tuple[str, ...]
    prompts: tuple[str, ...]
    verbalizers: tuple[Mapping[str, str], ...]
    digest: str

    def label(self, wanted: object) -> str | None:
        """The label that a control's value means, whatever its case; None if there is none."""
        folded = wanted.strip().casefold() if isinstance(wanted, str) else None
        return next((label for label in self.labels if label.casefold() == folded), None)


@functools.cache
def shipped() -> Mapping[str, Aspect]:
    """The aspects that come with the package, by attribute."""
    files = [f for f in resources.files(__name__).iterdir() if f.name.endswith(".toml")]
    aspects = [_parse(f.name, read_toml(f)) for f in sorted(files, key=lambda f: f.name)]
    return {aspect.attribute: aspect for aspect in aspects}


def load_aspect(name: str) -> Aspect:
    """A shipped aspect by its attribute, or the one in a TOML file.

    Raises:
        UserError: there is none, or the file is not an aspect; names the file, the field, the mend.
    """
    if name in shipped():
        return shipped()[name]
    path = Path(name).expanduser()
    if not name.endswith(".toml"):
        raise UserError(
            f"there is no aspect '{name}'; there are {', '.join(shipped())}, or give a TOML file"
        )
    return _parse(name, read_toml(path, name, kind="aspect file"))


def _parse(name: str, data: Mapping[str, Any]) -> Aspect:
    problems = [*_problems(data)]
    if problems:
        raise UserError("\n".join(f"{name}: {problem}" for problem in problems))
    fields = (data["attribute"], data["labels"], data["prompts"], data["verbalizers"])
    return Aspect(
        attribute=data["attribute"],
        labels=tuple(data["labels"]),
        prompts=tuple(data["prompts"]),
        verbalizers=tuple(data["verbalizers"]),
        digest=hashlib.sha256(repr(fields).encode()).hexdigest()[:12],
    )


def _problems(data: Mapping[str, Any]) -> list[str]:
    """Everything that keeps a file from being an aspect."""
    attribute, labels = data.get("attribute"), data.get("labels")
    prompts, verbalizers = data.get("prompts"), data.get("verbalizers")
    if not isinstance(attribute, str) or not attribute.strip():
        return ['attribute: expected the key of a sample\'s control, e.g. attribute = "formality"']
    if not _is_texts(labels) or len(set(labels)) < 2 or len(set(labels)) < len(labels):
        return ['labels: expected at least two different words, e.g. labels = ["formal", "casual"]']
    problems = []
    if not _is_texts(prompts):
        problems.append('prompts: expected texts such as "<text> The tone is <gap>."')
    else:
        problems += [
            f"prompts: {mark} occurs {prompt.count(mark)} times in {prompt!r}, expected once"
            for prompt in prompts
            for mark in (TEXT, GAP)
            if prompt.count(mark) != 1
        ]
    if not (isinstance(verbalizers, list) and verbalizers):
        problems.append("verbalizers: expected at least one table [[verbalizers]]")
        return problems
    for number, table in enumerate(verbalizers, 1):
        if not isinstance(table, dict) or set(table) != set(labels):
            problems.append(f"verbalizers, table {number}: expected a word for each of {labels}")
        elif not _is_texts(list(table.values())):
            problems.append(f"verbalizers, table {number}: a word is empty or not a text")
    return problems


def _is_texts(values: object) -> TypeGuard[list[str]]:
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(v, str) and v.strip() for v in values)
    )
