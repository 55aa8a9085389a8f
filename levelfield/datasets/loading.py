"""From the name of a data set to its files and samples."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.datasets.registry import DataSet, dataset
from levelfield.io.fetch import FetchError, Published, fetch, found

Parts = Mapping[str, Mapping[str, Path]]
"""Part -> path as published -> the local copy: what loaders read."""


def load(
    name: str,
    *,
    part: str | Sequence[str] | None = None,
    here: bool = False,
    progress: Progress = no_progress,
) -> list[Sample]:
    """The samples of a data set, with their ratings or labels.

    Files are looked for under `$LEVELFIELD_DATA/<set>/<path>` and in the cache, else downloaded.

    Args:
        name: as `names()` has it.
        part: one part or several; all if None. `dataset(name).parts` names them.
        here: whether to leave out what is not on this machine, instead of downloading it.
        progress: called with bytes obtained, `sum(f.bytes for f in …files)` in all.

    Raises:
        UserError: no such set or part; the set has no samples; a file is not as published.
        FetchError: a file can't be had.
    """
    known = dataset(name)
    if not known.loader:
        raise UserError(
            f"data set {name} has no samples: {known.row}; "
            f"`levelfield data fetch {name}` gets its files"
        )
    module, _, function = known.loader.partition(":")
    read: Callable[[Parts], list[Sample]] = getattr(importlib.import_module(module), function)
    return read(_parts(known, part, here, progress))


def paths(
    name: str,
    *,
    part: str | Sequence[str] | None = None,
    here: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Path]:
    """Path as published -> local copy, of all files or those of some parts; see `load`."""
    known = dataset(name)
    if part is None:
        wanted = [f for f in known.files if not here or found(f)]
        return {file.path: _fetch(file, progress) for file in wanted}
    parts = _parts(known, part, here, progress)
    return {path: local for files in parts.values() for path, local in files.items()}


def wanted_files(known: DataSet, part: str | Sequence[str] | None, here: bool) -> list[Published]:
    """The files that `load` reads, each once."""
    chosen = _chosen(known, part, here).values()
    return list(dict.fromkeys(file for files in chosen for file in files))


def _parts(
    known: DataSet, part: str | Sequence[str] | None, here: bool, progress: Progress
) -> Parts:
    chosen = _chosen(known, part, here)
    local: dict[Published, Path] = {}
    for file in dict.fromkeys(file for files in chosen.values() for file in files):
        local[file] = _fetch(file, progress)
    return {p: {f.path: local[f] for f in files} for p, files in chosen.items()}


def _chosen(
    known: DataSet, part: str | Sequence[str] | None, here: bool
) -> Mapping[str, Sequence[Published]]:
    asked = known.default if part is None else (part,) if isinstance(part, str) else tuple(part)
    chosen = {one: known.part(one) for one in dict.fromkeys(asked)}
    if not here:
        return chosen
    if known.loose:
        left = {one: tuple(f for f in files if found(f)) for one, files in chosen.items()}
        left = {one: files for one, files in left.items() if files}
    else:
        left = {one: files for one, files in chosen.items() if all(map(found, files))}
    if not left:
        what = f" ({', '.join(chosen)})" if part else ""
        raise FetchError(
            f"of data set {known.name}{what} nothing is on this machine; "
            f"`levelfield data fetch {known.name}` downloads it"
        )
    return left


def _fetch(file: Published, progress: Progress) -> Path:
    try:
        return fetch(file, progress=progress)
    except FetchError as error:
        raise FetchError(
            f"{error}; where the rest is enough, `levelfield data fetch {file.set} --here` and "
            "load(…, here=True) go without it"
        ) from error
