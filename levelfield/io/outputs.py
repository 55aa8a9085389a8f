"""What a command may write over: nothing that it reads, no study, no store, and no file of another
kind unless the user says so."""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.io.kinds import KINDS, FileHead
from levelfield.io.problems import printable
from levelfield.io.writing import STDOUT, check_writable

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
