"""Thousands of inputs with something wrong in them: each is read or refused, and none is a bug.

A fault is drawn by a seed: bytes that flip or go, lines that move, JSON values of another kind,
numbers too large, brackets a thousand deep. A command may succeed, since some faults change
nothing that it reads; it must not call one a bug, show a traceback or take long.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import ANY

import pytest

sys.path.append(str(Path(__file__).parents[1] / "golden"))
import golden

INPUTS = 300
"""How many of each command; with all of them 3,000."""
LONGEST_S = 60


class Fed(NamedTuple):
    """A command, and the files of the workspace of which one is damaged each time.

    `MODEL` stands for a folder that is new each time, since models stay loaded under their names;
    the files of the model lie `inside` it.
    """

    words: str
    files: tuple[str, ...]
    inside: str = ""


COMMANDS = {
    "score": Fed("score odd.jsonl -m diversity -m bleu.source --no-cache", ("odd.jsonl",)),
    "agreement": Fed("agreement rated.jsonl", ("rated.jsonl",)),
    "correlate": Fed(
        "correlate rated-scores.jsonl --ratings rated.jsonl --resamples 20 --permutations 20",
        ("rated-scores.jsonl", "rated.jsonl"),
    ),
    "compare": Fed(
        "compare logs/inspect-small.json logs/inspect-large.json", ("logs/inspect-small.json",)
    ),
    "export": Fed("agreement logs/potato.jsonl", ("logs/potato.jsonl",)),
    "study": Fed("study status study/study.toml", ("study/study.toml",)),
    "generate": Fed(
        "generate requests.jsonl --technique base --model models/gpt2 --max-new-tokens 2 --out x",
        ("requests.jsonl",),
    ),
    "model": Fed(
        "score letters.jsonl -m fluency.perplexity --model MODEL --no-cache",
        (
            "models/gpt2/config.json",
            "models/gpt2/tokenizer.json",
            "models/gpt2/tokenizer_config.json",
            "models/gpt2/model.safetensors",
        ),
    ),
    "train": Fed(
        "train guide --technique caa --attribute sentiment --data labelled.jsonl --held-out"
        " held-out.jsonl --model models/gpt2 --out made",
        ("labelled.jsonl",),
    ),
    "convert": Fed(
        "convert dexperts MODEL --out made",
        ("models/gpt2/config.json", "models/gpt2/model.safetensors"),
        "finetuned_gpt2_positive",
    ),
}

LABELLED = {
    "labelled.jsonl": ("lake", "road", "day", "book", "walk"),
    "held-out.jsonl": ("town", "play"),
}
"""File -> what its texts, which have labels, are about."""

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**400, 0.1, "", " ", "\x00", "\ud800", "é" * 5000, "x",
    [], {}, [[]], [None], {"": ""}, {"a": {"a": {"a": 1}}}, "9" * 400, "../../etc", "\u202e\u2028",
)  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content of a file with one fault, or some."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(FAULTS)(content, rng)
    return content


def _flipped(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\xff"
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _without(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[at + rng.choice((1, 3, 40)) :]


def _with(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    more = (b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\n\n", b'"', b"{", b"]", b"," * 9, b"[" * 3000)
    return content[:at] + rng.choice(more) + content[at:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            lines[a], lines[b] = lines[b], lines[a]
        case 1:
            lines.insert(a, lines[b])
        case _:
            del lines[a]
    return b"\n".join(lines)


def _values(content: bytes, rng: random.Random) -> bytes:
    """Another value at some place of a JSON document or of a line that is one."""
    lines = content.split(b"\n")
    whole = content.lstrip()[:1] in (b"{", b"[") and len(lines) > 1 and not lines[0].endswith(b"}")
    at = 0 if whole else rng.randrange(len(lines))
    try:
        record = json.loads(content if whole else lines[at])
    except (ValueError, RecursionError):
        return _flipped(content, rng)
    changed = json.dumps(_changed(record, rng)).encode()
    return changed if whole else b"\n".join([*lines[:at], changed, *lines[at + 1 :]])


def _changed(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return rng.choice(ODD)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(value, dict) and rng.random() < 0.2:
        return {k: v for k, v in value.items() if k != key}
    changed = value.copy()
    changed[key] = _changed(value[key], rng)
    return changed


FAULTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flipped, _cut, _without, _with, _lines, _values, _values, _values,
)  # fmt: skip


def labelled(noun: str) -> str:
    """A text of each label."""
    return "".join(
        json.dumps({"text": f"The {noun} was {word}.", "control": {"sentiment": label}}) + "\n"
        for word, label in (("good", "positive"), ("dull", "negative"))
    )


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Ends what takes longer."""

    def end(*_: object) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(fed: Fed, folder: Path, number: int | str) -> tuple[int, str]:
    """Exit code and errors of a command in the workspace, which has no outputs afterwards."""
    model = f"model-{number}"
    if "MODEL" in fed.words:
        shutil.copytree(folder / "models/gpt2", folder / model / fed.inside)
    with at_most(LONGEST_S):
        code, _, err = golden.run(fed.words.replace("MODEL", model).split(), folder)
    for output in ("made", model):
        shutil.rmtree(folder / output, ignore_errors=True)
    (folder / "x").unlink(missing_ok=True)
    return code, err


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_input_is_our_mistake(name, tmp_path):
    fed, folder = COMMANDS[name], golden.workspace(tmp_path / "there")
    for file, nouns in LABELLED.items():
        (folder / file).write_text("".join(map(labelled, nouns)), encoding="utf-8")
    whole = {file: (folder / file).read_bytes() for file in fed.files}
    assert run(fed, folder, "whole") == (0, ANY)
    faults, refused = [], 0
    for seed in range(INPUTS):
        rng = random.Random(f"{name} {seed}")
        file = rng.choice(fed.files)
        (folder / file).write_bytes(damaged(whole[file], rng))
        code, err = run(fed, folder, seed)
        if code not in (0, 2) or "a bug in levelfield" in err or "Traceback" in err:
            faults.append(f"{seed}: {file}: exit {code}: {err[-400:]}")
        refused += code == 2
        (folder / file).write_bytes(whole[file])
    assert not faults, "\n".join(faults)
    assert refused > INPUTS / 20
