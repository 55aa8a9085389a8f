"""What a command may overwrite: no input, no study, no store, and no file of another kind unless
the user says so.
"""

from __future__ import annotations

import codecs
import csv
import glob
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from levelfield.core import limits
from levelfield.core.errors import UserError
from levelfield.core.paths import user_path
from levelfield.io.problems import listed, printable
from levelfield.io.writing import STDOUT, check_writable

_BYTES = 1 << 16
_LONGEST_LINE = 1 << 24


class FileHead:
    """The start of a file.

    Raises:
        OSError: the file can't be read.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._line = file.readline(_LONGEST_LINE)
            self._bytes = (self._line + file.read(max(0, _BYTES - len(self._line))))[:_BYTES]
        self._path = path

    @property
    def is_empty(self) -> bool:
        return not self._bytes.strip() or (self.is_parquet and not self.fields)

    @property
    def is_sqlite(self) -> bool:
        return self._bytes.startswith(b"SQLite format 3\0")

    @property
    def is_parquet(self) -> bool:
        return self._bytes.startswith(b"PAR1")

    @cached_property
    def is_toml(self) -> bool:
        """Whether the file is TOML that sets a value."""
        is_short = bool(self.text) and self._path.stat().st_size <= limits.TOML_BYTES
        return is_short and bool(_tables(self._path))

    @cached_property
    def text(self) -> str:
        """The first characters; empty if the file is not text."""
        try:
            # the last character may be cut, by the limit or by a full disk
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(self._bytes)
        except UnicodeDecodeError:
            return ""
        return "" if "\0" in text else text

    @cached_property
    def fields(self) -> frozenset[str]:
        """Keys of the JSON object in the first line, or columns of a Parquet or CSV file."""
        if self.is_parquet:
            import polars as pl

            with suppress(OSError, pl.exceptions.PolarsError):
                return frozenset(pl.read_parquet_schema(self._path))
        elif self.text.startswith("{"):
            with suppress(ValueError, RecursionError):
                return frozenset(json.loads(self._line))
        elif "," in self.first_line:
            return frozenset(next(csv.reader([self.first_line]), ()))
        return frozenset()

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    def has(self, *names: str) -> bool:
        return self.fields.issuperset(names)

    @property
    def description(self) -> str:
        """What the file holds, in words."""
        for name, matches in (_RESERVED_KINDS | KINDS | _OTHER_KINDS).items():
            if matches(self):
                return name
        if self.fields:
            form = "JSON lines" if self.text.lstrip().startswith("{") else "a table"
            return f"{form} with the fields {listed(sorted(self.fields), 4)}"
        return "text" if self.text.strip() else "binary data"


_FIRST = '{"id": '
"""How a line of `levelfield generate` begins."""


def _is_generated(head: FileHead) -> bool:
    # a first line that a crash has torn loses nothing
    beginning = head.text[: len(_FIRST)]
    begins_alike = bool(beginning) and _FIRST.startswith(beginning)
    is_torn = begins_alike and not (head.fields or "\n" in head.text)
    return head.has("id", "text", "continuation", "seed", "signature") or is_torn


def _is_samples(head: FileHead) -> bool:
    return head.has("id", "text") and not (head.has("metric") or _is_generated(head))


def _is_export(head: FileHead) -> bool:
    return (
        head.has("study_digest")
        or head.has("rater", "survey", "slot", "state")
        or head.has("criteria", "design", "items", "slots")
        or head.first_line.endswith(": codebook")
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_Matches = Callable[[FileHead], bool]

KINDS: dict[str, _Matches] = {
    "scores": lambda head: head.has("id", "metric", "value", "signature"),
    "parts of scores": lambda head: head.has("id", "metric", "part", "score"),
    "a page of levelfield": lambda head: '<meta name="generator" content="levelfield' in head.text,
    "LaTeX tables": lambda head: (
        "\\begin{tabular}" in head.text and "\\documentclass" not in head.text
    ),
    "Markdown tables": lambda head: "\n| :-- |" in head.text,
    "z-scores": lambda head: head.has("id", "aspect", "rater", "z"),
    "numbers of a study": lambda head: head.has("control", "system", "measure", "dataset", "mean"),
    "links of raters": lambda head: head.has("slot", "name", "link"),
    "negatives": lambda head: head.has("id", "positive", "negative"),
    "word frequencies": lambda head: _is_number(head.first_line),
    "unigram counts": lambda head: head.text.startswith("# unigram counts"),
    "scales": lambda head: head.text.startswith("# Scales of composite scores"),
    "a pooler": lambda head: '"format": "levelfield pooler' in head.text[:100],
    "an export of ratings": _is_export,
    "choices": lambda head: head.has("a", "b", "better"),
    "ratings": lambda head: head.has("id", "aspect", "rater", "value"),
    "texts to rate": lambda head: head.has("id", "text", "drawn_by", "inclusion_probability"),
    "texts of `levelfield generate`": _is_generated,
    "samples": _is_samples,
}
"""The kinds of files that commands write, each with a function that recognises one."""

_RESERVED_KINDS: dict[str, _Matches] = {
    "nothing": lambda head: head.is_empty,
    "a database (SQLite), such as a store of ratings": lambda head: head.is_sqlite,
    "settings (TOML), such as a study file": lambda head: head.is_toml,
}
_OTHER_KINDS: dict[str, _Matches] = {
    "a Parquet file": lambda head: head.is_parquet,
    "an HTML page": lambda head: head.text.lstrip()[:9].lower() == "<!doctype",
}

_OF_A_CELL = ("cell.json", "answers.partial.jsonl")
_Place = str | tuple[int, int]
_LONGEST_PATH = 1000
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True)
class OutputTarget:
    """A file or folder that is about to be written.

    Attributes:
        option: the option that names it.
        path: `-` is standard output, which only a file may be.
        kind: of a file, in `KINDS`; empty for a folder, and for a file that is new.
        files: name -> kind of the files in a folder, as far as they are known before the work.
        new: whether it is a file that must not exist.
    """

    option: str
    path: str
    kind: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    new: bool = False

    @property
    def name(self) -> str:
        return f"{self.option} {printable(self.path)}"


def check_targets(
    targets: Sequence[OutputTarget], inputs: Iterable[str] = (), *, force: bool = False
) -> None:
    """Checks that writing the targets loses nothing.

    No target is an input, a file that a TOML file among the inputs or a study file beside it names,
    another target, a database, a TOML file or a file of a study's cell. A file of another kind is
    replaced only with `force`, and beside a study file or store, or in an input folder, never.

    Raises:
        UserError: names the option.
    """
    guarded: dict[_Place, str] = {}
    for path in inputs:
        if path != STDOUT:
            named = _named_in(Path(path)) if path.endswith(".toml") else ()
            guarded |= {_place(file): "also an input" for file in (path, *named)}
    for target in targets:
        is_file = bool(target.kind) or target.new
        if not target.path:
            raise UserError(
                f"{target.option}: the name of the {'file' if is_file else 'folder'} is empty"
            )
        if target.path != STDOUT:
            (_check_file if is_file else _check_folder)(target, guarded, force)
        elif not target.kind:
            kind = "file" if is_file else "folder"
            raise UserError(f"{target.name}: can't be standard output; name a new {kind}")


def _check_file(target: OutputTarget, guarded: dict[_Place, str], force: bool) -> None:
    file = Path(os.path.realpath(target.path))
    if target.new and file.exists():
        raise UserError(f"{target.name}: already exists; name a new file")
    if not file.exists() or file.is_file():
        if reason := guarded.get(_place(file)) or _guard(file):
            raise UserError(f"{target.name}: is {reason}; name another")
        guarded[_place(file)] = f"also the file of {target.option}"
    check_writable(target.path)
    content = _other_kind(file, target.kind)
    if not content:
        return
    surroundings, remedy = "", "name another file"
    if study := next(filter(_is_of_study, file.parent.iterdir()), None):
        surroundings = f", and is next to {printable(study.name)} of a study"
    elif any(_place(folder) in guarded for folder in file.parents):
        surroundings = ", and is in a folder that is an input"
    elif force:
        return
    else:
        remedy += ", or overwrite it with --force"
    raise UserError(f"{target.name}: holds {content}, not {target.kind}{surroundings}; {remedy}")


def _check_folder(target: OutputTarget, guarded: dict[_Place, str], force: bool) -> None:
    folder = Path(os.path.realpath(target.path))
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{target.name}: is a file; name a folder")
    if reason := guarded.get(_place(folder)):
        raise UserError(f"{target.name}: is {reason}; name another")
    for file in sorted(folder.iterdir()):
        if _place(file) in guarded or _is_of_study(file):
            raise UserError(
                f"{target.name}: holds {printable(file.name)}, which is an input or belongs to a "
                "study; name a separate folder"
            )
    for name, kind in target.files.items():
        member = OutputTarget(target.option, str(Path(target.path) / name), kind)
        _check_file(member, guarded, force)


def _place(path: str | Path) -> _Place:
    """Returns what is equal for all names of one file, hard links included."""
    real = os.path.realpath(path)
    try:
        status = Path(real).stat()
    except (OSError, ValueError):
        return real
    return status.st_dev, status.st_ino


def _other_kind(file: Path, kind: str) -> str:
    """Returns what a file holds, in words; "" if it is of the kind, or nothing is lost with it."""
    if not kind or not file.is_file():
        return ""
    try:
        head = FileHead(file)
    except OSError as error:
        return f"what can't be read ({error.strerror})"
    return "" if head.is_empty or KINDS[kind](head) else head.description


def _guard(file: Path) -> str:
    """Returns why a file is never overwritten, in words; "" if it may be."""
    if any((file.parent / name).exists() for name in _OF_A_CELL):
        return "in the folder of a study's cell"
    try:
        head = FileHead(file)
    except OSError:  # there is none, or none that can be read
        return ""
    if head.is_sqlite or head.is_toml:
        return head.description
    for folder in file.parents[:2]:
        for toml in filter(_is_of_study, folder.glob("*.toml")):
            if _place(file) in map(_place, _named_in(toml)):
                return f"named by {printable(toml.name)}"
    return ""


def _is_of_study(file: Path) -> bool:
    """Returns whether a file is a study file or a store."""
    if file.suffix == ".toml":
        return not {"criteria", "systems"}.isdisjoint(_tables(file))
    try:
        return file.suffix in (".db", ".sqlite", ".sqlite3") and FileHead(file).is_sqlite
    except OSError:  # a folder, or what may not be read
        return not file.is_dir()


def _named_in(toml: Path) -> Iterator[Path]:
    """Yields existing files that values of a TOML file name, relative to its folder."""
    for value in _strings(_tables(toml)):
        if "\n" in value or "\0" in value or len(value) > _LONGEST_PATH:
            continue
        try:
            pattern = str(toml.absolute().parent / user_path(value))
        except UserError:  # a text that begins with ~
            continue
        names = [pattern]
        if "{" in value:
            names = glob.glob(_PLACEHOLDER.sub("*", glob.escape(pattern)))  # noqa: PTH207
        yield from (Path(name) for name in names if os.path.isfile(name))  # noqa: PTH113


def _tables(toml: Path) -> Mapping[str, Any]:
    if not toml.is_file():  # what comes out of a pipe comes once
        return {}
    try:
        return tomllib.loads(toml.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
