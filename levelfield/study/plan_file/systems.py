"""Systems in a study file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levelfield.core.options import Options, choices, option, table_schema
from levelfield.core.sample import Control
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield.study.plan import ControlKind, SystemPlan, TechniqueSource
from levelfield.study.plan_file.checks import MISPLACED, attempt, check_name, once
from levelfield.study.plan_file.sources import elsewhere, read_source, source_schema
from levelfield.study.plan_file.techniques import TechniqueDefaults, check_controls
from levelfield.study.postprocess import parse_step


@dataclass(frozen=True, kw_only=True)
class SystemEntry(Options):
    """What a study file says of every system, wherever its texts come from."""

    name: str = option(help="Name of the system, unique.", example='"gedi"')
    controls: tuple[str, ...] | None = option(
        None,
        "Kinds of control that the system takes part in.",
        fewest=1,
        example='["sentiment"]',
        otherwise="all",
    )
    labels: Mapping[str, Mapping[str, str | tuple[str, ...]]] = option(
        {}, "Words of the system for the values of each attribute, by attribute."
    )
    postprocess: tuple[str, ...] | None = option(
        None,
        "Steps from the answer to the text, in order.",
        fewest=1,
        example='["strip"]',
        otherwise="none",
    )
    prompting: str = option(
        "", "Note for tables, such as `few-shot`: how a model was prompted.", example='"few-shot"'
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns what goes with each source of texts."""
        of_sources = source_schema()
        properties = table_schema(choices(cls))["properties"] | of_sources["properties"]
        return of_sources | {"properties": properties}


def read_systems(
    top: TomlTable,
    tables: Iterable[TomlTable],
    controls: Sequence[ControlKind],
    defaults: TechniqueDefaults,
) -> tuple[SystemPlan, ...]:
    """Returns the systems; each takes part in all kinds of control unless it names some."""
    systems = []
    for table in tables:
        fields = table.values(SystemEntry, without=("labels",), complete=True)
        if fields["name"]:
            check_name(table, fields["name"])
        taking_part = _taking_part(table, fields["controls"], controls)
        system = SystemPlan(
            name=fields["name"] or "",
            source=read_source(table, defaults),
            controls=tuple(control.name for control in taking_part),
            labels=_labels(table, controls),
            postprocess=fields["postprocess"] or (),
            prompting=fields["prompting"],
        )
        for n, word in enumerate(system.postprocess, 1):
            attempt(table, f"postprocess[{n}]", parse_step, word)
        for control in taking_part:
            if control.values and not any(_has_words(system, value) for value in control.values):
                table.wrong_field(
                    "labels",
                    f"leave nothing to ask of {shown(control.name)}; name the controls that the "
                    "system takes part in: controls = [ … ]",
                )
        check_controls(table, system, taking_part)
        table.finish(elsewhere=MISPLACED | elsewhere())
        systems.append(system)
    for key in ("model", "decoding"):
        if key in top and not any(isinstance(s.source, TechniqueSource) for s in systems):
            top.wrong_field(key, "is of techniques, and there is no system with one; leave it out")
    names = [system.name for system in systems if system.name]
    for name, n in Counter(names).items():
        if n > 1:
            top.wrong_field("systems", f"{n} have the name {shown(name)}; names are unique")
    return tuple(systems)


def _taking_part(
    table: TomlTable, names: Sequence[str] | None, controls: Sequence[ControlKind]
) -> list[ControlKind]:
    if names is None:
        return list(controls)
    known = [control.name for control in controls]
    for n, name in enumerate(names, 1):
        if name not in known:
            table.wrong_field(
                f"controls[{n}]", f"there is no control {shown(name)}; {suggestion(name, known)}"
            )
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
    known: dict[str, dict[str, None]] = {}
    for control in controls:
        for value in control.values:
            for attribute, v in value.items():
                single = known.setdefault(attribute, {})
                single.update({v: None} if isinstance(v, str) else {})
    given = table.table("labels")
    labels = {}
    for attribute in given:
        mapping = given.table(attribute)
        if attribute not in known:
            mapping.wrong(f"there is no such attribute; {suggestion(attribute, known)}")
            continue
        if not known[attribute]:
            mapping.wrong("its values are lists of words, which every system gets as they are")
            continue
        labels[attribute] = {value: _words(mapping, value) for value in mapping}
        for word in labels[attribute]:
            if word not in known[attribute]:
                hint = suggestion(word, known[attribute])
                mapping.wrong_field(word, f"there is no such value; {hint}")
    return labels


def _words(table: TomlTable, value: str) -> tuple[str, ...]:
    given = table.take(value)
    words = given if isinstance(given, list) else [given]
    if all(isinstance(word, str) and word.strip() for word in words):
        return tuple(words)
    what = "the system's word or a list of its words, empty if it has none"
    table.wrong_field(value, f"expected {what}; found {toml_kind(given)}")
    return (value,)
