"""A folder to write inputs to, and what reading them says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from levelfield.core.errors import InputError
from levelfield.core.sample import Sample
from levelfield.io import load_samples, open_samples


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | bytes], str]:
    """Writes a file into the current folder, which is a fresh one, and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


@pytest.fixture
def read(write: Callable[[str, str | bytes], str]) -> Callable[..., list[Sample]]:
    """The samples of a file with this name and content."""

    def read(name: str, content: str | bytes, **options: Any) -> list[Sample]:
        return load_samples(write(name, content), **options)

    return read


@pytest.fixture
def problems(write: Callable[[str, str | bytes], str]) -> Callable[..., list[str]]:
    """All that is wrong with a file with this name and content, a line each."""

    def problems(name: str, content: str | bytes, **options: Any) -> list[str]:
        with pytest.raises(InputError) as caught:
            open_samples([write(name, content)], **options).check()
        assert all("\n" not in problem for problem in caught.value.problems)
        return list(caught.value.problems)

    return problems
