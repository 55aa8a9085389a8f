"""Cells read from a study's folder: texts with what metrics and judges say of them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from levelfield.core.sample import Sample
from levelfield.core.votes import UNDECIDED, is_tie
from levelfield.study.cells import Cell, CellKey, GroupValue
from levelfield.study.store.folder import StudyStore

VOTES = "control.average"
"""The metric whose parts say how each judge labelled each text."""


def read_cell(store: StudyStore, key: CellKey) -> Cell:
    """Returns a cell with all that is known of it; one that never ran has a failure that says so.

    Raises:
        UserError: a file is broken, or not as it was written.
    """
    store.check(key)
    record = store.record(key)
    if record is None:
        return Cell(key, failure="not finished; `levelfield study run` goes on with it")
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    signatures: dict[str, str] = {}
    for row in store.read_lines(key, "scores.jsonl"):
        scores[row["metric"]][row["id"]] = _value(row["value"])
        signatures[row["metric"]] = row["signature"]
    samples = tuple(store.samples(key))
    groups = []
    for row in store.read_lines(key, "groups.jsonl"):
        value = _value(row["value"])
        groups.append(GroupValue(row["metric"], row["value_asked"], value, row["n"]))
        signatures[row["metric"]] = row["signature"]
    return Cell(
        key,
        samples=samples,
        asked=record.asked,
        missing=record.missing,
        failure=record.failure,
        problems=record.problems,
        cost=record.cost,
        scores=dict(scores),
        votes=_votes(store, key, samples),
        ties=_ties(store, key, signatures),
        groups=tuple(groups),
        signatures=signatures,
    )


def _votes(
    store: StudyStore, key: CellKey, samples: Sequence[Sample]
) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Returns the votes of the judges, in the study's words where these are known.

    Judges have words of their own (`Sci/Tech` for `Science/Technology`). A vote that is right
    shows which word of the study's its own stands for.
    """
    controls = {sample.id: sample.control for sample in samples}
    votes: dict[str, dict[str, dict[str, str]]] = {}
    spelled: dict[tuple[str, str], str] = {}
    for row in store.read_lines(key, "parts.jsonl"):
        if row["metric"] != VOTES:
            continue
        attribute, _, rest = row["part"].partition("/")
        judge, _, label = rest.rpartition(": ")
        label = "" if label == UNDECIDED else label
        votes.setdefault(attribute, {}).setdefault(judge, {})[row["id"]] = label
        wanted = controls.get(row["id"], {}).get(attribute)
        if row["score"] == 1 and isinstance(wanted, str):
            spelled[attribute, label] = wanted
    return {
        attribute: {
            judge: {id: spelled.get((attribute, label), label) for id, label in of.items()}
            for judge, of in judges.items()
        }
        for attribute, judges in votes.items()
    }


def _ties(store: StudyStore, key: CellKey, signatures: Mapping[str, str]) -> Mapping[str, int]:
    tied = {
        (row["metric"], row["id"])
        for row in store.read_lines(key, "parts.jsonl")
        if is_tie(signatures.get(row["metric"], ""), row["part"])
    }
    return Counter(metric for metric, _ in tied)


def _value(value: float | None) -> float:
    return math.nan if value is None else value
