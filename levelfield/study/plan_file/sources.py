"""Sources of texts in a study file: a command, a callable, files, or a technique."""

from __future__ import annotations

import json
import re
import string
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from levelfield.core.limits import RETRIES
from levelfield.io import FORMATS
from levelfield.io.problems import kind, shown
from levelfield.io.records import Rules
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield.study.ask import callable_worker
from levelfield.study.cells import CellKey
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    FilesSource,
    Source,
)
from levelfield.study.plan_file.checks import attempt, format_of_path
from levelfield.study.plan_file.techniques import TechniqueDefaults, read_technique

_SOURCES = ("command", "files", "callable", "technique")
ONLY_FOR = {
    "timeout_s": "only a system with command, callable or technique has this",
    "retries": "only a system with command, callable or technique has this",
    "environment": "only a system with command has this",
    "options": "only a system with callable or technique has this",
    "model": "only a system with technique has this",
    "guide": "only a system with technique has this",
    "decoding": "only a system with technique has this",
    "format": "only a system with files has this",
    "map": "only a system with files has this",
}
"""Keys that not every system has."""


def read_source(table: TomlTable, defaults: TechniqueDefaults) -> Source:
    """Returns where the texts of a system come from."""
    sources = [key for key in _SOURCES if key in table]
    if len(sources) != 1:
        there = f"found {', '.join(sources)}" if sources else "there is none"
        table.wrong(f"expected one of {', '.join(_SOURCES)}; {there}")
        # nobody can say which of the keys of sources belong here, so none is called unknown
        for key in (*_SOURCES, *ONLY_FOR):
            table.take(key)
        return CommandSource(())
    if "files" in sources:
        format = table.text("format", '"jsonl"', default="")
        return FilesSource(_pattern(table, format), format or None, _mapping(table))
    timeout_s = table.number("timeout_s", CommandSource.timeout_s)
    retries = table.whole("retries", CommandSource.retries, RETRIES)
    if "technique" in sources:
        return read_technique(table, defaults, timeout_s, retries)
    if "command" in sources:
        return CommandSource(_command(table), timeout_s, retries, _environment(table))
    return CallableSource(_target(table), timeout_s, retries, _options(table))


def _command(table: TomlTable) -> tuple[str, ...]:
    example = '["python3", "gedi.py"]'
    command = table.texts("command", example, empty=True) or ()
    if command and not command[0].strip():
        table.wrong_field("command[1]", f"expected a program, such as {example}; found nothing")
    if any("\0" in word for word in command):
        table.wrong_field("command", "has a NUL character, which no argument may have")
    return command


def _environment(table: TomlTable) -> dict[str, str]:
    fields = table.table("environment")
    environment = {}
    for name in fields:
        value = fields.take(name)
        if not isinstance(value, str) or "\0" in value:
            fields.wrong_field(name, f"expected a string, in quotes; found {toml_kind(value)}")
        elif not name or "=" in name or "\0" in name:
            fields.wrong_field(name, "no name of an environment variable")
        else:
            environment[name] = value
    return environment


def _target(table: TomlTable) -> str:
    target = table.text("callable", '"my_package.gedi:answers"')
    if target and ":" in target:
        if not _MODULE_NAME.fullmatch(target):
            table.wrong_field("callable", f"expected MODULE:NAME; found {shown(target)}")
    elif target:
        names = sorted(entry.name for entry in entry_points(group=callable_worker.GROUP))
        if target not in names:
            hint = suggestion(target, names) if names else "no installed package has any"
            table.wrong_field(
                "callable",
                f"expected MODULE:NAME or the name of an installed system; found "
                f"{shown(target)}; {hint}",
            )
    return target


_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _options(table: TomlTable) -> dict[str, Any]:
    fields = table.table("options")
    options = {key: fields.take(key) for key in fields}
    for key, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            fields.wrong_field(key, f"expected what JSON can hold; found {kind(value)}")
    return options


def _pattern(table: TomlTable, format: str) -> str:
    pattern = table.text("files", '"texts/{dataset}-{control}-{seed}.jsonl"')
    if format and format not in FORMATS:
        table.wrong_field(
            "format", f"there is no format {shown(format)}; {suggestion(format, FORMATS)}"
        )
    elif pattern and not format and format_of_path(Path(pattern)) is None:
        table.wrong_field("files", f"{shown(pattern)} doesn't say the format; add format = …")
    try:
        parts = list(string.Formatter().parse(pattern))
    except ValueError as error:
        reason = str(error).lower()
        table.wrong_field("files", f"{reason} in {shown(pattern)}; write a brace as such twice")
        return pattern
    for _, name, form, conversion in parts:
        if name is not None and (name not in CellKey._fields or form or conversion):
            there = ", ".join(f"{{{field}}}" for field in CellKey._fields)
            table.wrong_field("files", f"can't fill in {shown(f'{{{name}}}')}; there are {there}")
    return pattern


def _mapping(table: TomlTable) -> dict[str, str]:
    fields = table.table("map")
    mapping = {ours: fields.text(ours, '"output"') for ours in fields}
    for ours, theirs in mapping.items():
        attempt(fields, ours, Rules, {ours: theirs})
    return mapping
