"""`levelfield agreement`: how far people agree with each other."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import pairs
from levelfield.cli.terminal import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from levelfield.io import Rated
    from levelfield.meta.agreement import Agreement, AgreementReport, Disagreement, Pair
    from levelfield.stats.estimate import Estimate

MOST_PAIRS = 15
"""So many pairs of raters of a group are printed; JSON has all."""


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "format", help="Of the files; else their suffix says it.")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option("--aspect", "aspects", multiple=True, help="Only this one; may be given again.")
@click.option("--by", default="", help="Parts: survey, dataset, system, control.ATTR, a field.")
@click.option(
    "--level",
    type=click.Choice(["nominal", "ordinal", "interval"]),
    default="interval",
    show_default=True,
    help="What the numbers are: names, ranks, or a scale.",
)
@click.option("--worst", type=click.IntRange(0), default=10, show_default=True, help="Items shown.")
@click.option("--zscores", metavar="FILE", help="Ratings as z per rater, one a line; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of resampling.")
def agreement(
    files: tuple[str, ...],
    format: str | None,
    mapping: tuple[str, ...],
    aspects: tuple[str, ...],
    by: str,
    level: Any,
    worst: int,
    zscores: str | None,
    as_json: bool,
    seed: int,
) -> None:
    """Say how far raters agree with each other, and on what they do not.

    Reads samples with ratings, or one rating a row: id, aspect, rater, value. Prints
    Krippendorff's alpha, intraclass correlations, correlations of each two raters, how each rater
    used the scale, and the items of the largest disagreement.
    """
    from levelfield.core.errors import UserError
    from levelfield.io import check_writable, load_ratings
    from levelfield.meta.agreement import agreement as measure
    from levelfield.stats.resampling import Resampling

    if zscores == "-" and as_json:
        raise UserError("only one of --zscores -, --json can have stdout")
    if zscores:
        check_writable(zscores)
    rated = load_ratings(files, format=format, mapping=pairs("--map", mapping))
    report = measure(
        rated, aspects=aspects, by=by, level=level, worst=worst, resampling=Resampling(seed=seed)
    )
    if zscores:
        _write_z(zscores, rated, aspects, by)
    if as_json:
        click.echo(json.dumps(_document(report, files, by, level), ensure_ascii=False))
    elif zscores != "-":
        _print(report, by, level)
    if zscores and zscores != "-":
        say(f"wrote {zscores}")


def _write_z(path: str, rated: Rated, aspects: Sequence[str], by: str) -> None:
    from levelfield.io import atomic_writer
    from levelfield.meta.agreement import z_scores

    with atomic_writer(path) as file:
        for r in z_scores(rated, aspects=aspects, by=by):
            record: dict[str, Any] = {**r._asdict(), "z": _number(r.z)}
            if math.isnan(r.z):
                record["undefined"] = f"all of these ratings by {r.rater} are {r.value:g}"
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _document(report: AgreementReport, files: Sequence[str], by: str, level: str) -> dict[str, Any]:
    return {
        "files": list(files),
        "by": by or None,
        "level": level,
        "signature": report.signature,
        "groups": [_group(g) for g in report.groups],
        "worst": [
            {
                "id": d.id,
                "aspect": d.aspect,
                "part": d.part,
                "variance": d.variance,
                "values": dict(d.values),
            }
            for d in report.worst
        ],
    }


def _group(group: Agreement) -> dict[str, Any]:
    return {
        "aspect": group.aspect,
        "part": group.part,
        "items": group.items,
        "ratings": group.ratings,
        "alpha": _estimate(group.alpha),
        "icc": {name: _estimate(e) for name, e in group.icc.items()},
        "pairs": [
            {
                "a": p.a,
                "b": p.b,
                "items": p.items,
                "pearson": _estimate(p.pearson),
                "spearman": _estimate(p.spearman),
                "kappa": _estimate(p.kappa),
            }
            for p in group.pairs
        ],
        "raters": [
            {
                "rater": r.rater,
                "n": r.n,
                "mean": r.mean,
                "sd": _number(r.sd),
                "low": r.low,
                "high": r.high,
            }
            for r in group.raters
        ],
    }


def _estimate(e: Estimate) -> dict[str, Any]:
    made: dict[str, Any] = {
        "value": _number(e.value),
        "low": _number(e.low),
        "high": _number(e.high),
        "n": e.n,
        "clusters": e.clusters,
    }
    said = {"undefined": e.why_undefined, "no_interval": e.why_no_interval, "note": e.note}
    return made | {name: why for name, why in said.items() if why}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(report: AgreementReport, by: str, level: str) -> None:
    """Tables for a person."""
    from rich.text import Text

    out = console()
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
    dropped = sum(max(0, len(g.pairs) - MOST_PAIRS) for g in groups)
    if dropped:
        say(f"note: {dropped:,} more pairs of raters are in --json")
    for note in _notes(groups, by):
        say(f"note: {note}")
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


def _worst(found: Sequence[Disagreement]) -> Table:
    from rich.markup import escape

    table = _table("", "id", "variance", "ratings")
    table.columns[1].justify = table.columns[3].justify = "left"
    for d in found:
        given = ", ".join(f"{rater}: {value:g}" for rater, value in d.values.items())
        table.add_row(escape(d.aspect), escape(d.id), f"{d.variance:.4g}", escape(given))
    return table


def _notes(groups: Sequence[Agreement], by: str) -> list[str]:
    """Why numbers are missing, each reason once with where it holds."""
    where: dict[str, list[str]] = {}
    for g in groups:
        at = f"{g.aspect}, {by} {g.part}" if by else g.aspect
        named = [("α", g.alpha), *g.icc.items(), *(each for p in g.pairs for each in _of_pair(p))]
        for name, e in named:
            only_value = e.why_no_interval and not e.why_undefined
            no_interval = f"no interval: {e.why_no_interval}" if only_value else ""
            for why in filter(None, (e.why_undefined, no_interval, e.note)):
                where.setdefault(f"{name}: {why}", []).append(at)
    if len(groups) == 1 and any(e.clusters < e.n for e in groups[0].icc.values()):
        where["ICC: the intervals suppose independent items, and these share sources"] = [at]
    return [
        f"{what} ({'; '.join(dict.fromkeys(at[:3]))}{'; …' if len(at) > 3 else ''})"
        for what, at in where.items()
    ]


def _of_pair(pair: Pair) -> list[tuple[str, Estimate]]:
    found = {"r": pair.pearson, "ρ": pair.spearman, "κ": pair.kappa}
    return [(f"{name} of {pair.a}, {pair.b}", e) for name, e in found.items()]


def _table(by: str, *headings: str) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table("aspect", *([escape(by)] if by else []), box=None, pad_edge=False)
    for heading in headings:
        words = heading in ("raters", "rater", "ICC", "id")
        table.add_column(heading, justify="left" if words else "right")
    return table


def _row(table: Table, group: Agreement, by: str, *cells: str) -> None:
    from rich.markup import escape

    part = [group.part] if by else []
    table.add_row(*(escape(cell) for cell in (group.aspect, *part, *cells)))


def _value(e: Estimate) -> tuple[str, str]:
    """The value and its interval, – where there is none."""
    value = f"{e.value:.3f}" if math.isfinite(e.value) else "–"
    ends = f"{e.low:.3f} … {e.high:.3f}" if not math.isnan(e.low + e.high) else "–"
    return value, ends
