"""A metric in a file that says which process scores what, and fails or dies if it is told to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from levelfield.core.partitions import PARTITION
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores


class Length:
    name, level, requires, higher_is_better = "own.length", "sample", frozenset({"text"}), True
    signature = "own.length|v:1"

    def __init__(self, folder: str = "", does: str = "", delay: float = 0.0) -> None:
        self.folder, self.does, self.delay = folder, does, delay

    def score(
        self, samples: Sequence[Sample], *, progress: Callable[[int], object] = lambda _: None
    ) -> Scores:
        progress(len(samples))
        if self.folder:
            (Path(self.folder) / f"{os.getpid()}-{samples[0].id}").touch()
        time.sleep(self.delay)
        if any("poison" in s.text for s in samples):
            if self.does == "raise":
                raise ValueError("what a text")
            if self.does == "die" or len(list(Path(self.folder).glob("*-dead"))) < 1:
                (Path(self.folder) / f"{os.getpid()}-dead").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        values = np.array([len(s.text) for s in samples], float)
        return Scores(self.name, tuple(s.id for s in samples), values, {}, self.signature, True)


WORD = f"{__file__}:Length"
"""How it is named."""


def samples(n: int = 5 * PARTITION + 3, poison: int | None = None) -> list[Sample]:
    return [
        Sample(str(i), "word " * (i % 7) + ("poison" if i == poison else "end"), system="ab"[i % 2])
        for i in range(n)
    ]


def workers_of(folder: Path) -> set[int]:
    """The processes that have scored."""
    return {int(path.name.partition("-")[0]) for path in folder.iterdir()}


def begun(folder: Path) -> set[str]:
    """The first samples of the partitions that were begun."""
    return {path.name.partition("-")[2] for path in folder.iterdir()} - {"dead"}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
