"""Verdicts of judges on one attribute of a text, and the label that stands for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from levelfield.judges import (
    TIE,
    JudgeVerdict,
)

Rule = Literal["majority", "probability", "study"]


class AttributeVerdicts(NamedTuple):
    """The verdicts of the judges on one attribute of a sample."""

    attribute: str
    wanted: str
    verdicts: tuple[JudgeVerdict, ...]

    @property
    def right(self) -> list[bool]:
        """Whether each judge voted for the wanted label."""
        return [verdict.vote == self.wanted for verdict in self.verdicts]

    @property
    def cut(self) -> bool:
        return any(verdict.cut for verdict in self.verdicts)


def majority(verdicts: Sequence[JudgeVerdict], rule: Rule) -> str | None:
    """Returns the label that stands for the votes of several judges; None if there is none.

    Args:
        rule: `majority`: the label of more than half of all judges, undecided ones counted among
            them. `probability`: the label with the most votes, of equals the one with the higher
            mean probability. `study`: the alphabetically last label that any judge gave.
    """
    votes = Counter(verdict.vote for verdict in verdicts if verdict.vote is not None)
    if rule == "study":
        return max(votes, default=None)
    if rule == "majority":
        return next((label for label, n in votes.items() if 2 * n > len(verdicts)), None)
    most = max(votes.values(), default=0)
    labels = dict.fromkeys(label for verdict in verdicts for label in verdict.labels)
    equal = [label for label in labels if votes[label] == most]
    readable = [verdict for verdict in verdicts if not np.isnan(verdict.p).any()]
    p = {label: sum(probability(v, label) for v in readable) for label in equal}
    first, *others = sorted(equal, key=lambda label: p[label], reverse=True)
    return None if others and p[first] - p[others[0]] <= TIE * len(readable) else first


def probability(verdict: JudgeVerdict, label: str) -> float:
    """Returns how likely a judge finds a label; 0 for one that it does not know."""
    known = label in verdict.labels
    return float(verdict.p[verdict.labels.index(label)]) if known else 0.0
