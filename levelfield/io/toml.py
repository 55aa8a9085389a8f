"""TOML files: opened in one way, and read field by field so that every mistake is named at once."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from levelfield.core import limits
from levelfield.core.errors import UserError
from levelfield.core.options import Declaration, Options, Unfit, choices
from levelfield.core.strings import did_you_mean
from levelfield.io.problems import kind, listed, printable, shown
from levelfield.io.streams import read_bytes

T = TypeVar("T")


def read_toml(
    file: Path | Traversable, name: str = "", *, kind: str = "", mend: str = ""
) -> dict[str, Any]:
    """Returns the tables of a TOML file, UTF-8 with or without a byte order mark.

    Args:
        file: a user's, or one that comes with the package.
        name: as messages call the file; its last part by default.
        kind: names the file when it cannot be read: `judges file`.
        mend: what to do about a file that can't be read.

    Raises:
        UserError: there is no such file, or it is not TOML.
    """
    name = printable(name or file.name)
    try:
        content = (
            read_bytes(file, limits.TOML_BYTES) if isinstance(file, Path) else file.read_bytes()
        )
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        subject = f"{kind} {name}" if kind else f"{name}:"
        todo = f"; {mend}" if mend else ""
        raise UserError(f"{subject} can't be read: {error.strerror}{todo}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: not a TOML file: {error}") from error


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Returns the known name that a mistyped one resembles, else all names, in words."""
    names = list(dict.fromkeys(candidates))
    every = f"there are {listed(names)}" if names else "there are none"
    return did_you_mean(name, names, form=shown, otherwise=every)


def toml_kind(value: object) -> str:
    """Returns what a value is, in the words of TOML."""
    match value:
        case "":
            return "an empty string"
        case []:
            return "an empty list"
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return str(value)
        case int() | float() | str():
            return shown(value)
        case Mapping():
            return "a table"
        case _:
            return kind(value)


