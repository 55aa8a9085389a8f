"""Prints the summaries of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from levelfield.cli.terminal import console
from levelfield.meta.comparison import verdict
from levelfield.meta.summary import GroupSummary, MetricSummary
from levelfield.run.tasks import ScoringTask
from levelfield.stats.multiplicity import Family


def print_summaries(
    summaries: Sequence[MetricSummary], grouped_by: str, family: Family = "metric"
) -> None:
    """A table for each metric, and its comparisons in words, on stdout."""
    out = console()
    for s in summaries:
        direction = "higher is better" if s.higher_is_better else "lower is better"
        out.print(Text(f"{s.metric} ({direction})", "bold"))
        table = Table(escape(grouped_by), box=None, pad_edge=False)
        for heading in ("mean", "95 % interval", "n", "undefined"):
            table.add_column(heading, justify="right")
        rows = [*s.groups, s.overall] if len(s.groups) > 1 else list(s.groups)
        for g in rows:
            i = g.mean
            table.add_row(
                Text(g.group),
                _shown(i.value),
                f"{_shown(i.low)} … {_shown(i.high)}"
                if math.isfinite(i.low)
                else i.why_no_interval,
                f"{i.n:,}",
                f"{g.undefined:,}",
            )
        out.print(table)
        for reason, count in s.reasons.items():
            out.print(Text(f"  undefined: {reason}: {count:,}"), style="dim")
        for c in s.comparisons:
            p = f"p = {c.p_adjusted:.3g} (Holm), d = {_shown(c.effect)}, " if c.p == c.p else ""
            left = f", {c.left_out:,} left out" if c.left_out else ""
            said = f"  {c.a} − {c.b} = {_shown(c.difference)} [{_shown(c.low)}, {_shown(c.high)}], "
            said += f"{p}n = {c.inputs:,} inputs{left}: {verdict(c, s.higher_is_better)}"
            out.print(Text(said), soft_wrap=True)
            if c.note:
                out.print(Text(f"    {c.note}", "dim"), soft_wrap=True)
        if s.comparisons:
            whose = "this metric" if family == "metric" else "all metrics of the run"
            out.print(Text(f"  Holm: over the comparisons of {whose}", "dim"))
        out.print(Text(f"  {s.signature}"), style="dim", soft_wrap=True)
        out.print()


def print_task(task: ScoringTask, summaries: Sequence[MetricSummary], grouped_by: str) -> None:
    """One table on stdout: a row a system, a column a metric, under the criterion it measures."""
    columns = list(task.columns(summaries))
    table = Table(escape(grouped_by), "n", box=None, pad_edge=False, collapse_padding=True)
    table.columns[1].justify = "right"
    shown = ""
    for criterion, s in columns:
        measure, _, member = s.metric.rpartition(".")
        above = criterion if criterion != shown else ""
        arrow = "↑" if s.higher_is_better else "↓"
        table.add_column(
            f"{above}\n{escape(measure)}\n{escape(_SHORT.get(member, member))} {arrow}",
            justify="right",
        )
        shown = criterion
    rows = [{group.group: group for group in s.groups} for _, s in columns]
    for name in dict.fromkeys(name for of in rows for name in of):
        n = next(of[name].n for of in rows if name in of)
        # a corpus whose texts are in several rows is in none of them
        table.add_row(Text(name), f"{n:,}", *(_cell(of.get(name)) for of in rows))
    out = console()
    out.print(table)
    said = "means, and under them half of the 95 % interval's width; –: no value, see below for why"
    out.print(Text(said, "dim"))
    out.print()


_SHORT = {
    "references": "refs",
    "infilling-perplexity": "perplexity",
    "corpus-perplexity": "corpus-ppl",
    "degenerate": "share",
}


def _cell(group: GroupSummary | None) -> Text:
    if group is None or not math.isfinite(group.mean.value):
        return Text("–")
    mean = group.mean
    digits = 1 if abs(mean.value) >= 10 else 2
    shown = Text(f"{mean.value:.{digits}f}")
    if math.isfinite(mean.low):
        shown.append(f"\n±{(mean.high - mean.low) / 2:.{digits}f}", "dim")
    return shown


def _shown(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"
