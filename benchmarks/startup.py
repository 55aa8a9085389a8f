"""Cost of a command besides its work: processor time of whole processes.

    python benchmarks/startup.py [--repeat 7]

Each row is one command, run as its own process with a warm disk cache: the least and the median of
user plus system seconds over the repeats, taken by turns. `python` is an interpreter that does
nothing, `scipy.special` an import that every interval needs. `score` reads six texts: three prompts
of two systems have no interval, six texts of one system have one, and with twelve prompts of two
systems, the systems are compared. Scores are recomputed each time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from turns import by_turns

LEVELFIELD = ("-m", "levelfield")
WORDS = (
    "lake", "court", "train", "music", "game", "storm",
    "river", "clock", "bread", "cloud", "field", "tower",
)  # fmt: skip


def processor_seconds() -> float:
    """Returns processor seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_texts(path: Path, prompts: int, systems: str) -> Path:
    """Writes a text for each prompt and system, with a reference and keywords."""
    with path.open("w", encoding="utf-8") as file:
        for n, word in enumerate(WORDS[:prompts]):
            for system in systems:
                again = " again" * ((n + (system == "b")) % 3)
                record = {
                    "id": f"{n}-{system}",
                    "system": system,
                    "prompt": f"The {word}",
                    "text": f"The {word} froze{again} on day {n}.",
                    "references": [f"The {word} froze on day {n}."],
                    "control": {"keywords": [word, "day"]},
                }
                file.write(json.dumps(record) + "\n")
    return path


def commands(folder: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields names of commands with the arguments of Python."""
    yield "python", ("-c", "pass")
    yield "scipy.special", ("-c", "import scipy.special")
    yield "levelfield --help", (*LEVELFIELD, "--help")
    yield "levelfield metrics", (*LEVELFIELD, "metrics")
    yield "levelfield techniques", (*LEVELFIELD, "techniques")
    few = write_texts(folder / "few.jsonl", 3, "ab")
    single = write_texts(folder / "single.jsonl", 6, "a")
    more = write_texts(folder / "more.jsonl", 12, "ab")
    score = partial(_score, folder)
    for metric in ("rouge-1.references", "diversity.distinct-2", "keywords.all"):
        yield f"score, six texts, {metric}", score(few, metric)
    yield "score, six texts with an interval", score(single, "rouge-1.references")
    yield "score, two systems compared", score(more, "rouge-1.references")


def _score(folder: Path, texts: Path, metric: str) -> Sequence[str]:
    out = str(folder / "scores.jsonl")
    return (*LEVELFIELD, "score", str(texts), "--metric", metric, "--no-cache", "--out", out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LEVELFIELD_CACHE": folder}
        run = partial(subprocess.run, env=environment, check=True, capture_output=True)
        ways = {
            name: partial(run, [sys.executable, *words]) for name, words in commands(Path(folder))
        }
        seconds, _ = by_turns(ways, repeat, clock=processor_seconds)
    print(f"{'command':<40} {'least':>6} {'median':>6}  processor seconds of {repeat} processes")
    for name, taken in seconds.items():
        print(f"{name:<40} {min(taken.values):6.2f} {taken.median:6.2f}")


if __name__ == "__main__":
    main()
