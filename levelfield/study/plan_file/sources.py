"""Sources of texts in a study file: a command, a callable, files, or a technique."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from levelfield.core.options import Options, choices, json_schema
from levelfield.io.problems import kind, printable, shown
from levelfield.io.records import Rules
from levelfield.io.toml import TomlTable, suggestion
from levelfield.study.ask import callable_worker
from levelfield.study.cells import CellKey
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    FilesSource,
    Source,
)
from levelfield.study.plan_file.checks import attempt, format_of_path
from levelfield.study.plan_file.techniques import TechniqueDefaults, TechniqueTable, read_technique

SOURCES: Mapping[str, type[Options]] = {
    "command": CommandSource,
    "files": FilesSource,
    "callable": CallableSource,
    "technique": TechniqueTable,
}
"""Keys of which a system has one -> the class that declares what goes with it."""


def owners() -> dict[str, list[str]]:
    """Returns the keys that not every system has -> the keys of `SOURCES` that they go with."""
    keys: dict[str, list[str]] = {}
    for source, cls in SOURCES.items():
        for choice in choices(cls).values():
            if choice.key not in SOURCES:
                keys.setdefault(choice.key, []).append(source)
    return keys


def elsewhere() -> dict[str, str]:
    """Returns the keys that not every system has -> what to say of them in another."""
    lines = {}
    for key, sources in owners().items():
        *most, last = sources
        words = f"{', '.join(most)} or {last}" if most else last
        lines[key] = f"only a system with {words} has this"
    return lines


def source_schema() -> dict[str, Any]:
    """Returns the properties of all sources, and rules of what goes with what."""
    properties: dict[str, Any] = {}
    together: dict[str, Any] = {
        key: {"anyOf": [{"required": [source]} for source in sources]}
        for key, sources in owners().items()
    }
    for source, cls in SOURCES.items():
        for key, schema in json_schema(cls)["properties"].items():
            if properties.setdefault(key, schema) != schema:
                rule = together.setdefault(source, {"properties": {}})
                rule["properties"][key] = schema
    return {
        "properties": properties,
        "oneOf": [{"required": [source]} for source in SOURCES],
        "dependentSchemas": together,
        **TechniqueTable.schema_rules(),
    }


def read_source(table: TomlTable, defaults: TechniqueDefaults) -> Source:
    """Returns where the texts of a system come from."""
    sources = [key for key in SOURCES if key in table]
    if len(sources) != 1:
        there = f"found {', '.join(sources)}" if sources else "there is none"
        table.wrong(f"expected one of {', '.join(SOURCES)}; {there}")
        # nobody can say which of the keys of sources belong here, so none is called unknown
        for key in (*SOURCES, *owners()):
            table.take(key)
        return FilesSource("")
    source = sources[0]
    fields = table.values(SOURCES[source], complete=True)
    if source == "technique":
        return read_technique(table, fields, defaults)
    if source == "command":
        return _command(table, fields)
    return _files(table, fields) if source == "files" else _callable(table, fields)


def _command(table: TomlTable, fields: dict[str, Any]) -> CommandSource:
    program = fields["command"][0] if fields["command"] else "none"
    if not program.strip():
        example = choices(CommandSource)["command"].rule.example
        table.wrong_field("command[1]", f"expected a program, such as {example}; found nothing")
    for name in fields["environment"]:
        if not name or "=" in name or "\0" in name:
            table.wrong_field(f"environment: {name}", "no name of an environment variable")
    return CommandSource(**fields | {"command": fields["command"] or ("",)})


def _callable(table: TomlTable, fields: dict[str, Any]) -> CallableSource:
    target = fields["target"] or ""
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
    for key, value in fields["options"].items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            place = f"options: {printable(key)}"
            table.wrong_field(place, f"expected what JSON can hold; found {kind(value)}")
    return CallableSource(**fields | {"target": target})


_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _files(table: TomlTable, fields: dict[str, Any]) -> FilesSource:
    pattern = fields["pattern"] or ""
    if pattern and "format" not in table and format_of_path(Path(pattern)) is None:
        table.wrong_field("files", f"{shown(pattern)} doesn't say the format; add format = …")
    for ours, theirs in fields["mapping"].items():
        attempt(table, f"map: {printable(ours)}", Rules, {ours: theirs})
    source = FilesSource(**fields | {"pattern": pattern})
    try:
        parts = list(string.Formatter().parse(pattern))
    except ValueError as error:
        reason = str(error).lower()
        table.wrong_field("files", f"{reason} in {shown(pattern)}; write a brace as such twice")
        return source
    for _, name, form, conversion in parts:
        if name is not None and (name not in CellKey._fields or form or conversion):
            there = ", ".join(f"{{{field}}}" for field in CellKey._fields)
            table.wrong_field("files", f"can't fill in {shown(f'{{{name}}}')}; there are {there}")
    return source
