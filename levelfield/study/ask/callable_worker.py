"""A Python callable as a command: requests as JSONL on stdin, answers as JSONL on stdout.

Run by `levelfield study run` as `python -m levelfield.study.ask.callable_worker TARGET OPTIONS`.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

GROUP = "levelfield.systems"
"""The entry-point group under which systems announce themselves."""

Generate = Callable[..., Iterable[Any]]


def load(target: str) -> Generate:
    """The callable that `MODULE:NAME`, or a name in the entry-point group, stands for.

    Raises:
        LookupError: there is no such entry point.
    """
    module, colon, name = target.partition(":")
    if colon:
        source: Any = importlib.import_module(module)
        generate: Generate = functools.reduce(getattr, name.split("."), source)
        return generate
    for entry in entry_points(group=GROUP, name=target):
        installed: Generate = entry.load()
        return installed
    raise LookupError(f"no installed package has a system {target!r} in the group {GROUP}")


def main(target: str, options: str) -> None:
    """Answers the requests on stdin; whatever the callable prints goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n") as out:
        os.dup2(2, 1)
        sys.path.insert(0, str(Path.cwd()))  # modules beside the study file
        requests = [json.loads(line) for line in sys.stdin.buffer]
        for answer in load(target)(requests, **json.loads(options)):
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
