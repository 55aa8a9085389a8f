"""How much the one process that reads, keeps and writes can take in, however many others score.

Scores are there at once, so what is measured is the rest: reading, keys and rows of the cache,
lines of `scores.jsonl`, sums; and what it takes to send partitions away. Processor time of this
process, by turns, a text; then bytes a value. With `--ray ADDRESS` also what it
takes to have the tasks of a cluster score, from the difference of a run and one of half the texts.

    python benchmarks/driver.py [--texts 20000] [--repeat 5] [--ray HOST:PORT]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from unittest import mock

import numpy as np
from turns import by_turns

from levelfield.core.metric import Metric
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io import open_samples
from levelfield.scoring import run as scoring_run
from levelfield.scoring.cache import cache_path
from levelfield.scoring.options import ScoreOptions
from levelfield.workers.executor import Executor
from workers import write_texts

VALUES = 4
"""Metrics where there are several."""


class Known:
    """A metric whose values cost nothing; its signature is as long as that of a real one."""

    level, requires, higher_is_better = "sample", frozenset({"text"}), True

    def __init__(self, name: str) -> None:
        self.name = f"known.{name}"
        self.signature = f"{self.name}|model:offline/minilm@53aa51172d14|dtype:float32|v:0.1.0"

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        progress(len(samples))
        values = np.arange(len(samples)) / 7 + 0.123456789
        ids = tuple(sample.id for sample in samples)
        return Scores(self.name, ids, values, {}, self.signature, True)


class AtOnce:
    """An executor that has the scores at once."""

    ahead = 4

    def begin(self, _: object, metric: Metric, samples: Sequence[Sample]) -> Future[Scores]:
        there: Future[Scores] = Future()
        there.set_result(metric.score(samples))
        return there

    def together(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()


@contextlib.contextmanager
def immediate_executor(*_: object) -> Iterator[Executor]:
    yield AtOnce()


def through(address: str, texts: Path, repeat: int) -> None:
    """Prints what a run by two tasks at a time takes of the driver."""
    from driver import Known as Sendable  # this module's own name is not one to import

    lines = texts.read_text("utf-8").splitlines(keepends=True)
    half = texts.with_name("half.jsonl")
    half.write_text("".join(lines[: len(lines) // 2]), "utf-8")
    options = ScoreOptions(metrics=(Sendable("0"),), cache=False, workers=2, ray=address)

    def clock() -> float:
        return time.process_time() + sum(os.times()[2:4])  # of children that have ended, too

    ways = {
        path.name: lambda path=path: scoring_run.measure(open_samples([path]), options).n
        for path in (texts, half)
    }
    seconds, _ = by_turns(ways, repeat, clock=clock)
    n = len(lines) - len(lines) // 2
    each = [
        1e6 * (a - b) / n
        for a, b in zip(seconds[texts.name].values, seconds[half.name].values, strict=True)
    ]
    print(f"through Ray, one value a text, no cache, nothing written: {np.median(each):.0f} µs "
          f"a text ({min(each):.0f} to {max(each):.0f})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ray", metavar="HOST:PORT")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.jsonl"
        out = f"{folder}/scores.jsonl"
        write_texts(texts, arguments.texts)
        os.environ["LEVELFIELD_CACHE"] = folder

        def run(metrics: int, cache: bool, fresh: bool) -> Callable[[], int]:
            stand_ins = tuple(Known(str(i)) for i in range(metrics))
            options = ScoreOptions(metrics=stand_ins, cache=cache)

            def once() -> int:
                if fresh:
                    for file in cache_path().parent.glob("segments.sqlite*"):
                        file.unlink()
                return scoring_run.measure(open_samples([texts]), options, out=out).n

            return once

        def read() -> int:
            source = open_samples([texts])
            source.check()
            return len(list(source))

        def send() -> int:
            samples = list(open_samples([texts]))
            begin = time.process_time()
            sent = [pickle.dumps((b"", None, part, None)) for part in partitions(samples)]
            print(
                f"sending alone: {1e6 * (time.process_time() - begin) / len(samples):.1f} µs and "
                f"{sum(map(len, sent)) / len(samples):,.0f} bytes a text",
            )
            return len(samples)

        with mock.patch.object(scoring_run, "working_place", immediate_executor):
            ways = {
                "reading": read,
                "one value a text, no cache": run(1, False, False),
                "one value a text, kept": run(1, True, True),
                "one value a text, found": run(1, True, False),
                f"{VALUES} values a text, no cache": run(VALUES, False, False),
                f"{VALUES} values a text, kept": run(VALUES, True, True),
                f"{VALUES} values a text, found": run(VALUES, True, False),
            }
            seconds, counts = by_turns(ways, arguments.repeat, clock=time.process_time)
        assert set(counts.values()) == {arguments.texts}
        for name, times in seconds.items():
            each = [1e6 * value / arguments.texts for value in times.values]
            print(
                f"{name}: {np.median(each):.0f} µs a text ({min(each):.0f} to {max(each):.0f}), "
                f"{1e6 / np.median(each):,.0f} texts a second"
            )
        send()
        if arguments.ray:
            through(arguments.ray, texts, arguments.repeat)
        with mock.patch.object(scoring_run, "working_place", immediate_executor):
            run(VALUES, True, True)()
        rows = VALUES * arguments.texts
        size = sum(file.stat().st_size for file in cache_path().parent.glob("segments.sqlite*"))
        print(f"cache: {size / rows:.0f} bytes a value; scores.jsonl: "
              f"{Path(out).stat().st_size / rows:.0f} bytes a value; texts: "
              f"{texts.stat().st_size / arguments.texts:.0f} bytes each")  # fmt: skip


if __name__ == "__main__":
    main()
