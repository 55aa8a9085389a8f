"""Made the files of this folder, once, with the code of commit fa32808.

Do not run it again: the folder is worth something because it is old, and later versions must go on
reading what it holds (`test_old_state.py`). The judges are of `levelfield train judge` on the texts
of examples/texts.jsonl with a wanted sentiment: `--arch linear`, and `--arch textcnn --vocabulary
100 --half --epochs 2` cut to 20 dimensions and 12 channels. What `expected` folders hold are
reports, exports and correlations of the same day.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

OLD = Path(__file__).parent
GOLDEN = OLD.parent
sys.path[:0] = [str(GOLDEN), str(GOLDEN.parent), str(GOLDEN.parent / "rating")]

from old_state import SCORED  # noqa: E402

import golden  # noqa: E402

PLACES = ("The lake", "The road", "The 🐈")
STUDY = """
name = "Days"
out = "answers"
seeds = [1]
metrics = ["diversity.distinct-1", "keywords.coverage"]

[datasets.places]
prompts = ["The lake", "The road", "The 🐈"]

[controls.keywords]
keywords = [["sunny", "rain"], ["wet"]]

[[systems]]
name = "scribe"
files = "scribe.jsonl"

[[systems]]
name = "walker"
command = ["python3", "walker.py"]
retries = 0
"""
WALKER = '''"""Writes a text for every request; stops at the third while there is a file `storm`."""

import json
import pathlib
import sys

for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    if number == 2 and pathlib.Path("storm").exists():
        sys.exit("no walk today")
    (wanted,) = request["control"].values()
    text = f"{request['prompt']} was {wanted} all day, said {number} people."
    print(json.dumps({"id": request["id"], "text": text, "tokens": 9}), flush=True)
'''
RATING = """
id = "letters"
title = "Letters"
samples = ["texts.jsonl"]
contact = "ratings@example.org"
direction = "formality"

[design]
kind = "direct"
raters = 3
seed = 4

[tasks]
formal = "Make it formal."
informal = "Make it informal."

[[criteria]]
id = "content"
title = "Content"
statement = "Both say the same."
scale = "slider"
low = "disagree"
high = "agree"

[[criteria]]
id = "fluency"
title = "Fluency"
statement = "It is well written."
scale = "likert"
low = "disagree"
high = "agree"
"""


def levelfield(*words: object, folder: Path, **environment: str) -> None:
    command = [sys.executable, "-m", "levelfield", *map(str, words)]
    subprocess.run(command, check=False, cwd=folder, env={**os.environ, **environment})


def cache(work: Path) -> None:
    """Values of samples, some without a value, from several metrics and kinds of models."""
    (OLD / "cache").mkdir()
    for number, words in enumerate(SCORED):
        out = OLD / "scores" / f"{number}.jsonl"
        out.parent.mkdir(exist_ok=True)
        kept = str(OLD / "cache")
        levelfield("score", *words.split(), "--out", out, folder=work, LEVELFIELD_CACHE=kept)
    compact(OLD / "cache" / "segments.sqlite")


def studies(work: Path) -> None:
    """A finished study, and one whose second system stopped at the third of six requests."""
    for name in ("finished", "interrupted"):
        folder = OLD / name
        folder.mkdir()
        (folder / "study.toml").write_text(STUDY)
        (folder / "walker.py").write_text(WALKER)
        (folder / "scribe.jsonl").write_text("".join(_answers()))
        if name == "interrupted":
            (folder / "storm").touch()
        levelfield("study", "run", "study.toml", folder=folder, LEVELFIELD_CACHE=str(work))
        (folder / "storm").unlink(missing_ok=True)


def _answers() -> list[str]:
    return [
        json.dumps(
            {"prompt": place, "control": {"keywords": words}, "text": f"{place} was {words[0]}."}
        )
        + "\n"
        for place in PLACES
        for words in (["sunny", "rain"], ["wet"])
    ]


def rating() -> None:
    """A store that two raters filled, one of them half, and a third who withdrew."""
    from rating_client import Rater, planned
    from served_process import ServedStudy

    folder = OLD / "rating"
    folder.mkdir()
    (folder / "STUDY.toml").write_text(RATING)
    records = [
        {
            "id": f"{system}-{n}",
            "system": system,
            "source": f"The parcel number {n} came late.",
            "text": f"Parcel {n} was late, says {system}.",
            "control": {"formality": ("formal", "informal")[n % 2]},
        }
        for n in range(3)
        for system in ("plain", "florid")
    ]
    (folder / "texts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    served = ServedStudy(folder / "STUDY.toml")
    try:
        for number, link in enumerate(served.links):
            rater, drawn = Rater(link), random.Random(number)
            state = rater.begin()
            events = planned(sorted(state["current"]), drawn, 2)
            if number == 1:
                events = events[: len(events) // 2]
            for event in events:
                rater.send(state["csrf"], [event])
            if number != 1:
                rater.finish(state["csrf"])
    finally:
        served.stop()
    for file in folder.glob("server.*"):
        file.unlink()
    (folder / "STUDY.sqlite").rename(folder / "store.sqlite")
    store = ("STUDY.toml", "--store", "store.sqlite")
    levelfield("rate", "withdraw", store[0], "r3", *store[1:], "--yes", folder=folder)
    compact(folder / "store.sqlite")
    levelfield("rate", "export", *store, "--out", "expected", folder=folder)


def compact(file: Path) -> None:
    """Leaves one file, without a log beside it."""
    db = sqlite3.connect(file)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


if __name__ == "__main__":
    parts = sys.argv[1:]
    for old in ("cache", "scores", "finished", "interrupted", "rating"):
        if not parts or old in parts:
            shutil.rmtree(OLD / old, ignore_errors=True)
    work = golden.workspace(Path("/tmp/golden-old"))
    if not parts or "cache" in parts:
        cache(work)
    if not parts or "finished" in parts:
        studies(work)
    if not parts or "rating" in parts:
        rating()
