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
from levelfield.io.toml import read_toml

FIELDS = ("text", "prompt", "source", "context", "control.ATTRIBUTE")
"""Of a sample, what a template may name in angle brackets."""

_FIELD = re.compile(r"<([A-Za-z][\w.-]*)>")
_KNOWN = re.compile(r"text|prompt|source|context|control\.[\w-]+")


@dataclass(frozen=True)
class YesNoQuestion:
    """A question as a model reads it.

    Attributes:
        template: holds `<text>`, and any other of `FIELDS`.
        yes, no: the words that answer it.
    """

    name: str
    template: str
    yes: str = "Yes"
    no: str = "No"

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
    tables = data.get("questions")
    if not isinstance(tables, dict) or not tables:
        raise UserError(f"{name}: expected at least one table [questions.NAME] with a template")
    return {key: _question(f"{name}: questions.{key}", key, table) for key, table in tables.items()}


def _question(where: str, name: str, table: object) -> YesNoQuestion:
    if not isinstance(table, dict) or not isinstance(table.get("template"), str):
        raise UserError(f'{where}: expected a template, e.g. template = "Is it clear? </s> <text>"')
    if unknown := sorted(set(table) - {"template", "yes", "no"}):
        raise UserError(f"{where}: there is no '{unknown[0]}'; there are template, yes, no")
    words = (table.get("yes", "Yes"), table.get("no", "No"))
    if not all(isinstance(word, str) and word.strip() for word in words) or words[0] == words[1]:
        raise UserError(f'{where}: expected two different words, e.g. yes = "Yes", no = "No"')
    question = YesNoQuestion(name, table["template"], *words)
    if wrong := sorted(field for field in question.fields if not _KNOWN.fullmatch(field)):
        known = " ".join(f"<{field}>" for field in FIELDS)
        raise UserError(f"{where}: there is no field <{wrong[0]}>; there are {known}")
    if "text" not in question.fields:
        raise UserError(f"{where}: expected <text> in the template, where the text goes")
    return question
