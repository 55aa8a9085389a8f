"""`levelfield data`: the data sets with a name, and their files on this machine."""

from __future__ import annotations

from collections.abc import Iterable

import click

from levelfield.cli.options import JSON, takes
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import progress_bar, say, tell, tell_json
from levelfield.core.strings import json_text
from levelfield.datasets.loading import DataOptions, choices, load, paths, wanted_files
from levelfield.datasets.registry import (
    DataSet,
    dataset,
    document,
    is_here,
    names,
    share_here,
    state_of,
    total_bytes,
)
from levelfield.io import as_record, atomic_writer
from levelfield.io.comparisons import choice_record
from levelfield.io.fetch import cache_folder, data_folder
from levelfield.io.fields import Record
from levelfield.show.terminal import listing

_NO_LICENCE = "none stated"
_MOST_FILES = 80


@click.group()
def data() -> None:
    """List and fetch data sets: rated texts, prompts, labelled texts.

    Files are looked for under $LEVELFIELD_DATA/NAME/PATH, then in the cache, and are downloaded
    from GitHub, or from $LEVELFIELD_MIRROR, only by `fetch`. Every file is verified.
    """


@data.command(name="list")
@JSON
def list_(as_json: bool) -> None:
    """List the data sets, and show which are on this machine."""
    sets = [dataset(name) for name in names()]
    if as_json:
        described = [{**document(entry), "here": sum(map(is_here, entry.files))} for entry in sets]
        tell_json(described, indent=2)
        return
    tell(listing(map(_listed, sets)))


def _listed(entry: DataSet) -> tuple[str, tuple[str, ...]]:
    size = f"{total_bytes(entry.files) / 1e6:.1f} MB"
    facts = (
        "" if entry.rows is None else f"rows: {entry.rows:,}",
        f"files: {len(entry.files):,} ({size})",
        f"here: {share_here(entry.files)}",
    )
    sentences = (entry.title, f"licence: {entry.licence or _NO_LICENCE}")
    return f"{entry.name:<26} {'; '.join(filter(None, facts))}".rstrip(), sentences


@data.command()
@click.argument("name")
@JSON
def show(name: str, as_json: bool) -> None:
    """Show the origin of a data set, facts about it, and the state of its files."""
    entry = dataset(name)
    states = {file.path: state_of(file) for file in entry.files}
    if as_json:
        listed = [
            {"path": f.path, "bytes": f.bytes, "sha256": f.sha256, "state": states[f.path]}
            for f in entry.files
        ]
        described = {**document(entry), "parts": {p: list(v) for p, v in entry.parts.items()}}
        tell_json({**described, "files": listed}, indent=2)
        return
    facts = [
        ("citation", entry.citation),
        (
            "licence",
            entry.licence or f"{_NO_LICENCE}: ask the authors before you share any of it",
        ),
        ("from", f"https://github.com/{entry.repository}/tree/{entry.commit}"),
        ("a row", entry.row),
        ("rows", "" if entry.rows is None else f"{entry.rows:,}"),
        ("searched in", ", then ".join(map(str, filter(None, (data_folder(), cache_folder()))))),
    ]
    tell(f"{entry.name}: {entry.title}\n")
    for key, value in facts:
        if value:
            tell(f"{key + ':':<15}{value}")
    if entry.facts:
        tell("\nFacts:")
        for fact in entry.facts:
            tell(f"  - {fact}")
    tell("\nParts (--part):")
    for part in entry.parts:
        files = entry.part(part)
        size = f"{total_bytes(files) / 1e6:.2f} MB"
        tell(f"  {part:<20}{len(files):>4} files {size:>10}  {share_here(files)}")
    if len(entry.files) > _MOST_FILES:
        tell(f"\n{len(entry.files)} files; --json lists them")
        return
    tell("\nFiles:")
    width = max(len(file.path) for file in entry.files)
    for file in entry.files:
        tell(f"  {file.path:<{width}} {file.bytes:>10,}  {states[file.path]}")


@data.command(name="fetch", cls=Writing)
@click.argument("name")
@takes(DataOptions, "chosen")
@click.option("--out", type=OutputType("samples"), help="Write the samples as JSONL; - is stdout.")
@click.option(
    "--choices",
    "choices_file",
    type=OutputType("choices"),
    help="Write people's choices between the samples as JSONL; - is stdout.",
)
def fetch_(name: str, chosen: DataOptions, out: str | None, choices_file: str | None) -> None:
    """Download a data set, or write its samples and choices to files.

    An interrupted download resumes where it stopped. With --out, the samples can be read
    by `levelfield score` and `levelfield correlate`; with --choices, people's choices between them
    by `levelfield agreement`, `correlate --choices` and `strengths`.
    """
    entry = dataset(name)
    if out is None and choices_file is None:
        files = wanted_files(entry, chosen) if chosen.part else entry.files
        with progress_bar(f"fetching {name} (bytes)", total_bytes(files)) as progress:
            local = paths(name, chosen, progress=progress)
        say(f"{name}: {_counted(len(local), 'file')}, verified")
        for path in local.values():
            tell(str(path))
        return
    size = total_bytes(wanted_files(entry, chosen)) if entry.loader else 0
    with progress_bar(f"fetching {name} (bytes)", size) as progress:
        # both are read before either is written
        compared = choices(name, chosen, progress=progress) if choices_file else []
        samples = load(name, chosen, progress=progress) if out else []
    if out:
        _write(out, map(as_record, samples))
        say(f"{name}: {_counted(len(samples), 'sample')} written to {out}")
    if choices_file:
        _write(choices_file, map(choice_record, compared))
        say(f"{name}: {_counted(len(compared), 'choice')} written to {choices_file}")
    if not entry.licence:
        written = " or ".join(filter(None, (out, choices_file)))
        say(f"{name} states no licence; do not share {written}")


def _write(path: str, records: Iterable[Record]) -> None:
    with atomic_writer(path) as file:
        for record in records:
            file.write(json_text(record) + "\n")


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
