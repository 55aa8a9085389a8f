"""`levelfield` as a user has it: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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


HEED = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
"""What `nohup` ignores, a process started under it ignores, too; the tests send it."""

Run = Callable[..., Ran]
Write = Callable[..., str]


def start(*words: object, **environment: str) -> subprocess.Popen[str]:
    """`levelfield` in a process of its own. What it prints is read as UTF-8 unless
    PYTHONIOENCODING says that it is not."""
    return subprocess.Popen(
        [sys.executable, "-c", HEED + PROGRAM, *map(str, words)],
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
