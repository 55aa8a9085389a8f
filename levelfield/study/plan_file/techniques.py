"""Techniques in a study file: `technique = "…"` with its options and decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelfield.core.options import choices, required
from levelfield.core.sample import Control
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable, suggestion
from levelfield.models.resolve import OFFLINE_LM
from levelfield.study.ask.requests import labels_of
from levelfield.study.cells import value_name
from levelfield.study.plan import ControlKind, SystemPlan, TechniqueSource
from levelfield.study.plan_file.checks import attempt, option_words, path_from
from levelfield.systems.contract import Decoding
from levelfield.systems.making import make_technique, technique_class, technique_options
from levelfield.systems.table import TECHNIQUES


@dataclass(frozen=True)
class TechniqueDefaults:
    """What the techniques of a study share.

    Attributes:
        folder: of the study file.
        model: the base; empty for the default of each technique.
        decoding: how tokens are chosen, unless a system says otherwise.
    """

    folder: Path
    model: str = ""
    decoding: Decoding = field(default_factory=Decoding)


def read_defaults(top: TomlTable, folder: Path) -> TechniqueDefaults:
    """Returns the base and the decoding that stand at the top of a study file."""
    model = top.text("model", f'"{OFFLINE_LM}"', default="")
    return TechniqueDefaults(folder, path_from(model, folder), _decoding(top, Decoding()))


def read_technique(
    table: TomlTable, defaults: TechniqueDefaults, timeout_s: float, retries: int
) -> TechniqueSource:
    """Returns a technique that can be made; one without a name, after notes in the table, if it
    can't."""
    folder = defaults.folder
    name = table.text("technique", '"gedi"')
    words = {
        key: path_from(table.text(key, example), folder)
        for key, example in (("model", f'"{OFFLINE_LM}"'), ("guide", '"./my-guide"'))
        if key in table
    }
    options = table.table("options")
    for key in set(words) & set(options):
        options.wrong_field(key, f"the system has its own {key}; leave out one of them")
    words = option_words(options, folder) | words
    decoding = _decoding(table, defaults.decoding)
    wrong = TechniqueSource("", {}, decoding, timeout_s, retries)
    if name not in TECHNIQUES:
        hint = suggestion(name, TECHNIQUES)
        if name:
            table.wrong_field("technique", f"there is no technique {shown(name)}; {hint}")
        return wrong
    if "guide" in words:  # several have commas between them
        paths = (path_from(part.strip(), folder) for part in words["guide"].split(","))
        words["guide"] = ",".join(paths)
    known = choices(technique_class(name))
    default = known["model"].default if "model" in known else None
    if default == OFFLINE_LM:
        words.setdefault("model", defaults.model or default)
    elif isinstance(default, str):  # weights of its own
        words.setdefault("model", default)
    values: dict[str, Any] = {}
    for option, word in words.items():
        values |= attempt(table, "", technique_options, name, {option: word}) or {}
    if missing := required(known, words):
        table.wrong(f"{name}: needs {missing[0]}: options = {{ {missing[0]} = … }}")
    elif len(values) == len(words) and attempt(table, "", make_technique, name, values) is not None:
        return TechniqueSource(name, values, decoding, timeout_s, retries)
    return wrong


def check_controls(table: TomlTable, system: SystemPlan, kinds: Sequence[ControlKind]) -> None:
    """Notes the kinds of control of which a technique refuses something; loads no model."""
    source = system.source
    if not (isinstance(source, TechniqueSource) and source.technique):
        return
    technique = make_technique(source.technique, source.options)
    for kind in kinds:
        refused = [
            (value, why)
            for value in kind.values
            for labels in _labels(system, value)
            if (why := technique.refusal(labels))
        ]
        if refused:
            value, why = refused[0]
            more = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
            table.wrong(
                f"technique {source.technique} refuses {shown(value_name(value))}{more} of "
                f"{shown(kind.name)}: {why}; or name the controls that the system takes part in: "
                "controls = [ … ]"
            )


def _labels(system: SystemPlan, value: Control) -> Iterator[Control]:
    """A wanted value in all the words that the system has for it."""
    words = (system.labels.get(a, {}).get(v, (v,)) for a, v in value.items() if isinstance(v, str))
    for n in range(max(map(len, words), default=1)):
        if (labels := labels_of(system, value, n)) is not None:
            yield labels


def _decoding(table: TomlTable, decoding: Decoding) -> Decoding:
    """Returns a decoding with what the table's own changes."""
    fields = table.table("decoding")
    values = fields.values(Decoding)
    fields.finish()
    return decoding.replace(**values)
