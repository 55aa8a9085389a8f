"""Datasets in a study file: prompts written there, in a file of their own, or of a known set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from levelfield.core.errors import InputError
from levelfield.core.limits import CELL_REQUESTS
from levelfield.core.sample import Sample
from levelfield.datasets.prompts import PROMPT_SETS
from levelfield.io import FORMATS, open_samples, values
from levelfield.io.problems import Wrong, listed, printable, shown
from levelfield.io.toml import TomlTable, suggestion
from levelfield.study.plan import (
    PromptSet,
)
from levelfield.study.plan_file.checks import MISPLACED, check_name, format_of_path, once


def read_datasets(top: TomlTable, folder: Path) -> tuple[PromptSet, ...]:
    """Returns the datasets; each weighs as much as it has prompts unless it says so."""
    example = '[datasets.openings] prompts = ["The lake"]'
    datasets = []
    for name, table in top.tables("datasets", example):
        check_name(table, name)
        sources = _sources(table, folder) if "sources" in table else []
        prompts = (
            {sample.id: sample.source for sample in sources}
            if "sources" in table
            else _prompts(table, folder)
        )
        weight = table.number("weight", float(len(prompts)))
        table.finish(elsewhere=MISPLACED)
        datasets.append(
            PromptSet(
                name,
                tuple(prompts.values()),
                tuple(prompts),
                weight,
                rewrite="sources" in table,
                references=tuple(sample.references for sample in sources),
            )
        )
    return tuple(datasets)


def _sources(table: TomlTable, folder: Path) -> list[Sample]:
    """Returns the samples of the file that `sources` names, which have a source each; none if it
    can't be read."""
    name = table.text("sources", '"sources.jsonl"')
    for key in ("prompts", "file", "set", "ids", "field"):
        if table.take(key) is not None:
            table.wrong_field(key, "does not go with sources, which have a file of their own")
    path = str(folder / Path(name).expanduser())
    records = open_samples([path], ids="any").as_requests(
        lambda sample: "" if sample.source else "the source is empty", "source"
    )
    try:
        records.check()
    except InputError as error:
        for problem in error.problems[:_MOST_MISTAKES]:
            table.wrong_field("sources", problem)
        return []
    samples = list(records)
    once(table, "sources", [sample.id for sample in samples])
    return samples


def _prompts(table: TomlTable, folder: Path) -> dict[str, str]:
    """Returns id -> prompt; empty if the table does not say where they are."""
    prompts = table.texts("prompts", '["The lake", "The road"]', empty=True)
    ids = table.texts("ids", '["lake", "road"]')
    file = table.text("file", '"prompts.txt"', default="")
    field = table.text("field", '"prompt"', default="prompt")
    of_set = table.text("set", '"pplm"', default="")
    sources = [key for key in ("prompts", "file", "set") if key in table]
    if len(sources) != 1:
        there = f"found {', '.join(sources)}" if sources else "there is none"
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
    once(table, "ids", ids or ())
    prompts = prompts or ()
    return dict(zip(ids or _numbered(len(prompts)), prompts, strict=False))


def _numbered(n: int) -> list[str]:
    # as wide whatever n is, so that a set may grow and its ids stay
    return [f"{number:04}" for number in range(1, n + 1)]


def _prompts_of_file(table: TomlTable, path: Path, name: str, field: str) -> dict[str, str]:
    format = format_of_path(path)
    if format is None:
        suffixes = ", ".join(s for f in FORMATS.values() for s in f.suffixes)
        table.wrong_field("file", f"{shown(name)}: expected a name that ends in {suffixes}")
        return {}
    a_line_each = format is FORMATS["text"]
    mistakes: list[str] = []
    prompts: list[tuple[str | None, str]] = []
    try:
        for n, record in format.rows(path):
            if len(prompts) + len(mistakes) >= CELL_REQUESTS:
                mistakes.insert(0, f"{shown(name)} has more than {CELL_REQUESTS:,} prompts")
                break
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


def _prompt_record(record: Mapping[str, Any], field: str, cells: bool) -> tuple[str | None, str]:
    """Returns the id, if there is one, and the prompt."""
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
