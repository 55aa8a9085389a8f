"""One folder for all golden tests of a process, where models stay loaded under their names."""

from __future__ import annotations

from pathlib import Path

import pytest

import golden


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, the golden records and the small models."""
    return golden.workspace(tmp_path_factory.mktemp("golden"))
