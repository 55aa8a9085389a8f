"""The command line as a user has it: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from levelfield import cli

HERE = Path(__file__).parent
PROGRAM = "import sys; from levelfield.cli import main; sys.argv[0] = 'levelfield'; main()"


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout, which holds no NaN."""

        def fail(word: str) -> None:
            raise AssertionError(f"{word} is no JSON")

        return json.loads(self.out, parse_constant=fail)

    @property
    def complaint(self) -> str:
        """The one line that a user's mistake gets, without its `error: `."""
        assert self.code == 2, self
        assert self.out == "", self
        assert "Traceback" not in self.err, self
        lines = self.err.splitlines()
        assert len(lines) == 1, self
        assert lines[0].startswith("error: "), self
        return lines[0].removeprefix("error: ")


Run = Callable[..., Ran]
Write = Callable[..., str]


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
        said = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Ran(left.value.code, said.out, said.err)

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


def start(*words: object, **environment: str) -> subprocess.Popen[str]:
    """`levelfield` in a process of its own. What it prints is read as UTF-8 unless
    PYTHONIOENCODING says that it is not."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        encoding=environment.get("PYTHONIOENCODING", "utf-8").replace("ascii", "utf-8"),
    )


def finish(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


def records(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def values(path: str | Path = "scores.jsonl") -> dict[tuple[str, str], float | None]:
    """(metric, id) -> value."""
    return {(r["metric"], r["id"]): r["value"] for r in records(path)}
