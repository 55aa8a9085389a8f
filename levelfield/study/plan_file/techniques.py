"""Techniques in a study file: `technique = "…"` with its options and decoding."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levelfield.core.class_file import WithheldFileError
from levelfield.core.options import Declaration, choices, option, required
from levelfield.core.sample import Control
from levelfield.generation.contract import Decoding
from levelfield.generation.table import (
    TECHNIQUES,
    TechniqueFile,
    make_technique,
    technique_class,
    technique_options,
)
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable, suggestion
from levelfield.models.resolve import OFFLINE_LM
from levelfield.study.ask.requests import labels_of
from levelfield.study.cells import value_name
from levelfield.study.plan import ControlKind, SystemPlan, TechniqueSource, Word
from levelfield.study.plan_file.checks import attempt, option_words, path_from
from levelfield.study.strengths import knob_of


@dataclass(frozen=True)
class TechniqueDefaults:
    """What the techniques of a study share.

    Attributes:
        folder: of the study file.
        model: the base; empty for the default of each technique.
        decoding: how tokens are chosen, unless a system says otherwise.
        options: of each technique that has them, unless a system says otherwise.
    """

    folder: Path
    model: str = ""
    decoding: Decoding = field(default_factory=Decoding)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TechniqueTable(TechniqueSource):
    """A technique as a study file has it."""

    options: Mapping[str, Word | Mapping[str, Any]] = option(
        {}, "Options of the technique, as `levelfield techniques NAME` lists them.", blank=True
    )
    model: str = option(
        "",
        "Base model of the technique.",
        example=f'"{OFFLINE_LM}"',
        otherwise="that of the study, or of the technique",
    )
    guide: str = option(
        "",
        "Folder that `levelfield train guide` makes; separate several by commas.",
        example='"./my-guide"',
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns the options of each technique that can be imported."""
        rules = []
        for name in TECHNIQUES:
            with contextlib.suppress(ImportError):
                options = choices(technique_class(name))
                properties = {
                    spelling: _word_schema(choice)
                    for key, choice in options.items()
                    for spelling in (key, key.replace("_", "-"))
                }
                schema = {"properties": properties, "additionalProperties": False}
                named = {"properties": {"technique": {"const": name}}, "required": ["technique"]}
                rules.append({"if": named, "then": {"properties": {"options": schema}}})
        return {"allOf": rules}


def _word_schema(choice: Declaration) -> dict[str, Any]:
    """Returns the schema of an option that may also be quoted, as on the command line."""
    schema = choice.schema()
    about = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    value = schema["items"] if choice.is_list else schema
    value.pop("pattern", None)  # in quotes, a word may be empty
    words = [_WORDS[kind] for kind in choice.item_kinds if kind in _WORDS]
    words += ["^[nN][oO][nN][eE]$"] if choice.optional else []
    if not words or str in choice.item_kinds:
        return about | value
    return about | {"anyOf": [value, *({"type": "string", "pattern": word} for word in words)]}


_WORDS: Mapping[type, str] = {
    int: r"^\s*[-+]?[0-9]+\s*$",
    float: r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$",
    bool: "^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$",
}
"""Patterns of values in quotes."""


def read_defaults(
    top: TomlTable, model: str, options: Mapping[str, Any], folder: Path
) -> TechniqueDefaults:
    """Returns the base, the decoding and the options at the top of a study file."""
    words = option_words(top, options, folder)
    for key in words:
        if key == "model":
            top.wrong_field(
                "options", "write the base of all techniques as model, a key of the study"
            )
        elif not any(key in choices(technique_class(name)) for name in TECHNIQUES):
            top.wrong_field("options", f"no technique has the option {shown(key)}")
    return TechniqueDefaults(folder, path_from(model, folder), _decoding(top, Decoding()), words)


