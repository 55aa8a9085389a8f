"""Files of judges: `judges.toml`, or one of the user's own, read and checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from levelfield.aspects import TEXT
from levelfield.core.errors import UserError
from levelfield.io.toml import read_toml
from levelfield.judges.judge import Judge, Spelling


class Figure(NamedTuple):
    """How good a judge was found to be on a labelled set.

    Attributes:
        kind: `published` (accuracy in percent) or `measured` (shares).
        undecided: the share of texts without a vote; they count as wrong.
        shares: how often each label was voted for.
    """

    judge: str
    attribute: str
    kind: Literal["published", "measured"]
    dataset: str
    accuracy: float
    n: int | None = None
    balanced_accuracy: float | None = None
    undecided: float | None = None
    shares: Mapping[str, float] | None = None


class JudgesFile(NamedTuple):
    judges: tuple[Judge, ...]
    presets: Mapping[str, Mapping[str, Sequence[str]]]
    spellings: tuple[Spelling, ...]
    figures: tuple[Figure, ...]


@functools.cache
def shipped_judges() -> JudgesFile:
    file = resources.files("levelfield.judges") / "judges.toml"
    return read_judges("judges.toml", read_toml(file), None)


_TOP_KEYS = {"judges", "spellings", "presets"}
_KEYS = {
    "name",
    "attribute",
    "model",
    "models",
    "lexicon",
    "labels",
    "words",
    "template",
    "aspect",
    "published",
    "measured",
}


def read_judges(name: str, data: Mapping[str, Any], folder: Path | None) -> JudgesFile:
    tables = data.get("judges")
    if not isinstance(tables, list) or not tables:
        raise UserError(f"{name}: expected at least one table [[judges]]")
    problems = [f"{name}: {p}" for n, table in enumerate(tables, 1) for p in _problems(n, table)]
    problems += [f"{name}: unknown key '{k}'" for k in sorted(set(data) - _TOP_KEYS)]
    said = data.get("spellings", {})
    if not _is_table(said, lambda labels: _is_table(labels, _is_words)):
        problems.append(f'{name}: expected [spellings.ATTRIBUTE] with label = ["other spelling"]')
    if problems:
        raise UserError("\n".join(problems))
    return JudgesFile(
        tuple(_judge(table, folder) for table in tables),
        data.get("presets", {}),
        tuple(
            Spelling(attribute, word.strip().casefold(), label)
            for attribute, labels in said.items()
            for label, others in labels.items()
            for word in (label, *others)
        ),
        tuple(
            Figure(table["name"], table["attribute"], kind, **figure)
            for table in tables
            for kind in ("published", "measured")
            for figure in table.get(kind, ())
        ),
    )


def _judge(table: Mapping[str, Any], folder: Path | None) -> Judge:
    def at(path: str) -> str:
        """Folders and files are named from where the TOML file is."""
        beside = folder / Path(path).expanduser() if folder else None
        return str(beside) if beside and beside.exists() else path

    return Judge(
        name=table["name"],
        attribute=table["attribute"],
        model=at(table.get("model", "")) if table.get("model") else "",
        models=tuple((label, at(model)) for label, model in table.get("models", {}).items()),
        lexicon=table.get("lexicon", ""),
        labels=tuple(table.get("labels", {}).items()),
        words=tuple(table.get("words", {}).items()),
        template=table.get("template", TEXT),
        aspect=at(table["aspect"]) if "aspect" in table else "",
    )


def _problems(number: int, table: object) -> list[str]:
    """Everything that keeps a table from being a judge."""
    if not isinstance(table, dict) or not _is_word(table.get("name")):
        return [f"judges, table {number}: expected a name"]
    who = f"judge '{table['name']}'"
    problems = [f"{who}: unknown key '{key}'" for key in sorted(set(table) - _KEYS)]
    if not _is_word(table.get("attribute")):
        problems.append(f'{who}: expected an attribute, e.g. attribute = "sentiment"')
    given = [key for key in ("model", "models", "lexicon") if key in table]
    if len(given) != 1:
        problems.append(f"{who}: expected one of model, models, lexicon; it has {given or 'none'}")
    for key in ("model", "aspect", "template"):
        if key in table and not _is_word(table[key]):
            problems.append(f"{who}: {key} is empty or not a text")
    for key in ("models", "labels", "words"):
        if key in table and not (table[key] and _is_table(table[key], _is_word)):
            problems.append(f"{who}: expected {key} = {{label = …}}")
    if not problems and len(table.get("models", "ab")) < 2:
        problems.append(f"{who}: expected models for at least two labels")
    if table.get("lexicon", "vader") != "vader":
        problems.append(f"{who}: there is no lexicon '{table['lexicon']}'; there is vader")
    if str(table.get("template", TEXT)).count(TEXT) != 1:
        problems.append(f"{who}: expected {TEXT} once in the template")
    return problems


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_word, value))


def _is_table(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(fits, value.values()))
