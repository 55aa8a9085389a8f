"""What a command may write over: nothing that it reads, no study, no store, and no file of another
kind unless the user says so.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.limits import TOML_BYTES
from levelfield.io.problems import listed, printable
from levelfield.io.writing import STDOUT, check_writable

_BYTES = 1 << 16
_LONGEST_LINE = 1 << 24
_SQLITE = b"SQLite format 3\0"


class FileHead:
    """The beginning of a file.

    Raises:
        OSError: it can't be read.
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
        return self._bytes.startswith(_SQLITE)

    @property
    def is_parquet(self) -> bool:
        return self._bytes.startswith(b"PAR1")

    @cached_property
    def is_toml(self) -> bool:
        """Whether it is a TOML file with a value in it."""
        if not self.text or self._path.stat().st_size > TOML_BYTES:
            return False
        try:
            return bool(tomllib.loads(self._path.read_text("utf-8-sig")))
        except (ValueError, RecursionError):
            return False

    @cached_property
    def text(self) -> str:
        """The first characters; empty if this is no text."""
        try:
            # a character may be cut at the end
            text = self._bytes.decode(
                "utf-8-sig", "strict" if len(self._bytes) < _BYTES else "ignore"
            )
        except UnicodeDecodeError:
            return ""
        return "" if "\0" in text else text

    @cached_property
    def fields(self) -> frozenset[str]:
        """Keys of the JSON object in the first line, or columns of a Parquet or CSV file."""
        if self.is_parquet:
            import polars as pl

            try:
                return frozenset(pl.read_parquet_schema(self._path))
            except (OSError, pl.exceptions.PolarsError):
                return frozenset()
        if self.text.startswith("{"):
            try:
                record = json.loads(self._line)
            except (ValueError, RecursionError):
                return frozenset()
            return frozenset(record) if isinstance(record, dict) else frozenset()
        first = self.text.partition("\n")[0]
        return frozenset(next(csv.reader([first]), ())) if "," in first else frozenset()

    @property
    def description(self) -> str:
        """What it is, in words."""
        known = [name for name, matches in KINDS.items() if matches(self)]
        text = self.text.lstrip()
        match self:
            case FileHead(is_empty=True):
                return "nothing"
            case FileHead(is_sqlite=True):
                return "a database (SQLite), such as a store of ratings"
            case FileHead(is_toml=True):
                return "settings (TOML), such as a study file"
            case _ if known:
                return known[0]
            case FileHead(is_parquet=True):
                return "a Parquet file"
            case _ if text[:9].lower() == "<!doctype":
                return "an HTML page"
            case _ if self.fields:
                what = "JSON lines" if text.startswith("{") else "a table"
                return f"{what} with the fields {listed(sorted(self.fields), 4)}"
            case _:
                return "text" if text else "binary data"


def _fields(*names: str) -> Callable[[FileHead], bool]:
    return lambda head: head.fields.issuperset(names)


def _is_page(head: FileHead) -> bool:
    return '<meta name="generator" content="levelfield' in head.text


def _is_latex(head: FileHead) -> bool:
    return "\\begin{tabular}" in head.text and "\\documentclass" not in head.text


def _is_markdown(head: FileHead) -> bool:
    return "\n| :-- |" in head.text


def _is_generated(head: FileHead) -> bool:
    fields = ("id", "text", "continuation", "seed", "signature")
    # a first line that a crash has torn loses nothing
    torn = head.text.startswith('{"id": ') and not (head.fields or "\n" in head.text)
    return head.fields.issuperset(fields) or torn


def _is_samples(head: FileHead) -> bool:
    is_other = "metric" in head.fields or _is_generated(head)
    return head.fields.issuperset(("id", "text")) and not is_other


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


KINDS: Mapping[str, Callable[[FileHead], bool]] = {
    "scores": _fields("id", "metric", "value", "signature"),
    "parts of scores": _fields("id", "metric", "part", "score"),
    "a page of levelfield": _is_page,
    "LaTeX tables": _is_latex,
    "Markdown tables": _is_markdown,
    "z-scores": _fields("id", "aspect", "rater", "z"),
    "numbers of a study": _fields("control", "system", "measure", "dataset", "mean"),
    "links of raters": _fields("slot", "name", "link"),
    "negatives": _fields("id", "positive", "negative"),
    "word frequencies": lambda head: _is_number(head.text.partition("\n")[0]),
    "unigram counts": lambda head: head.text.startswith("# unigram counts"),
    "scales": lambda head: head.text.startswith("# Scales of composite scores"),
    "a pooler": lambda head: '"format": "levelfield pooler' in head.text[:100],
    "an export of ratings": lambda head: (
        "study_digest" in head.fields
        or _fields("rater", "survey", "slot", "state")(head)
        or _fields("criteria", "design", "items", "slots")(head)
        or head.text.partition("\n")[0].endswith(": codebook")
    ),
    "ratings": _fields("id", "aspect", "rater", "value"),
    "texts of `levelfield generate`": _is_generated,
    "samples": _is_samples,
}
"""The kinds of files that commands write -> whether a file is one."""


