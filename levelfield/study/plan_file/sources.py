"""Sources of texts in a study file: a command, a callable, files, or a technique."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.extensions import entries
from levelfield.core.options import Options, choices, json_schema, option, table_schema
from levelfield.core.sample import Control
from levelfield.io.fields import FieldMapping
from levelfield.io.problems import kind, printable, shown
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield.stats.resampling import Draws
from levelfield.study.ask import callable_worker
from levelfield.study.cells import CellKey
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    ControlKind,
    FilesSource,
    Source,
    SystemPlan,
    TechniqueSource,
)
from levelfield.study.plan_file.checks import (
    MISPLACED,
    attempt,
    check_name,
    format_of_path,
    once,
    repeated,
)
from levelfield.study.plan_file.techniques import (
    TechniqueDefaults,
    TechniqueTable,
    check_controls,
    read_technique,
    systems_at_budgets,
)
from levelfield.study.postprocess import parse_step

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
        lines[key] = f"only a system with {words} has this key"
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
        # the source is unclear, so none of the keys of sources is called unknown
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
            table.wrong_field(f"environment: {name}", "not a name of an environment variable")
    return CommandSource(**fields | {"command": fields["command"] or ("",)})


def _callable(table: TomlTable, fields: dict[str, Any]) -> CallableSource:
    target = fields["target"] or ""
    if target and ":" in target:
        if not _MODULE_NAME.fullmatch(target):
            table.wrong_field("callable", f"expected MODULE:NAME; found {shown(target)}")
    elif target:
        names = list(entries(callable_worker.GROUP))
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
    for name, column in fields["mapping"].items():
        attempt(table, f"map: {printable(name)}", FieldMapping, {name: column})
    source = FilesSource(**fields | {"pattern": pattern})
    try:
        parts = list(string.Formatter().parse(pattern))
    except ValueError as error:
        reason = str(error).lower()
        table.wrong_field("files", f"{reason} in {shown(pattern)}; write a literal brace twice")
        return source
    for _, name, form, conversion in parts:
        if name is not None and (name not in CellKey._fields or form or conversion):
            there = ", ".join(f"{{{field}}}" for field in CellKey._fields)
            table.wrong_field("files", f"can't fill in {shown(f'{{{name}}}')}; there are {there}")
    return source


@dataclass(frozen=True, kw_only=True)
class SystemEntry(Options):
    """What a study file says of every system, wherever its texts come from."""

    name: str = option(help="Name of the system, unique.", example='"gedi"')
    controls: tuple[str, ...] | None = option(
        None,
        "Kinds of control in which the system takes part.",
        fewest=1,
        example='["sentiment"]',
        otherwise="all",
    )
    labels: Mapping[str, Mapping[str, str | tuple[str, ...]]] = option(
        {}, "Words that the system uses for the values of each attribute, by attribute."
    )
    postprocess: tuple[str, ...] | None = option(
        None,
        "Steps from the answer to the text, in order.",
        fewest=1,
        example='["strip"]',
        otherwise="none",
    )
    draws: Draws | None = option(
        None,
        "Unit that a seed draws for: `text`, each text by itself, or `run`, all texts of a run "
        "together.",
        otherwise="`text` for techniques, `run` for other systems",
    )
    prompting: str = option(
        "", "Note for tables on how a model was prompted, such as `few-shot`.", example='"few-shot"'
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns the schema rules for keys that depend on the source of texts."""
        source_rules = source_schema()
        properties = table_schema(choices(cls))["properties"] | source_rules["properties"]
        return source_rules | {"properties": properties}


