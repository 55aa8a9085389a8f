"""Votes of judges, as the parts of values name them.

A tie is a text for which several labels have the most votes. Metrics that count it as a share name
its labels in their parts; tables and reports say of how many texts that holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.core.scores import Scores

UNDECIDED = "(undecided)"
EMPTY = "(empty)"
"""Labels that no control wants: of an undecided judge, and of an output that is empty."""

_TIE = ": tie of "
_SHARED = "|ties:share|"


def part_name(vote: str, labels: Sequence[str]) -> str:
    """Returns the name of the part of a vote that these labels lead.

    >>> part_name("sentiment/majority", ["negative", "positive"])
    'sentiment/majority: tie of negative, positive'
    >>> part_name("sentiment/majority", ["positive"])
    'sentiment/majority: positive'
    """
    return f"{vote}{_TIE if len(labels) > 1 else ': '}{', '.join(labels)}"


def is_tie(signature: str, part: str) -> bool:
    """Returns whether a part of a metric with this signature is a tie."""
    return _SHARED in signature and _TIE in part


def ties(scores: Scores) -> int:
    """Returns the number of samples with a tie."""
    if scores.parts is None or _SHARED not in scores.signature:
        return 0
    rows = scores.parts.select("id", "part").iter_rows()
    return len({id for id, part in rows if is_tie(scores.signature, part)})


def tie_note(metric: str, ties: int, n: int) -> str:
    """Returns a sentence on the ties among n texts.

    >>> tie_note("control.majority", 18, 100)
    'control.majority: the judges are divided on 18 % of the texts (18 of 100), which count as \
1/k where the wanted label is one of k with the most votes'
    """
    share = f"{100 * ties / n:.0f} %" if 200 * ties >= n else "less than 0.5 %"
    return (
        f"{metric}: the judges are divided on {share} of the texts ({ties:,} of {n:,}), which "
        "count as 1/k where the wanted label is one of k with the most votes"
    )
