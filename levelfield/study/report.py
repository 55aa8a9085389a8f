"""What a study's report says, and its forms for programs and papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from levelfield.scoring.gallery import DRAWN, InputDraw, ShownSample
from levelfield.study.aggregate.documents import study_latex, study_markdown
from levelfield.study.aggregate.numbers import (
    comparison_rows,
    number_rows,
    number_schema,
    standing_rows,
)
from levelfield.study.aggregate.results import StudySummary
from levelfield.study.audit.findings import Finding
from levelfield.study.cells import Cell


@dataclass(frozen=True)
class StudyReport:
    """The tables of a study with the findings of its audit.

    Attributes:
        study: its name.
        path: where it was read from.
        summary: its tables.
        findings: of the audit; None if it was left out.
        texts: kind of control -> drawn requests, each with the texts of all systems.
    """

    study: str
    path: str
    summary: StudySummary
    findings: tuple[Finding, ...] | None
    texts: Mapping[str, Sequence[Sequence[ShownSample]]] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns numbers, standings, comparisons, signatures and findings; what is undefined is
        None."""
        findings = self.findings
        return {
            "study": self.study,
            "weights": dict(self.summary.weights),
            "signatures": {m: list(s) for m, s in self.summary.signatures.items()},
            "numbers": list(number_rows(self.summary)),
            "standings": list(standing_rows(self.summary)),
            "comparisons": list(comparison_rows(self.summary)),
            "findings": None if findings is None else [f.to_dict() for f in findings],
        }

    def to_polars(self) -> pl.DataFrame:
        """Returns one row a control, system, measure, dataset and value, as in `numbers.csv`."""
        return pl.DataFrame(list(number_rows(self.summary)), schema=number_schema(self.summary))

    def to_latex(self) -> str:
        """Returns the tables for documents that load booktabs, as in `tables.tex`."""
        return study_latex(self.summary)

    def to_markdown(self) -> str:
        """Returns the tables of results as Markdown, as in `tables.md`."""
        return study_markdown(self.summary)


def drawn_texts(cells: Sequence[Cell]) -> Mapping[str, list[list[ShownSample]]]:
    """Returns kind of control -> drawn requests, each with the texts of all systems.

    There are at most `DRAWN` texts of all kinds together, some of each kind.
    """
    kinds = list(dict.fromkeys(cell.key.control for cell in cells if cell.samples))
    draws = {kind: InputDraw[ShownSample](DRAWN // len(kinds)) for kind in kinds}
    for cell in cells:
        for sample in cell.samples:
            values = {m: of[sample.id] for m, of in cell.scores.items() if sample.id in of}
            draws[cell.key.control].offer(sample, ShownSample(sample, sample.system, values))
    return {kind: list(draw) for kind, draw in draws.items()}
