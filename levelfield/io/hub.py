"""Data sets of the Hugging Face hub, or folders laid out like one, streamed row by row."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from levelfield.core.errors import UserError, first_line, with_extra
from levelfield.core.paths import user_path
from levelfield.io.http import asking_the_hub
from levelfield.io.lines import Row
from levelfield.io.problems import printable, shown
from levelfield.io.writing import lasting_folder

PREFIX = "hf:"
OPTIONS = ("split", "config", "revision", "columns")


@dataclass(frozen=True)
class HubName:
    """`hf:NAME?split=test&config=…&revision=…&columns=text,label`, taken apart.

    Attributes:
        word: as the user wrote it.
        name: on the hub, or a local folder.
        split: may be left out if there is only one.
        columns: those to read; all if empty.
    """

    word: str
    name: str
    split: str | None = None
    config: str | None = None
    revision: str | None = None
    columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, word: str) -> HubName:
        name, _, query = word.removeprefix(PREFIX).partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        for option, value in options.items():
            if option not in OPTIONS or not value:
                raise UserError(
                    f"{printable(word)}: can't use {printable(f'{option}={value}')}; expected "
                    f"hf:NAME?OPTION=VALUE&… with {', '.join(OPTIONS)}"
                )
        if not name:
            raise UserError(f"{printable(word)}: no name; expected hf:NAME?split=test")
        if name.startswith((".", "/", "~")) and not user_path(name).is_dir():
            raise UserError(f"{printable(word)}: there is no folder {shown(name)}")
        columns = tuple(filter(None, options.pop("columns", "").split(",")))
        return cls(word, name, columns=columns, **options)


class ReadOnce:
    """Rows that the hub is asked for once: the first time that all are read, they are kept in a
    temporary file, which goes away with this object.

    Args:
        read: reads them from the start.
    """

    def __init__(self, read: Callable[[], Iterator[Row]]) -> None:
        self._read = read
        self._whole: Path | None = None
        self._passes = itertools.count()

    def __call__(self) -> Iterator[Row]:
        """Yields the rows from the start."""
        if self._whole is None:
            yield from self._keeping(self._folder / str(next(self._passes)))
            return
        with self._whole.open("rb") as kept:
            while row := pickle.load(kept):
                yield row

    @cached_property
    def _folder(self) -> Path:
        return lasting_folder(self)

    def _keeping(self, file: Path) -> Iterator[Row]:
        with file.open("wb") as kept:
            for row in self._read():
                pickle.dump(row, kept, pickle.HIGHEST_PROTOCOL)
                yield row
            pickle.dump(None, kept)
        self._whole = file


def rows(hub: HubName) -> Iterator[Row]:
    """Yields rows in the order of the split, with names of classes instead of their numbers."""
    try:
        import datasets
    except ImportError:
        raise UserError(
            f"{printable(hub.word)}: reading it requires the package `datasets`: {with_extra('hf')}"
        ) from None
    with _explained(hub), _quietly(datasets):
        name = str(user_path(hub.name)) if hub.name.startswith("~") else hub.name
        data = datasets.load_dataset(
            name, hub.config, split=hub.split, revision=hub.revision, streaming=True
        )
    if hub.split is None:
        if len(data) != 1:
            raise UserError(f"{printable(hub.word)}: choose a split: ?split={'|'.join(data)}")
        (data,) = data.values()
    if hub.columns:
        with _explained(hub):
            data = data.select_columns(list(hub.columns))
    classes = {
        column: feature.names
        for column, feature in (data.features or {}).items()
        if isinstance(feature, datasets.ClassLabel)
    }
    records = iter(data)
    for number in itertools.count(1):
        with _explained(hub):
            record: dict[str, Any] | None = next(records, None)
        if record is None:
            return
        for column, names in classes.items():
            label = record[column]
            # -1 is a label that is not known
            record[column] = names[label] if label is not None and label >= 0 else None
        yield number, record


@contextmanager
def _explained(hub: HubName) -> Iterator[None]:
    """Turns every error of `datasets` into one line."""
    try:
        yield
    except Exception as error:
        reason = printable(first_line(error))
        mend = (
            "without a network, only local folders and data sets fetched before can be read"
            if isinstance(error, ConnectionError | TimeoutError)
            else "check name, config, split and columns"
        )
        raise UserError(f"{printable(hub.word)}: can't be read: {reason}; {mend}") from error


@contextmanager
def _quietly(datasets: Any) -> Iterator[None]:
    """Hides the progress bars and warnings that `datasets` shows on its own."""
    silent = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with asking_the_hub():
            yield
    finally:
        if not silent:
            datasets.enable_progress_bars()
