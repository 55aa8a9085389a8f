"""Datasets in a study file: prompts written there, in a file of their own, or of a known set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core import limits
from levelfield.core.errors import InputError
from levelfield.core.options import Options, option
from levelfield.core.paths import user_path
from levelfield.core.sample import Sample
from levelfield.datasets.prompts import PROMPT_SETS
from levelfield.io import FORMATS, open_samples
from levelfield.io.fields import absent, name, string
from levelfield.io.problems import Wrong, listed, printable, shown
from levelfield.io.toml import TomlTable
from levelfield.study.plan import PromptSet
from levelfield.study.plan_file.checks import MISPLACED, check_name, format_of_path, once, repeated

_KINDS = ("prompts", "file", "set", "sources")
"""Keys of which a dataset has one."""


@dataclass(frozen=True, kw_only=True)
class DatasetTable(Options):
    """A dataset as a study file has it."""

    prompts: tuple[str, ...] | None = option(
        None,
        'Prompts; "" asks for a text from the control alone.',
        fewest=1,
        blank=True,
        example='["The lake", "The road"]',
    )
    ids: tuple[str, ...] | None = option(
        None, "Ids of `prompts`, one for each.", fewest=1, example='["lake", "road"]'
    )
    file: str = option(
        "",
        "File of prompts: .txt with one per line (blank lines are ignored), or .jsonl, .json, "
        ".csv, .tsv or .parquet with a field `prompt` and, optionally, `id`.",
        example='"prompts.txt"',
    )
    field: str = option("prompt", "Field of `file` that holds the prompts.", example='"opening"')
    set: str | None = option(
        None,
        "Prompts of PPLM: "
        + ", ".join(f"{name} ({len(prompts)})" for name, prompts in PROMPT_SETS.items())
        + ".",
        among=tuple(PROMPT_SETS),
    )
    sources: str = option(
        "",
        "File of sentences to rewrite, in place of prompts, with `source` and, optionally, `id` "
        "and `references`. Each request holds the `source` and an empty prompt; only metrics read "
        "the references.",
        example='"sources.jsonl"',
    )
    weight: float | None = option(
        None,
        "Weight of the dataset in means over datasets.",
        above=0,
        otherwise="number of its prompts",
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns which keys exclude or require each other."""
        return {
            "oneOf": [{"required": [key]} for key in _KINDS],
            "dependentRequired": {"ids": ["prompts"], "field": ["file"]},
        }


def read_datasets(tables: Iterable[TomlTable], folder: Path) -> Iterator[PromptSet]:
    """Yields the datasets; each weighs as much as it has prompts unless it says so."""
    for table in tables:
        check_name(table, table.name)
        fields = table.values(DatasetTable, complete=True)
        sources = _sources(table, fields["sources"], folder) if "sources" in table else []
        prompts = (
            {sample.id: sample.source for sample in sources}
            if "sources" in table
            else _prompts(table, fields, folder)
        )
        table.finish(elsewhere=MISPLACED)
        yield PromptSet(
            table.name,
            tuple(prompts.values()),
            tuple(prompts),
            fields["weight"] or float(len(prompts)),
            rewrite="sources" in table,
            references=tuple(sample.references for sample in sources),
        )


def _sources(table: TomlTable, name: str, folder: Path) -> list[Sample]:
    """Returns the samples of the file that `sources` names, which have a source each; none if it
    can't be read."""
    for key in ("prompts", "file", "set", "ids", "field"):
        if key in table:
            table.wrong_field(
                key, "cannot be combined with sources, which have a file of their own"
            )
    if not name:
        return []
    path = str(folder / user_path(name))
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


def _prompts(table: TomlTable, fields: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Returns id -> prompt; empty if the table does not say where they are."""
    keys = [key for key in _KINDS if key in table]
    if len(keys) != 1:
        there = f"found {', '.join(keys)}" if keys else "there is none"
        table.wrong(f"expected one of {', '.join(_KINDS)}; {there}")
        return {}
    for key, wants in (("ids", "prompts"), ("field", "file")):
        if key in table and wants not in table:
            table.wrong_field(key, f"goes with {wants} only")
    if file := fields["file"]:
        return _prompts_of_file(table, folder / user_path(file), file, fields["field"])
    ids, prompts = fields["ids"], fields["prompts"] or PROMPT_SETS.get(fields["set"], ())
    if "prompts" in table and prompts and ids and len(ids) != len(prompts):
        table.wrong_field("ids", f"{len(ids)} ids for {len(prompts)} prompts; give one for each")
        return {}
    once(table, "ids", ids or ())
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
            if len(prompts) + len(mistakes) >= limits.CELL_REQUESTS:
                mistakes.insert(0, f"{shown(name)} has more than {limits.CELL_REQUESTS:,} prompts")
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
    for id, times in repeated(named):
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
        prompt = string(record[field])
    except Wrong as wrong:
        raise wrong.inside(field) from None
    try:
        id = record.get("id")
        return None if absent(id) else name(id, cells), prompt
    except Wrong as wrong:
        raise wrong.inside("id") from None
