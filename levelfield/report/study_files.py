"""A study's numbers as a tidy CSV file and as LaTeX tables."""

from __future__ import annotations

import csv
import math
import os

from levelfield.io import atomic_writer
from levelfield.io.latex import booktabs, escape_latex
from levelfield.report.study_page import grouped_columns, scale
from levelfield.report.words import shown_name
from levelfield.study.aggregate.results import ControlSummary, Correspondence, StudySummary

COLUMNS = (
    "control", "system", "measure", "dataset", "value", "mean", "sd", "low", "high", "rank",
    "n", "undefined", "sd_between_seeds", "sd_between_prompts",
)  # fmt: skip


def write_study_csv(path: str | os.PathLike[str], summary: StudySummary) -> None:
    """One row a control, system, measure, dataset and value; whole or not at all.

    `all` stands for all datasets or values together. What is undefined is empty. `sd` is the
    weighted deviation of the runs; `low` and `high` are the ends of the interval of the mean.
    """
    with atomic_writer(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for control in summary.controls:
            for e in control.entries.values():
                numbers = (e.mean, e.deviation, e.interval.low, e.interval.high)
                rows.writerow(
                    [
                        control.control,
                        e.system,
                        e.measure,
                        e.dataset,
                        e.value,
                        *map(_number, numbers),
                        "" if e.rank is None else e.rank,
                        e.n,
                        e.undefined,
                        _number(e.between_seeds.deviation),
                        _number(e.between_prompts.deviation),
                    ]
                )


def write_study_latex(path: str | os.PathLike[str], summary: StudySummary) -> None:
    """The tables of the study, for documents that load booktabs; whole or not at all."""
    with atomic_writer(path) as file:
        file.write(study_latex(summary))


def study_latex(summary: StudySummary) -> str:
    """Per kind of control: the table of results, measures side by side, and costs."""
    parts = [
        f"% {escape_latex(signature)}"
        for found in summary.signatures.values()
        for signature in found
    ]
    for control in summary.controls:
        parts.append(_results(control, summary))
        parts += [_correspondence(control, found) for found in control.correspondences]
        if control.costs:
            parts.append(_costs(control))
    return "\n".join(parts) + "\n"


def _results(control: ControlSummary, summary: StudySummary) -> str:
    groups = grouped_columns(control)
    columns = [column for _, of in groups for column in of]
    spans, first = [], 2
    for _, of in groups:
        spans.append(f"\\cmidrule(lr){{{first}-{first + len(of) - 1}}}")
        first += len(of)

    def heading(name: str, higher: bool) -> str:
        arrow = "\\uparrow" if higher else "\\downarrow"
        return f"{escape_latex(name)} ${arrow}$"

    def cell(system: str, measure: str) -> str:
        e = control.entry(system, measure)
        if e is None or math.isnan(e.mean):
            return "--"
        write = scale(control, measure)
        mean = _minus(write(e.mean))
        if e.rank == 1 and len(control.systems) > 1:
            mean = f"\\textbf{{{mean}}}"
        return f"{mean} ({_minus(write(e.deviation))})"

    rows = [
        [
            escape_latex(shown_name(system)) + ("$^*$" if system in control.incomplete else ""),
            *(cell(system, column.measure.name) for column in columns),
        ]
        for system in control.systems
    ]
    lacking = "".join(
        f" {shown_name(system)} has nothing for {what}."
        for system, what in control.incomplete.items()
    )
    caption = (
        f"Results for {control.control}: mean over datasets and seeds, datasets weighted by "
        f"{summary.weights_from}; weighted standard deviation in brackets; best in bold."
        + (f" *:{lacking}" if lacking else "")
    )
    head = [
        " & ".join(
            [
                "",
                *(
                    f"\\multicolumn{{{len(of)}}}{{c}}{{{escape_latex(name)}}}"
                    for name, of in groups
                ),
            ]
        )
        + " \\\\",
        " ".join(spans),
        " & ".join(["System", *(heading(c.name, c.measure.higher_is_better) for c in columns)])
        + " \\\\",
    ]
    return booktabs("l" + "r" * len(columns), head, rows, caption, wide=True)


def _correspondence(control: ControlSummary, found: Correspondence) -> str:
    x, y = scale(control, found.x), scale(control, found.y)
    rows = [
        [
            escape_latex(shown_name(r.system)),
            f"{_minus(x(r.x))} [{r.x_rank}]",
            f"{_minus(y(r.y))} [{r.y_rank}]",
        ]
        for r in found.systems
    ]
    said = (
        f"no correlation: {found.why}"
        if found.why
        else f"Pearson's r {found.pearson:.2f}, Spearman's rho {found.spearman:.2f}"
    )
    head = [" & ".join(["System", escape_latex(found.x), escape_latex(found.y)]) + " \\\\"]
    caption = f"{found.x} against {found.y} for {control.control} ({said}); ranks in brackets."
    return booktabs("lrr", head, rows, caption, wide=True)


def _costs(control: ControlSummary) -> str:
    rows = [
        [
            escape_latex(shown_name(c.system)),
            "--" if math.isnan(c.seconds) else f"{c.seconds:.3g} $\\pm$ {c.deviation:.2g}",
            "--" if math.isnan(c.tokens_per_second) else f"{c.tokens_per_second:.4g}",
            "--" if c.peak_bytes is None else f"{c.peak_bytes / 1e9:.2f}",
        ]
        for c in control.costs
    ]
    head = ["System & Seconds a text & Tokens a second & Peak memory (GB) \\\\"]
    return booktabs("lrrr", head, rows, f"What the texts for {control.control} cost.", wide=True)


def _minus(text: str) -> str:
    return text.replace("−", "$-$").replace("–", "--")


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
