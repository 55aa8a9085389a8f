"""Small data sets of our own writing, in the formats of the published ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from levelfield.datasets.loading import Parts

Files = Callable[..., Parts]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes files, `files(part={"path as published": "content"})`, and gives what loaders read."""

    def write(**parts: dict[str, str | bytes]) -> Parts:
        paths: dict[str, dict[str, Path]] = {}
        for part, contents in parts.items():
            for published, content in contents.items():
                path = tmp_path / published
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
                paths.setdefault(part.replace("_", "-"), {})[published] = path
        return paths

    return write
