"""The files of a run, written while its partitions go by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TextIO

from levelfield.core.scores import Scores
from levelfield.run.stream import ScoredPartition


def written(
    stream: Iterable[ScoredPartition], out: TextIO | None, parts: TextIO | None
) -> Iterator[ScoredPartition]:
    """The same partitions, each after its scores and their parts are in the files."""
    for partition in stream:
        for scores in partition.scores:
            if out is not None:
                write_scores(scores, out)
            if parts is not None:
                _write_parts(scores, parts)
        yield partition


def write_scores(scores: Scores, out: TextIO) -> None:
    """Writes one record a line, as `scores.jsonl` has them."""
    for record in scores.records():
        out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _write_parts(scores: Scores, out: TextIO) -> None:
    if scores.parts is None:
        return
    for row in scores.parts.iter_rows(named=True):
        out.write(json.dumps({"metric": scores.metric, **row}, ensure_ascii=False) + "\n")
