"""What a study's report says, and its forms for programs and papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import polars as pl

from levelfield.scoring.comparison import verdict
from levelfield.scoring.gallery import DRAWN, InputDraw, ShownSample
from levelfield.study.aggregate.documents import study_latex, study_markdown
from levelfield.study.aggregate.results import StudySummary
from levelfield.study.audit.findings import Finding
from levelfield.study.cells import Cell
from levelfield.study.plan import SystemTechnique

COLUMNS: Mapping[str, tuple[type[pl.DataType], str]] = {
    "system": (pl.String, "system"),
    "measure": (pl.String, "measure"),
    "dataset": (pl.String, "dataset"),
    "value": (pl.String, "value"),
    "mean": (pl.Float64, "mean"),
    "sd": (pl.Float64, "deviation"),
    "low": (pl.Float64, "interval.low"),
    "high": (pl.Float64, "interval.high"),
    "rank": (pl.Int64, "rank"),
    "n": (pl.Int64, "n"),
    "undefined": (pl.Int64, "undefined"),
    "sd_between_seeds": (pl.Float64, "between_seeds.deviation"),
    "sd_between_prompts": (pl.Float64, "between_prompts.deviation"),
}
"""Column -> its type, and where a `TableEntry` has it.

`all` stands for all datasets or values together. `sd` is the weighted deviation of the runs; `low`
and `high` are the ends of the interval of the mean.
"""


def number_schema(summary: StudySummary) -> dict[str, type[pl.DataType]]:
    """Returns the columns of `number_rows`, `technique` and `base` if any system has them."""
    techniques = SystemTechnique._fields if summary.techniques else ()
    columns = {name: kind for name, (kind, _) in COLUMNS.items()}
    return {"control": pl.String, **columns, **dict.fromkeys(techniques, pl.String)}


def number_rows(summary: StudySummary) -> Iterator[dict[str, Any]]:
    """Yields the rows in the columns of `number_schema`; what is undefined is None."""
    schema, has_techniques = number_schema(summary), bool(summary.techniques)
    take = attrgetter(*(path for _, path in COLUMNS.values()))
    for control in summary.controls:
        for entry in control.entries.values():
            values = (None if value != value else value for value in take(entry))
            technique = summary.techniques.get(entry.system, (None, None)) if has_techniques else ()
            yield dict(zip(schema, (control.control, *values, *technique), strict=True))


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
                counts = ("a", "b", "inputs", "left_out", "clusters")
                numbers = ("difference", "low", "high", "effect", "p", "p_adjusted")
                yield {
                    "control": control.control,
                    "measure": measure,
                    **{name: getattr(c, name) for name in counts},
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
            values = {m: v[sample.id] for m, v in cell.scores.items() if sample.id in v}
            draws[cell.key.control].offer(sample, ShownSample(sample, sample.system, values))
    return {kind: list(draw) for kind, draw in draws.items()}
