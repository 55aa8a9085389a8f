"""Reads a study file: its content, and all its problems.

What a study file may say is documented in `docs/rating-study-file.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import UserError
from levelfield.core.limits import SURVEYS
from levelfield.core.options import Options, choices, json_schema, option, schema_document
from levelfield.core.paths import user_path
from levelfield.io.fields import FieldMapping
from levelfield.io.problems import printable, shown
from levelfield.io.streams import read_bytes
from levelfield.io.toml import TomlTable, read_toml
from levelfield_rating.model import (
    IDENTIFIER,
    PageFile,
    Practice,
    RatingCriterion,
    Words,
    WorkedExample,
    expected_identifier,
)
from levelfield_rating.negatives import Kind
from levelfield_rating.plan.cards import (
    ExampleCard,
    PracticeCard,
    Questions,
    read_examples,
    read_practice,
)
from levelfield_rating.plan.questions import (
    LANGUAGE,
    MISPLACED,
    TASK,
    RatingDesign,
    part_of,
    read_criteria,
    read_design,
    tasks_of,
)
from levelfield_rating.units import Headings, Show

FailRule = Literal["not-lowest", "none"]


@dataclass(frozen=True, kw_only=True)
class NegativeControls(Options):
    """Texts that are bad on purpose, and who fails by them."""

    negative: int = option(0, "Number of negative samples in each survey.", least=0, most=SURVEYS)
    kind: Kind = option(
        "auto",
        "Way to make them from the text of another unit: its sentences in another order "
        "(shuffled), half of them (dropped), the text as it is (other), or whichever suits the "
        "texts (auto).",
    )
    rule: FailRule = option(
        "not-lowest",
        "Rule for who fails: a rater who does not rate the negative sample below the median of "
        "the real texts on the first criterion (not-lowest), or nobody (none).",
    )

    @property
    def fail_rule(self) -> FailRule:
        """The rule as far as there is a negative sample to judge by."""
        return self.rule if self.negative else "none"


def _is_address(url: str) -> bool:
    begins = url.startswith(("https://", "http://"))
    return not url or (begins and url.isprintable() and " " not in url)


@dataclass(frozen=True, kw_only=True)
class LastPage(Options):
    """Code and link that a rater gets at the end."""

    code: str = option(
        "random",
        "Code that a rater gets: one of their own (random), or this one for all, as crowd "
        "platforms require.",
        example='"random" or "C1A2B3"',
    )
    url: str = option(
        "",
        "Address that a rater is sent to afterwards; `{code}` in it is replaced by the code.",
        fits=_is_address,
        expected="an address that begins with https:// or http:// and has no blanks",
        example='"https://example.org/done?code={code}"',
        schema=lambda: {"pattern": r"^https?://\S*$"},
    )


@dataclass(frozen=True, kw_only=True)
class RatingStudyTable(Options):
    """A study file of ratings."""

    id: str = option(
        help="Identifier of the study.",
        expected=expected_identifier('"formality"'),
        example='"formality"',
        **IDENTIFIER,
    )
    title: str = option(help="Title that raters see.", example='"Formal and informal"')
    samples: tuple[str, ...] = option(
        help="Files of samples, in any format that `levelfield score` reads.",
        fewest=1,
        example='["rewrites.jsonl"]',
    )
    version: int = option(
        1, "Version of the study; raise it with every change after the first rating.", least=1
    )
    language: str = option(
        "en", "Language tag of the pages, and of texts without a language of their own.", **LANGUAGE
    )
    contact: str = option("", "Contact for raters' questions.", example='"ratings@example.org"')
    duration: str = option("", "Duration of the rating, in words.", example='"about 40 minutes"')
    consent_version: str = option(
        "1",
        "Version of the text of the consent; change it whenever the text changes.",
        example='"1"',
    )
    mapping: Mapping[str, str] = option(
        {},
        "Fields of samples that have other names in the files.",
        key="map",
        example='{ text = "output" }',
    )
    ids: Literal["given", "file"] = option(
        "given",
        "Ids of samples: as they are (given), or prefixed with the name of the file, for files "
        "that use the same ids (file).",
    )
    show: tuple[Literal["source", "prompt", "context"], ...] = option(
        ("source",),
        "Fields that raters see above a text, in this order; `[]` for none.",
        example='["source"]',
        schema=lambda: {"uniqueItems": True},
    )
    direction: str = option(
        "", "Attribute of the control whose values are the directions.", example='"formality"'
    )
    task: str = option(
        "",
        "Task that every text was written for, unless its direction has one of its own.",
        example=TASK,
    )
    tasks: Mapping[str, str] = option(
        {},
        "Task that a text was written for, by direction. `{topic}` becomes the value of `topic` "
        "in the sample's control; a literal brace is written twice.",
        example=f"{{ formal = {TASK} }}",
    )
    names: Headings = option(Headings(), "Headings above texts.")
    design: RatingDesign = option(
        RatingDesign(), "Design of the study: what an item is, and who sees which items."
    )
    criteria: tuple[RatingCriterion, ...] = option(
        help="Questions about every item, in this order.",
        fewest=1,
        example='[[criteria]] id = "content"',
    )
    controls: NegativeControls = option(
        NegativeControls(), "Negative samples: texts that are bad on purpose."
    )
    words: Words = option(Words(), "Pages around the items, in Markdown.")
    examples: tuple[ExampleCard, ...] = option(
        (),
        "Items with answers, shown before the rating.",
        example='[[examples]] text = "Rain is expected."',
    )
    practice: tuple[PracticeCard, ...] = option(
        (),
        "Items that are answered before the rating, with two tries.",
        example='[[practice]] text = "Rain is expected."',
    )
    completion: LastPage = option(LastPage(), "Code and link that a rater gets at the end.")

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns that a file has one task, or tasks by direction."""
        return {
            "not": {"required": ["task", "tasks"]},
            "dependentRequired": {"tasks": ["direction"]},
        }


