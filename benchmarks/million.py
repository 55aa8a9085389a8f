"""Seconds of the processor and peak memory of a million samples.

    python benchmarks/million.py [--samples 1000000] [--repeat 3] [PART ...]

Every repeat of a part is a process of its own, so that its peak memory is its own. The parts:

- summarise: 10 metrics of five systems on shared prompts, of normal values with small differences;
- undefined: the same, 1 % of the values of each metric undefined, each on other samples;
- agree: two metrics against ratings from 1 to 5, as `levelfield correlate` has it, without files;
- score: `levelfield score` of a file of texts, BLEU and chrF, with a page;
- correlate: `levelfield correlate` of what it wrote, with a file of ratings, the texts and a page;
- compare: `levelfield compare` of a log with this number of answers of five systems to the
  same inputs, one score an answer;
- agreement: `levelfield agreement` of this number of ratings on five points by 50 raters, five an
  item.

The first three do not count the making of the samples. One thread computes unless OMP_NUM_THREADS
says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from turns import Seconds

from levelfield.agree.evaluation import evaluate
from levelfield.agree.join import RatedScores, Unmatched
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import summarise

SYSTEMS, METRICS, PART = 5, 10, 1000
RATERS, RATINGS_OF_ITEM = 50, 5
SENTENCE = (
    "the court sat on monday and heard that a culture of sun shone over old rivers while people "
    "walked home with bread cheese wine or nothing at all"
)
WORDS = SENTENCE.split()


def tally_of(count: int, undefined: float) -> RunTable:
    """Returns samples of systems on shared prompts, with values of every metric."""
    rng = np.random.default_rng(0)
    tally = RunTable()
    prompt_effects = rng.normal(size=(METRICS, count // SYSTEMS + 1))
    for start in range(0, count, PART):
        rows = np.arange(start, min(start + PART, count))
        ids = tuple(map(str, rows.tolist()))
        for i, id in zip(rows.tolist(), ids, strict=True):
            system = f"system {i % SYSTEMS}"
            sample = Sample(id, "A text.", prompt=f"Prompt {i // SYSTEMS}", system=system)
            tally.add([sample], [system])
        for m in range(METRICS):
            v = prompt_effects[m, rows // SYSTEMS] + rng.normal(size=rows.size)
            v += 0.02 * (rows % SYSTEMS)
            v[rng.random(v.size) < undefined] = np.nan
            reasons = {ids[i]: "empty text" for i in np.flatnonzero(np.isnan(v))}
            tally.add_scores(Scores(f"m{m}", ids, v, reasons, f"m{m}|v:1", True))
    return tally


def rated_scores(count: int) -> RatedScores:
    rng = np.random.default_rng(0)
    quality = rng.normal(size=count)
    prompts = np.arange(count) // SYSTEMS
    metrics = {f"m{m}": quality * (0.5 + 0.01 * m) + rng.normal(size=count) for m in range(2)}
    ratings = np.clip(np.round(quality + rng.normal(size=count) + 3), 1, 5)
    return RatedScores(
        ids=tuple(map(str, range(count))),
        metrics=metrics,
        aspects={"overall": ratings},
        clusters=prompts,
        systems=np.full(count, ""),
        datasets=np.full(count, ""),
        sources=prompts,
        samples={},
        signatures=dict.fromkeys(metrics, "v:1"),
        raters={"overall": 1},
        only_scored=Unmatched(0, ()),
        only_rated=Unmatched(0, ()),
        same_text=0,
    )


def write_files(folder: Path, count: int) -> None:
    rng = random.Random(0)
    texts, ratings = folder / "texts.jsonl", folder / "ratings.jsonl"
    with texts.open("w") as text_file, ratings.open("w") as rating_file:
        for i in range(count):
            prompt = f"The {WORDS[i // SYSTEMS % len(WORDS)]} {i // SYSTEMS}"
            record = {
                "id": str(i),
                "system": f"system {i % SYSTEMS}",
                "prompt": prompt,
                "text": f"{prompt} {' '.join(rng.choices(WORDS, k=rng.randint(5, 25)))}.",
                "references": [f"{prompt} {' '.join(rng.choices(WORDS, k=12))}."],
            }
            text_file.write(json.dumps(record) + "\n")
            rating = {"id": str(i), "aspect": "overall", "rater": f"r{i % 7}"}
            rating_file.write(json.dumps(rating | {"value": rng.randint(1, 5)}) + "\n")


def write_logged(path: Path, count: int) -> None:
    """Answers of the systems to the same inputs, with a score on five points each."""
    rng = random.Random(0)
    with path.open("w") as file:
        for i in range(count):
            score = min(1.0, max(0.0, round(rng.gauss(0.5 + 0.01 * (i % SYSTEMS), 0.3) * 4) / 4))
            logged = {"item": str(i // SYSTEMS), "scores": {"match": score}}
            record = {"text": "An answer.", "system": f"system {i % SYSTEMS}", "logged": logged}
            file.write(json.dumps(record) + "\n")


def write_agreement(path: Path, count: int) -> None:
    """Ratings of items by five of the raters each: quality and as much noise, on five points."""
    rng = random.Random(0)
    with path.open("w") as file:
        for item in range(count // RATINGS_OF_ITEM):
            quality = rng.gauss(0, 1)
            for rater in rng.sample(range(RATERS), RATINGS_OF_ITEM):
                value = min(5, max(1, round(3 + quality + rng.gauss(0, 1))))
                rating = {"id": str(item), "aspect": "overall", "rater": f"r{rater}"}
                file.write(json.dumps(rating | {"value": value}) + "\n")


def compute(part: str, count: int) -> float:
    """Seconds of the processor, without the making of the samples."""
    if part == "agree":
        table = rated_scores(count)
        begin = time.process_time()
        evaluate(table)
    else:
        tally = tally_of(count, 0.01 if part == "undefined" else 0.0)
        begin = time.process_time()
        summarise(tally)
    return time.process_time() - begin


def commands(folder: Path) -> dict[str, list[str]]:
    run = [sys.executable, "-m", "levelfield"]
    texts, scores = f"{folder}/texts.jsonl", f"{folder}/scores.jsonl"
    score = ["score", texts, "--metric", "bleu.references", "--metric", "chrf.references"]
    correlate = ["correlate", scores, "--ratings", f"{folder}/ratings.jsonl", "--samples", texts]
    return {
        "score": [*run, *score, "--no-cache", "--out", scores, "--report", f"{folder}/score.html"],
        "correlate": [*run, *correlate, "--report", f"{folder}/correlate.html"],
        "compare": [*run, "compare", f"{folder}/logged.jsonl", "--json"],
        "agreement": [*run, "agreement", f"{folder}/agreement.jsonl", "--json"],
    }


def measured(command: list[str]) -> tuple[float, float, str]:
    """Returns processor seconds, peak MiB, and the output of a command."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: exit {os.waitstatus_to_exitcode(status)}")
    scale = 1 if sys.platform == "darwin" else 1024
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale / 2**20, printed


