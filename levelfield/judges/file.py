"""Files of judges: `judges.toml`, or one of the user's own, read and checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from levelfield.aspects import TEXT
from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.io.toml import TomlTable, read_toml
from levelfield.judges.judge import Judge, Spelling

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
    model: str = option(
        "", "Model: a hub name (NAME@REVISION), or a folder, from where the file is."
    )
    models: Mapping[str, str] = option(
        {},
        "Binary classifiers, one per label, instead of a model: P(label) is what its model gives "
        "to the second label, normalised over the labels, and the surest one wins.",
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
    file = resources.files("levelfield.judges") / "judges.toml"
    return read_judges("judges.toml", read_toml(file), None)


def read_judges(name: str, data: Mapping[str, Any], folder: Path | None) -> JudgesFile:
    """Returns the judges of a file.

    Args:
        name: of the file, for messages.
        folder: where models and aspects may be; None for the file of the package.

    Raises:
        UserError: it is no file of judges; says all that is wrong with it.
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
        place = folder / Path(path).expanduser() if folder and path else None
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