class TomlTable:
    """A table whose fields are taken by name; mistakes go to a list that all tables share.

    A field that is wrong is read as if it were not there, so that reading goes on.

    Attributes:
        where: the way to the table, for messages.
        name: of a table that is a named entry of another; else empty.
    """

    def __init__(
        self, values: Mapping[str, object], where: str, problems: list[str], name: str = ""
    ) -> None:
        self.where = where
        self.name = name
        self._values = values
        self._problems = problems
        self._known: list[str] = []

    def wrong(self, problem: str) -> None:
        """Notes a mistake of the table as a whole."""
        self._problems.append(f"{self.where}: {problem}" if self.where else problem)

    def wrong_field(self, key: str, problem: str) -> None:
        """Notes a mistake in a field."""
        self.wrong(f"{printable(key)}: {problem}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def take(self, key: str) -> object:
        """Returns the value of a field; None if there is none."""
        self._known.append(key)
        return self._values.get(key)

    def finish(self, *, elsewhere: Mapping[str, str] = {}) -> None:
        """Notes all fields that nobody took.

        Args:
            elsewhere: fields that would be right in another place -> what to say of them.
        """
        for key in self._values:
            if key not in self._known:
                unknown = f"there is no such key; {suggestion(key, self._known)}"
                self.wrong_field(key, elsewhere.get(key, unknown))

    def text(self, key: str, example: str, *, default: str | None = None) -> str:
        """Returns a string that is not blank; required unless there is a default."""
        value = self.take(key)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value.strip() and "\0" not in value:
            return value
        self._expected(key, f"a string that is not empty, such as {example}", value)
        return default or ""

    def table(self, key: str) -> TomlTable:
        """Returns a table; an empty one if there is none."""
        value = self.take(key)
        if value is not None and not isinstance(value, Mapping):
            self._expected(key, "a table", value)
        return self._inner(value, printable(key))

    def tables(self, key: str, example: str) -> Iterator[tuple[str, TomlTable]]:
        """Yields the tables in a table, by name; at least one."""
        value = self.take(key)
        if not isinstance(value, Mapping) or not value:
            self._expected(key, f"at least one table, such as {example}", value)
            return
        for name, inner in value.items():
            dotted = f"{key}.{printable(name)}" if name else f'{key}.""'
            if not isinstance(inner, Mapping):
                self._expected(dotted, f"a table, such as {example}", inner)
            else:
                yield name, self._inner(inner, dotted, name)

    def list_of_tables(self, key: str, example: str, *, named: bool = False) -> Iterator[TomlTable]:
        """Yields the tables in a list, at least one; each is called by its number and its name.

        Args:
            named: whether a string stands for a table with that name and nothing else.
        """
        value = self.take(key)
        if not isinstance(value, list) or not value:
            self._expected(key, f"at least one table, such as {example}", value)
            return
        for n, item in enumerate(value, 1):
            inner = {"name": item} if named and isinstance(item, str) else item
            if not isinstance(inner, Mapping):
                self._expected(f"{key}[{n}]", f"a table, such as {example}", inner)
            else:
                name = inner.get("name")
                called = f" {shown(name)}" if isinstance(name, str) and name else ""
                yield self._inner(inner, f"{key}[{n}]{called}")

    def values(
        self, cls: type[Any], *, without: Collection[str] = (), complete: bool = False
    ) -> dict[str, Any]:
        """Returns the values of the choices of a class, as far as they are there and right.

        Tables with choices of their own are left to `inside`.

        Args:
            without: choices that the table does not have.
            complete: whether choices that are not there, or wrong, have their defaults; None where
                there is none.
        """
        declared = {
            name: choice
            for name, choice in choices(cls).items()
            if name not in without and choice.table is None
        }
        values = {name: v for name, choice in declared.items() for v in self._values_of(choice)}
        if complete:
            defaults = {n: None if c.required else c.default for n, c in declared.items()}
            values = defaults | values
        return values

    def inside(self, cls: type[Options], name: str) -> Iterator[TomlTable]:
        """Yields the tables that a choice of a class is made of: one, those of a list, or by name.

        A string in a list of tables, where the choice accepts it, stands for a table with that
        `name` and nothing else.
        """
        choice = choices(cls)[name]
        key, example = choice.key, choice.rule.example
        value = self.take(key)
        if value is None and not choice.rule.fewest and not choice.required:
            return
        if not (choice.is_list or choice.is_mapping):
            if isinstance(value, Mapping):
                yield self._inner(value, printable(key))
            else:
                self._expected(key, choice.expected, value)
            return
        if not isinstance(value, list if choice.is_list else Mapping) or (
            len(value) < choice.rule.fewest
        ):
            such = f", such as {example}" if example else ""
            least = "at least one table" if choice.rule.fewest else "tables"
            self._expected(key, f"{least}{such}", value)
        elif choice.is_list:
            yield from self.list_of_tables(key, example, named=str in choice.item_kinds)
        else:
            yield from (table for _, table in self.tables(key, example))

    def _values_of(self, choice: Declaration, key: str = "") -> list[Any]:
        """Returns the value of a choice in a list, which is empty if none is there and right."""
        key = key or choice.key
        value = self.take(key)
        if value is None:
            if choice.required:
                self._expected(key, choice.expected, None)
            return []
        if choice.is_list and isinstance(value, list):
            if len(value) < choice.rule.fewest:
                self._expected(key, choice.expected, value)
                return []
            right = [self._accepts(choice, f"{key}[{n}]", item) for n, item in enumerate(value, 1)]
            return [choice.check(value)] if all(right) else []
        if choice.is_list and choice.is_only_list:
            self._expected(key, choice.expected, value)
            return []
        if not self._accepts(choice, key, value):
            return []
        if (value_choice := choice.value_choice) and isinstance(value, Mapping):
            inner = self._inner(value, printable(key))
            return [{name: v for name in inner for v in inner._values_of(value_choice, name)}]
        if choice.kinds == (float,) and isinstance(value, int):
            return [float(value)]
        return [choice.check(value)]

    def _accepts(self, choice: Declaration, key: str, value: object) -> bool:
        """Returns whether a choice accepts a value, or an item of its list; notes why not."""
        try:
            choice.check_item(value)
        except Unfit as error:
            self._expected(key, error.expected, value, error.hint)
            return False
        if not isinstance(value, str) or choice.names:
            return True
        if "\0" in value:
            self._expected(key, "a string without a NUL character", value)
            return False
        if not value.strip() and not choice.rule.blank:
            has_example = choice.rule.example and not choice.is_list
            example = f", such as {choice.rule.example}" if has_example else ""
            self._expected(key, f"a string that is not empty{example}", value)
            return False
        return True

    def _inner(self, value: object, step: str, name: str = "") -> TomlTable:
        where = f"{self.where}: {step}" if self.where else step
        values = value if isinstance(value, Mapping) else {}
        return TomlTable(values, where, self._problems, name)

    def _expected(self, key: str, expected: str, value: object, hint: str = "") -> None:
        outcome = "there is none" if value is None else f"found {toml_kind(value)}"
        self.wrong_field(key, f"expected {expected}; {outcome}{f'; {hint}' if hint else ''}")
