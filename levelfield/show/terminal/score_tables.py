"""Prints the results of a run: its table, a ranking a metric, and every pair if it is wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from levelfield.core.direction import Direction
from levelfield.io.problems import printable
from levelfield.scoring.comparison import NOT_COMPARED, NOT_SHOWN, Comparison, conclusion
from levelfield.scoring.result import ScoreSummary
from levelfield.scoring.result_table import ResultTable
from levelfield.scoring.sensitivity import detectable
from levelfield.scoring.standing import Scale, p_value, scale_of
from levelfield.scoring.summary import GroupSummary
from levelfield.show.terminal import console
from levelfield.show.terminal.blocks import print_table, print_wrapped
from levelfield.stats.multiplicity import adjustment
from levelfield.stats.resampling import Family

if TYPE_CHECKING:
    from levelfield.scoring.compare import SystemComparisons

_EFFECT = Scale(2, scientific=False)

_MOST_PARTS = 5
"""Parts of a group that are named for each verdict."""


def print_results(result: ScoreSummary, *, pairs: bool) -> None:
    """Prints the table, a ranking for each metric, the table of labels if there is one, and the
    signatures.

    Args:
        pairs: whether every comparison of two systems is printed.
    """
    out = console()
    table, labels = result.table(), result.label_table()
    print_table(out, table.drawn(), letters=False)
    _print_rankings(table, out)
    if labels:
        out.print()
        out.print(Text("by label", "bold"))
        print_table(out, labels.drawn())
    for s in result.summaries if pairs else ():
        print_pairs(
            out,
            s.metric,
            s.comparisons,
            direction=s.direction,
            scale=scale_of(s),
            family=result.resampling.family,
        )
    out.print()
    for signature in table.signatures():
        out.print(Text(signature, "dim"), soft_wrap=True)


def _print_rankings(table: ResultTable, out: Console) -> None:
    """Prints the systems of each metric with their ranks and letters, the best first."""
    if not any(column.ranking for column in table.columns):
        return
    out.print()
    print_wrapped(out, "; ".join(filter(None, ["ranks", table.letters_legend()])))
    for column in table.columns:
        places = [
            " ".join(filter(None, [str(cell.standing.rank or ""), cell.group.group, cell.letters]))
            for cell in column.ranking
            if cell.standing
        ]
        if places:
            title = f"{column.title} {column.arrow}".rstrip()
            whole = ", ".join(place.replace(" ", "\u00a0") for place in places)
            print_wrapped(out, f"{title}: {whole}", bold=len(title))


def print_comparisons(comparisons: SystemComparisons) -> None:
    """Prints for each metric the systems with their means, and every comparison.

    Those of data sets that are part of a group are one line for each pair of systems.
    """
    out = console()
    for s in comparisons.summaries:
        if s.metric in comparisons.parts:
            continue
        scale = scale_of(s)
        print_pairs(
            out,
            s.metric,
            s.comparisons,
            direction=s.direction,
            scale=scale,
            family=comparisons.resampling.family,
            groups=s.groups,
        )
        _print_parts(out, s.metric, comparisons)
    out.print()
    if equal := comparisons.equal_to_stated:
        out.print(Text(f"means equal to those that the logs state: {equal:,}", "dim"))
    for s in comparisons.summaries:
        if s.metric not in comparisons.parts:
            out.print(Text(s.signature, "dim"), soft_wrap=True)


def _print_parts(
    out: Console, group: str, comparisons: SystemComparisons, level: str = "  "
) -> None:
    """Prints what a group of data sets is made of: how many parts show which verdict."""
    parts = [s for s in comparisons.summaries if comparisons.parts.get(s.metric) == group]
    verdicts: dict[str, list[str]] = {}
    for s in parts:
        for c in s.comparisons:
            p = "" if math.isnan(c.p_adjusted) else f" (p = {p_value(c.p_adjusted)})"
            verdicts.setdefault(conclusion(c, s.direction), []).append(f"{s.metric}{p}")
    for outcome, names in verdicts.items():
        shown = (
            f": {', '.join(names[:_MOST_PARTS])}"
            if outcome not in (NOT_SHOWN, NOT_COMPARED)
            else ""
        )
        more = ", …" if shown and len(names) > _MOST_PARTS else ""
        line = f"{level}{outcome} in {len(names):,} of {len(parts):,} parts{shown}{more}"
        out.print(Text(printable(line)), soft_wrap=True)
    for s in parts:
        _print_parts(out, s.metric, comparisons, f"{level}  {s.metric}: ")


def print_pairs(
    out: Console,
    metric: str,
    comparisons: Sequence[Comparison],
    *,
    direction: Direction,
    scale: Scale,
    family: Family,
    groups: Sequence[GroupSummary] = (),
) -> None:
    """Prints every comparison under a metric, with its numbers, its verdict and its notes.

    Args:
        groups: systems whose means are printed before.
    """
    if not (comparisons or groups):
        return
    adjusted = f"  p by {adjustment(family)}; intervals are not adjusted" if comparisons else ""
    out.print()
    out.print(Text.assemble((metric, "bold"), (adjusted, "dim")))
    for group in groups:
        _print_mean(out, group, scale)
    for c in comparisons:
        p = f"p = {p_value(c.p_adjusted)}, d = {_EFFECT(c.effect)}, " if c.p == c.p else ""
        p = p.replace("= <", "<")
        left = f", {c.left_out:,} left out" if c.left_out else ""
        could_show = detectable(c, scale)
        line = (
            f"  {c.a} − {c.b} = {scale(c.difference)} [{scale(c.low)}, {scale(c.high)}], "
            f"{p}n = {c.inputs:,} {c.unit}s{left}: "
            f"{conclusion(c, direction)}" + (f" ({could_show})" if could_show else "")
        )
        out.print(Text(printable(line)), soft_wrap=True)
        if c.note:
            out.print(Text(printable(f"    {c.note}"), "dim"), soft_wrap=True)


def _print_mean(out: Console, group: GroupSummary, scale: Scale) -> None:
    undefined = f", {group.undefined:,} undefined" if group.undefined else ""
    mean = group.mean
    interval = "" if math.isnan(mean.low) else f" [{scale(mean.low)}, {scale(mean.high)}]"
    line = f"  {group.group}: {scale(mean.value)}{interval}, n = {mean.n:,}{undefined}"
    out.print(Text(printable(line)), soft_wrap=True)
