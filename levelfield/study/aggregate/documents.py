"""The tables of a study as terminals, pages, LaTeX and Markdown show them."""

from __future__ import annotations

import math

from levelfield.io.tables import (
    NONE,
    Table,
    TableCell,
    TableColumn,
    code_block,
    comment_lines,
    escape_markdown,
)
from levelfield.scoring.seeds import seeds_in_words
from levelfield.scoring.standing import BEST, Scale, Standing, letters_in_words
from levelfield.stats.resampling import Family
from levelfield.study.aggregate.results import (
    ControlSummary,
    Correspondence,
    StudySummary,
    TableEntry,
    grouped_columns,
)
from levelfield.study.cells import bytes_in_words

_FAMILIES: dict[Family, str] = {"metric": "a measure", "run": "a kind of control"}


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

    marks = [standing for of_systems in standings.values() for standing in of_systems.values()]
    legend = [
        "in round brackets the weighted deviation of the runs, in square brackets the rank",
        *(["shares in percent"] if any(m.percent for m in control.measures) else []),
        summary.weights_in_words(),
        seeds_in_words(control.seeds_of_systems),
        *(["† lacks something that others have"] if control.incomplete else []),
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
                    higher_is_better=column.measure.higher_is_better,
                )
                for above, column in columns
            ),
        ],
        [row(n, system) for n, system in enumerate(control.systems)],
        caption=f"results for {control.control}: mean over datasets and seeds",
        legend=legend,
        best=BEST if any(standing.best for standing in marks) else "",
        letters=letters_in_words("system", _FAMILIES[summary.resampling.family])
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
        f"({scale(entry.deviation)}) [{standing.rank}]",
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


def _cost_table(control: ControlSummary, summary: StudySummary) -> Table:
    techniques = summary.technique_columns(control)
    place = {system: n for n, system in enumerate(control.systems)}
    passes = any(cost.passes_per_token for cost in control.costs)

    def or_dash(value: float | None, digits: int) -> str:
        return NONE if value is None or math.isnan(value) else f"{value:.{digits}g}"

    heads = ["seconds a text", "tokens a second", *(["passes a token"] if passes else [])]
    rows: list[list[TableCell | str]] = [
        [
            cost.system,
            *(cells[place[cost.system]] for _, cells in techniques),
            TableCell(
                or_dash(cost.seconds, 3),
                beside="" if math.isnan(cost.seconds) else f"± {cost.deviation:.2g}",
            ),
            or_dash(cost.tokens_per_second, 4),
            *([or_dash(cost.passes_per_token, 3)] if passes else []),
            bytes_in_words(cost.peak_bytes),
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
        wide=True,
    )


def study_latex(summary: StudySummary) -> str:
    """Returns, per kind of control, the table of results, measures side by side, and costs."""
    tables = []
    for control in summary.controls:
        tables.append(results_table(control, summary))
        tables += [_correspondence_table(control, pair) for pair in control.correspondences]
        tables += [_cost_table(control, summary)] * bool(control.costs)
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
    return [signature for of_metric in summary.signatures.values() for signature in of_metric]
