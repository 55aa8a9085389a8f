"""What other distributions add to levelfield, by entry point.

| group | an entry is |
|---|---|
| `levelfield.commands` | a `Verb`: a command beside `levelfield score` |
| `levelfield.techniques` | a `TechniqueEntry` of `levelfield.generation.table` |
| `levelfield.formats` | a `Format` of `levelfield.io.formats` |
| `levelfield.datasets` | a `DataSet` of `levelfield.datasets.registry` |
| `levelfield.study_layouts` | a `StudyLayout` of `levelfield.study.layout` |

The name of an entry is the name by which users call it. An entry is loaded when it is first used,
so an entry's module should import little. `levelfield.metrics`, whose entries are classes, has
`levelfield.core.registry`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from levelfield.core.errors import UserError, first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

METRICS = "levelfield.metrics"
"""The entry-point group under which metrics, ours and other people's, announce themselves."""


class Verb(NamedTuple):
    """A command that another distribution adds.

    Attributes:
        target: `MODULE:NAME` of a click command, imported when it is called.
        help: one line for `levelfield --help`.
    """

    target: str
    help: str


def entries(group: str) -> Mapping[str, EntryPoint]:
    """Returns what installed distributions announce in a group, by name, in alphabetical order."""
    return _entries(group, tuple(sys.path))


@functools.cache
def _entries(group: str, _folders: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """As `entries`, read once for the folders that Python looks for packages in."""
    points: Iterable[EntryPoint] = _all_entries(_folders).select(group=group)
    return {e.name: e for e in sorted(points, key=lambda e: e.name)}


@functools.cache
def _all_entries(_folders: tuple[str, ...]) -> Any:
    """Returns the entries of all groups, to `select` from: reading one group's takes as long."""
    from importlib.metadata import entry_points  # half of the start of `levelfield --help`

    return entry_points()


def load_foreign(load: Callable[[], T], failure: str) -> T:
    """Returns what another distribution's module, or a user's file, gives.

    Args:
        failure: begins the message where it raises anything.

    Raises:
        UserError: with the first line of what it raises.
    """
    try:
        return load()
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a third party's module raises when imported
        raise UserError(f"{failure}: {type(error).__name__}: {first_line(error)}") from error


class Extensible(Mapping[str, T], Generic[T]):
    """Things by name: those of levelfield, then those of other distributions.

    A name of levelfield's own goes before an entry of the same name. Looking a name up raises
    `UserError` where its entry can't be loaded or is not of the kind of the group.
    """

    def __init__(self, group: str, kind: type[T], builtin: Mapping[str, T]) -> None:
        self._group = group
        self._kind = kind
        self._builtin = dict(builtin)
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._builtin:
            return self._builtin[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(entries(self._group)[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in entries(self._group)

    def __iter__(self) -> Iterator[str]:
        yield from self._builtin
        yield from (name for name in entries(self._group) if name not in self._builtin)

    def __len__(self) -> int:
        return len(self._builtin.keys() | entries(self._group).keys())

    def _load(self, entry: EntryPoint) -> T:
        where = f"entry point '{entry.name}' of {self._group} ({entry.value})"
        value = load_foreign(entry.load, f"{where} can't be loaded")
        if not isinstance(value, self._kind):
            raise UserError(
                f"{where}: expected a {self._kind.__name__}, got a {type(value).__name__}"
            )
        return value
