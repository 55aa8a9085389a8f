"""The files of a run, written while its partitions go by."""

from __future__ import annotations

import json
from typing import TextIO

from levelfield.core.scores import Scores
from levelfield.run.stream import ScoredPartition


def write_partition(partition: ScoredPartition, out: TextIO | None, parts: TextIO | None) -> None:
    """Writes the scores of a partition, and the parts of their values."""
    for scores in partition.scores:
        if out is not None:
            write_scores(scores, out)
        if parts is not None:
            _write_parts(scores, parts)


def write_scores(scores: Scores, out: TextIO) -> None:
    """Writes one record a line, as `scores.jsonl` has them."""
    for record in scores.records():
        out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _write_parts(scores: Scores, out: TextIO) -> None:
    if scores.parts is None:
        return
    for row in scores.parts.iter_rows(named=True):
        out.write(json.dumps({"metric": scores.metric, **row}, ensure_ascii=False) + "\n")
