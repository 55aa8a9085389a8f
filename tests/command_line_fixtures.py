"""A folder to work in, and the command line in this process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, Run, Write
from levelfield import cli


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a current folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `levelfield` with these words in this process, where models stay loaded."""

    def run(*words: object, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "argv", ["levelfield", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        captured = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Ran(left.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def write(here: Path) -> Write:
    """Writes a file into the current folder: bytes, a string, or records as JSONL."""

    def write(name: str, content: bytes | str | Sequence[Mapping[str, Any]]) -> str:
        if not isinstance(content, str | bytes):
            content = "".join(json.dumps(record) + "\n" for record in content)
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write