def parts(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yields a line about every part."""
    file_commands = commands(folder)
    if {"score", "correlate"} & set(arguments.parts):
        write_files(folder, arguments.samples)
    if "compare" in arguments.parts:
        write_logged(folder / "logged.jsonl", arguments.samples)
    if "agreement" in arguments.parts:
        write_agreement(folder / "agreement.jsonl", arguments.samples)
    if "correlate" in arguments.parts and "score" not in arguments.parts:
        measured(file_commands["score"])
    for part in arguments.parts:
        compute = [sys.executable, __file__, "--compute", "--samples", str(arguments.samples), part]
        runs = [measured(file_commands.get(part, compute)) for _ in range(arguments.repeat)]
        seconds = [s if part in file_commands else float(printed) for s, _, printed in runs]
        page = folder / f"{part}.html"
        size = f", page {page.stat().st_size / 2**20:.1f} MiB" if page.exists() else ""
        peak = max(p for _, p, _ in runs)
        yield f"{part}: {Seconds(seconds)}, peak {peak:,.0f} MiB{size}"


def main() -> None:
    every = ["summarise", "undefined", "agree", "score", "correlate", "compare", "agreement"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--compute", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", default=every, metavar="PART", help=", ".join(every))
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(every):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    if arguments.compute:
        print(compute(arguments.parts[0], arguments.samples))
        return
    with tempfile.TemporaryDirectory() as folder:
        for line in parts(arguments, Path(folder)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
