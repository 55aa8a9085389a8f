"""What of a data set is on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levelfield.datasets.registry import DataSet
from levelfield.io.fetch import Published, is_intact, local_copy


def document(one: DataSet) -> dict[str, Any]:
    """What is known of a data set, as `levelfield data --json` has it."""
    return {
        "name": one.name,
        "title": one.title,
        "rows": one.rows,
        "files": len(one.files),
        "bytes": total_bytes(one.files),
        "licence": one.licence or None,
        "citation": one.citation,
        "repository": one.repository,
        "commit": one.commit,
        "row": one.row,
        "facts": list(one.facts),
    }


def state_of(file: Published) -> str:
    """The state of a file in words."""
    path = local_copy(file)
    if path is None:
        return "not here"
    try:
        return "here" if is_intact(file, path) else "damaged"
    except OSError:
        return "can't be read"


def is_here(file: Published) -> bool:
    """Whether a file is on this machine."""
    return local_copy(file) is not None


def share_here(files: Sequence[Published]) -> str:
    """How many of the files are on this machine, in words."""
    here = sum(map(is_here, files))
    return "all" if here == len(files) else f"{here} of {len(files)}" if here else "no"


def total_bytes(files: Sequence[Published]) -> int:
    """The size of the files together."""
    return sum(file.bytes for file in files)
