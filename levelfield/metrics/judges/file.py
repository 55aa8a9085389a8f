"""Files of judges: `judges.toml`, or one of the user's own, read and checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.paths import existing_path, user_path
from levelfield.core.strings import did_you_mean
from levelfield.io.toml import TomlTable, read_toml
from levelfield.metrics.aspects import TEXT
from levelfield.metrics.judges.judge import Judge, Spelling
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import attribute_of, resolve

FigureKind = Literal["published", "measured"]


class Figure(NamedTuple):
    """How good a judge was found to be on a labelled set.

    Attributes:
        kind: `published` (accuracy in percent) or `measured` (shares).
        undecided: the share of texts without a vote; they count as wrong.
        shares: how often each label was voted for.
    """

    judge: str
    attribute: str
    kind: FigureKind
    dataset: str
    accuracy: float
    n: int | None = None
    balanced_accuracy: float | None = None
    undecided: float | None = None
    shares: Mapping[str, float] | None = None


Spellings = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Attribute -> label -> other words for it."""


@dataclass(frozen=True, kw_only=True)
class JudgeTable(Options):
    """What a file says of a judge."""

    name: str = option(
        help="Name under which the judge votes. Several judges of one name are one judge with "
        "several sets of labels: the first that has the wanted label votes.",
        example='"mine"',
    )
    attribute: str = option(
        help="Attribute of controls that the judge decides on.", example='"sentiment"'
    )
    model: str = option("", "Model: a hub name (NAME@REVISION), or a folder, relative to the file.")
    models: Mapping[str, str] = option(
        {},
        "Binary classifiers, one per label, instead of a model: P(label) is what its model gives "
        "to the second label, normalised over the labels, and the most confident one wins.",
        example='{ World = "FOLDER", Sports = "FOLDER" }',
    )
    lexicon: Literal["vader"] | None = option(None, "Lexicon, instead of a model.")
    labels: Mapping[str, str] = option(
        {},
        'Labels of a classifier, `{ theirs = "ours" }`; several of theirs may mean one of ours, '
        "and one that is not named keeps its name.",
        example='{ LABEL_0 = "negative" }',
    )
    words: Mapping[str, str] = option(
        {},
        'Words of labels, `{ label = "word" }`: the answers of an encoder-decoder, P(label) ∝ '
        "P(word and end of sequence); what an encoder compares with; what stands for `<label>` in"
        " the template of binary classifiers.",
        example='{ negative = "bad", positive = "good" }',
    )
    template: str = option(
        TEXT,
        "Text that the model reads, with `<text>` once; special tokens such as `[SEP]` in it, and"
        " in texts that it surrounds, are marks; `<label>` stands where binary classifiers read "
        "the label, `<gap>` where the word of an encoder goes.",
        fits=lambda template: template.count(TEXT) == 1,
        expected=f"a string with {TEXT} once",
    )
    aspect: str = option(
        "",
        "Prompts and words of an encoder, instead of `words`: sentiment, topic, or the TOML file "
        "of an aspect.",
    )


@dataclass(frozen=True, kw_only=True)
class JudgesTable(Options):
    """What a file of judges says."""

    judges: tuple[JudgeTable, ...] = option(
        help="Judges.", fewest=1, example="[[judges]] with name, attribute and model"
    )
    presets: Spellings = option({}, "Names of judges by preset and attribute.")
    spellings: Spellings = option(
        {},
        "Further words for labels, by attribute.",
        example='[spellings.sentiment] with negative = ["neg"]',
    )


class JudgesFile(NamedTuple):
    """The judges of a file, with how good they are."""

    judges: tuple[Judge, ...]
    presets: Spellings
    spellings: tuple[Spelling, ...]
    figures: tuple[Figure, ...]


@functools.cache
def shipped_judges() -> JudgesFile:
    """Returns the judges that come with the package."""
    file = resources.files("levelfield.metrics.judges") / "judges.toml"
    return read_judges("judges.toml", read_toml(file), None)


def read_judges(name: str, data: Mapping[str, Any], folder: Path | None) -> JudgesFile:
    """Returns the judges of a file.

    Args:
        name: of the file, for messages.
        folder: where models and aspects may be; None for the file of the package.

    Raises:
        UserError: it is not a file of judges; the message lists all problems.
    """
    problems: list[str] = []
    top = TomlTable(data, name, problems)
    shared = top.values(JudgesTable, complete=True)
    judges = []
    figures: list[tuple[Mapping[str, Any], FigureKind, Mapping[str, Any]]] = []
    for row in top.inside(JudgesTable, "judges"):
        values = row.values(JudgeTable, complete=True)
        _check(row)
        for kind in filter(row.__contains__, get_args(FigureKind)):
            for inner in row.list_of_tables(kind, f"[[judges.{kind}]] with dataset and accuracy"):
                figures.append((values, kind, inner.values(Figure, without=_OF_JUDGES)))
                inner.finish()
        row.finish()
        judges.append(values)
    top.finish()
    if problems:
        raise UserError("\n".join(problems))
    return JudgesFile(
        tuple(_judge(values, folder) for values in judges),
        shared["presets"],
        tuple(
            Spelling(attribute, word.strip().casefold(), label)
            for attribute, labels in shared["spellings"].items()
            for label, others in labels.items()
            for word in (label, *others)
        ),
        tuple(
            Figure(judge=judge["name"], attribute=judge["attribute"], kind=kind, **figure)
            for judge, kind, figure in figures
        ),
    )


