"""Study files with their samples, written for a test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TOP = 'id = "letters"\ntitle = "Letters"\nsamples = ["texts.jsonl"]'
CRITERIA = '[[criteria]]\nid = "content"\ntitle = "Content"\nstatement = "Both say the same."'
BOTH_WAYS = 'direction = "formality"'
TASKS = '[tasks]\nformal = "Make it formal."\ninformal = "Make it informal."'


def rewrites(
    sources: int, systems: Iterable[str] = ("plain", "florid"), *, sentences: int = 1
) -> list[dict[str, Any]]:
    """Records: every source rewritten by every system, in turn to formal and to informal."""
    return [
        {
            "id": f"{system}-{n}",
            "system": system,
            "source": f"The parcel number {n} came late.",
            "text": " ".join(
                f"Parcel {n} was late, says {system}, for the {k}. time!" for k in range(sentences)
            ),
            "control": {"formality": ("formal", "informal")[n % 2]},
        }
        for n in range(sources)
        for system in systems
    ]


def write_study(
    folder: Path,
    records: Iterable[Mapping[str, Any]],
    *parts: str,
    top: str = TOP,
    criteria: str = CRITERIA,
) -> Path:
    """Writes STUDY.toml and texts.jsonl. Parts that begin with a bracket go below the top keys."""
    lines = [json.dumps(record) for record in records]
    (folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    above = [part for part in parts if not part.startswith("[")]
    below = [part for part in parts if part.startswith("[")]
    file = folder / "STUDY.toml"
    file.write_text("\n".join([top, *above, criteria, *below]), encoding="utf-8")
    return file
