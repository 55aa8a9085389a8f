"""What mutated inputs and sudden ends do to the commands.

    python benchmarks/attack.py fuzz [--inputs 3000] [--seed 0] [--keep FOLDER]
    python benchmarks/attack.py kills [--kills 100] [--seed 0]

`fuzz` mutates the example files, scores, choices and exports that go with them, logs, study files,
a finished study, a rating study with its store, a metric's Python file, the cache of values and a
small model folder, and gives each to a command in a process of its own. It counts "this is a bug in
levelfield", tracebacks, ends by a signal, commands of more than 60 s, and more than 2 GiB. A
command may find nothing wrong, or say what is (exit codes 0 to 2). Half of the inputs lose, double
or swap whole lines and values of their own, so that they are still files of their kind.

`kills` ends score, generate, train and study with SIGKILL at random times, runs each again until it
finishes, and compares what it wrote with what a run without kills writes. The rating server is
killed while raters answer: an answer that it has acknowledged must be exported, once.

All runs are drawn from the seed; `--keep` keeps the inputs that found something.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest.mock import patch

from levelfield.models.resolve import OFFLINE_LM
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.store.store import RatingStore

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
OFFLINE = ROOT / "levelfield" / "models" / "offline"
LONGEST_S, MOST_BYTES = 60.0, 2 << 30
OURS = "this is a bug in levelfield"

HOSTILE = (
    b"NaN", b"1e999", b"-1", b"null", b"[]", b"{}", b'""', b'"\\ud800"', b"\0", b"\xff\xfe",
    b"~nobody/x", b"9" * 400, b"[" * 3000, b'{"a":' * 3000, b"\n" * 5000, b"true", b"'", b'"',
    b"=1+1", b",,,,", b"\xef\xbb\xbf", b"\r", b"../../x", b"0.1", b"\xe2\x80\xae", b"1e-400",
    b"[[datasets]]\n", b"a" * 70_000,
)  # fmt: skip


class Case(NamedTuple):
    """A command and the file of its folder that is mutated."""

    folder: str
    file: str
    command: tuple[str, ...]


RATINGS = ("--map", "id=text_id", "--map", "rater=annotator",
           "--map", "ratings.coherence=coherence_1_5")  # fmt: skip
RATED = ("scores.jsonl", "--ratings", "ratings.csv", *RATINGS)
CASES = (
    Case("texts", "texts.jsonl", ("score", "texts.jsonl", "--metric", "diversity")),
    Case("texts", "texts.jsonl", ("score", "texts.jsonl", "--metric", "fluency.grammar", "--json")),
    Case("texts", "scores.jsonl", ("correlate", *RATED)),
    Case("texts", "ratings.csv", ("correlate", *RATED)),
    Case("texts", "ratings.csv", ("agreement", "ratings.csv", *RATINGS)),
    Case("texts", "ratings.csv", ("estimate", *RATED)),
    Case("texts", "letters.jsonl", ("score", "letters.jsonl", "--metric", "diversity.distinct-1")),
    Case("texts", "rewrites.jsonl", ("score", "rewrites.jsonl", "--metric", "rouge-l.source")),
    Case("texts", "rewrites.jsonl", ("score", "rewrites.jsonl", "--metric", "bleu", "--json")),
    Case("texts", "texts.csv", ("score", "texts.csv", "--metric", "diversity")),
    Case("texts", "letters.jsonl", ("generate", "letters.jsonl", "--technique", "rules", "--map",
         "source=text", "--control", "formality=formal", "--out", "o.jsonl")),
    Case("logs", "inspect-small.json", ("score", "inspect-small.json", "--metric", "diversity")),
    Case("logs", "inspect-small.json", ("compare", "inspect-small.json", "inspect-large.json")),
    Case("study", "study.toml", ("study", "status", "study.toml")),
    Case("techniques", "study.toml", ("study", "status", "study.toml")),
    Case("rating", "STUDY.toml", ("rate", "check", "STUDY.toml")),
    Case("rating", "rewrites.jsonl", ("rate", "check", "STUDY.toml")),
    Case("texts", "texts.jsonl", ("compare", "texts.jsonl", "--metric", "diversity.hd-d")),
    Case("texts", "ratings.csv", ("plan", "raters", "ratings.csv", *RATINGS)),
    Case("texts", "scores.jsonl", ("plan", "metrics", *RATED)),
    Case("texts", "scores.jsonl", ("plan", "systems", "scores.jsonl", "--samples", "texts.jsonl")),
    Case("texts", "choices.csv", ("strengths", "choices.csv")),
    Case("texts", "length.py", ("score", "texts.jsonl", "--metric", "length.py:length")),
    Case("cache", "cache/segments.sqlite", ("score", "texts.jsonl", "--metric", "fluency.grammar")),
    Case("texts", "texts.txt", ("train", "unigram", "texts.txt", "--model", OFFLINE_LM, "--out",
         "unigram.json")),
    Case("texts", "texts.txt", ("train", "perturb", "texts.txt", "--out", "negatives.jsonl")),
    Case("texts", "texts.jsonl", ("train", "perturb", "texts.jsonl", "--out", "negatives.jsonl")),
    Case("logs", "potato.jsonl", ("agreement", "potato.jsonl")),
    Case("logs", "label-studio.json", ("agreement", "label-studio.json")),
    Case("logs", "chat.jsonl", ("score", "chat.jsonl", "--metric", "diversity", "--json")),
    Case("logs", "lm-eval-small/results_2026-11-02T08-30-00.000000.json",
         ("compare", "lm-eval-small", "lm-eval-large")),
    Case("logs", "lm-eval-small/samples_sums_2026-11-02T08-30-00.000000.jsonl",
         ("compare", "lm-eval-small", "lm-eval-large")),
    Case("rating", "STUDY.sqlite", ("rate", "export", "STUDY.toml", "--out", "exported")),
    Case("model", "model/config.json", ("score", "texts.jsonl", "--metric", "fluency.perplexity",
         "--model", "./model")),
    Case("model", "model/tokenizer.json", ("generate", "texts.jsonl", "--technique", "base",
         "--max-new-tokens", "2", "--model", "./model", "--out", "o.jsonl")),
    Case("finished", "study.toml", ("study", "run", "study.toml")),
    Case("finished", "results/measured.json", ("study", "report", "study.toml", "--out", "r")),
    Case("finished", "results/texts.jsonl", ("study", "audit", "study.toml")),
    Case("finished", "results/scores.jsonl", ("study", "report", "study.toml", "--out", "r")),
    Case("finished", "results/cell.json", ("study", "export", "study.toml", "--texts", "t.csv")),
    Case("finished", "study.toml", ("study", "export", "study.toml", "--scores", "s.jsonl")),
)  # fmt: skip

STUDY = """
name = "Attacked"
seeds = [1]
metrics = ["diversity.distinct-1", "keywords.any"]
datasets.openings.prompts = ["The lake", "A road", "In May", "The clock"]
controls.keywords.keywords = [["sun"], ["rain"]]

