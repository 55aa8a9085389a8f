"""Agreement of raters on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from levelfield.agree.agreement import (
    Agreement,
    AgreementReport,
    Disagreement,
    RaterPair,
)
from levelfield.show.terminal import console, plain_table
from levelfield.stats.estimate import Estimate

MOST_PAIRS = 15
"""The most pairs of raters of a group that are printed; JSON has all."""


def print_agreement(report: AgreementReport) -> None:
    """Prints a table a measure."""
    out = console()
    by, level = report.by, report.level
    kappa = "κ" if level == "nominal" else "κ, quadratic"
    groups = report.groups
    sections = [
        (f"Krippendorff's α ({level}), items with two ratings or more", _alphas(groups, by)),
        (
            "Intraclass correlations, complete items: one rating, and the mean of k",
            _iccs(groups, by),
        ),
        ("Two raters, on the items both rated", _pairs_table(groups, by, kappa)),
        ("Raters", _raters(groups, by)),
    ]
    if report.worst:
        sections.append(("Largest disagreements", _worst(report.worst)))
    for title, table in sections:
        out.print(Text(title, "bold"))
        out.print(table)
        out.print()
    out.print(Text(report.signature), style="dim", soft_wrap=True)


def _alphas(groups: Sequence[Agreement], by: str) -> Table:
    table = _table(by, "α", "95 % interval", "items", "clusters", "ratings")
    for g in groups:
        e = g.alpha
        _row(table, g, by, *_value(e), f"{e.n:,}", f"{e.clusters:,}", f"{g.ratings:,}")
    return table


def _iccs(groups: Sequence[Agreement], by: str) -> Table:
    if len(groups) == 1:
        table = _table(by, "ICC", "value", "95 % interval", "items")
        for name, e in groups[0].icc.items():
            _row(table, groups[0], by, name, *_value(e), f"{e.n:,}")
        return table
    names = list(groups[0].icc)
    table = _table(by, *(name.removeprefix("ICC") for name in names), "items")
    for g in groups:
        n = g.icc["ICC(2,1)"].n or g.icc["ICC(1,1)"].n
        _row(table, g, by, *(_value(g.icc[name])[0] for name in names), f"{n:,}")
    return table


def _pairs_table(groups: Sequence[Agreement], by: str, kappa: str) -> Table:
    table = _table(by, "raters", "r", "95 % interval", "ρ", kappa, "items")
    for g in groups:
        for p in g.pairs[:MOST_PAIRS]:
            r, interval = _value(p.pearson)
            others = (_value(e)[0] for e in (p.spearman, p.kappa))
            _row(table, g, by, f"{p.a}, {p.b}", r, interval, *others, f"{p.items:,}")
    return table


def _raters(groups: Sequence[Agreement], by: str) -> Table:
    table = _table(by, "rater", "ratings", "mean", "sd", "lowest", "highest")
    for g in groups:
        for r in g.raters:
            numbers = (f"{x:.4g}" if math.isfinite(x) else "–" for x in (r.mean, r.sd))
            _row(table, g, by, r.rater, f"{r.n:,}", *numbers, f"{r.low:g}", f"{r.high:g}")
    return table


def _worst(disagreements: Sequence[Disagreement]) -> Table:
    table = _table("", "id", "variance", "ratings")
    table.columns[1].justify = table.columns[3].justify = "left"
    for d in disagreements:
        ratings = ", ".join(f"{rater}: {value:g}" for rater, value in d.values.items())
        table.add_row(d.aspect, d.id, f"{d.variance:.4g}", ratings)
    return table


def agreement_notes(report: AgreementReport) -> list[str]:
    """Returns what the tables leave out and why numbers are missing, each reason once with the
    places where it holds."""
    groups, by = report.groups, report.by
    dropped = sum(max(0, len(g.pairs) - MOST_PAIRS) for g in groups)
    where: dict[str, list[str]] = {}
    for g in groups:
        place = f"{g.aspect}, {by} {g.part}" if by else g.aspect
        named = [("α", g.alpha), *g.icc.items(), *(each for p in g.pairs for each in _of_pair(p))]
        for name, e in named:
            only_value = e.why_no_interval and not e.why_undefined
            no_interval = f"no interval: {e.why_no_interval}" if only_value else ""
            for reason in filter(None, (e.why_undefined, no_interval, e.note)):
                where.setdefault(f"{name}: {reason}", []).append(place)
    if len(groups) == 1 and any(e.clusters < e.n for e in groups[0].icc.values()):
        where["ICC: the intervals suppose independent items, and these share sources"] = [place]
    return [f"{dropped:,} more pairs of raters are in --json"] * bool(dropped) + [
        f"{remark} ({'; '.join(dict.fromkeys(places[:3]))}{'; …' if len(places) > 3 else ''})"
        for remark, places in where.items()
    ]


def _of_pair(pair: RaterPair) -> list[tuple[str, Estimate]]:
    measures = {"r": pair.pearson, "ρ": pair.spearman, "κ": pair.kappa}
    return [(f"{name} of {pair.a}, {pair.b}", e) for name, e in measures.items()]


def _table(by: str, *headings: str) -> Table:
    words = ("raters", "rater", "ICC", "id")
    heads = (heading if heading in words else f">{heading}" for heading in headings)
    return plain_table("aspect", *([by] if by else []), *heads)


def _row(table: Table, group: Agreement, by: str, *cells: str) -> None:
    part = [group.part] if by else []
    table.add_row(group.aspect, *part, *cells)


def _value(e: Estimate) -> tuple[str, str]:
    """Returns the value and its interval, – where there is none."""
    value = f"{e.value:.3f}" if math.isfinite(e.value) else "–"
    ends = f"{e.low:.3f} … {e.high:.3f}" if not math.isnan(e.low + e.high) else "–"
    return value, ends
