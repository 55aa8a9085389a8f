"""Verdicts of judges on one attribute of a text, and the label that stands for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from levelfield.core.votes import EMPTY
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


def verdict_on_nothing(judge: str) -> JudgeVerdict:
    """Returns the verdict on an empty output, which no judge is asked about: it is of no label that
    could be wanted.

    >>> verdict_on_nothing("vader").vote
    '(empty)'
    """
    return JudgeVerdict(judge, EMPTY, (EMPTY,), np.ones(1), False)


def leaders(verdicts: Sequence[JudgeVerdict], rule: Rule) -> tuple[str, ...]:
    """Returns the labels that stand for the votes of several judges, sorted: one, several in a tie,
    or none where no judge is decided.

    Args:
        rule: `majority`: the labels with the most votes. `probability`: of these the one with the
            highest mean probability. `study`: the alphabetically last label that any judge gave.
    """
    votes = Counter(verdict.vote for verdict in verdicts if verdict.vote is not None)
    if rule == "study":
        return tuple(sorted(votes)[-1:])
    most = max(votes.values(), default=0)
    if rule == "majority":
        return tuple(sorted(label for label, n in votes.items() if n == most))
    labels = sorted({label for verdict in verdicts for label in verdict.labels})
    readable = [verdict for verdict in verdicts if not np.isnan(verdict.p).any()]
    p = {
        label: sum(probability(verdict, label) for verdict in readable)
        for label in labels
        if votes[label] == most
    }
    likeliest = max(p.values())
    first = tuple(label for label in p if p[label] >= likeliest - TIE * len(readable))
    return first if votes or len(first) == 1 else ()


def probability(verdict: JudgeVerdict, label: str) -> float:
    """Returns how likely a judge finds a label; 0 for one that it does not know."""
    known = label in verdict.labels
    return float(verdict.p[verdict.labels.index(label)]) if known else 0.0
