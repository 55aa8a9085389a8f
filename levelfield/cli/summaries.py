"""The summary of a run for a person and for a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from levelfield.cli.terminal import console
from levelfield.meta.summary import GroupSummary, MetricSummary, verdict


def print_summaries(summaries: Sequence[MetricSummary], grouped_by: str) -> None:
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
            note = f"; {c.note}" if c.note else ""
            left = f", {c.left_out:,} left out" if c.left_out else ""
            said = f"  {c.a} − {c.b} = {_shown(c.difference)} [{_shown(c.low)}, {_shown(c.high)}], "
            said += f"{p}n = {c.inputs:,} inputs{left}: {verdict(c, s.higher_is_better)}{note}"
            out.print(Text(said), soft_wrap=True)
        out.print(Text(f"  {s.signature}"), style="dim", soft_wrap=True)
        out.print()


def metric_document(s: MetricSummary) -> dict[str, Any]:
    """One metric's summary as JSON has it; what is not a finite number is null."""
    return {
        "metric": s.metric,
        "signature": s.signature,
        "higher_is_better": s.higher_is_better,
        "overall": _group(s.overall),
        "groups": [_group(g) for g in s.groups],
        "comparisons": [
            {
                "a": c.a,
                "b": c.b,
                "inputs": c.inputs,
                "left_out": c.left_out,
                "clusters": c.clusters,
                "difference": _number(c.difference),
                "low": _number(c.low),
                "high": _number(c.high),
                "effect": _number(c.effect),
                "p": _number(c.p),
                "p_adjusted": _number(c.p_adjusted),
                "note": c.note,
            }
            for c in s.comparisons
        ],
        "undefined": dict(s.reasons),
    }


def _group(group: GroupSummary) -> dict[str, Any]:
    mean = group.mean
    return {
        "group": group.group,
        "n": group.n,
        "defined": mean.n,
        "undefined": group.undefined,
        "mean": _number(mean.value),
        "low": _number(mean.low),
        "high": _number(mean.high),
        "clusters": mean.clusters,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _shown(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"