[[systems]]
name = "S"
command = [{python}, "-S", "writer.py"]
"""
WRITER = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    time.sleep({pause})
    text = request["prompt"] + " lay in the sun"
    print(json.dumps({{"id": request["id"], "text": text}}), flush=True)
"""


VALUE = re.compile(rb'"[^"\n]*"|-?\d[\d.]*|true|false|null')


def rearranged(content: bytes, draw: random.Random) -> bytes:
    """Returns the content after one to four of its lines or values changed places."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        values = [match.span() for match in VALUE.finditer(content)]
        lines = content.splitlines(keepends=True)
        if values and draw.random() < 0.7:  # one value takes the place of another
            (begin, end), (b, e) = draw.choice(values), draw.choice(values)
            content = content[:begin] + content[b:e] + content[end:]
        elif len(lines) > 1:
            place = draw.randrange(len(lines))
            line = lines.pop(place)
            copies = draw.choice((0, 1, 2))  # it goes, moves or is there twice
            for _ in range(copies):
                lines.insert(draw.choice((place, draw.randrange(len(lines) + 1))), line)
            content = b"".join(lines)
    return content


CHOICES = "a,b,better,rater,prompt\n" + "".join(
    f"{a},{b},{better},{rater},p{n}\n"
    for n, (a, b, better, rater) in enumerate(
        (pair, other, choice, rater)
        for pair, other in (("x", "y"), ("y", "z"), ("x", "z"))
        for choice in ("a", "b", "tie", "a")
        for rater in ("r1", "r2")
    )
)
METRIC = """
from levelfield import metric

