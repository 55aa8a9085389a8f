"""Negatives: worse twins of good texts, made by a sampler and written to a file that can grow.

Lines 5 to 11 of Algorithm 1 in Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive
Distribution Methods", section 3.4.1.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.io import atomic_writer
from levelfield.io.appending import appending, whole_lines
from levelfield.io.json_input import parse_json, read_json
from levelfield.models.contracts import SegmentSampler
from levelfield.train.cdm.manipulate import (
    SEPARATOR,
    TRIES,
    Document,
    Manipulated,
    Strategy,
    manipulate,
)

BATCH = 256
MAX_TOKENS = 64


@dataclass(frozen=True)
class Negatives:
    """Contents of a file of negatives.

    Attributes:
        path: the file.
        documents: number of pairs, unchanged ones included.
        unchanged: number of documents in which nothing could be changed; they are not negatives.
    """

    path: Path
    documents: int
    unchanged: int


def make_negatives(
    documents: Iterable[tuple[str, Document]],
    sampler: SegmentSampler,
    strategy: Strategy,
    *,
    seed: int,
    out: Path,
    batch: int = BATCH,
    max_tokens: int = MAX_TOKENS,
    tries: int = TRIES,
    separator: str = SEPARATOR,
    progress: Progress = no_progress,
) -> Negatives:
    """Writes a manipulated twin of every document, one JSON object a line.

    `{"id", "positive", "negative", "cuts", "unchanged"}`: positive and negative are lists of turns;
    a cut is `{"turn", "begin", "end", "old", "new"}`, in characters of the turn as earlier cuts
    left it. `unchanged` is true if the negative is the positive, as for a document without text: it
    stays in the file to be counted, and is not a negative.

    Documents are read and written `batch` at a time; the line of a document depends only on the
    seed and its place. A run that was killed goes on where it stopped and gives the same bytes as
    an uninterrupted one: a second file, `OUT.settings.json`, holds the settings of the first, and a
    run with other settings is refused.

    Args:
        documents: ids and turns (sentences, of plain text).
        sampler: writes the new texts, usually a `ContrastSampler`.
        strategy: where to cut.
        seed: of all random numbers.
        out: the file, which is created or continued.
        batch: number of documents manipulated together, the most that a crash loses.
        progress: called with the number of documents just finished, earlier ones included.

    Raises:
        UserError: no documents; a number out of range; `out` was made with other settings or from
            other documents, or can't be written.
    """
    if seed < 0 or min(batch, max_tokens, tries) < 1:
        raise UserError(
            f"seed {seed}, batch {batch}, max_tokens {max_tokens}, tries {tries}: expected a seed "
            "of at least 0, and the others at least 1"
        )
    settings = {
        "seed": seed,
        "strategy": strategy.name,
        "batch": batch,
        "max_tokens": max_tokens,
        "tries": tries,
        "separator": separator,
        "sampler": dict(sampler.choices),
    }
    total = unchanged = 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _check_settings(out, settings)
        lines, size = whole_lines(out), 0
        write: Callable[[bytes], None] | None = None
        with contextlib.ExitStack() as stack:
            waiting = iter(documents)
            while chunk := list(itertools.islice(waiting, batch)):
                held = list(itertools.islice(lines, len(chunk)))
                same = _unchanged(held, chunk, out)
                if len(held) == len(chunk):
                    size += sum(map(len, held))
                else:
                    write = write or stack.enter_context(appending(out, size, sync=True))
                    manipulated = manipulate(
                        [turns for _, turns in chunk],
                        sampler,
                        strategy,
                        seed=seed,
                        indices=range(total, total + len(chunk)),
                        max_tokens=max_tokens,
                        tries=tries,
                        separator=separator,
                    )
                    same = _append(write, chunk, manipulated)
                total += len(chunk)
                unchanged += same
                progress(len(chunk))
            if total and not write and out.stat().st_size > size:
                raise UserError(
                    f"{out} holds more than the {total:,} given documents; name another file, or "
                    "remove it"
                )
    except OSError as error:
        raise UserError(f"{out}: can't be written: {error.strerror or error}") from error
    if not total:
        raise UserError("there are no documents to make negatives from")
    return Negatives(out, total, unchanged)


def _check_settings(out: Path, settings: Mapping[str, Any]) -> None:
    """Notes what a new file is made with; refuses to go on with one made otherwise."""
    beside = out.with_name(f"{out.name}.settings.json")
    if not out.exists() or not out.stat().st_size:
        with atomic_writer(beside) as file:
            file.write(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
        return
    try:
        before = read_json(beside)
    except (FileNotFoundError, ValueError) as error:
        raise UserError(
            f"{out} exists and {beside.name} does not say what it was made with; name another "
            "file, or remove it"
        ) from error
    if before != settings:
        named = [
            k for k in settings if not isinstance(before, dict) or before.get(k) != settings[k]
        ]
        raise UserError(
            f"{out} was made with other settings ({', '.join(named)}); name another file, remove "
            f"it, or go on with those in {beside.name}"
        )


def _unchanged(lines: list[bytes], chunk: list[tuple[str, Document]], out: Path) -> int:
    """Returns how many of a chunk's lines in the file are unchanged; it may lack the last ones."""
    unchanged = 0
    for line, (id, turns) in zip(lines, chunk, strict=False):
        try:
            record = parse_json(line.decode())
            same = record["id"] == id and record["positive"] == list(turns)
            unchanged += bool(record["unchanged"])
        except (ValueError, KeyError, TypeError):
            same = False
        if not same:
            raise UserError(
                f"{out} was made from other documents: it has no line for '{id}' where that should "
                "be; name another file, or remove it"
            )
    return unchanged


def _append(
    write: Callable[[bytes], None],
    chunk: list[tuple[str, Document]],
    manipulated: list[Manipulated],
) -> int:
    """Writes the lines of a chunk in one go; how many are unchanged."""
    records = [
        {
            "id": id,
            "positive": list(turns),
            "negative": list(document.turns),
            "cuts": [
                {**edit.cut._asdict(), "old": edit.old, "new": edit.new} for edit in document.edits
            ],
            "unchanged": document.turns == tuple(turns),
        }
        for (id, turns), document in zip(chunk, manipulated, strict=True)
    ]
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    write("".join(lines).encode("utf-8", "surrogatepass"))
    return sum(bool(record["unchanged"]) for record in records)
