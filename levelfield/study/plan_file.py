"""A study file read and checked: TOML in, a plan out, or all that is wrong with it.

What a study file may say is documented in `docs/study-file.md`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from levelfield.core import registry
from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Control
from levelfield.datasets.prompts import PROMPT_SETS
from levelfield.io import FORMATS, values
from levelfield.io.formats import Format
from levelfield.io.problems import Wrong, kind, listed, printable, shown
from levelfield.io.records import Rules
from levelfield.io.toml import TomlTable, read_toml, suggestion, toml_kind
from levelfield.study.ask import callable_worker
from levelfield.study.cells import CellKey, value_name
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    ControlKind,
    FilesSource,
    MetricPlan,
    Plan,
    PromptSet,
    SystemPlan,
)
from levelfield.study.postprocess import parse_step

T = TypeVar("T")


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """The plan in a study file. No model is loaded and no system is started.

    Raises:
        UserError: there is no such file, or it is not TOML.
        InputError: with everything that is wrong in it, one line each.
    """
    name = printable(os.fspath(path))
    file = Path(path).absolute()
    problems: list[str] = []
    top = TomlTable(read_toml(file, name, mend="name a study file"), "", problems)
    title = top.text("name", '"Openings"')
    seeds = _seeds(top)
    out = top.text("out", '"results"', default=f"{file.stem}.study")
    datasets = _datasets(top, file.parent)
    controls = _controls(top)
    plan = Plan(
        name=title,
        file=file,
        out=file.parent / Path(out).expanduser(),
        datasets=datasets,
        controls=controls,
        systems=_systems(top, controls),
        seeds=seeds,
        metrics=_metrics(top, file.parent),
    )
    if plan.out.exists() and not plan.out.is_dir():
        top.wrong_field("out", f"{shown(out)} is a file; name a folder")
    top.finish()
    if problems:
        raise InputError([f"{name}: {problem}" for problem in problems])
    return plan


_MISPLACED = dict.fromkeys(
    ("seeds", "metrics", "out"),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""


def _seeds(top: TomlTable) -> tuple[int, ...]:
    value = top.take("seeds")
    if not isinstance(value, list) or not value:
        there = "there is none" if value is None else f"found {toml_kind(value)}"
        top.wrong_field("seeds", f"expected a list of whole numbers, such as [1, 2, 3]; {there}")
        return ()
    for n, seed in enumerate(value, 1):
        if type(seed) is not int or seed < 0:
            top.wrong_field(
                f"seeds[{n}]", f"expected a whole number from 0 on; found {toml_kind(seed)}"
            )
    _once(top, "seeds", value)
    return tuple(seed for seed in value if type(seed) is int)


def _once(table: TomlTable, key: str, items: Sequence[object]) -> None:
    """Notes items that are there more than once; they may be of any type."""
    for item, n in Counter(map(repr, items)).items():
        if n > 1:
            table.wrong_field(key, f"{item} is there {n} times; name it once")


def _name(table: TomlTable, name: str) -> None:
    """Notes what makes a name unfit for tables and folders."""
    if not name.strip():
        table.wrong("the name is empty")
    elif name != name.strip() or not name.isprintable():
        table.wrong("the name begins or ends with a blank, or has what can't be printed")
    elif len(CellKey(name, "", "", 0).folder.parts[1]) > _LONGEST_NAME:
        table.wrong("the name is too long for a folder; shorten it")


_LONGEST_NAME = 200
"""Of a folder, in bytes; file systems allow 255."""


def _datasets(top: TomlTable, folder: Path) -> tuple[PromptSet, ...]:
    example = '[datasets.openings] prompts = ["The lake"]'
    datasets = []
    for name, table in top.tables("datasets", example):
        _name(table, name)
        prompts = _prompts(table, folder)
        weight = table.number("weight", float(len(prompts)))
        table.finish(elsewhere=_MISPLACED)
        datasets.append(PromptSet(name, tuple(prompts.values()), tuple(prompts), weight))
    return tuple(datasets)


def _prompts(table: TomlTable, folder: Path) -> dict[str, str]:
    """Id -> prompt, from where the table says; empty if that is wrong."""
    prompts = table.texts("prompts", '["The lake", "The road"]', empty=True)
    ids = table.texts("ids", '["lake", "road"]')
    file = table.text("file", '"prompts.txt"', default="")
    field = table.text("field", '"prompt"', default="prompt")
    of_set = table.text("set", '"pplm"', default="")
    given = [key for key in ("prompts", "file", "set") if key in table]
    if len(given) != 1:
        there = f"found {', '.join(given)}" if given else "there is none"
        table.wrong(f"expected one of prompts, file, set; {there}")
        return {}
    for key, wants in (("ids", "prompts"), ("field", "file")):
        if key in table and wants not in table:
            table.wrong_field(key, f"goes with {wants} only")
    if file:
        return _prompts_of_file(table, folder / Path(file).expanduser(), file, field)
    if of_set:
        if of_set not in PROMPT_SETS:
            table.wrong_field(
                "set", f"there is no set {shown(of_set)}; {suggestion(of_set, PROMPT_SETS)}"
            )
        prompts = PROMPT_SETS.get(of_set, ())
    if "prompts" in table and prompts and ids and len(ids) != len(prompts):
        table.wrong_field("ids", f"{len(ids)} ids for {len(prompts)} prompts; give one for each")
        return {}
    _once(table, "ids", ids or ())
    prompts = prompts or ()
    return dict(zip(ids or _numbered(len(prompts)), prompts, strict=False))


def _numbered(n: int) -> list[str]:
    # as wide whatever n is, so that a set may grow and its ids stay
    return [f"{number:04}" for number in range(1, n + 1)]


def _prompts_of_file(table: TomlTable, path: Path, name: str, field: str) -> dict[str, str]:
    format = _format(path)
    if format is None:
        suffixes = ", ".join(s for f in FORMATS.values() for s in f.suffixes)
        table.wrong_field("file", f"{shown(name)}: expected a name that ends in {suffixes}")
        return {}
    a_line_each = format is FORMATS["text"]
    mistakes: list[str] = []
    prompts: list[tuple[str | None, str]] = []
    try:
        for n, record in format.rows(path):
            try:
                if isinstance(record, Wrong):
                    raise record
                if not a_line_each:
                    prompts.append(_prompt_record(record, field, format.cells))
                elif record["text"].strip():
                    prompts.append((None, record["text"]))
            except Wrong as wrong:
                mistakes.append(f"{printable(name)}:{format.unit}{n}: {wrong}")
    except OSError as error:
        mistakes.append(f"{shown(name)} can't be read: {error.strerror}")
    if not (prompts or mistakes):
        mistakes.append(f"{shown(name)} has no prompts")
    named = [id for id, _ in prompts if id is not None]
    if named and len(named) < len(prompts):
        mistakes.append(f"{len(named)} of {len(prompts)} prompts have an id; give all one or none")
    for id, times in Counter(named).items():
        if times > 1:
            mistakes.append(f"{times} prompts have the id {shown(id)}; ids are unique")
    for mistake in mistakes[:_MOST_MISTAKES]:
        table.wrong_field("file", mistake)
    if len(mistakes) > _MOST_MISTAKES:
        table.wrong_field("file", f"… and {len(mistakes) - _MOST_MISTAKES:,} more problems")
    ids = named if len(named) == len(prompts) else _numbered(len(prompts))
    return dict(zip(ids, (prompt for _, prompt in prompts), strict=True))


_MOST_MISTAKES = 5
"""Of one file of prompts; it may have thousands, all for one reason."""


def _format(path: Path) -> Format | None:
    return next((f for f in FORMATS.values() if path.suffix.lower() in f.suffixes), None)


def _prompt_record(record: Mapping[str, Any], field: str, cells: bool) -> tuple[str | None, str]:
    """Id, if there is one, and prompt."""
    if field not in record:
        raise Wrong(
            f'there is no {shown(field)}, the fields are {listed(record)}; name it: field = "…"'
        )
    try:
        prompt = values.string(record[field])
    except Wrong as wrong:
        raise wrong.inside(field) from None
    try:
        id = record.get("id")
        return None if values.absent(id) else values.name(id, cells), prompt
    except Wrong as wrong:
        raise wrong.inside("id") from None


def _controls(top: TomlTable) -> tuple[ControlKind, ...]:
    example = '[controls.sentiment] sentiment = ["positive", "negative"]'
    kinds = []
    for name, table in top.tables("controls", example):
        _name(table, name)
        wanted = {a: _values(table, a) for a in table if a not in _MISPLACED}
        table.finish(elsewhere=_MISPLACED)
        if not wanted:
            table.wrong('expected an attribute, such as sentiment = ["positive", "negative"]')
        combinations = tuple(
            dict(zip(wanted, combination, strict=True))
            for combination in itertools.product(*wanted.values())
        )
        for alike, n in Counter(map(value_name, combinations)).items():
            if n > 1:
                table.wrong(f"{n} of its values read {shown(alike)}; each has to be another")
        kinds.append(ControlKind(name, combinations))
    return tuple(kinds)


def _values(table: TomlTable, attribute: str) -> list[str | tuple[str, ...]]:
    given = table.take(attribute)
    expected = 'a list of values, such as ["positive", "negative"] or [["court", "culture"]]'
    if not attribute.strip():
        table.wrong("the name of an attribute is empty")
    if not isinstance(given, list) or not given:
        table.wrong_field(attribute, f"expected {expected}; found {toml_kind(given)}")
        return []
    wanted: list[str | tuple[str, ...]] = []
    for n, value in enumerate(given, 1):
        words = value if isinstance(value, list) else [value]
        if words and all(isinstance(word, str) and word.strip() for word in words):
            wanted.append(tuple(words) if isinstance(value, list) else value)
        else:
            what = "a string, or a list of strings, none of them empty"
            table.wrong_field(f"{attribute}[{n}]", f"expected {what}; found {toml_kind(value)}")
    return wanted


_ONLY_FOR = {
    "timeout_s": "only a system with command or callable has this",
    "retries": "only a system with command or callable has this",
    "environment": "only a system with command has this",
    "options": "only a system with callable has this",
    "format": "only a system with files has this",
    "map": "only a system with files has this",
}
"""Keys that not every system has."""


def _systems(top: TomlTable, controls: Sequence[ControlKind]) -> tuple[SystemPlan, ...]:
    systems = []
    for table in top.list_of_tables("systems", '[[systems]] name = "gedi"'):
        name = table.text("name", '"gedi"')
        if name:
            _name(table, name)
        taking_part = _taking_part(table, controls)
        system = SystemPlan(
            name=name,
            source=_source(table),
            controls=tuple(control.name for control in taking_part),
            labels=_labels(table, controls),
            postprocess=table.texts("postprocess", '["strip"]') or (),
            prompting=table.text("prompting", '"few-shot"', default=""),
        )
        for n, word in enumerate(system.postprocess, 1):
            _try(table, f"postprocess[{n}]", parse_step, word)
        for control in taking_part:
            if control.values and not any(_has_words(system, value) for value in control.values):
                table.wrong_field(
                    "labels",
                    f"leave nothing to ask of {shown(control.name)}; name the controls that the "
                    "system takes part in: controls = [ … ]",
                )
        table.finish(elsewhere=_MISPLACED | _ONLY_FOR)
        systems.append(system)
    names = [system.name for system in systems if system.name]
    for name, n in Counter(names).items():
        if n > 1:
            top.wrong_field("systems", f"{n} have the name {shown(name)}; names are unique")
    return tuple(systems)


def _taking_part(table: TomlTable, controls: Sequence[ControlKind]) -> list[ControlKind]:
    names = table.texts("controls", '["sentiment"]')
    if names is None:
        return list(controls)
    known = [control.name for control in controls]
    for n, name in enumerate(names, 1):
        if name not in known:
            table.wrong_field(
                f"controls[{n}]", f"there is no control {shown(name)}; {suggestion(name, known)}"
            )
    _once(table, "controls", names)
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


def _source(table: TomlTable) -> FilesSource | CommandSource | CallableSource:
    sources = [key for key in ("command", "files", "callable") if key in table]
    if len(sources) != 1:
        there = f"found {', '.join(sources)}" if sources else "there is none"
        table.wrong(f"expected one of command, files, callable; {there}")
        # nobody can say which of the keys of sources belong here, so none is called unknown
        for key in ("command", "files", "callable", *_ONLY_FOR):
            table.take(key)
        return CommandSource(())
    if "files" in sources:
        format = table.text("format", '"jsonl"', default="")
        return FilesSource(_pattern(table, format), format or None, _mapping(table))
    timeout_s = table.number("timeout_s", CommandSource.timeout_s)
    retries = table.whole("retries", CommandSource.retries)
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
    given = table.table("environment")
    environment = {}
    for name in given:
        value = given.take(name)
        if not isinstance(value, str) or "\0" in value:
            given.wrong_field(name, f"expected a string, in quotes; found {toml_kind(value)}")
        elif not name or "=" in name or "\0" in name:
            given.wrong_field(name, "no name of an environment variable")
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
    given = table.table("options")
    options = {key: given.take(key) for key in given}
    for key, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            given.wrong_field(key, f"expected what JSON can hold; found {kind(value)}")
    return options


def _pattern(table: TomlTable, format: str) -> str:
    pattern = table.text("files", '"texts/{dataset}-{control}-{seed}.jsonl"')
    if format and format not in FORMATS:
        table.wrong_field(
            "format", f"there is no format {shown(format)}; {suggestion(format, FORMATS)}"
        )
    elif pattern and not format and _format(Path(pattern)) is None:
        table.wrong_field("files", f"{shown(pattern)} doesn't say the format; add format = …")
    try:
        parts = list(string.Formatter().parse(pattern))
    except ValueError as error:
        said = str(error).lower()
        table.wrong_field("files", f"{said} in {shown(pattern)}; write a brace as such twice")
        return pattern
    for _, name, form, conversion in parts:
        if name is not None and (name not in CellKey._fields or form or conversion):
            there = ", ".join(f"{{{field}}}" for field in CellKey._fields)
            table.wrong_field("files", f"can't fill in {shown(f'{{{name}}}')}; there are {there}")
    return pattern


def _mapping(table: TomlTable) -> dict[str, str]:
    given = table.table("map")
    mapping = {ours: given.text(ours, '"output"') for ours in given}
    for ours, theirs in mapping.items():
        _try(given, ours, Rules, {ours: theirs})
    return mapping


_IN_STUDIES = frozenset({"id", "text", "prompt", "control", "system", "dataset", "seed"})
"""Fields of a sample that the texts of a study have."""


def _metrics(top: TomlTable, folder: Path) -> tuple[MetricPlan, ...]:
    example = '"diversity" or {name = "control.average", options = {judges = "offline"}}'
    plans = []
    members: Counter[str] = Counter()
    for table in top.list_of_tables("metrics", example, named=True):
        name = table.text("name", '"diversity"')
        options = _metric_options(table, folder)
        table.finish()
        if name:
            members.update(_try(table, "", _members, name, options) or ())
            plans.append(MetricPlan(name, options))
    for name, n in members.items():
        if n > 1:
            top.wrong_field("metrics", f"{shown(name)} is there {n} times; values go by its name")
    return tuple(plans)


def _members(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """The metrics that a name stands for, all of which can be made with these options.

    Raises:
        UserError: there is none, it doesn't know an option, or a study has not what it reads.
    """
    names = registry.matching(name)
    for made in registry.create(names, {}, options):
        if lacking := sorted(made.requires - _IN_STUDIES):
            raise UserError(
                f"metric '{made.name}' reads {', '.join(lacking)}, which a study's texts don't have"
            )
    return names


def _metric_options(table: TomlTable, folder: Path) -> dict[str, str]:
    """Options as a user would write them on the command line."""
    given = table.table("options")
    options = {}
    for name in given:
        match given.take(name):
            case bool() as value:
                options[name] = str(value).lower()
            case int() | float() as number:
                options[name] = str(number)
            case str() as text:
                # the one kind of value that means another thing in another folder
                is_path = text.startswith(("./", "../"))
                options[name] = os.path.normpath(folder / text) if is_path else text
            case other:
                given.wrong_field(
                    name, f"expected a string, a number, true or false; found {toml_kind(other)}"
                )
    return options


def _try(table: TomlTable, key: str, call: Callable[..., T], *args: object) -> T | None:
    """What the call returns; None and a note in the table if it finds the user at fault."""
    try:
        return call(*args)
    except UserError as error:
        said = str(error).replace("\n", "; ")
        table.wrong(f"{key}: {said}" if key else said)
        return None
