"""Reads a study file: what it says, and all that is wrong with it.

What a study file may say is documented in `docs/rating-study-file.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from levelfield.core.limits import RATERS, SURVEYS
from levelfield.io.problems import printable, shown
from levelfield.io.toml import TomlTable, read_toml
from levelfield.rating.model import Design, Practice, RatingCriterion, Words, WorkedExample
from levelfield.rating.negatives import KINDS, Kind
from levelfield.rating.plan.cards import Questions, read_examples, read_practice
from levelfield.rating.plan.fields import MISPLACED, choice, from_one, identifier, language_tag
from levelfield.rating.plan.questions import DESIGNS, pairs_with_system, read_criteria, read_tasks
from levelfield.rating.plan.shown import field_names, read_show, read_words, sample_files
from levelfield.rating.units import Show

FAIL_RULES = ("not-lowest", "none")


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
        pairs_with: a system that stands in every pair; empty for all pairs.
        negatives: negative samples a survey.
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
    samples: tuple[Path, ...]
    mapping: Mapping[str, str]
    ids: Literal["given", "file"]
    show: Show
    attribute: str
    tasks: Mapping[str, str]
    design: Design
    surveys: int
    raters: int
    seed: int
    pairs_with: str
    criteria: tuple[RatingCriterion, ...]
    negatives: int
    negative_kind: Kind
    fail_rule: Literal["not-lowest", "none"]
    words: Words
    consent_version: str
    examples: tuple[WorkedExample, ...]
    practice: tuple[Practice, ...]
    completion: str
    completion_url: str
    texts: tuple[Path, ...] = ()


def read_study(path: str | os.PathLike[str]) -> tuple[StudyFile, tuple[str, ...]]:
    """Returns what a study file says, and what is wrong with it; reads no samples.

    Raises:
        UserError: there is no such file, or it is not TOML.
    """
    name = printable(os.fspath(path))
    file = Path(path).absolute()
    problems: list[str] = []
    top = TomlTable(read_toml(file, name, mend="name a study file"), "", problems)
    language = language_tag(top, "language", "en")
    show = read_show(top, language)
    design_table = top.table("design")
    design = choice(design_table, "kind", DESIGNS, "direct")
    surveys = from_one(design_table, "surveys", 1, SURVEYS)
    raters = from_one(design_table, "raters", 2, RATERS)
    seed = design_table.whole("seed", 1)
    pairs_with = pairs_with_system(design_table, design)
    design_table.finish(elsewhere=MISPLACED)
    criteria = read_criteria(top, design)
    attribute = top.text("direction", '"formality"', default="")
    tasks = read_tasks(top, attribute)
    controls = top.table("controls")
    negatives = controls.whole("negative", 0, SURVEYS)
    negative_kind = cast(Kind, choice(controls, "kind", KINDS, "auto"))
    rule = choice(controls, "rule", FAIL_RULES, "not-lowest")
    if rule == "not-lowest" and "rule" in controls and not negatives:
        controls.wrong_field("rule", "there is no negative sample to judge by; say negative = 1")
    controls.finish(elsewhere=MISPLACED)
    words, texts = read_words(top, file.parent)
    completion = top.table("completion")
    code = completion.text("code", '"random" or "C1A2B3"', default="random")
    url = completion_address(completion)
    completion.finish(elsewhere=MISPLACED)
    questions = Questions(design, criteria, show, tasks)
    study = StudyFile(
        file=file,
        id=identifier(top, "id", '"formality"'),
        version=from_one(top, "version", 1),
        title=top.text("title", '"Formal and informal"'),
        language=language,
        contact=top.text("contact", '"ratings@example.org"', default=""),
        duration=top.text("duration", '"about 40 minutes"', default=""),
        samples=sample_files(top, file.parent),
        mapping=field_names(top),
        ids=choice(top, "ids", ("given", "file"), "given"),
        show=show,
        attribute=attribute,
        tasks=tasks,
        design=design,
        surveys=surveys,
        raters=raters,
        seed=seed,
        pairs_with=pairs_with,
        criteria=criteria,
        negatives=negatives,
        negative_kind=negative_kind,
        fail_rule="none" if rule == "none" or not negatives else "not-lowest",
        words=words,
        consent_version=top.text("consent_version", '"1"', default="1"),
        examples=read_examples(top, questions),
        practice=read_practice(top, questions),
        completion=code,
        completion_url=url,
        texts=texts,
    )
    top.finish()
    return study, tuple(problems)


def completion_address(table: TomlTable) -> str:
    url = table.text("url", '"https://example.org/done?code={code}"', default="")
    if url and not url.startswith(("https://", "http://")):
        table.wrong_field(
            "url", f"expected an address that begins with https://; found {shown(url)}"
        )
        return ""
    if url and any(c.isspace() or not c.isprintable() for c in url):
        table.wrong_field("url", "an address has no blanks")
        return ""
    return url
