"""Scores of an earlier run that a file of scores holds."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from levelfield.io.outputs import KINDS, FileHead
from levelfield.io.problems import printable
from levelfield.io.writing import STDOUT

_MOST_NAMED = 5


def note_of_lost(path: str, signatures: Collection[str]) -> str:
    """Says which scores in a file have signatures that a run will not write there again.

    Returns:
        The metrics with their signatures, in words; empty if nothing is lost.
    """
    lost = {s: m for s, m in _signatures(path).items() if s not in signatures}
    if not lost:
        return ""
    named = [f"{metric} ({signature})" for signature, metric in lost.items()]
    more = [f"{len(lost) - _MOST_NAMED:,} more"] if len(lost) > _MOST_NAMED else []
    return (
        f"{printable(path)} is written over, and with it scores that this run does not make: "
        f"{', '.join([*named[:_MOST_NAMED], *more])}; with another --out they stay"
    )


def _signatures(path: str) -> dict[str, str]:
    """Signature -> metric of the scores in a file; none where it is no file of scores."""
    place = Path(path)
    if path == STDOUT or not place.is_file():
        return {}
    signatures: dict[str, str] = {}
    seen: set[bytes] = set()
    try:
        if not KINDS["scores"](FileHead(place)):
            return {}
        with place.open("rb") as file:
            for line in file:
                # of a line like one before, all but the id and the value is known
                end = line[line.rfind(b'"signature": ') :]
                if end in seen:
                    continue
                seen.add(end)
                record = json.loads(line)
                signatures[str(record["signature"])] = str(record["metric"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass  # what comes after a broken line was no use before either
    return signatures
