"""Files whose lines belong to the lines of another: sources and references beside outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from levelfield.io.formats.text import Row
from levelfield.io.problems import Wrong
from levelfield.io.source import Input


@dataclass(frozen=True)
class Parallel:
    """Plain texts beside every file of outputs: line n belongs to text n.

    Attributes:
        sources: at most one.
        references: an empty line is no reference.
    """

    sources: tuple[Input, ...]
    references: tuple[Input, ...]

    def beside(self, outputs: Input) -> Input:
        """Returns the input with the fields `source` and `references`."""
        return replace(outputs, rows=lambda: self._rows(outputs)) if self.all else outputs

    @property
    def all(self) -> tuple[Input, ...]:
        """All the files."""
        return self.sources + self.references

    def _rows(self, outputs: Input) -> Iterator[Row]:
        counts = [0] * (len(self.all) + 1)
        for rows in zip_longest(*(one.rows() for one in (outputs, *self.all))):
            counts = [n + (row is not None) for n, row in zip(counts, rows, strict=True)]
            output, *others = rows
            wrongs = [
                Wrong(f"{one.place(row[0])}: {row[1]}")
                for one, row in zip(self.all, others, strict=True)
                if row is not None and isinstance(row[1], Wrong)
            ]
            if output is not None and None not in others:
                number, record = output
                yield number, wrongs[0] if wrongs else self._record(record, others)
        for one, n in zip(self.all, counts[1:], strict=True):
            if n != counts[0]:
                yield (
                    0,
                    Wrong(
                        f"{counts[0]:,} lines, and {one.name} has {n:,}; line n of one belongs to "
                        "line n of the other"
                    ),
                )

    def _record(
        self, record: dict[str, Any] | Wrong, others: Sequence[Row]
    ) -> dict[str, Any] | Wrong:
        if isinstance(record, Wrong):
            return record
        texts = [row["text"] for _, row in others if isinstance(row, dict)]
        sources, references = texts[: len(self.sources)], texts[len(self.sources) :]
        return {
            **record,
            **({"source": sources[0]} if sources else {}),
            **({"references": [text for text in references if text]} if references else {}),
        }
