"""The data sets that are known by name: what they are, where they are, which bytes they have."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.extensions import Extensible
from levelfield.core.strings import did_you_mean
from levelfield.io.fetch import Published, is_intact, local_copy
from levelfield.io.toml import read_toml


@dataclass(frozen=True)
class DataSet:
    """One data set at one commit of the repository that published it.

    Attributes:
        name, title: short, and for people.
        repository, commit: on GitHub.
        licence: as stated there; empty if nothing clear is stated.
        citation: of the paper.
        row: what one row is.
        rows: how many samples all of it has; None if it has none or the count is not known.
        facts: what a user should know, known defects among them.
        parts: name of a part -> patterns of the paths that it needs. A set without samples has
            parts, too; its files can be fetched.
        files: all of them, in the order of the registry.
        loader: `module:function` that reads them as samples; empty if they are none.
        choices: `module:function` that reads people's choices between them; empty if none.
        loose: whether a part may be read from some of its files.
        default: the parts that are read when none is named.
    """

    name: str
    title: str
    repository: str
    commit: str
    licence: str
    citation: str
    row: str
    rows: int | None
    facts: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]]
    files: tuple[Published, ...]
    loader: str
    loose: bool
    default: tuple[str, ...]
    choices: str = ""

    def part(self, name: str) -> tuple[Published, ...]:
        """Returns the files of a part.

        Raises:
            UserError: the part is unknown.
        """
        if name not in self.parts:
            hint = f"it has {', '.join(self.parts)}" if self.parts else "it has no parts"
            raise UserError(f"data set {self.name} has no part '{name}'; {hint}")
        patterns = self.parts[name]
        return tuple(f for f in self.files if any(fnmatchcase(f.path, p) for p in patterns))

    def file(self, path: str) -> Published:
        """Returns the file at a path.

        Raises:
            UserError: the set has no such file.
        """
        for file in self.files:
            if file.path == path:
                return file
        raise UserError(f"data set {self.name} has no file {path}; it has {len(self.files)} others")


def names() -> tuple[str, ...]:
    """Returns the names of all data sets; those of other distributions come last."""
    return tuple(_registry())


def dataset(name: str) -> DataSet:
    """Returns the data set of that name.

    Raises:
        UserError: there is none.
    """
    if name not in _registry():
        lists = "`levelfield data list` lists them"
        hint = did_you_mean(name, names(), most=2, cutoff=0.4, otherwise=lists)
        raise UserError(f"there is no data set '{name}'; {hint}")
    return _registry()[name]


@functools.cache
def _registry() -> Mapping[str, DataSet]:
    published = {name: _dataset(name, entry) for name, entry in _toml("registry.toml").items()}
    return Extensible("levelfield.datasets", DataSet, published)


def _toml(file: str) -> dict[str, Any]:
    return read_toml(files("levelfield.datasets") / file)


def _dataset(name: str, entry: Mapping[str, Any]) -> DataSet:
    listed: str = _toml(entry["files_in"])["files"] if "files_in" in entry else entry["files"]
    repository, commit = entry["repository"], entry["commit"]
    published = []
    for line in listed.strip().splitlines():
        sha256, size, path = line.split(maxsplit=2)
        # the file's name repeats that of its folder, which the list spares
        path = path.replace("*", path.split("/")[-2]) if "*" in path else path
        published.append(Published(name, repository, commit, path, sha256, int(size)))
    words = ("title", "repository", "commit", "licence", "citation", "row")
    return DataSet(
        name=name,
        **{word: entry[word] for word in words},
        rows=entry.get("rows"),
        facts=tuple(entry.get("facts", ())),
        parts={part: tuple(patterns) for part, patterns in entry["parts"].items()},
        files=tuple(published),
        loader=entry.get("loader", ""),
        choices=entry.get("choices", ""),
        loose=entry.get("loose", False),
        default=tuple(entry.get("default", entry["parts"])),
    )


def document(data_set: DataSet) -> dict[str, Any]:
    """Returns what is known of a data set, as `levelfield data --json` has it."""
    return {
        "name": data_set.name,
        "title": data_set.title,
        "rows": data_set.rows,
        "files": len(data_set.files),
        "bytes": total_bytes(data_set.files),
        "licence": data_set.licence or None,
        "citation": data_set.citation,
        "repository": data_set.repository,
        "commit": data_set.commit,
        "row": data_set.row,
        "facts": list(data_set.facts),
    }


def state_of(file: Published) -> str:
    """Returns the state of a file in words."""
    path = local_copy(file)
    if path is None:
        return "not here"
    try:
        return "here" if is_intact(file, path) else "damaged"
    except OSError:
        return "can't be read"


def is_here(file: Published) -> bool:
    """Returns whether a file is on this machine."""
    return local_copy(file) is not None


def share_here(files: Sequence[Published]) -> str:
    """Returns how many of the files are on this machine, in words."""
    here = sum(map(is_here, files))
    return "all" if here == len(files) else f"{here} of {len(files)}" if here else "no"


def total_bytes(files: Sequence[Published]) -> int:
    """Returns the size of the files together."""
    return sum(file.bytes for file in files)
