"""What a study's report says, and its forms for programs and papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from levelfield.scoring.comparison import verdict
from levelfield.scoring.gallery import DRAWN, InputDraw, ShownSample
from levelfield.study.aggregate.documents import study_latex, study_markdown
from levelfield.study.aggregate.results import StudySummary
from levelfield.study.audit.findings import Finding
from levelfield.study.cells import Cell
from levelfield.study.plan import SystemTechnique

SCHEMA: dict[str, type[pl.DataType]] = {
    "control": pl.String,
    "system": pl.String,
    "measure": pl.String,
    "dataset": pl.String,
    "value": pl.String,
    "mean": pl.Float64,
    "sd": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "rank": pl.Int64,
    "n": pl.Int64,
    "undefined": pl.Int64,
    "sd_between_seeds": pl.Float64,
    "sd_between_prompts": pl.Float64,
}
"""`all` stands for all datasets or values together. `sd` is the weighted deviation of the runs;
`low` and `high` are the ends of the interval of the mean."""


def number_schema(summary: StudySummary) -> dict[str, type[pl.DataType]]:
    """Returns the columns: `SCHEMA`, with `technique` and `base` if any system has them."""
    return {
        **SCHEMA,
        **(dict.fromkeys(SystemTechnique._fields, pl.String) if summary.techniques else {}),
    }


def number_rows(summary: StudySummary) -> Iterator[dict[str, Any]]:
    """Yields the rows in the columns of `number_schema`; what is undefined is None."""
    schema = number_schema(summary)
    for control in summary.controls:
        for e in control.entries.values():
            row = (
                control.control,
                e.system,
                e.measure,
                e.dataset,
                e.value,
                _defined(e.mean),
                _defined(e.deviation),
                _defined(e.interval.low),
                _defined(e.interval.high),
                e.rank,
                e.n,
                e.undefined,
                _defined(e.between_seeds.deviation),
                _defined(e.between_prompts.deviation),
                *(summary.techniques.get(e.system, (None, None)) if summary.techniques else ()),
            )
            yield dict(zip(schema, row, strict=True))


def standing_rows(summary: StudySummary) -> Iterator[dict[str, Any]]:
    """Yields where each system stands under each measure, the best first: its rank, its letters,
    and whether it is shown best."""
    for control in summary.controls:
        for measure in control.measures:
            for system, standing in control.standings(measure.name).items():
                yield {
                    "control": control.control,
                    "measure": measure.name,
                    "system": system,
                    "rank": standing.rank,
                    "letters": list(standing.letters),
                    "best": standing.best,
                }


def comparison_rows(summary: StudySummary) -> Iterator[dict[str, Any]]:
    """Yields the comparisons of systems with their verdicts; what is undefined is None.

    `lowest` and `highest` bound the difference where values are undefined for one system alone.
    """
    for control in summary.controls:
        for measure, comparisons in control.comparisons.items():
            better = control.measure(measure).higher_is_better
            for c in comparisons:
                numbers = ("difference", "low", "high", "effect", "p", "p_adjusted")
                yield {
                    "control": control.control,
                    "measure": measure,
                    "a": c.a,
                    "b": c.b,
                    "inputs": c.inputs,
                    "left_out": c.left_out,
                    "clusters": c.clusters,
                    **{name: _defined(getattr(c, name)) for name in numbers},
                    "lowest": c.bounds and _defined(c.bounds.lowest),
                    "highest": c.bounds and _defined(c.bounds.highest),
                    "seeds_a": control.seeds_of_systems[c.a],
                    "seeds_b": control.seeds_of_systems[c.b],
                    "verdict": verdict(c, better),
                    "note": c.note,
                }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


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
