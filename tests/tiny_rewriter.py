"""Rewriters with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import tiny
from levelfield.generation.techniques.rewriter.technique import REWRITER, RewriterFile

LABELS = ("formal", "informal")


def save(folder: Path, family: str = "t5", *, seed: int = 0) -> Path:
    """A folder as `levelfield train rewriter` leaves it."""
    tiny.save(family, folder, seed=seed)
    about = RewriterFile("formality", LABELS, "tiny", {"n": 0})
    (folder / REWRITER).write_text(json.dumps(about.to_dict()), encoding="utf-8")
    return folder
