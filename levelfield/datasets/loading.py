"""From the name of a data set to its files and samples."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.datasets.registry import DataSet, dataset
from levelfield.io.fetch import FetchError, Published, fetch, local_copy

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
        FetchError: a file can't be obtained.
    """
    data_set = dataset(name)
    if not data_set.loader:
        raise UserError(
            f"data set {name} has no samples: {data_set.row}; "
            f"`levelfield data fetch {name}` gets its files"
        )
    module, _, function = data_set.loader.partition(":")
    read: Callable[[Parts], list[Sample]] = getattr(importlib.import_module(module), function)
    return read(_parts(data_set, part, here, progress))


def paths(
    name: str,
    *,
    part: str | Sequence[str] | None = None,
    here: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Path]:
    """Path as published -> local copy, of all files or those of some parts; see `load`."""
    data_set = dataset(name)
    if part is None:
        chosen = [f for f in data_set.files if not here or local_copy(f)]
        return {file.path: _fetch(file, progress) for file in chosen}
    parts = _parts(data_set, part, here, progress)
    return {path: local for files in parts.values() for path, local in files.items()}


def wanted_files(
    data_set: DataSet, part: str | Sequence[str] | None, here: bool
) -> list[Published]:
    """The files that `load` reads, each once."""
    chosen = _chosen(data_set, part, here).values()
    return list(dict.fromkeys(file for files in chosen for file in files))


def _parts(
    data_set: DataSet, part: str | Sequence[str] | None, here: bool, progress: Progress
) -> Parts:
    chosen = _chosen(data_set, part, here)
    local: dict[Published, Path] = {}
    for file in dict.fromkeys(file for files in chosen.values() for file in files):
        local[file] = _fetch(file, progress)
    return {p: {f.path: local[f] for f in files} for p, files in chosen.items()}


def _chosen(
    data_set: DataSet, part: str | Sequence[str] | None, here: bool
) -> Mapping[str, Sequence[Published]]:
    names = data_set.default if part is None else (part,) if isinstance(part, str) else tuple(part)
    chosen = {one: data_set.part(one) for one in dict.fromkeys(names)}
    if not here:
        return chosen
    if data_set.loose:
        complete = {one: tuple(f for f in files if local_copy(f)) for one, files in chosen.items()}
        complete = {one: files for one, files in complete.items() if files}
    else:
        complete = {one: files for one, files in chosen.items() if all(map(local_copy, files))}
    if not complete:
        what = f" ({', '.join(chosen)})" if part else ""
        raise FetchError(
            f"of data set {data_set.name}{what} nothing is on this machine; "
            f"`levelfield data fetch {data_set.name}` downloads it"
        )
    return complete


def _fetch(file: Published, progress: Progress) -> Path:
    try:
        return fetch(file, progress=progress)
    except FetchError as error:
        raise FetchError(
            f"{error}; where the rest is enough, `levelfield data fetch {file.set} --here` and "
            "load(…, here=True) go without it"
        ) from error
