"""Answers as they come in: which of them count, and what is wrong with the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from levelfield.io.problems import shown
from levelfield.study.cells import CellRequest, SystemAnswer


@dataclass(frozen=True)
class TimedAnswer:
    """An answer with what it cost up to then.

    Attributes:
        answer: as the system gave it.
        wall_s: seconds from the start of its attempt, and those of earlier attempts up to the
            last answer of each.
        peak_bytes: most memory held in that attempt so far; None if unknown.
    """

    answer: SystemAnswer
    wall_s: float = 0.0
    peak_bytes: int | None = None


class ProblemCounts:
    """Counts what is wrong, kind by kind, with the first example of each."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._first: dict[tuple[str, str], str] = {}

    def add(self, one: str, many: str, example: str) -> None:
        self._counts[one, many] += 1
        self._first.setdefault((one, many), example)

    def add_all(self, others: ProblemCounts) -> None:
        self._counts |= others._counts
        self._first |= others._first

    def said(self) -> tuple[str, ...]:
        return tuple(
            f"{n:,} {kind[0] if n == 1 else kind[1]} (first: {self._first[kind]})"
            for kind, n in self._counts.items()
        )


class Intake:
    """Takes answers in, whatever their order; knows which requests are open."""

    def __init__(self, requests: Sequence[CellRequest], known: Collection[SystemAnswer]) -> None:
        self._requests = {request.id: request for request in requests}
        self._texts = {a.id: a.text for a in known if a.id in self._requests}
        self.findings = ProblemCounts()

    @property
    def open(self) -> list[CellRequest]:
        return [r for id, r in self._requests.items() if id not in self._texts]

    def is_complete(self) -> bool:
        return len(self._texts) == len(self._requests)

    def take(self, answer: SystemAnswer, place: str) -> bool:
        """Whether the answer counts."""
        example = f"{place}: {shown(answer.id)}"
        if answer.id not in self._requests:
            self.findings.add("answer with an unknown id", "answers with unknown ids", example)
        elif answer.id not in self._texts:
            self._texts[answer.id] = answer.text
            return True
        elif answer.text == self._texts[answer.id]:
            self.findings.add(
                "answer given twice, with the same text",
                "answers given twice, with the same text",
                example,
            )
        else:
            self.findings.add(
                "second answer with another text; the first counts",
                "second answers with other texts; the first counts",
                example,
            )
        return False

    def refuse(self, why: str, place: str) -> None:
        """Counts a line that is no answer."""
        self.findings.add("line that is no answer", "lines that are no answers", f"{place}: {why}")

    def problems(self) -> tuple[str, ...]:
        return self.findings.said()

    def failure(self, why: str = "") -> str:
        """How many requests are open, and why; empty if none is."""
        open = self.open
        if not open:
            return ""
        whole = f"{len(open):,} of {len(self._requests):,} requests have no answer"
        return f"{whole} (first: {shown(open[0].id)})" + (f"; {why}" if why else "")
