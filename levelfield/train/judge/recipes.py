"""Judges by name: which sets to learn from, which to test on, and settings that work well."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.strings import did_you_mean
from levelfield.datasets import load
from levelfield.io.toml import read_toml
from levelfield.train.judge import ARCHITECTURES, JudgeSpec
from levelfield.train.labelled import (
    Labelled,
    LabelledTexts,
    RatingScale,
    apart,
    from_controls,
    from_ratings,
    joined,
    merged,
    source_line,
)


def names() -> tuple[str, ...]:
    """Returns the recipes: a set and an architecture each."""
    return tuple(f"{name}-{architecture}" for name in _file() for architecture in ARCHITECTURES)


def spec_of(name: str) -> JudgeSpec:
    """Returns the spec of the judge that a recipe trains.

    Raises:
        UserError: the recipe does not exist.
    """
    set, architecture = _split(name)
    table = _file()[set]
    settings = {key: v for key, v in table.get(architecture, {}).items() if key != "train"}
    spec = JudgeSpec(table["attribute"], architecture, case=bool(table.get("case")))
    return spec.with_settings(settings)


def texts_of(name: str) -> LabelledTexts:
    """Returns the texts of a recipe, without training texts that overlap with the test set.

    Raises:
        UserError: the recipe does not exist.
        FetchError: a set can't be fetched.
    """
    set, architecture = _split(name)
    table = _file()[set]
    chosen = table.get(architecture, {}).get("train", table["train"])
    test = _rows(table, table["test"])
    parts = [(_rows(table, part), int(part.get("times", 1))) for part in chosen]
    together = merged(joined(parts))
    train, dropped = apart(together.rows, test.texts)
    facts = {
        "Tested on": f"{table['test']['set']}, {table['test']['part']}",
        "Left out": f"{dropped:,} texts that share something with the test set",
        "Repeated": f"{together.repeated:,} rows",
    }
    sources = dict.fromkeys(source_line(part["set"], part["part"]) for part in chosen)
    return LabelledTexts(train, test, facts, tuple(sources))


def _rows(table: Mapping[str, Any], part: Mapping[str, Any]) -> Labelled:
    samples: list[Sample] = load(part["set"], part=part["part"])
    if part.get("lines"):
        samples = [replace(s, text=line) for s in samples for line in s.text.splitlines()]
    if "rating" in table:
        return from_ratings(samples, RatingScale(**table["rating"]))
    return from_controls(samples, table["attribute"])


def _split(name: str) -> tuple[str, str]:
    for architecture in ARCHITECTURES:
        set = name.removesuffix(f"-{architecture}")
        if set != name and set in _file():
            return set, architecture
    raise UserError(f"there is no recipe '{name}'; {did_you_mean(name, names(), most=2)}")


@functools.cache
def _file() -> Mapping[str, Any]:
    return read_toml(resources.files("levelfield.train.judge") / "recipes.toml")
