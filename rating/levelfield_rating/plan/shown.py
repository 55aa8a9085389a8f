"""What a study file says of samples and words: their files, their fields, what raters see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.options import choices
from levelfield.io.problems import printable, shown
from levelfield.io.records import Rules
from levelfield.io.streams import read_bytes
from levelfield.io.toml import TomlTable
from levelfield_rating.model import PageFile, Words
from levelfield_rating.plan.fields import MISPLACED
from levelfield_rating.units import Headings, Show


def sample_files(top: TomlTable, names: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Returns the files; none if one is not there."""
    files = [folder / Path(name).expanduser() for name in names]
    for n, (name, file) in enumerate(zip(names, files, strict=True), 1):
        if not file.is_file():
            reason = "is a folder" if file.is_dir() else "there is no such file"
            top.wrong_field(f"samples[{n}]", f"{shown(name)}: {reason}, seen from the study file")
    return tuple(files) if all(file.is_file() for file in files) else ()


def check_field_names(top: TomlTable, mapping: Mapping[str, str]) -> None:
    """Notes what is no field of a sample."""
    for ours, column in mapping.items():
        try:
            Rules({ours: column})
        except UserError as error:
            top.wrong(f"map: {printable(ours)}: {error}")


def read_show(top: TomlTable, fields: tuple[str, ...], language: str) -> Show:
    if len(set(fields)) < len(fields):
        top.wrong_field("show", "names a field twice")
    names = top.table("names")
    show = Show(fields=fields, language=language, **names.values(Headings))
    names.finish(elsewhere=MISPLACED)
    return show


def read_words(top: TomlTable, folder: Path) -> tuple[Words, tuple[Path, ...]]:
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
        file = folder / Path(name).expanduser()
        try:
            pages[page] = read_bytes(file).decode("utf-8-sig")
            files.append(file)
        except OSError as error:
            inner.wrong_field("file", f"{shown(name)} can't be read: {error.strerror}")
        except UnicodeDecodeError:
            inner.wrong_field("file", f"{shown(name)} is not UTF-8")
    table.finish(elsewhere=MISPLACED)
    return Words(**pages), tuple(files)
