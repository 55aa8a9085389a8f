"""Ratings among the answers in exports of annotation tools: the answers that are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from levelfield.core.strings import finite_number
from levelfield.io.json_input import number_of
from levelfield.io.lines import Row
from levelfield.io.problems import Wrong, listed, shown

ANNOTATION = "annotation_id"
"""The field of a rating that says which answer of an annotator it belongs to: two ratings of one
annotation are the same, such as in an export that holds its tasks twice."""

_SCALE = re.compile(r"scale[_-](\d+)")
"""How Potato names a point of a scale."""


def number_in(answer: object) -> float | None:
    """Returns the number that an answer is or that its name ends with; None for other answers.

    >>> number_in("4"), number_in(0.5), number_in("scale_3"), number_in("good"), number_in(True)
    (4.0, 0.5, 3.0, None, None)
    """
    if isinstance(answer, bool):
        return None
    if not isinstance(answer, str):
        return number_of(answer)
    point = _SCALE.fullmatch(answer.strip())
    try:
        return finite_number(point[1] if point else answer)
    except ValueError:
        return None


def ratings_among(
    rows: Iterable[tuple[int, Mapping[str, Any] | Wrong]],
) -> Iterator[Row]:
    """Yields the rows whose `value` is a number, and a problem if there are only other answers.

    Args:
        rows: of ratings, whose `value` is any answer.
    """
    unrated: dict[str, object] = {}
    any_rating = False
    for number, row in rows:
        if isinstance(row, Wrong):
            any_rating = True  # the file has another problem
            yield number, row
            continue
        value = number_in(row["value"])
        if value is None:
            unrated.setdefault(str(row["aspect"]), row["value"])
        else:
            any_rating = True
            yield number, {**row, "value": value}
    if unrated and not any_rating:
        aspect, answer = next(iter(unrated.items()))
        yield (
            0,
            Wrong(
                f"no answer is a number: the questions are {listed(unrated)}, and an answer to "
                f"{shown(aspect)} is {shown(answer)}; ratings are numbers"
            ),
        )
