"""A folder to work in, the command line in this process, and other people's metrics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line_fixtures import here, run, write

__all__ = ["announce", "here", "run", "words", "write"]

HERE = Path(__file__).parent


@pytest.fixture
def announce(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Installs a package that announces metrics, `name="module:Class"`, for this process and for
    those that it starts."""

    def announce(**metrics: str) -> None:
        folder = tmp_path_factory.mktemp("installed")
        info = folder / "elsewhere-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
        lines = [f"elsewhere.{name.replace('_', '-')} = {at}" for name, at in metrics.items()]
        (info / "entry_points.txt").write_text("\n".join(["[levelfield.metrics]", *lines, ""]))
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(HERE)]))

    return announce


@pytest.fixture
def words(announce: Callable[..., None]) -> str:
    """The name of a third party's metric that is installed: the number of words."""
    announce(words="elsewhere_metrics:Words")
    return "elsewhere.words"
