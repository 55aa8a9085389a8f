"""Correlations as a LaTeX table, for documents that load the package booktabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelfield.io.tables import booktabs, escape_latex, spanning_heads
from levelfield.meta.correlate import Correlation
from levelfield.stats.estimands import Statistic

HEADINGS: Mapping[Statistic, str] = {
    "pearson": "$r$",
    "spearman": "$\\rho$",
    "kendall": "$\\tau_b$",
    "tau-like": "$\\tau$-like",
    "accuracy": "acc.",
    "calibrated": "acc.\\ cal.",
}


def correlation_table(
    correlations: Sequence[Correlation], wanted: Sequence[Statistic], *, comment: str, what: str
) -> str:
    """A booktabs table, metric × (aspect × statistic), the best of a column in bold.

    In bold is the highest number of a column, not the highest shown to be higher; the caption
    says so. A dash is an undefined value.

    Args:
        correlations: one a metric and aspect.
        wanted: statistics; those that some correlation lacks are left out.
        comment: what a reader of the source sees above the table.
        what: is correlated, for the caption.
    """
    rows = {(c.metric, c.aspect): c for c in correlations}
    aspects = list(dict.fromkeys(c.aspect for c in correlations))
    metrics = list(dict.fromkeys(c.metric for c in correlations))
    stats = [s for s in wanted if all(s in c.estimates for c in correlations)]
    best = {
        (a, s): max(
            (
                round(e.value, 3)
                for m in metrics
                if not (e := rows[m, a].estimates[s]).why_undefined
            ),
            default=None,
        )
        for a in aspects
        for s in stats
    }

    def cell(metric: str, aspect: str, s: Statistic) -> str:
        e = rows[metric, aspect].estimates[s]
        if e.why_undefined:
            return "--"
        text = f"{e.value:.3f}".replace("-0.000", "0.000")
        text = text.replace("-", "$-$")
        return f"\\textbf{{{text}}}" if round(e.value, 3) == best[aspect, s] else text

    width = len(stats)
    sizes = ", ".join(f"{a}: {_range([rows[m, a].n for m in metrics])}" for a in aspects)
    caption = (
        f"Agreement of metrics with ratings ({what}). Number of samples: {sizes}. "
        "Bold: highest of its column."
    )
    head = [
        *spanning_heads([a for a in aspects for _ in stats]),
        " & ".join(["Metric", *(HEADINGS[s] for _ in aspects for s in stats)]) + " \\\\",
    ]
    cells = ([escape_latex(m), *(cell(m, a, s) for a in aspects for s in stats)] for m in metrics)
    columns = f"l{'r' * (width * len(aspects))}"
    return booktabs(columns, head, cells, caption, comments=[comment]) + "\n"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
