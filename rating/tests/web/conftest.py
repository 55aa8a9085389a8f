from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from served_process import ServedStudy
from served_study import study_file


@pytest.fixture
def server(memory: Path) -> Iterator[ServedStudy]:
    """A server of eight sources for one rater, in a process of its own."""
    study = ServedStudy(study_file(memory, sources=8, surveys=1, raters=1))
    yield study
    study.stop()
