"""Judges by name: which sets to learn from, which to be tried on, and settings that do well."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.datasets import dataset, load
from levelfield.io.toml import read_toml
from levelfield.models.small.fasttext import Settings
from levelfield.training.judge import ARCHITECTURES, Architecture, Spec, Tuning
from levelfield.training.labelled import (
    Labelled,
    Scale,
    apart,
    from_controls,
    from_ratings,
    joined,
    merged,
    split,
)


@dataclass(frozen=True)
class Prepared:
    """What `build_judge` needs.

    Attributes:
        facts: how the training texts were made, for the card.
        sources: what they are and their licences.
    """

    train: Labelled
    test: Labelled
    facts: Mapping[str, str]
    sources: tuple[str, ...]


def names() -> tuple[str, ...]:
    """The recipes: a set and an architecture each."""
    return tuple(f"{name}-{architecture}" for name in _file() for architecture in ARCHITECTURES)


def spec_of(name: str) -> Spec:
    """What a recipe trains.

    Raises:
        UserError: there is no such recipe.
    """
    set, architecture = _split(name)
    table = _file()[set]
    given = {key: value for key, value in table.get(architecture, {}).items() if key != "train"}
    spec = Spec(table["attribute"], architecture, case=bool(table.get("case")))
    if architecture == "fasttext":
        return replace(spec, fasttext=Settings(**given))
    if architecture == "transformer":
        return replace(spec, tuning=Tuning(**given))
    return replace(spec, **given)


def prepare(name: str) -> Prepared:
    """The texts of a recipe, those of training without any that the test set has something of.

    Raises:
        UserError: there is no such recipe.
        FetchError: a set can't be had.
    """
    set, architecture = _split(name)
    table = _file()[set]
    chosen = table.get(architecture, {}).get("train", table["train"])
    test = _rows(table, table["test"])
    parts = [(_rows(table, part), int(part.get("times", 1))) for part in chosen]
    together = merged(joined(parts))
    train, dropped = apart(together.rows, test.texts)
    facts = {
        "Tried on": _named(table["test"]),
        "Left out": f"{dropped:,} texts that have something of the test set",
        "Repeated": f"{together.repeated:,} rows",
    }
    return Prepared(train, test, facts, tuple(dict.fromkeys(map(_source, chosen))))


def prepared(
    rows: Labelled, test: Labelled | None, sources: Sequence[str], *, share: float, seed: int
) -> Prepared:
    """The same for texts of one's own; without held-out texts a share of the different ones is.

    Raises:
        UserError: nothing is left to train on, or to try the judge on.
    """
    together = merged(rows)
    train, dropped = together.rows, 0
    if test is None:
        train, test = split(train, share, seed)
    else:
        train, dropped = apart(train, test.texts)
    if not len(train) or not len(test):
        raise UserError(
            f"{len(train):,} texts to train on and {len(test):,} held out: expected some of both"
        )
    facts = {
        "Left out": f"{dropped:,} texts that have something of a held-out one, "
        f"{together.empty:,} without words",
        "Repeated": f"{together.repeated:,} rows",
    }
    return Prepared(train, test, facts, tuple(sources))


def _rows(table: Mapping[str, Any], part: Mapping[str, Any]) -> Labelled:
    samples: list[Sample] = load(part["set"], part=part["part"])
    if part.get("lines"):
        samples = [replace(s, text=line) for s in samples for line in s.text.splitlines()]
    if "rating" in table:
        return from_ratings(samples, Scale(**table["rating"]))
    return from_controls(samples, table["attribute"])


def _named(part: Mapping[str, Any]) -> str:
    return f"{part['set']}, {part['part']}"


def _source(part: Mapping[str, Any]) -> str:
    known = dataset(part["set"])
    licence = known.licence or "no licence stated"
    return f"{_named(part)}: {known.title}; {licence}; {known.citation}"


def _split(name: str) -> tuple[str, Architecture]:
    for architecture in ARCHITECTURES:
        set = name.removesuffix(f"-{architecture}")
        if set != name and set in _file():
            return set, architecture
    near = difflib.get_close_matches(name, names(), n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names())}"
    raise UserError(f"there is no recipe '{name}'; {hint}")


@functools.cache
def _file() -> Mapping[str, Any]:
    return read_toml(resources.files("levelfield.training") / "judge_recipes.toml")
