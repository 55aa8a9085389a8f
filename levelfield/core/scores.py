"""Scores: what a metric says of samples, undefined values with their reasons included.

Parts of values may be votes of judges. A tie is a text for which several labels have the most
votes. Metrics that count it as a share name its labels in their parts; tables and reports say of
how many texts that holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import numpy.typing as npt

from levelfield.core.direction import Direction, direction_named, higher_is_better
from levelfield.core.signature import with_run
from levelfield.core.strings import number_document

if TYPE_CHECKING:
    import polars as pl

PARTS_SCHEMA: Mapping[str, type] = {"id": str, "part": str, "score": float, "weight": float}

PartRow = tuple[str, str, float, float]
"""id, part, score, weight."""


class _Parts:
    """The field `Scores.parts`: kept as it is given, a frame when it is read.

    Scores of a few texts are made, stored and written without polars, whose import takes longer.
    """

    @overload
    def __get__(self, scores: None, owner: type) -> None: ...
    @overload
    def __get__(self, scores: Scores, owner: type) -> pl.DataFrame | None: ...
    def __get__(self, scores: Scores | None, owner: type) -> pl.DataFrame | None:
        if scores is None:
            return None  # the default of the field
        parts: pl.DataFrame | list[PartRow] | None = vars(scores)["_parts"]
        if not isinstance(parts, list):
            return parts
        import polars as pl

        frame = pl.DataFrame(parts, schema=dict(PARTS_SCHEMA), orient="row")
        vars(scores)["_parts"] = frame
        return frame

    def __set__(self, scores: Scores, parts: pl.DataFrame | list[PartRow] | None) -> None:
        if isinstance(parts, list):
            parts = [(id, part, _number(x), _number(w)) for id, part, x, w in parts]
        vars(scores)["_parts"] = parts


def _number(value: Any) -> Any:
    """Returns a number as a frame gives it back."""
    return value if value is None else float(value)


@dataclass(frozen=True)
class Scores:
    """The values of one metric for some samples.

    Attributes:
        metric: the metric's name.
        ids: (n,) of the samples, in the order they were given.
        values: (n,) float64; NaN where the metric is undefined. An infinite value is a value: the
            worst or best one, such as the log-probability of an impossible text.
        undefined: id -> reason, one entry for every NaN and no other.
        signature: every choice that could change a value.
        direction: which end of the values is better. `higher_is_better=True` or `False` may be
            given in its place, or its position, as before there was a third direction.
        parts: what the values are made of, one row a part: id, part, score, weight; the weights
            of a sample sum to 1. A frame of polars, which may be given as a list of its rows.
        truncated: ids of the samples of which the model did not see everything.
    """

    metric: str
    ids: tuple[str, ...]
    values: npt.NDArray[np.float64]
    undefined: Mapping[str, str]
    signature: str
    direction: Direction = field(default=cast(Direction, None))
    parts: _Parts = _Parts()
    truncated: frozenset[str] = field(default=frozenset())
    higher_is_better: InitVar[bool | None] = None

    def __post_init__(self, higher_is_better: bool | None) -> None:
        direction: object = self.direction if self.direction is not None else higher_is_better
        try:
            object.__setattr__(self, "direction", direction_named(direction))
        except ValueError as error:
            raise ValueError(f"{self.metric}: direction: {error}") from None
        if not isinstance(self.values, np.ndarray):
            raise TypeError(f"{self.metric}: values must be an array, got {type(self.values)}")
        if self.values.shape != (len(self.ids),) or self.values.dtype != np.float64:
            raise ValueError(
                f"{self.metric}: values must be float64 of shape ({len(self.ids)},), "
                f"got {self.values.dtype} of shape {self.values.shape}"
            )
        nan = {id for id, value in zip(self.ids, self.values, strict=True) if np.isnan(value)}
        if nan != set(self.undefined):
            raise ValueError(
                f"{self.metric}: every NaN needs a reason and nothing else may have one; "
                f"they differ for {sorted(nan ^ set(self.undefined))[:3]}"
            )
        if not all(
            isinstance(reason, str) and reason.strip() for reason in self.undefined.values()
        ):
            raise ValueError(f"{self.metric}: a reason must be a string that is not empty")
        columns = getattr(vars(self)["_parts"], "columns", None)  # of a frame
        if columns is not None and columns != list(PARTS_SCHEMA):
            raise ValueError(
                f"{self.metric}: the columns of parts must be {', '.join(PARTS_SCHEMA)}, "
                f"not {', '.join(columns)}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def part_rows(self) -> list[PartRow] | None:
        """The rows of `parts`; they need no frame."""
        parts: pl.DataFrame | list[PartRow] | None = vars(self)["_parts"]
        return parts if parts is None or isinstance(parts, list) else parts.rows()

    @property
    def run_signature(self) -> str:
        """The signature with the run part: n, undefined, truncated."""
        return with_run(
            self.signature,
            n=len(self),
            undefined=len(self.undefined),
            truncated=len(self.truncated),
        )

    def mean(self) -> float:
        """`mean_of_defined` of the values. `run_signature` says how many are defined."""
        return mean_of_defined(self.values)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yields one record a sample, as `scores.jsonl` has it: an infinite value is the string
        "inf" or "-inf", since JSON has no such number."""
        values = list(map(number_document, self.values.tolist()))
        for id, value in zip(self.ids, values, strict=True):
            record: dict[str, Any] = {"id": id, "metric": self.metric, "value": value}
            if id in self.undefined:
                record["undefined"] = self.undefined[id]
            yield record | {"signature": self.signature}


setattr(Scores, "higher_is_better", property(lambda scores: higher_is_better(scores.direction)))  # noqa: B010
"""For code that reads the boolean; None where no end is better."""


def mean_of_defined(values: npt.NDArray[np.float64]) -> float:
    """Returns the mean of the defined values: infinite if some are so at one end, NaN if some are
    at both, or if none is defined."""
    defined = values[~np.isnan(values)]
    with np.errstate(invalid="ignore"):
        return float(defined.mean()) if defined.size else float("nan")


def concatenate(scores: Sequence[Scores]) -> Scores:
    """Returns scores of one metric under one signature over several partitions, as one."""
    first = scores[0]
    if len(scores) == 1:
        return first
    if any(s.signature != first.signature for s in scores):
        raise ValueError("scores under different signatures can't be put together")
    return Scores(
        metric=first.metric,
        ids=tuple(id for s in scores for id in s.ids),
        values=np.concatenate([s.values for s in scores]),
        undefined={id: reason for s in scores for id, reason in s.undefined.items()},
        signature=first.signature,
        direction=first.direction,
        parts=_joined(scores),
        truncated=frozenset().union(*(s.truncated for s in scores)),
    )


def _joined(scores: Sequence[Scores]) -> Any:
    """Returns the parts of several scores: a frame if some of them are one, else rows."""
    having = [s for s in scores if vars(s)["_parts"] is not None]
    if not having:
        return None
    if all(isinstance(vars(s)["_parts"], list) for s in having):
        return [row for s in having for row in s.part_rows or ()]
    import polars as pl

    return pl.concat([cast("pl.DataFrame", s.parts) for s in having])


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
    if _SHARED not in scores.signature:
        return 0
    rows = scores.part_rows or ()
    return len({id for id, part, *_ in rows if is_tie(scores.signature, part)})


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
