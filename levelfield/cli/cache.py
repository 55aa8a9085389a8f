"""`levelfield cache`: values kept from earlier runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from levelfield.cli.options import JSON
from levelfield.cli.terminal import tell, tell_json
from levelfield.models.converted import copies_bytes, copies_folder, remove_copies
from levelfield.scoring.cache import Contents, SegmentCache, cache_path, clear_cache


@click.group()
def cache() -> None:
    """Show where the cache of values is and what it holds, or empty it.

    It is in $LEVELFIELD_CACHE, else in the user's cache folder. Values are stored under the
    signature of their metric, so a change of model or option never returns an old value. Next to it
    are converted copies of embedded models, which are made again when they are needed.
    """


@cache.command()
@JSON
def info(as_json: bool) -> None:
    """Show the number of values per metric, and the size of converted models."""
    path = cache_path()
    folder, models = copies_folder(), copies_bytes()
    contents = Contents({}, 0)
    if _may_be_there(path):
        with contextlib.closing(SegmentCache(path)) as opened:
            contents = opened.contents()
    counts, size = contents
    if as_json:
        model_entry = {"path": str(folder), "bytes": models}
        tell_json({"path": str(path), "bytes": size, "values": dict(counts), "models": model_entry})
        return
    tell(f"{path}: {sum(counts.values()):,} values, {size / 1e6:.1f} MB")
    for metric, count in counts.items():
        tell(f"  {metric}: {count:,}")
    if models:
        tell(f"{folder}: converted models, {models / 1e6:.1f} MB")


@cache.command()
@click.option("--models", is_flag=True, help="Remove the converted models and keep all values.")
def clear(models: bool) -> None:
    """Remove all values, or with --models the converted models instead."""
    if models:
        tell(f"{copies_folder()}: {remove_copies() / 1e6:.1f} MB removed")
        return
    path = cache_path()
    if not _may_be_there(path):
        tell(f"{path}: there is no cache")
        return
    count = clear_cache(path)
    tell(f"{path}: " + ("removed" if count is None else f"{count:,} values removed"))


def _may_be_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # it may not be looked for; opening it says why
        return True
