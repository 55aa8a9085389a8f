"""A study's tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from levelfield.io.tables import code_block, escape_markdown, markdown_table
from levelfield.meta.scale import Scale
from levelfield.study.aggregate.columns import grouped_columns
from levelfield.study.aggregate.results import ControlSummary, StudySummary


def study_markdown(summary: StudySummary) -> str:
    """Returns the table of results of each kind of control, with its legend, and signatures."""
    parts = [part for control in summary.controls for part in _results(control, summary)]
    signatures = [s for of_metric in summary.signatures.values() for s in of_metric]
    return "\n\n".join([*parts, code_block(signatures)]) + "\n"


def _results(control: ControlSummary, summary: StudySummary) -> Iterator[str]:
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
