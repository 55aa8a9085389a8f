"""The numbers of a study as rows: one a control, system, measure, dataset and value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from levelfield.scoring.comparison import verdict
from levelfield.study.aggregate.results import StudySummary
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