@metric(direction="none")
def length(text):
    return float(len(text.split()))
"""


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Returns the content after a few changes."""
    if draw.random() < 0.5:
        return rearranged(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        place = draw.randrange(len(content) + 1)
        after = min(len(content), place + draw.choice((0, 1, 2, 8, 40, 400)))
        match draw.randrange(7):
            case 0:
                content = content[:place] + draw.choice(HOSTILE) + content[after:]
            case 1:
                content = content[:place] + content[after:]
            case 2:
                content = content[:after] + content[place:]
            case 3:
                content = (
                    content[:place] + draw.randbytes(draw.choice((1, 4))) + content[place + 1 :]
                )
            case 4:
                content = content[:place]
            case _:  # a value of JSON, TOML or CSV gives way to another
                values = list(VALUE.finditer(content))
                if values:
                    begin, end = draw.choice(values).span()
                    content = content[:begin] + draw.choice(HOSTILE) + content[end:]
    return content


def write_folders(root: Path) -> None:
    """Writes the folders that cases begin from, with what commands write from the examples."""
    shutil.copytree(EXAMPLES, root / "texts", ignore=shutil.ignore_patterns("*-*", "notebooks"))
    for name in ("logs", "study", "techniques", "rating"):
        shutil.copytree(EXAMPLES / name, root / name)
    texts = [json.loads(line) for line in (EXAMPLES / "texts.jsonl").open(encoding="utf-8")]
    rows = [f'{n},{text.get("system", "")},"{text["text"]}"\n' for n, text in enumerate(texts)]
    write(root / "texts" / "texts.csv", "id,system,text\n" + "".join(rows))
    write(root / "texts" / "texts.txt", "".join(f"{' '.join(t['text'].split())}\n" for t in texts))
    write(root / "texts" / "choices.csv", CHOICES)
    write(root / "texts" / "length.py", METRIC)
    tasks = [
        {
            "id": n,
            "data": {"id": str(n), "text": text["text"]},
            "annotations": [
                {"completed_by": rater, "result": [{"from_name": "coherence", "type": "rating",
                                                    "value": {"rating": (n + rater) % 5 + 1}}]}
                for rater in (1, 2)
            ],
        }
        for n, text in enumerate(texts)
    ]  # fmt: skip
    write(root / "logs" / "label-studio.json", json.dumps(tasks, indent=1))
    chats = [
        {"messages": [{"role": "user", "content": "Go on."},
                      {"role": "assistant", "content": text["text"]}]}
        for text in texts
    ]  # fmt: skip
    write(root / "logs" / "chat.jsonl", "".join(f"{json.dumps(chat)}\n" for chat in chats))
    (root / "model" / "model").mkdir(parents=True)
    shutil.copy(EXAMPLES / "texts.jsonl", root / "model")
    tiny = import_of_tests("tests", "tiny")
    tiny.save("gpt2", root / "model" / "model")
    words = ("score", "texts.jsonl", "--metric", "fluency.grammar")
    prepare(root / "texts", (*words, "--out", "scores.jsonl"))
    shutil.copytree(root / "texts", root / "cache")
    with cache_at(root / "cache" / "cache"):
        prepare(root / "cache", (*words, "--out", "scores.jsonl"))
    study = root / "rating" / "STUDY.toml"
    with contextlib.closing(RatingStore.create(study.with_suffix(".sqlite"), freeze(study))):
        pass
    write_study(root / "finished", 0)
    prepare(root / "finished", ("study", "run", "study.toml"))


def write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def cache_at(folder: Path) -> AbstractContextManager[object]:
    """Has commands keep values in a folder."""
    return patch.dict(os.environ, LEVELFIELD_CACHE=str(folder))


def import_of_tests(folder: str, module: str) -> ModuleType:
    """Returns a module that tests share."""
    sys.path.insert(0, str(ROOT / folder))
    return importlib.import_module(module)


def write_study(folder: Path, pause: float) -> None:
    folder.mkdir()
    write(folder / "study.toml", STUDY.format(python=json.dumps(sys.executable)))
    write(folder / "writer.py", WRITER.format(pause=pause))


def prepare(folder: Path, words: Sequence[str]) -> None:
    """Runs a command that must succeed.

    Raises:
        SystemExit: with what it printed.
    """
    outcome = run(folder, words)
    if outcome.status:
        raise SystemExit(outcome.printed)


class Outcome(NamedTuple):
    """How a command ended."""

    status: int
    seconds: float
    peak: int
    printed: str

    @property
    def faults(self) -> list[str]:
        faults = []
        if OURS in self.printed:
            faults.append("our mistake")
        if "Traceback (most recent call last)" in self.printed:
            faults.append("traceback")
        if self.seconds > LONGEST_S:
            faults.append("more than 60 s")
        elif os.WIFSIGNALED(self.status):
            faults.append("ended by a signal")
        elif os.WEXITSTATUS(self.status) > 2:
            faults.append("exit code above 2")
        if self.peak > MOST_BYTES:
            faults.append("more than 2 GiB")
        return faults


def run(folder: Path, words: Sequence[str]) -> Outcome:
    """Runs a command in a copy of this process, which has imported what commands need."""
    output = folder / ".output"
    begin = time.monotonic()
    pid = os.fork()
    if not pid:
        code = 70
        try:
            os.setsid()
            os.chdir(folder)
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(file, 1)
            os.dup2(file, 2)
            sys.argv = ["levelfield", *words]
            from levelfield.cli import main

            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - begin > LONGEST_S:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.01)
    printed = output.read_text("utf-8", errors="replace")
    return Outcome(status, time.monotonic() - begin, usage.ru_maxrss * 1024, printed)