def read_technique(
    table: TomlTable, fields: Mapping[str, Any], defaults: TechniqueDefaults
) -> TechniqueSource:
    """Returns a technique that can be made; one without a name, after notes in the table, if it
    can't."""
    folder = defaults.folder
    name = fields["technique"] or ""
    paths = {key: path_from(fields[key], folder) for key in ("model", "guide") if fields[key]}
    words = option_words(table, fields["options"], folder)
    for key in paths.keys() & words.keys():
        table.wrong_field("options", f"{key}: the system has its own {key}; leave out one of them")
    words |= paths
    wrong = TechniqueSource(
        "",
        decoding=_decoding(table, defaults.decoding),
        timeout_s=fields["timeout_s"],
        retries=fields["retries"],
        budget=fields["budget"],
    )
    if file := TechniqueFile.parse(name):  # not looked at: that would run it
        return wrong.replace(
            technique=str(TechniqueFile(folder / file.path, file.cls)), options=words
        )
    if name not in TECHNIQUES:
        hint = suggestion(name, TECHNIQUES)
        if name:
            table.wrong_field("technique", f"there is no technique {shown(name)}; {hint}")
        return wrong
    options = choices(technique_class(name))
    words = {**{k: word for k, word in defaults.options.items() if k in options}, **words}
    default = options["model"].default if "model" in options else None
    if default == OFFLINE_LM:
        words.setdefault("model", defaults.model or default)
    elif isinstance(default, str):  # weights of its own
        words.setdefault("model", default)
    if fields["budget"]:
        _check_budget(table, name, words)
    values: dict[str, Any] = {}
    for key, word in words.items():
        values |= attempt(table, "", technique_options, name, {key: word}) or {}
    if missing := required(options, words):
        table.wrong(f"{name}: needs {missing[0]}: options = {{ {missing[0]} = … }}")
    elif len(values) == len(words) and attempt(table, "", make_technique, name, values) is not None:
        return wrong.replace(technique=name, options=values)
    return wrong


def _check_budget(table: TomlTable, name: str, words: Mapping[str, Any]) -> None:
    """Notes a budget of a technique that has no strength, and of one whose strength is given."""
    knob = getattr(technique_class(name), "knob", "")
    if knob not in choices(technique_class(name)):
        table.wrong_field("budget", f"{name} has no option that is its strength; leave it out")
    elif knob in words:
        table.wrong_field(
            "budget", f"it determines {knob}, and options sets it too; leave out one of them"
        )


def systems_at_budgets(
    systems: Sequence[SystemPlan], budgets: Sequence[float]
) -> tuple[SystemPlan, ...]:
    """Returns systems, with each technique without a fixed strength once per budget.

    Techniques at the first budget keep their places among the others, so that they run first.
    """
    if not budgets:
        return tuple(systems)
    free = [system for system in systems if _is_free(system)]
    first = [_with_budget(s, budgets[0]) if s in free else s for s in systems]
    return (*first, *(_with_budget(system, b) for b in budgets[1:] for system in free))


def _is_free(system: SystemPlan) -> bool:
    source = system.source
    if not isinstance(source, TechniqueSource) or not source.technique or source.budget:
        return False
    knob = knob_of(source)
    return bool(knob) and knob not in source.options


def _with_budget(system: SystemPlan, budget: float) -> SystemPlan:
    assert isinstance(system.source, TechniqueSource)
    return replace(
        system,
        name=f"{system.name} @ {budget:g}",
        source=system.source.replace(budget=budget),
        entry=system.name,
    )


def check_controls(table: TomlTable, system: SystemPlan, kinds: Sequence[ControlKind]) -> None:
    """Notes the kinds of control of which a technique refuses something.

    Loads no model, and runs no file of a metric: only a run shows what that refuses.
    """
    source = system.source
    if not (isinstance(source, TechniqueSource) and source.technique):
        return
    with contextlib.suppress(WithheldFileError):
        _check_refusals(table, system, source, kinds)


def _check_refusals(
    table: TomlTable, system: SystemPlan, source: TechniqueSource, kinds: Sequence[ControlKind]
) -> None:
    technique = make_technique(source.technique, source.options)
    for kind in kinds:
        refused = [
            (value, reason)
            for value in kind.values
            for labels in _labels(system, value)
            if (reason := technique.refusal(labels))
        ]
        if refused:
            value, reason = refused[0]
            more = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
            table.wrong(
                f"technique {source.technique} refuses {shown(value_name(value))}{more} of "
                f"{shown(kind.name)}: {reason}; or name the controls in which the system takes "
                "part: controls = [ … ]"
            )


def _labels(system: SystemPlan, value: Control) -> Iterator[Control]:
    """Yields a requested value in each of the words that the system has for it."""
    words = (system.labels.get(a, {}).get(v, (v,)) for a, v in value.items() if isinstance(v, str))
    for n in range(max(map(len, words), default=1)):
        if (labels := labels_of(system, value, n)) is not None:
            yield labels


def _decoding(table: TomlTable, decoding: Decoding) -> Decoding:
    """Returns a decoding with the changes of the table's own."""
    fields = table.table("decoding")
    values = fields.values(Decoding)
    fields.finish()
    return decoding.replace(**values)
