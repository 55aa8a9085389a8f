"""Questions as data: the shipped ones, and those in TOML files of users."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.io.toml import TomlTable, read_toml

FIELDS = ("text", "prompt", "source", "context", "control.ATTRIBUTE")
"""Of a sample, what a template may name in angle brackets."""

_FIELD = re.compile(r"<([A-Za-z][\w.-]*)>")
_KNOWN = re.compile(r"text|prompt|source|context|control\.[\w-]+")


@dataclass(frozen=True)
class YesNoQuestion(Options):
    """A question as a model reads it."""

    name: str = option(help="Name of the question.", positional=True)
    template: str = option(
        help="Text that the model reads, with <text>, and with <prompt>, <source>, <context> or "
        "<control.ATTRIBUTE> where those go.",
        example='"Is it clear? </s> <text>"',
        positional=True,
    )
    yes: str = option("Yes", "Word that answers yes.")
    no: str = option("No", "Word that answers no.")

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the template names."""
        return frozenset(_FIELD.findall(self.template))

    @property
    def digest(self) -> str:
        """The digest of all that could change an answer."""
        choices = (self.template, self.yes, self.no)
        return hashlib.sha256(repr(choices).encode()).hexdigest()[:8]

    def ask(self, values: Mapping[str, str]) -> str:
        """Returns the template with the fields filled in."""
        return _FIELD.sub(lambda field: values[field[1]], self.template)


@functools.cache
def shipped() -> Mapping[str, YesNoQuestion]:
    """Returns the questions that come with the package, by name."""
    file = resources.files("levelfield.metrics.questions") / "questions.toml"
    return _parse(file.name, read_toml(file))


def load_question(name: str) -> YesNoQuestion:
    """Returns a shipped question by name, the only one of a TOML file, or `FILE.toml:NAME`.

    Raises:
        UserError: there is none, or the file has no questions; says what was expected.
    """
    file, mark, wanted = name.rpartition(":") if not name.endswith(".toml") else (name, "", "")
    if not file:
        if name in shipped():
            return shipped()[name]
        raise UserError(
            f"there is no question '{name}'; there are {', '.join(shipped())}, or give a TOML file "
            "of your own: question=FILE.toml"
        )
    questions = _parse(file, read_toml(Path(file).expanduser(), file, kind="file of questions"))
    if not mark and len(questions) == 1:
        return next(iter(questions.values()))
    if wanted not in questions:
        raise UserError(
            f"{file}: which question? name one with question={file}:NAME; there are "
            f"{', '.join(questions)}"
        )
    return questions[wanted]


def _parse(name: str, data: Mapping[str, Any]) -> dict[str, YesNoQuestion]:
    problems: list[str] = []
    questions: dict[str, YesNoQuestion] = {}
    top = TomlTable(data, name, problems)
    for key, table in top.tables("questions", "[questions.NAME] with a template"):
        values = table.values(YesNoQuestion, without=("name",), complete=True)
        table.finish()
        if values["template"]:
            questions[key] = YesNoQuestion(key, **values)
            _check(table, questions[key])
    if problems:
        raise UserError("\n".join(problems))
    return questions


def _check(table: TomlTable, question: YesNoQuestion) -> None:
    """Notes what a question can't ask."""
    if question.yes == question.no:
        table.wrong('expected two different words, such as yes = "Yes" and no = "No"')
    if wrong := sorted(field for field in question.fields if not _KNOWN.fullmatch(field)):
        known = " ".join(f"<{field}>" for field in FIELDS)
        table.wrong_field("template", f"there is no field <{wrong[0]}>; there are {known}")
    if "text" not in question.fields:
        table.wrong_field("template", "expected <text> in it, where the text goes")