def fuzz(inputs: int, seed: int, keep: Path | None) -> int:
    import polars  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch

    import levelfield.cli.score
    import levelfield.study.verbs  # noqa: F401
    import levelfield_rating.cli  # noqa: F401

    torch.set_num_threads(1)
    faults: Counter[str] = Counter()
    codes: Counter[int] = Counter()
    slowest, peak = 0.0, 0
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        with cache_at(root / "values"):
            write_folders(root)
        for number in range(inputs):
            draw = random.Random(f"{seed}:{number}")
            case = CASES[number % len(CASES)]
            place = root / "now"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(root / case.folder, place)
            name = case.file
            if name.startswith("results/"):
                (path,) = place.glob(f"study.study/cells/**/{name.removeprefix('results/')}")
            else:
                path = place / name
            path.write_bytes(mutated(path.read_bytes(), draw))
            with cache_at(place / "cache" if case.folder == "cache" else root / "values"):
                outcome = run(place, case.command)
            slowest, peak = max(slowest, outcome.seconds), max(peak, outcome.peak)
            codes[os.waitstatus_to_exitcode(outcome.status)] += 1
            faults.update(outcome.faults)
            if outcome.faults:
                print(number, " ".join(case.command), outcome.faults, outcome.printed[-300:])
                if keep:
                    keep.mkdir(exist_ok=True)
                    shutil.copy(path, keep / f"{number}-{path.name}")
    print(f"{inputs:,} inputs, seed {seed}; exit codes {dict(sorted(codes.items()))}")
    print(f"slowest {slowest:.1f} s, most memory {peak / 2**20:,.0f} MiB")
    for fault in ("our mistake", "traceback", "ended by a signal", "exit code above 2"):
        print(f"{fault}: {faults[fault]}")
    print(f"more than 60 s: {faults['more than 60 s']}; 2 GiB: {faults['more than 2 GiB']}")
    return sum(faults.values())


class Job(NamedTuple):
    """A command that is killed: how its folder is written, and which files must be equal."""

    name: str
    write: Callable[[Path], None]
    words: tuple[str, ...]
    files: str