def schema() -> dict[str, Any]:
    """Returns the JSON schema (draft 2020-12) of rating study files, for editors."""
    return schema_document(json_schema(RatingStudyTable), "A rating study of levelfield")


@dataclass(frozen=True)
class StudyFile:
    """What a study file says.

    Attributes:
        file: the file; paths in it are relative to its folder.
        samples: files of samples.
        mapping, ids: as for `open_samples`.
        show: what raters see of a sample.
        attribute: of the control, that gives the direction; empty for none.
        tasks: by direction, or the one task at `""`. Templates: `{topic}` is what the control
            wants of the topic.
        texts: files that words are in.

    The others are as in `Frozen`.
    """

    file: Path
    id: str
    version: int
    title: str
    language: str
    contact: str
    duration: str
    consent_version: str
    samples: tuple[Path, ...]
    mapping: Mapping[str, str]
    ids: Literal["given", "file"]
    show: Show
    attribute: str
    tasks: Mapping[str, str]
    design: RatingDesign
    criteria: tuple[RatingCriterion, ...]
    controls: NegativeControls
    words: Words
    examples: tuple[WorkedExample, ...]
    practice: tuple[Practice, ...]
    completion: LastPage
    texts: tuple[Path, ...] = ()


def read_study(path: str | os.PathLike[str]) -> tuple[StudyFile, tuple[str, ...]]:
    """Returns the content of a study file, and its problems; reads no samples.

    Raises:
        UserError: there is no such file, or it is not TOML.
    """
    name = printable(os.fspath(path))
    file = Path(path).absolute()
    problems: list[str] = []
    top = TomlTable(read_toml(file, name, mend="name a study file"), "", problems)
    fields = top.values(RatingStudyTable, complete=True)
    attribute, show_fields = fields.pop("direction"), fields.pop("show")
    files = _sample_files(top, fields.pop("samples") or (), file.parent)
    _check_field_names(top, fields["mapping"])
    tasks = tasks_of(top, fields.pop("task"), fields.pop("tasks"), attribute)
    show = _read_show(top, show_fields, fields["language"])
    design = read_design(top)
    criteria = read_criteria(top, top.inside(RatingStudyTable, "criteria"), design.kind)
    questions = Questions(design.kind, criteria, show, tasks)
    words, texts = _read_words(top, file.parent)
    study = StudyFile(
        **fields | {"id": fields["id"] or "", "title": fields["title"] or ""},
        file=file,
        samples=files,
        show=show,
        attribute=attribute,
        tasks=tasks,
        design=design,
        criteria=criteria,
        controls=_controls(top),
        words=words,
        examples=read_examples(top.inside(RatingStudyTable, "examples"), questions),
        practice=read_practice(top.inside(RatingStudyTable, "practice"), questions),
        completion=_completion(top),
        texts=texts,
    )
    top.finish()
    return study, tuple(problems)


def _controls(top: TomlTable) -> NegativeControls:
    with part_of(top, "controls", NegativeControls) as (table, controls):
        if controls.rule == "not-lowest" and "rule" in table and not controls.negative:
            table.wrong_field("rule", "there is no negative sample to judge by; set negative = 1")
    return controls


def _completion(top: TomlTable) -> LastPage:
    with part_of(top, "completion", LastPage) as (_, completion):
        return completion


def _sample_files(top: TomlTable, names: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Returns the files; none if one is not there."""
    files = [folder / user_path(name) for name in names]
    for n, (name, file) in enumerate(zip(names, files, strict=True), 1):
        if not file.is_file():
            reason = "is a folder" if file.is_dir() else "there is no such file"
            top.wrong_field(f"samples[{n}]", f"{shown(name)}: {reason}, seen from the study file")
    return tuple(files) if all(file.is_file() for file in files) else ()


def _check_field_names(top: TomlTable, mapping: Mapping[str, str]) -> None:
    """Notes each name in the mapping that is not a field of a sample."""
    for ours, column in mapping.items():
        try:
            FieldMapping({ours: column})
        except UserError as error:
            top.wrong(f"map: {printable(ours)}: {error}")


def _read_show(top: TomlTable, fields: tuple[str, ...], language: str) -> Show:
    if len(set(fields)) < len(fields):
        top.wrong_field("show", "names a field twice")
    with part_of(top, "names", Headings) as (_, headings):
        return Show(fields=fields, language=language, **vars(headings))


def _read_words(top: TomlTable, folder: Path) -> tuple[Words, tuple[Path, ...]]:
    """Returns the pages, and the files that some of them are in."""
    table = top.table("words")
    in_files = [page for page in choices(Words) if isinstance(table.take(page), Mapping)]
    pages = table.values(Words, without=in_files)
    files: list[Path] = []
    for page in in_files:
        inner = table.table(page)
        name = inner.values(PageFile).get("file")
        inner.finish()
        if not name:
            continue
        file = folder / user_path(name)
        try:
            pages[page] = read_bytes(file).decode("utf-8-sig")
            files.append(file)
        except OSError as error:
            inner.wrong_field("file", f"{shown(name)} can't be read: {error.strerror}")
        except UnicodeDecodeError:
            inner.wrong_field("file", f"{shown(name)} is not UTF-8")
    table.finish(elsewhere=MISPLACED)
    return Words(**pages), tuple(files)
