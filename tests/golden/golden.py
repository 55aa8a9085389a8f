"""Runs cases through the command line, and holds what they give against what they gave.

An outcome has the exit code, what is said in errors and notes, the scores of every metric with its
signature, the parts of its values where `--parts` asks for them, and the whole `--json` document.
Scores are `{id: value}`; a sample without a value has the reason in its place.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.cli import main
from own_cache import own_cache

GOLDEN = Path(__file__).parent
MATERIAL = GOLDEN / "material"
OUTCOMES = GOLDEN / "outcomes"
EXAMPLES = GOLDEN.parents[1] / "examples"

CACHE = "cache"
"""The folder in a workspace that commands have as their cache."""

EXACT = 1e-9
FLOAT32 = 5e-5
"""How far a value may be from its golden one, in units of the larger of 1 and the golden one.
Processors add in different orders: random models of two layers then differ by up to 2e-5."""

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OPENAI_API_KEY": "sk-test-9d41c0",
    "NO_PROXY": "127.0.0.1",
    "COLUMNS": "100",
}
CLOCK = frozenset({"seconds"})
"""Fields of records that differ from run to run."""
VOLATILE = frozenset({"doc", "summary", "from"})
"""Keys of documents whose values may change: prose, and the module that a metric is in."""


@dataclass(frozen=True)
class Case:
    """A command line, and what it must keep giving.

    Attributes:
        name: says what is special about it.
        words: after `levelfield`, as in a shell; with `&&` between several commands, of which the
            last one's notes and document count. `SERVER` stands for the address of a chat server.
        tolerance: of its floats.
        files: tables and records that the commands leave, beside `scores.jsonl`.
        slow: whether it takes more than a few seconds.
    """

    name: str
    words: str
    tolerance: float = EXACT
    files: tuple[str, ...] = ()
    slow: bool = False


def workspace(folder: Path) -> Path:
    """A folder with the shipped examples, the golden records and models, and a cache."""
    own_cache(folder / CACHE)
    shutil.copytree(MATERIAL, folder, dirs_exist_ok=True)
    for file in EXAMPLES.glob("*.jsonl"):
        shutil.copy(file, folder)
    unrun = shutil.ignore_patterns("*.study", "__pycache__")
    shutil.copytree(EXAMPLES / "logs", folder / "logs", dirs_exist_ok=True)
    shutil.copytree(EXAMPLES / "study", folder / "study", dirs_exist_ok=True, ignore=unrun)
    return folder


@contextlib.contextmanager
def environment(**changes: str | None) -> Iterator[None]:
    """Environment variables for a while; None takes one away."""
    before = {name: os.environ.get(name) for name in changes}
    try:
        for name, value in changes.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def run(words: list[str], folder: Path, **changes: str | None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `levelfield` in a folder, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    argv, here = sys.argv, Path.cwd()
    sys.argv = ["levelfield", *words]
    os.chdir(folder)
    code: Any = 0
    try:
        with (
            environment(**ENVIRONMENT, LEVELFIELD_DATA=None),
            environment(**changes),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as left:
        code = left.code
    finally:
        os.chdir(here)
        sys.argv = argv
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return code, said[0], said[1]


def outcome(case: Case, folder: Path, server: str = "", **changes: str | None) -> dict[str, Any]:
    """What a case gives now."""
    scores, parts = folder / "scores.jsonl", folder / "parts.jsonl"
    for file in (scores, parts):
        file.unlink(missing_ok=True)
    for command in case.words.split(" && "):
        words = shlex.split(command.replace("SERVER", server))
        code, *said = run(words, folder, **changes)
        if code:
            break
    out, err = (text.replace(str(folder), "FOLDER") for text in said)
    found: dict[str, Any] = {"code": code, "said": _said(err)}
    if scores.exists():
        found["scores"] = _scores(scores)
    if parts.exists():
        found["parts"] = _parts(parts)
    if "--json" in words and code == 0:
        found["document"] = _steady(json.loads(out))
    if case.files:
        found["files"] = {name: _content(folder / name) for name in case.files}
    return _rounded(found, 12 if case.tolerance == EXACT else 8)


def _content(file: Path) -> Any:
    """The rows of a CSV file, the records of a JSONL file, the lines of any other one."""
    if file.suffix == ".jsonl":
        return [{k: v for k, v in one.items() if k not in CLOCK} for one in _records(file)]
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".csv":
        return [[_number(cell) for cell in row] for row in csv.reader(io.StringIO(text))]
    return text.split("\n")


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _said(err: str) -> list[str]:
    """Errors and notes."""
    return [line for line in err.splitlines() if line.startswith(("error: ", "note: "))]


def _records(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").split("\n"):
        if line:
            yield json.loads(line)


def _scores(file: Path) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for record in _records(file):
        of = scores.setdefault(record["metric"], {"signature": record["signature"], "values": {}})
        assert record["signature"] == of["signature"]
        value = record["value"]
        assert (value is None) == ("undefined" in record)
        of["values"][record["id"]] = record["undefined"] if value is None else value
    return scores


def _parts(file: Path) -> dict[str, Any]:
    parts: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for record in _records(file):
        metric, id, *part = record.values()
        parts[metric][id].append(part)
    return parts


def _steady(document: Any) -> Any:
    """A document without what differs from run to run."""
    if isinstance(document, dict):
        return {k: _steady(v) for k, v in document.items() if k not in VOLATILE}
    if isinstance(document, list):
        return [_steady(one) for one in document]
    return document


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {k: _rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(one, digits) for one in value]
    return value


def differences(golden: Any, now: Any, tolerance: float, at: str = "") -> Iterator[str]:
    """Where two outcomes differ, in words."""
    if isinstance(golden, dict) and isinstance(now, dict):
        for key in golden.keys() | now.keys():
            where = f"{at} / {key}"
            if key not in now:
                yield f"{where}: is gone; it was {golden[key]!r:.300}"
            elif key not in golden:
                yield f"{where}: is new: {now[key]!r:.300}"
            else:
                yield from differences(golden[key], now[key], tolerance, where)
    elif isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        for number, (before, after) in enumerate(zip(golden, now, strict=True)):
            yield from differences(before, after, tolerance, f"{at}[{number}]")
    elif not _same(golden, now, tolerance):
        yield f"{at}: {golden!r:.600} was, {now!r:.600} is"


def _same(golden: Any, now: Any, tolerance: float) -> bool:
    numbers = (int, float)
    if isinstance(golden, bool) or isinstance(now, bool):
        return golden is now
    if isinstance(golden, numbers) and isinstance(now, numbers):
        return math.isclose(golden, now, rel_tol=tolerance, abs_tol=tolerance)
    return bool(golden == now)


def read(group: str) -> dict[str, Any]:
    """The golden outcomes of a group of cases, by name."""
    file = OUTCOMES / f"{group}.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: _with_ids(one) for name, one in kept.items()}


def write(group: str, outcomes: Mapping[str, Any]) -> None:
    """Keeps the outcomes of a group, one metric a line."""
    OUTCOMES.mkdir(exist_ok=True)
    kept = {name: _without_ids(one) for name, one in outcomes.items()}
    (OUTCOMES / f"{group}.json").write_text(_layout(kept, 3) + "\n", encoding="utf-8")


def _without_ids(one: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome with its ids once, as long as all metrics have values of the same ones."""
    scores = one.get("scores", {})
    ids = [list(of["values"]) for of in scores.values()]
    if not ids or any(other != ids[0] for other in ids):
        return dict(one)
    lists = {m: {**of, "values": list(of["values"].values())} for m, of in scores.items()}
    return {**one, "ids": ids[0], "scores": lists}


def _with_ids(one: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of which `_without_ids` made this."""
    if "ids" not in one:
        return dict(one)
    named = {
        metric: {**of, "values": dict(zip(one["ids"], of["values"], strict=True))}
        for metric, of in one["scores"].items()
    }
    return {key: named if key == "scores" else one[key] for key in one if key != "ids"}


def _layout(value: Any, depth: int) -> str:
    """JSON with line ends between the members of the outer objects only."""
    if depth and isinstance(value, Mapping) and value:
        members = [
            f"{json.dumps(k, ensure_ascii=False)}: {_layout(v, depth - 1)}"
            for k, v in value.items()
        ]
        return "{\n" + ",\n".join(members) + "}"
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