_OF_A_CELL = ("cell.json", "answers.partial.jsonl")
_Place = str | tuple[int, int]
_LONGEST_PATH = 1000
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True)
class OutputTarget:
    """A file or folder that is about to be written.

    Attributes:
        option: what the user says for it.
        path: `-` is standard output, which only a file may be.
        kind: of a file, in `KINDS`; empty for a folder, and for a file that is new.
        files: name -> kind of the files in a folder, as far as they are known before the work.
        new: whether it is a file that must not be there.
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
    """Whether files and folders can be written without loss of what is there.

    They are not each other, nor what is read, nor what a TOML file among the inputs or a study file
    beside them names, and no database, TOML file or file of a study's cell. A file of another kind
    is in the way unless `force` says that it may go, which it may not beside a study file or store.

    Raises:
        UserError: names the option.
    """
    places: dict[_Place, str] = {}
    for path in inputs:
        if path != STDOUT:
            places |= {_place(file): "an input as well" for file in _with_named(path)}
    for target in targets:
        if not target.path:
            what = "file" if target.kind or target.new else "folder"
            raise UserError(f"{target.option}: the name of the {what} is empty")
        if target.path == STDOUT and not target.kind:
            raise UserError(f"{target.name}: standard output can't be that; name a new one")
        if target.kind or target.new:
            _check_file(target, places, force)
        else:
            _check_folder(target, places, force)


def _check_file(target: OutputTarget, places: dict[_Place, str], force: bool) -> None:
    if target.path == STDOUT:
        return
    file = Path(os.path.realpath(target.path))
    if target.new and file.exists():
        raise UserError(f"{target.name}: is there already; name a new file")
    if not file.exists() or file.is_file():
        taken = places.get(_place(file)) or _protected(file)
        if taken:
            raise UserError(f"{target.name}: is {taken}; name another")
        places[_place(file)] = f"the file of {target.option} as well"
    check_writable(target.path)
    content = _other_kind(file, target.kind)
    if content and (study := next(filter(_is_of_study, file.parent.iterdir()), None)):
        raise UserError(
            f"{target.name}: holds {content}, not {target.kind}, and lies beside "
            f"{printable(study.name)} of a study; name another file"
        )
    if content and any(_place(folder) in places for folder in file.parents):
        raise UserError(
            f"{target.name}: holds {content}, not {target.kind}, and lies in a folder that is an "
            "input; name another file"
        )
    if content and not force:
        raise UserError(
            f"{target.name}: holds {content}, not {target.kind}; name another file, or overwrite "
            "it with --force"
        )


def _check_folder(target: OutputTarget, places: dict[_Place, str], force: bool) -> None:
    folder = Path(os.path.realpath(target.path))
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{target.name}: is a file; name a folder")
    if taken := places.get(_place(folder)):
        raise UserError(f"{target.name}: is {taken}; name another")
    for file in sorted(folder.iterdir()):
        if _place(file) in places or _is_of_study(file):
            raise UserError(
                f"{target.name}: holds {printable(file.name)}, which is an input or a study's; "
                "name a folder of its own"
            )
    for name, kind in target.files.items():
        _check_file(OutputTarget(target.option, str(Path(target.path) / name), kind), places, force)


def _place(path: str | Path) -> _Place:
    """Equal for names of one file; a file system may have several, links aside."""
    real = os.path.realpath(path)
    try:
        found = Path(real).stat()
    except (OSError, ValueError):
        return real
    return found.st_dev, found.st_ino


def _other_kind(file: Path, kind: str) -> str:
    """What a file holds, in words; empty if it is of the kind, or nothing is lost with it."""
    if not kind or not file.is_file():
        return ""
    try:
        head = FileHead(file)
    except OSError as error:
        return f"what can't be read ({error.strerror})"
    return "" if head.is_empty or KINDS[kind](head) else head.description


def _protected(file: Path) -> str:
    """Why a file is never written over, in words; empty if it may be."""
    if any((file.parent / name).exists() for name in _OF_A_CELL):
        return "in the folder of a study's cell"
    if not file.exists():
        return ""
    try:
        head = FileHead(file)
    except OSError:
        return ""
    if head.is_sqlite or head.is_toml:
        return head.description
    beside = (toml for folder in file.parents[:2] for toml in folder.glob("*.toml"))
    for toml in filter(_is_of_study, beside):
        if _place(file) in map(_place, _named_in(toml)):
            return f"named by {printable(toml.name)}"
    return ""


def _is_of_study(file: Path) -> bool:
    """Whether a file is a study file or a store."""
    if file.suffix == ".toml":
        tables = _tables(file)
        return "criteria" in tables or "systems" in tables
    try:
        return file.suffix in (".db", ".sqlite", ".sqlite3") and FileHead(file).is_sqlite
    except OSError:  # a folder, or what may not be read
        return not file.is_dir()


def _with_named(path: str) -> Iterator[str]:
    """The path, and of a TOML file the files that it names."""
    yield path
    if path.endswith(".toml"):
        yield from map(str, _named_in(Path(path)))


def _named_in(toml: Path) -> Iterator[Path]:
    """Files that are there and that values of a TOML file name, relative to its folder."""
    for value in _strings(_tables(toml)):
        if "\n" in value or "\0" in value or len(value) > _LONGEST_PATH:
            continue
        pattern = str(toml.absolute().parent / Path(value).expanduser())
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
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _strings(inner)
        case list():
            for inner in value:
                yield from _strings(inner)