_OF_JUDGES = ("judge", "attribute", "kind")


def _check(row: TomlTable) -> None:
    """Notes what does not go together in a judge."""
    sources = [key for key in ("model", "models", "lexicon") if key in row]
    if len(sources) != 1:
        row.wrong(f"expected one of model, models, lexicon; it has {sources or 'none'}")
    for key, least in (("models", 2), ("labels", 1), ("words", 1)):
        table = row.take(key)
        if isinstance(table, Mapping) and len(table) < least:
            row.wrong_field(key, f"expected at least {'one label' if least == 1 else 'two labels'}")


def _judge(values: Mapping[str, Any], folder: Path | None) -> Judge:
    def beside(path: str) -> str:
        """Folders and files are named from where the TOML file is."""
        place = folder / user_path(path) if folder and path else None
        return str(place) if place and place.exists() else path

    return Judge(
        name=values["name"],
        attribute=values["attribute"],
        model=beside(values["model"]),
        models=tuple((label, beside(model)) for label, model in values["models"].items()),
        lexicon=values["lexicon"] or "",
        labels=tuple(values["labels"].items()),
        words=tuple(values["words"].items()),
        template=values["template"],
        aspect=beside(values["aspect"]),
    )


def figures(name: str | None = None) -> tuple[Figure, ...]:
    """Returns how good the shipped judges are, as published and as measured."""
    return tuple(f for f in shipped_judges().figures if name in (None, f.judge))


def presets() -> tuple[str, ...]:
    return tuple(shipped_judges().presets)


def choose(choice: str, loading: Loading = AS_USUAL) -> tuple[Judge, ...]:
    """Returns the judges that a user's words name.

    Args:
        choice: separated by commas: a preset, a judge's name, a model's name or folder, or a TOML
            file with `[[judges]]`.
        loading: as for `resolve`; it is asked what models named on the spot are.

    Raises:
        UserError: a judge is unknown; the file has no judges; two judges have the same name.
    """
    shipped = shipped_judges()
    chosen: list[Judge] = []
    spellings = list(shipped.spellings)
    for word in (w.strip() for w in choice.split(",")):
        matches: Sequence[Judge]
        if word in shipped.presets:
            names = shipped.presets[word]
            matches = [j for j in shipped.judges if j.name in names.get(j.attribute, ())]
        elif same_name := [j for j in shipped.judges if j.name == word]:
            matches = same_name
        elif word.endswith(".toml"):
            path = user_path(word)
            file = read_judges(word, read_toml(path, word, kind="judges file"), path.parent)
            matches = file.judges
            spellings += file.spellings
        elif "/" in word or ((folder := existing_path(word)) and folder.is_dir()):
            matches = _on_the_spot(word, loading)
        else:
            all_names = [*shipped.presets, *dict.fromkeys(j.name for j in shipped.judges)]
            hint = did_you_mean(word, all_names)
            raise UserError(
                f"there is no judge '{word}'; {hint} (or give a model's name, or a TOML file)"
            )
        if twice := {j.name for j in matches} & {j.name for j in chosen}:
            raise UserError(
                f"judges={choice}: two judges are called '{min(twice)}'; leave one out, or name "
                "them in a TOML file"
            )
        chosen += matches
    # a file's own spellings come first: they may mend ours
    known_words = tuple(reversed(spellings))
    return tuple(replace(judge, spellings=known_words) for judge in chosen)


def _on_the_spot(model: str, loading: Loading) -> list[Judge]:
    """Returns the judges of a model that is named without a file."""
    resolved = resolve(model, loading)
    if resolved.kind == "classifier":
        return [Judge(resolved.name, attribute_of(resolved), model=model)]
    if resolved.kind == "encoder":
        ours = [j for j in shipped_judges().judges if j.name == "minilm"]
        return [replace(j, name=resolved.name, model=model) for j in ours]
    raise UserError(
        f"model '{model}' is a {resolved.kind} model: to use it as a judge, describe its prompt "
        "and its answers in a TOML file: [[judges]] with name, attribute, model, "
        f'template = "{TEXT}" and words = {{positive = "…", negative = "…"}}'
    )