def _write_texts(folder: Path) -> None:
    folder.mkdir()
    lines = (EXAMPLES / "texts.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as file:
        for n in range(40):
            for record in records:
                file.write(json.dumps({"id": f"{n}-{record['id']}", "text": record["text"]}) + "\n")


def _write_plain(folder: Path) -> None:
    _write_texts(folder)
    texts = [json.loads(line)["text"] for line in (folder / "texts.jsonl").open(encoding="utf-8")]
    (folder / "texts.txt").write_text("".join(f"{' '.join(t.split())}\n" for t in texts), "utf-8")


JOBS = (
    Job("score", _write_texts, ("score", "texts.jsonl", "--metric", "diversity", "--metric",
        "fluency.grammar", "--out", "scores.jsonl"), "scores.jsonl"),
    Job("generate", _write_texts, ("generate", "texts.jsonl", "--technique", "rules", "--map",
        "source=text", "--control", "formality=formal", "--out", "out.jsonl"), "out.jsonl"),
    Job("train", _write_plain, ("train", "unigram", "texts.txt", "--model", OFFLINE_LM,
        "--out", "unigram.json"), "unigram.json"),
    Job("study", lambda folder: write_study(folder, 0.2), ("study", "run", "study.toml"),
        "study.study/cells/**/[st]*[se].jsonl"),
)  # fmt: skip


def start(folder: Path, words: Sequence[str], cache: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "levelfield", *words],
        cwd=folder,
        env={**os.environ, "LEVELFIELD_CACHE": str(cache)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / ".errors").open("wb"),
        start_new_session=True,
    )


def contents(folder: Path, pattern: str) -> dict[str, bytes]:
    """Returns the files of a folder by name, without the seconds that a text took."""
    return {
        str(path.relative_to(folder)): re.sub(rb'"seconds": [\d.e-]+', b"", path.read_bytes())
        for path in sorted(folder.glob(pattern))
    }


def kill(job: Job, kills: int, draw: random.Random, root: Path) -> int:
    """Kills a command that often, at times drawn over its length; returns the number of losses."""
    plain = root / f"{job.name}-plain"
    job.write(plain)
    begin = time.monotonic()
    if start(plain, job.words, root / f"{job.name}-cache-plain").wait():
        raise SystemExit(f"{job.name}: {(plain / '.errors').read_text('utf-8')}")
    length = time.monotonic() - begin
    expected = contents(plain, job.files)
    assert expected, job
    done = losses = 0
    while done < kills:
        folder = root / f"{job.name}-{done}"
        job.write(folder)
        cache = root / f"{job.name}-cache-{done}"
        for _ in range(min(3, kills - done)):
            process = start(folder, job.words, cache)
            try:
                process.wait(draw.uniform(0.05, 1) * length)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                done += 1
        code = start(folder, job.words, cache).wait()
        if code or contents(folder, job.files) != expected:
            losses += 1
            print(f"{job.name}: lost: exit code {code}", (folder / ".errors").read_text("utf-8"))
        shutil.rmtree(folder)
    return losses


def kill_server(kills: int, root: Path) -> int:
    """Kills a server while raters answer; returns 1 if an acknowledged answer is lost or double."""
    import_of_tests("rating/tests", "rating_study")
    test = import_of_tests("rating/tests/web", "test_server_kill")
    folder = root / "rating"
    folder.mkdir()
    try:  # one kill in three is followed by another while the server starts
        kills -= (kills + 2) // 4
        test.rate_and_kill(folder, sources=40, surveys=2, raters=3, revisions=10, kills=kills)
    except AssertionError:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fuzz", "kills"))
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "fuzz":
        sys.exit(bool(fuzz(chosen.inputs, chosen.seed, chosen.keep)))
    losses, kills = 0, chosen.kills // (len(JOBS) + 1)
    with tempfile.TemporaryDirectory() as temporary:
        for job in JOBS:
            lost = kill(job, kills, random.Random(f"{chosen.seed}:{job.name}"), Path(temporary))
            print(f"{job.name}: {kills} kills, {lost} losses", flush=True)
            losses += lost
        lost = kill_server(kills, Path(temporary))
        print(f"rating server: {kills} kills, {lost} losses", flush=True)
        losses += lost
    sys.exit(bool(losses))


if __name__ == "__main__":
    main()
