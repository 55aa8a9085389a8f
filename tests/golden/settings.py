"""What the cases of a group need beside their folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import golden
from chat_server import Reply, asked_text, completion, serving

Changes = dict[str, str | None]

RATED = {"ctrleval": 20, "formality-judgements": 40, "deam": 8, "commongen-trinity": 40}
"""How many texts of each data set are scored; the long ones take longer."""


def lacking(group: str) -> str:
    """Why the cases of a group can't run here; empty if they can."""
    if group.startswith("data") and not Path(os.environ.get("LEVELFIELD_DATA", "?")).is_dir():
        return "LEVELFIELD_DATA does not name a folder with the rated data sets"
    return ""


def changes(group: str, folder: Path) -> Changes:
    """The environment that a group of cases runs in."""
    data = os.environ["LEVELFIELD_DATA"] if group.startswith("data") else None
    return {"LEVELFIELD_CACHE": str(folder / golden.CACHE), "LEVELFIELD_DATA": data}


def prepare(group: str, folder: Path) -> None:
    """Puts the first texts of the rated data sets into the folder, where a group needs them."""
    if not group.startswith("data") or (folder / "all-ctrleval.jsonl").exists():
        return
    for name, number in RATED.items():
        words = ["data", "fetch", name, "--here", "--out", f"all-{name}.jsonl"]
        code, _, err = golden.run(words, folder, **changes(group, folder))
        assert code == 0, err
        lines = (folder / f"all-{name}.jsonl").read_text(encoding="utf-8").split("\n")
        few = "".join(f"{line}\n" for line in lines[:number])
        (folder / f"{name}.jsonl").write_text(few, encoding="utf-8")


@contextlib.contextmanager
def server(group: str) -> Iterator[str]:
    """The address of a chat server that always answers the same, for the group that asks one."""
    if group != "servers":
        yield ""
        return
    with serving(_answer) as (address, _):
        yield address


def _answer(body: Mapping[str, Any], _number: int) -> Reply:
    """Grades that depend on the text that is shown, with probabilities where they are asked for."""
    shown = json.dumps(body["messages"]) + asked_text(body)
    drawn = hashlib.sha256(shown.encode()).digest()
    grade = 1 + drawn[0] % 5
    n = body.get("n") or 1
    texts = [str(1 + (grade + k) % 5) for k in range(n)]
    if not body.get("logprobs"):
        return completion(*texts)
    share = 0.5 + drawn[1] / 1024
    first = {texts[0]: share, str(1 + (grade + 2) % 5): 1 - share}
    return completion(texts[0], steps=[(texts[0], first)])
