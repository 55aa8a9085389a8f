"""The record of a cell: what it was made from and how it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from levelfield.study.cells import CellKey, Cost
from levelfield.study.fingerprint import Fingerprint
from levelfield.version import __version__

State = Literal["done", "texts", "partial", "failed", "missing", "stale"]
"""`texts`: all answers are there, but the texts have to be made anew by other steps."""


@dataclass(frozen=True)
class CellRecord:
    """The content of `cell.json`.

    Attributes:
        fingerprint: what it was made from.
        version: of levelfield.
        asked, answered: number of texts.
        missing: ids of the requests without an answer.
        problems, failure, cost: as in `Cell`.
        attempts: number of times the system was started or read, all runs together.
        when: the end of the last run, in ISO 8601.
    """

    fingerprint: Fingerprint
    asked: int
    answered: int
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    failure: str = ""
    cost: Cost | None = None
    attempts: int = 0
    version: str = __version__
    when: str = ""

    def to_json(self, key: CellKey) -> dict[str, Any]:
        """Returns the object that reads as this record again."""
        when = self.when or datetime.now(UTC).isoformat(timespec="seconds")
        cost = self.cost.to_dict() if self.cost else None
        return {"key": key._asdict(), **asdict(self), "cost": cost, "when": when}

    @classmethod
    def of_json(cls, record: Any) -> CellRecord:
        """Returns the record in a JSON object.

        Raises:
            KeyError, TypeError: the object is no record.
        """
        return cls(
            fingerprint=Fingerprint(**record["fingerprint"]),
            asked=record["asked"],
            answered=record["answered"],
            missing=tuple(record["missing"]),
            problems=tuple(record["problems"]),
            failure=record["failure"],
            cost=Cost(**record["cost"]) if record["cost"] else None,
            attempts=record["attempts"],
            version=record["version"],
            when=record["when"],
        )
