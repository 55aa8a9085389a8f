"""The report of a study: its tables, and their forms for people, programs and papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import polars as pl

from levelfield.io.frames import Framed, FrameRows
from levelfield.io.tables import (
    Table,
    TableCell,
    TableColumn,
    code_block,
    comment_lines,
    escape_markdown,
)
from levelfield.scoring.comparison import conclusion
from levelfield.scoring.gallery import DRAWN, InputDraw, ShownSample
from levelfield.scoring.seeds import seeds_in_words
from levelfield.scoring.standing import BEST, Scale, Standing, letters_in_words
from levelfield.stats.estimate import finite
from levelfield.stats.multiplicity import adjustment
from levelfield.stats.resampling import Family
from levelfield.study.aggregate.results import (
    ControlSummary,
    Correspondence,
    CostSummary,
    StudySummary,
    TableEntry,
    grouped_columns,
)
from levelfield.study.audit.findings import Finding
from levelfield.study.cells import Cell, bytes_in_words
from levelfield.study.plan import SystemTechnique

_FAMILIES: dict[Family, str] = {
    "metric": "a measure",
    "run": "a kind of control",
    "fdr": "a kind of control",
}


def results_table(control: ControlSummary, summary: StudySummary) -> Table:
    """Returns systems × measures: the mean over datasets and seeds, its deviation and its rank."""
    columns = [(above, column) for above, group in grouped_columns(control) for column in group]
    standings = {c.measure.name: control.standings(c.measure.name) for _, c in columns}
    scales = {name: Scale(control.places(name), scientific=False) for name in standings}
    techniques = summary.technique_columns(control)

    def row(n: int, system: str) -> list[TableCell | str]:
        lacks = control.incomplete.get(system, "")
        name = TableCell(
            system, letters="†" if lacks else "", remark=f"has nothing for {lacks}" if lacks else ""
        )
        results = [
            _result(control.entry(system, measure), standings[measure].get(system), scales[measure])
            for measure in standings
        ]
        return [name, *(cells[n] for _, cells in techniques), *results]

    marks = [standing for systems in standings.values() for standing in systems.values()]
    legend = [
        "in round brackets the weighted deviation of the runs, in square brackets the rank",
        *(["shares in percent"] if any(m.percent for m in control.measures) else []),
        summary.weights_in_words(),
        seeds_in_words(control.seeds_of_systems),
        *(["† incomplete: lacks something that other systems have"] if control.incomplete else []),
    ]
    return Table(
        [
            TableColumn("system", words=True),
            *(TableColumn(name, words=True, repeated=True) for name, _ in techniques),
            *(
                TableColumn(
                    column.name,
                    above,
                    column.measure.name,
                    direction=column.measure.direction,
                )
                for above, column in columns
            ),
        ],
        [row(n, system) for n, system in enumerate(control.systems)],
        caption=f"results for {control.control}: mean over datasets and seeds",
        legend=legend,
        best=BEST if any(standing.best for standing in marks) else "",
        letters=letters_in_words("system", adjustment(summary.resampling.family, _FAMILIES))
        if any(standing.letters for standing in marks)
        else "",
        notes=control.notes,
        wide=True,
    )


def _result(entry: TableEntry | None, standing: Standing | None, scale: Scale) -> TableCell:
    if entry is None:
        return TableCell()
    remark = f"n = {entry.n:,}, {entry.undefined:,} undefined"
    if standing is None or math.isnan(entry.mean):
        return TableCell(remark=remark, below=("undefined",))
    interval = entry.interval
    ends = f"{scale(interval.low)} to {scale(interval.high)}"
    return TableCell(
        scale(entry.mean),
        standing.best,
        f"({scale(entry.deviation)})" + (f" [{standing.rank}]" if standing.rank else ""),
        standing.letters_name,
        below=(
            *([] if interval.why_no_interval else [ends]),
            *([f"{entry.undefined:,} undefined"] if entry.undefined else []),
        ),
        value=entry.mean,
        remark=remark,
    )


def _correspondence_table(control: ControlSummary, pair: Correspondence) -> Table:
    x, y = (Scale(control.places(name), scientific=False) for name in (pair.x, pair.y))
    outcome = (
        f"no correlation: {pair.why}"
        if pair.why
        else f"Pearson's r {pair.pearson:.2f}, Spearman's rho {pair.spearman:.2f}"
    )
    return Table(
        [TableColumn("system", words=True), TableColumn(pair.x), TableColumn(pair.y)],
        [[r.system, f"{x(r.x)} [{r.x_rank}]", f"{y(r.y)} [{r.y_rank}]"] for r in pair.systems],
        caption=f"{pair.x} against {pair.y} for {control.control} ({outcome}); ranks in brackets",
    )


def cost_table(control: ControlSummary, summary: StudySummary) -> Table:
    techniques = summary.technique_columns(control)
    place = {system: n for n, system in enumerate(control.systems)}
    passes = any(cost.passes_per_token for cost in control.costs)
    nats = any(cost.nats is not None for cost in control.costs)
    heads = ["seconds per text", "tokens per second", *(["passes per token"] if passes else [])]
    heads += ["nats per token"] if nats else []
    rows: list[list[TableCell | str]] = [
        [
            cost.system,
            *(cells[place[cost.system]] for _, cells in techniques),
            _number(cost.seconds, 3, beside=f"± {cost.deviation:.2g}"),
            _number(cost.tokens_per_second, 4),
            *([_number(cost.passes_per_token, 3)] if passes else []),
            *([_nats(cost)] if nats else []),
            replace(_number(cost.peak_bytes, 3), text=bytes_in_words(cost.peak_bytes)),
        ]
        for cost in control.costs
    ]
    return Table(
        [
            *(TableColumn(name, words=True) for name in ["system", *(n for n, _ in techniques)]),
            *(TableColumn(name) for name in [*heads, "peak memory"]),
        ],
        rows,
        caption=f"cost of the texts for {control.control}",
        legend=[
            "seconds with their standard deviation over cells",
            *(["a pass is one row sent through a model"] if passes else []),
            *(["nats are the mean divergence from the base, with its interval"] if nats else []),
        ],
        wide=True,
    )


def _number(value: float | None, digits: int, *, beside: str = "") -> TableCell:
    if value is None or math.isnan(value):
        return TableCell()
    return TableCell(f"{value:.{digits}g}", beside=beside, value=value)


def _nats(cost: CostSummary) -> TableCell:
    if cost.nats is None:
        return TableCell()
    has_interval = cost.nats_low is not None and cost.nats_high is not None
    ends = f"{cost.nats_low:.3f} to {cost.nats_high:.3f}" if has_interval else ""
    return TableCell(f"{cost.nats:.3f}", below=(ends,) if ends else (), value=cost.nats)


def study_latex(summary: StudySummary) -> str:
    """Returns, per kind of control, the table of results, measures side by side, and costs."""
    tables = []
    for control in summary.controls:
        tables.append(results_table(control, summary))
        tables += [_correspondence_table(control, pair) for pair in control.correspondences]
        tables += [cost_table(control, summary)] * bool(control.costs)
    signatures = comment_lines(_signatures(summary))
    return "\n".join([*signatures, *(table.to_latex() for table in tables)]) + "\n"


def study_markdown(summary: StudySummary) -> str:
    """Returns the table of results of each kind of control, with its legend, and signatures."""
    parts = []
    for control in summary.controls:
        table = results_table(control, summary).to_markdown()
        parts += [f"## {escape_markdown(control.control)}", table]
    return "\n\n".join([*parts, code_block(_signatures(summary))]) + "\n"


def _signatures(summary: StudySummary) -> list[str]:
    return [name for names in summary.signatures.values() for name in names]


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
    """Yields the standing of each system under each measure, the best first.

    A standing is a rank, letters, and whether the system is shown best.
    """
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

    `lowest` and `highest` bound the difference where values are undefined for one system alone;
    `tipping_a` and `tipping_b` are what these must average for a withheld verdict not to hold.
    """
    for control in summary.controls:
        for measure, comparisons in control.comparisons.items():
            direction = control.measure(measure).direction
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
                    "tipping_a": c.tipping and _defined(c.tipping.a),
                    "tipping_b": c.tipping and _defined(c.tipping.b),
                    "unpaired": c.unpaired,
                    "detectable": finite(c.detectable),
                    "margin": finite(c.margin),
                    "p_alike": finite(c.p_alike),
                    "seeds_a": control.seeds_of_systems[c.a],
                    "seeds_b": control.seeds_of_systems[c.b],
                    "verdict": conclusion(c, direction),
                    "note": c.note,
                }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


@dataclass(frozen=True, repr=False)
class StudyReport(Framed):
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

    _entries = "study weights=summary.weights signatures=summary.signatures *_tables findings"

    @property
    def _tables(self) -> dict[str, Any]:
        return {
            "numbers": [*number_rows(self.summary)],
            "standings": [*standing_rows(self.summary)],
            "comparisons": [*comparison_rows(self.summary)],
        }

    def _drawn(self) -> Sequence[Table]:
        return [results_table(control, self.summary) for control in self.summary.controls]

    def _frame(self) -> FrameRows:
        """Returns one row per control, system, measure, dataset and value, as in `numbers.csv`."""
        return number_schema(self.summary), number_rows(self.summary)

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
