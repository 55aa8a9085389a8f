"""Correlations and comparisons of metrics on a terminal."""

from __future__ import annotations

import math

from rich.text import Text

from levelfield.agree.compare import MetricComparison, test_notes
from levelfield.agree.correlate import SYMBOLS, Correlation, numbers_table
from levelfield.agree.drift import Drift
from levelfield.agree.evaluation import PARTED, MetaEvaluation
from levelfield.scoring.standing import p_value, three_decimals
from levelfield.show.terminal import console
from levelfield.show.terminal.blocks import print_table
from levelfield.stats.estimate import Estimate

MOST_PRINTED = 30
"""The most comparisons that are printed; JSON and the page have all."""


def print_evaluation(evaluation: MetaEvaluation) -> None:
    """Prints a table of every aspect, its ranking and its comparisons."""
    out = console()
    grouped = evaluation.has_row_per_group
    for aspect in evaluation.table.aspects:
        mine = [c for c in evaluation.correlations if c.aspect == aspect]
        out.print(Text(f"{aspect}: {_what(evaluation)}", "bold"))
        table = numbers_table(
            mine,
            level=evaluation.resampling.level,
            group=evaluation.group if grouped else "",
            system_means=evaluation.level == "system",
            compact=True,
        )
        print_table(out, table)
        remarks: dict[str, list[str]] = {}
        for c in mine:
            for remark in _remarks(c):
                name = f"{c.metric}{f' ({c.group})' if grouped and c.group else ''}"
                remarks.setdefault(remark, []).append(name)
        for remark, names in remarks.items():
            out.print(Text(f"  {', '.join(names)}: {remark}", "dim"), soft_wrap=True)
        inside = [
            f"{c.metric} {three_decimals(e.value)} {_ends(e)}"
            for c in mine
            if (e := evaluation.within_of(c.metric, aspect)) is not None
        ]
        if inside:
            line = f"  {SYMBOLS[evaluation.by]} within systems, mean: {', '.join(inside)}"
            out.print(Text(line), soft_wrap=True)
        if parted := evaluation.parted(aspect):
            out.print(Text(f"  {', '.join(parted)}: {PARTED}"), soft_wrap=True)
        for ranking in evaluation.comparisons.rankings:
            if ranking.aspect == aspect and len(ranking.r) > 1:
                tested = evaluation.comparisons.tested(aspect)
                ranks = " > ".join(
                    (" ≈ " if tested else ", ").join(
                        f"{m} {three_decimals(ranking.r[m])}" for m in cluster
                    )
                    for cluster in ranking.clusters
                )
                title = f"ranking ({SYMBOLS[evaluation.by]}){'' if tested else ', not tested'}"
                out.print(Text(f"  {title}: {ranks}"), soft_wrap=True)
        comparisons = [c for c in evaluation.comparisons.comparisons if c.aspect == aspect]
        for note in test_notes(comparisons):
            out.print(Text(f"  {note}", "dim"), soft_wrap=True)
        for comparison in comparisons[:MOST_PRINTED]:
            out.print(Text(f"  {_compared(comparison, evaluation)}"), soft_wrap=True)
        if len(comparisons) > MOST_PRINTED:
            out.print(Text(f"  … and {len(comparisons) - MOST_PRINTED} more comparisons", "dim"))
        if comparisons:
            whose = "this aspect" if evaluation.resampling.family == "metric" else "all aspects"
            correction = evaluation.correction.capitalize()
            out.print(Text(f"  {correction}: over the comparisons on {whose}", "dim"))
        for d in evaluation.drifts:
            if d.aspect == aspect:
                for line in _drifted(d):
                    out.print(Text(f"  {line}"), soft_wrap=True)
        out.print()
    out.print(Text(evaluation.signature, "dim"), soft_wrap=True)


def _what(evaluation: MetaEvaluation) -> str:
    if evaluation.level == "system":
        return evaluation.what
    grouping = {
        "all": "all samples together",
        "system": "by system",
        "source": "mean over sources",
        "dataset": "by dataset",
    }[evaluation.group]
    return f"{grouping}; {evaluation.speaks_of}"


def _remarks(c: Correlation) -> list[str]:
    """Returns why numbers are missing, and other notes, each once."""
    remarks: dict[str, list[str]] = {}
    for s, e in c.estimates.items():
        notes = [f"undefined: {e.why_undefined}"] if e.why_undefined else e.note.split("; ")
        for reason in notes:
            if reason and not reason.startswith("tie thresholds"):
                remarks.setdefault(reason, []).append(SYMBOLS[s])
        if e.why_no_interval and not e.why_undefined:
            remarks.setdefault(f"no interval: {e.why_no_interval}", []).append(SYMBOLS[s])
    lines = [f"{', '.join(statistics)}: {reason}" for reason, statistics in remarks.items()]
    if c.undefined:
        lines.append(f"no value for {c.undefined:,} of {c.n + c.undefined:,} rated samples")
    for reason, groups in c.left_out.items():
        few = ", ".join(groups[:3]) + (", …" if len(groups) > 3 else "")
        lines.append(f"{len(groups):,} groups left out, {reason}: {few}")
    return lines


def _compared(c: MetricComparison, evaluation: MetaEvaluation) -> str:
    if c.swapped.why_undefined:
        p = f"not compared: {c.swapped.why_undefined}"
    else:
        test = "two-way t test" if c.test == "two-way" else "permutation"
        if c.test == "true means":
            test = f"without noise {three_decimals(c.swapped.difference)}, true means"
        p = f"{test} p = {p_value(c.swapped.p)}, adjusted {p_value(c.p_adjusted)}"
    w = (
        f"Williams t = {c.williams.t:.2f}, p = {p_value(c.williams.p)}"
        if not c.williams.why_undefined
        else c.williams.why_undefined
    )
    left = f", {c.left_out:,} left out" if c.left_out else ""
    line = (
        f"{c.a} − {c.b} = {three_decimals(c.r_a - c.r_b)}, {p}; {w}; n = {c.n:,}{left}: "
        f"{c.verdict(evaluation.alpha)}"
        + (f" (detectable: {three_decimals(c.detectable)})" if math.isfinite(c.detectable) else "")
    )
    return line.replace("p = <", "p <")


def _drifted(d: Drift) -> list[str]:
    lines = []
    if d.by_system:
        listed = ", ".join(f"{name} {three_decimals(e.value)}" for name, e in d.by_system)
        lines.append(
            f"drift of {d.metric} by system: {listed}; {three_decimals(d.systems.mean)} ± "
            f"{three_decimals(d.systems.deviation)}"
        )
    listed = ", ".join(
        f"{three_decimals(s.mean)} ± {three_decimals(s.deviation)}" for s in d.by_quality.subsets
    )
    lines.append(f"drift of {d.metric} by quality, low to high: {listed}")
    if d.by_evaluators is not None:
        e = d.by_evaluators
        pairs = list(zip(e.k, e.spreads, strict=True))
        few = (
            pairs if len(pairs) <= 6 else [pairs[round(i * (len(pairs) - 1) / 5)] for i in range(6)]
        )
        listed = ", ".join(
            f"{k}: {three_decimals(s.mean)} ± {three_decimals(s.deviation)}" for k, s in few
        )
        lines.append(f"drift of {d.metric} by number of evaluators: {listed}")
    return lines


def _ends(e: Estimate) -> str:
    """The interval, or why there is none."""
    reason = e.why_undefined or e.why_no_interval
    return f"({reason})" if reason else f"[{three_decimals(e.low)}, {three_decimals(e.high)}]"