def read_systems(
    top: TomlTable,
    tables: Iterable[TomlTable],
    controls: Sequence[ControlKind],
    defaults: TechniqueDefaults,
    budgets: Sequence[float],
    draws: Draws | None,
) -> tuple[SystemPlan, ...]:
    """Returns the systems at each budget.

    A system takes part in all kinds of control unless it names some.

    Args:
        draws: what seeds draw for in systems that do not say; None for the rule of their source.
    """
    systems = []
    for table in tables:
        fields = table.values(SystemEntry, without=("labels",), complete=True)
        if fields["name"]:
            check_name(table, fields["name"])
        taking_part = _taking_part(table, fields["controls"], controls)
        source = read_source(table, defaults)
        # a technique draws a text from its seed and the id of its request
        source_draws: Draws = "text" if isinstance(source, TechniqueSource) else "run"
        system = SystemPlan(
            name=fields["name"] or "",
            source=source,
            controls=tuple(control.name for control in taking_part),
            labels=_labels(table, controls),
            postprocess=fields["postprocess"] or (),
            prompting=fields["prompting"],
            draws=fields["draws"] or draws or source_draws,
        )
        for n, word in enumerate(system.postprocess, 1):
            attempt(table, f"postprocess[{n}]", parse_step, word)
        for control in taking_part:
            if control.values and not any(_has_words(system, value) for value in control.values):
                table.wrong_field(
                    "labels",
                    f"leave nothing to request of {shown(control.name)}; name the controls in "
                    "which the system takes part: controls = [ … ]",
                )
        check_controls(table, system, taking_part)
        table.finish(elsewhere=MISPLACED | elsewhere())
        systems.append(system)
    for key in ("model", "decoding", "options", "budgets"):
        if key in top and not any(isinstance(s.source, TechniqueSource) for s in systems):
            top.wrong_field(key, "applies to techniques, and no system has one; leave it out")
    every = systems_at_budgets(systems, budgets)
    for name, n in repeated(system.name for system in every if system.name):
        top.wrong_field("systems", f"{n} have the name {shown(name)}; names are unique")
    return every


def _taking_part(
    table: TomlTable, names: Sequence[str] | None, controls: Sequence[ControlKind]
) -> list[ControlKind]:
    if names is None:
        return list(controls)
    all_names = [control.name for control in controls]
    for n, name in enumerate(names, 1):
        if name not in all_names:
            hint = suggestion(name, all_names)
            table.wrong_field(f"controls[{n}]", f"there is no control {shown(name)}; {hint}")
    once(table, "controls", names)
    return [control for control in controls if control.name in names]


def _has_words(system: SystemPlan, value: Control) -> bool:
    return all(
        isinstance(v, tuple) or system.labels.get(attribute, {}).get(v, (v,))
        for attribute, v in value.items()
    )


def _labels(
    table: TomlTable, controls: Sequence[ControlKind]
) -> dict[str, dict[str, tuple[str, ...]]]:
    values_of: dict[str, dict[str, None]] = {}
    for control in controls:
        for value in control.values:
            for attribute, v in value.items():
                single = values_of.setdefault(attribute, {})
                single.update({v: None} if isinstance(v, str) else {})
    attributes = table.table("labels")
    labels = {}
    for attribute in attributes:
        mapping = attributes.table(attribute)
        if attribute not in values_of:
            mapping.wrong(f"there is no such attribute; {suggestion(attribute, values_of)}")
            continue
        if not values_of[attribute]:
            mapping.wrong("its values are lists of words, which every system gets unchanged")
            continue
        labels[attribute] = {value: _words(mapping, value) for value in mapping}
        for word in labels[attribute]:
            if word not in values_of[attribute]:
                hint = suggestion(word, values_of[attribute])
                mapping.wrong_field(word, f"there is no such value; {hint}")
    return labels


def _words(table: TomlTable, value: str) -> tuple[str, ...]:
    spelling = table.take(value)
    words = spelling if isinstance(spelling, list) else [spelling]
    if all(isinstance(word, str) and word.strip() for word in words):
        return tuple(words)
    form = "the system's word or a list of its words, empty if there is none"
    table.wrong_field(value, f"expected {form}; found {toml_kind(spelling)}")
    return (value,)
