"""A study's tables as LaTeX and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from levelfield.io.tables import (
    booktabs,
    code_block,
    comment_lines,
    escape_latex,
    escape_markdown,
    markdown_table,
    spanning_heads,
)
from levelfield.scoring.seeds import seeds_in_words
from levelfield.scoring.standing import Scale
from levelfield.study.aggregate.results import (
    ControlSummary,
    Correspondence,
    StudySummary,
    grouped_columns,
)
from levelfield.study.cells import bytes_in_words


def study_latex(summary: StudySummary) -> str:
    """Returns, per kind of control, the table of results, measures side by side, and costs."""
    parts = comment_lines(
        signature for of_metric in summary.signatures.values() for signature in of_metric
    )
    for control in summary.controls:
        parts.append(_latex_results(control, summary))
        parts += [_correspondence(control, pair) for pair in control.correspondences]
        if control.costs:
            parts.append(_costs(control, summary))
    return "\n".join(parts) + "\n"


def _latex_results(control: ControlSummary, summary: StudySummary) -> str:
    groups = grouped_columns(control)
    columns = [column for _, of in groups for column in of]
    standings = {c.measure.name: control.standings(c.measure.name) for c in columns}

    def heading(name: str, higher: bool) -> str:
        arrow = "\\uparrow" if higher else "\\downarrow"
        return f"{escape_latex(name)} ${arrow}$"

    def cell(system: str, measure: str) -> str:
        e = control.entry(system, measure)
        if e is None or math.isnan(e.mean):
            return "--"
        places = control.places(measure)
        mean = _number(e.mean, places)
        standing = standings[measure][system]
        if standing.best:
            mean = f"\\textbf{{{mean}}}"
        letters = standing.letters_name
        marked = f"\\textsuperscript{{{letters}}}" if letters else ""
        return f"{mean} ({_number(e.deviation, places)}){marked}"

    names = summary.technique_columns(control)
    rows = [
        [
            escape_latex(system) + ("$^*$" if system in control.incomplete else ""),
            *(_name(cells[n]) for _, cells in names),
            *(cell(system, column.measure.name) for column in columns),
        ]
        for n, system in enumerate(control.systems)
    ]
    lacking = "".join(
        f" {system} has nothing for {what}." for system, what in control.incomplete.items()
    )
    says = [
        f"Results for {control.control}: mean over datasets and seeds",
        summary.weights_in_words(),
        "weighted standard deviation in brackets",
        *summary.legend(control, "bold:"),
        seeds_in_words(control.seeds_of_systems),
    ]
    caption = "; ".join(says) + "." + (f" *:{lacking}" if lacking else "")
    head = [
        *spanning_heads(["" for _ in names] + [name for name, of in groups for _ in of]),
        " & ".join(
            [
                "System",
                *(name.capitalize() for name, _ in names),
                *(heading(c.name, c.measure.higher_is_better) for c in columns),
            ]
        )
        + " \\\\",
    ]
    left = "l" * (1 + len(names))
    return booktabs(left + "r" * len(columns), head, rows, caption, wide=True)


def _correspondence(control: ControlSummary, pair: Correspondence) -> str:
    x, y = control.places(pair.x), control.places(pair.y)
    rows = [
        [
            escape_latex(r.system),
            f"{_number(r.x, x)} [{r.x_rank}]",
            f"{_number(r.y, y)} [{r.y_rank}]",
        ]
        for r in pair.systems
    ]
    outcome = (
        f"no correlation: {pair.why}"
        if pair.why
        else f"Pearson's r {pair.pearson:.2f}, Spearman's rho {pair.spearman:.2f}"
    )
    head = [" & ".join(["System", escape_latex(pair.x), escape_latex(pair.y)]) + " \\\\"]
    caption = f"{pair.x} against {pair.y} for {control.control} ({outcome}); ranks in brackets."
    return booktabs("lrr", head, rows, caption, wide=True)


def _costs(control: ControlSummary, summary: StudySummary) -> str:
    names = summary.technique_columns(control)
    place = {system: n for n, system in enumerate(control.systems)}
    passes = any(c.passes_per_token for c in control.costs)
    rows = [
        [
            escape_latex(c.system),
            *(_name(cells[place[c.system]]) for _, cells in names),
            "--" if math.isnan(c.seconds) else f"{c.seconds:.3g} $\\pm$ {c.deviation:.2g}",
            "--" if math.isnan(c.tokens_per_second) else f"{c.tokens_per_second:.4g}",
            *([f"{c.passes_per_token:.3g}" if c.passes_per_token else "--"] if passes else []),
            bytes_in_words(c.peak_bytes).replace("–", "--"),
        ]
        for c in control.costs
    ]
    left = ["System", *(name.capitalize() for name, _ in names)]
    right = ["Seconds a text", "Tokens a second", *(["Passes a token"] if passes else [])]
    head = [" & ".join([*left, *right, "Peak memory"]) + " \\\\"]
    columns = "l" * len(left) + "r" * (len(right) + 1)
    return booktabs(columns, head, rows, f"What the texts for {control.control} cost.", wide=True)


def _name(name: str) -> str:
    return escape_latex(name).replace("–", "--")


def _number(value: float, places: int) -> str:
    return "--" if math.isnan(value) else f"{value:z,.{places}f}".replace("-", "$-$")


def study_markdown(summary: StudySummary) -> str:
    """Returns the table of results of each kind of control, with its legend, and signatures."""
    parts = [part for control in summary.controls for part in _markdown_results(control, summary)]
    signatures = [s for of_metric in summary.signatures.values() for s in of_metric]
    return "\n\n".join([*parts, code_block(signatures)]) + "\n"


def _markdown_results(control: ControlSummary, summary: StudySummary) -> Iterator[str]:
    measures = [column.measure for _, of in grouped_columns(control) for column in of]
    standings = {m.name: control.standings(m.name) for m in measures}

    def cell(system: str, measure: str) -> str:
        entry = control.entry(system, measure)
        if entry is None or math.isnan(entry.mean):
            return "–"
        scale = Scale(control.places(measure), scientific=False)
        standing = standings[measure][system]
        mean = f"**{scale(entry.mean)}**" if standing.best else scale(entry.mean)
        letters = f" <sup>{standing.letters_name}</sup>" if standing.letters else ""
        return f"{mean} ({scale(entry.deviation)}) [{standing.rank}]{letters}"

    names = summary.technique_columns(control)
    yield f"## {escape_markdown(control.control)}"
    yield markdown_table(
        [
            "system",
            *(name for name, _ in names),
            *(f"{escape_markdown(m.name)} {'↑' if m.higher_is_better else '↓'}" for m in measures),
        ],
        (
            [
                escape_markdown(system),
                *(escape_markdown(cells[n]) for _, cells in names),
                *(cell(system, m.name) for m in measures),
            ]
            for n, system in enumerate(control.systems)
        ),
    )
    legend = ["mean (weighted deviation) [rank]", *summary.legend(control, "**bold**")]
    yield "; ".join([*legend, escape_markdown(summary.weights_in_words())])
    if control.notes:
        yield "\n".join(f"- {escape_markdown(note)}" for note in control.notes)
