"""Processes that start at once: each is forked from one that has loaded the package.

A test that kills servers starts many of them, and loading takes a process far longer than what is
tested.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PRELOADED = (
    "httpx",
    "uvicorn",
    "levelfield.cli",
    "levelfield_rating.cli",
    "levelfield_rating.export.documents",
    "levelfield_rating.web.app",
    "levelfield_rating.web.organiser",
)


def environment() -> dict[str, str]:
    """Lets a process import the package and the helpers of these tests."""
    return {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT}"}


@dataclass(frozen=True)
class Forked:
    """A process, used like a `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Returns the exit status; None while it runs."""
        return _ask({"wait": self.pid})

    def wait(self, timeout: float = 600) -> int:
        until = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.005)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(function: str, *arguments: object, out: Path, errors: Path | None = None) -> Forked:
    """Calls `module:function` with words as arguments, in a process of its own.

    Args:
        out: takes what it prints, after what is there.
        errors: takes what it writes to stderr; else that goes where this process's goes.
    """
    words = [str(argument) for argument in arguments]
    order = {"call": function, "words": words, "out": str(out), "errors": str(errors or "")}
    return Forked(_ask(order))


def run_levelfield(*words: str) -> None:
    """Runs the command line as `python -m levelfield` does."""
    from levelfield.cli import main

    sys.argv = ["levelfield", *words]
    main()


@cache
def _parent() -> subprocess.Popen[str]:
    """Returns the process that has loaded everything; it and its children end with this one."""
    parent = subprocess.Popen(
        [sys.executable, "-c", "import forked; forked.serve_forks()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert parent.stdin is not None
    atexit.register(parent.stdin.close)
    return parent


def _ask(order: dict[str, Any]) -> Any:
    parent = _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(json.dumps(order) + "\n")
    parent.stdin.flush()
    return json.loads(parent.stdout.readline())


def serve_forks() -> None:
    """Forks and waits as asked, until nobody asks any more."""
    for name in PRELOADED:
        importlib.import_module(name)
    running: set[int] = set()
    ended: dict[int, int] = {}
    while line := sys.stdin.readline():
        order = json.loads(line)
        if "call" in order:
            answer: int | None = os.fork()
            if not answer:
                _become(order)
            running.add(answer)
        else:
            answer = _status(order["wait"], ended)
        print(json.dumps(answer), flush=True)
    for pid in running - ended.keys():
        os.kill(pid, signal.SIGKILL)


def _status(pid: int, ended: dict[int, int]) -> int | None:
    if pid not in ended:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if not ended_pid:
            return None
        ended[pid] = os.waitstatus_to_exitcode(status)
    return ended[pid]


def _become(order: dict[str, Any]) -> None:
    """Turns a fresh fork into the requested process."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for target, name in ((1, order["out"]), (2, order["errors"])):
        if name:
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), target)
    status = 1
    try:
        module, _, function = order["call"].partition(":")
        getattr(importlib.import_module(module), function)(*order["words"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
