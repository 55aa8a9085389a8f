"""`levelfield correlate`: how far metrics agree with people, and which agrees best."""

from __future__ import annotations

import datetime
import json
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import pairs
from levelfield.cli.terminal import console, say
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.io import ScoreColumn
    from levelfield.meta.drift import Spread
    from levelfield.meta.evaluation import (
        Correlation,
        Drift,
        MetaEvaluation,
        MetricComparison,
        Table,
        Unmatched,
    )
    from levelfield.stats.estimate import Estimate

STATISTICS = ("pearson", "spearman", "kendall", "tau-like", "accuracy", "calibrated")
SHORT = {
    "pearson": "r",
    "spearman": "ρ",
    "kendall": "τ-b",
    "tau-like": "τ-like",
    "accuracy": "acc.",
    "calibrated": "acc. cal.",
}
MOST_PRINTED = 30
"""So many comparisons are printed; JSON and the page have all."""


@click.command()
@click.argument("scores", nargs=-1, required=True, metavar="SCORES...")
@click.option("--ratings", multiple=True, required=True, metavar="FILE", help="What people said.")
@click.option("--format", "format", help="Of the ratings; else their suffix says it.")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option("--samples", multiple=True, metavar="FILE", help="For systems and sources.")
@click.option("--aspect", "aspects", multiple=True, help="Only this one; may be given again.")
@click.option("--metric", "-m", "metrics", multiple=True, help="Only this one, or a family.")
@click.option("--lower-is-better", "flip", multiple=True, metavar="METRIC", help="Turn its sign.")
@click.option("--level", type=click.Choice(["segment", "system"]), default="segment")
@click.option("--group", type=click.Choice(["all", "system", "source", "dataset"]), default="all")
@click.option(
    "--statistic", "wanted", multiple=True, type=click.Choice(STATISTICS), help="Only this one."
)
@click.option("--compare", "by", type=click.Choice(["pearson", "spearman"]), default="pearson")
@click.option("--correction", type=click.Choice(["holm", "bonferroni"]), default="holm")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05)
@click.option("--drift", "with_drift", is_flag=True, help="By system and by quality.")
@click.option("--parts", metavar="FILE", help="Of `score --parts`: drift by number of evaluators.")
@click.option("--resamples", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--permutations", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option("--latex", metavar="FILE", help="A booktabs table; - is stdout.")
@click.option("--report", metavar="FILE", help="A page to look at: one HTML file.")
def correlate(scores: tuple[str, ...], ratings: tuple[str, ...], **given: Any) -> None:
    """Say how far metrics agree with people's ratings, and which agrees best.

    SCORES are files that `levelfield score` wrote. Ratings are samples with ratings, or one rating
    a row: id, aspect, rater, value. Prints correlations with 95 % intervals by aspect, and which
    differences between metrics are real.
    """
    from levelfield.io import check_targets, load_ratings, load_samples
    from levelfield.meta.drift import load_parts
    from levelfield.meta.evaluation import evaluate, join
    from levelfield.stats.resampling import Resampling

    outputs = {f"--{name}": given[name] for name in ("latex", "report") if given[name] is not None}
    on_stdout = [f"{name} -" for name, path in outputs.items() if path == "-"]
    if len(on_stdout) + given["as_json"] > 1:
        raise UserError(f"only one of {', '.join([*on_stdout, '--json'])} can have stdout")
    read = [*scores, *ratings, *given["samples"], *([given["parts"]] if given["parts"] else [])]
    check_targets(outputs, read)
    if given["level"] == "system" and given["group"] != "all":
        raise UserError("--level system compares means of systems; it takes no --group")
    if list(read).count("-") > 1:
        raise UserError("stdin can be read once only")
    samples = {sample.id: sample for path in given["samples"] for sample in load_samples(path)}
    table = join(
        _columns(scores),
        load_ratings(ratings, format=given["format"], mapping=pairs("--map", given["mapping"])),
        aspects=given["aspects"],
        metrics=given["metrics"],
        flip=given["flip"],
        samples=samples,
    )
    parts = load_parts(given["parts"]) if given["parts"] else None
    if parts is not None and not set(parts) & set(table.metrics):
        raise UserError(
            f"{given['parts']}: holds parts of {', '.join(parts)}, "
            f"and none of {', '.join(table.metrics)}"
        )
    found = evaluate(
        table,
        level=given["level"],
        group=given["group"],
        wanted=given["wanted"] or STATISTICS,  # type: ignore[arg-type]
        by=given["by"],
        correction=given["correction"],
        alpha=given["alpha"],
        with_drift=given["with_drift"],
        parts=parts,
        resampling=Resampling(
            resamples=given["resamples"], permutations=given["permutations"], seed=given["seed"]
        ),
    )
    _results(found, scores, ratings, given)


def _columns(paths: Sequence[str]) -> list[ScoreColumn]:
    """The columns of all files; one metric under two signatures gets the files' names.

    Within one file, two signatures of a metric are an error.
    """
    from levelfield.io import load_scores

    of_file = [(path, column) for path in paths for column in load_scores([path])]
    signatures: dict[str, list[str]] = {}
    for _, column in of_file:
        known = signatures.setdefault(column.metric, [])
        if column.signature not in known:
            known.append(column.signature)
    merged: dict[str, ScoreColumn] = {}
    for path, column in of_file:
        several = len(signatures[column.metric]) > 1
        name = f"{column.metric} ({_stem(path)})" if several else column.metric
        column = replace(column, metric=name)
        if name not in merged:
            merged[name] = column
            continue
        first = merged[name]
        if first.signature != column.signature:
            raise UserError(
                f"{path}: {name} has two signatures, {first.signature} and {column.signature}; "
                "give the files different names"
            )
        common = first.values.keys() & column.values.keys()
        differing = [
            id
            for id in sorted(common)
            if first.values[id] != column.values[id]
            and not (math.isnan(first.values[id]) and math.isnan(column.values[id]))
        ]
        if differing:
            raise UserError(
                f"{path}: {name} of '{differing[0]}' is {column.values[differing[0]]:g}, and "
                f"{first.values[differing[0]]:g} in an earlier file"
            )
        merged[name] = replace(first, values={**first.values, **column.values})
    return list(merged.values())


def _stem(path: str) -> str:
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[0] or name


def _notes(table: Table) -> list[str]:
    """What a reader must know of the join."""
    notes = []
    for unmatched, who, other in (
        (table.only_scored, "scored", "rating"),
        (table.only_rated, "rated", "score"),
    ):
        if unmatched.n:
            ids = ", ".join(unmatched.ids) + (", …" if unmatched.n > len(unmatched.ids) else "")
            notes.append(f"{unmatched.n:,} {who} ids have no {other} and are left out: {ids}")
    if table.same_text:
        notes.append(
            f"{table.same_text:,} samples share source and text with another: one judgement each; "
            "they are drawn and swapped together"
        )
    if not table.samples:
        notes.append("nothing but ids is known of the samples: each counts as independent")
    return notes


def _results(
    found: MetaEvaluation, scores: Sequence[str], ratings: Sequence[str], given: Any
) -> None:
    from levelfield.io import atomic_writer
    from levelfield.report.latex import latex_table

    for note in _notes(found.table):
        say(f"note: {note}")
    if given["latex"]:
        with atomic_writer(given["latex"]) as file:
            file.write(latex_table(found))
    if given["report"]:
        from levelfield.report.correlate_page import CorrelateReport, write_correlate_page

        write_correlate_page(
            given["report"],
            CorrelateReport(
                title="levelfield: metrics against ratings",
                created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
                found=found,
                notes=_notes(found.table),
                files=(*scores, *ratings),
                command=shlex.join(["levelfield", *sys.argv[1:]]),
            ),
        )
    if given["as_json"]:
        click.echo(json.dumps(document(found, scores, ratings), ensure_ascii=False))
    elif "-" not in (given["latex"], given["report"]):
        _print(found)
    written = [path for path in (given["latex"], given["report"]) if path and path != "-"]
    if written:
        say(f"wrote {', '.join(written)}")


def document(
    found: MetaEvaluation, scores: Sequence[str], ratings: Sequence[str]
) -> dict[str, Any]:
    """Everything for programs; an undefined number is null, with its reason beside it."""
    table = found.table
    return {
        "scores": list(scores),
        "ratings": list(ratings),
        "signature": found.signature,
        "n": len(table.ids),
        "clusters": len(set(table.clusters.tolist())),
        "only_scored": _unmatched(table.only_scored),
        "only_rated": _unmatched(table.only_rated),
        "same_text": table.same_text,
        "notes": _notes(table),
        "level": found.level,
        "group": found.group,
        "metrics": dict(table.signatures),
        "raters": dict(table.raters),
        "correlations": [_correlation(c) for c in found.correlations],
        "comparisons": [_comparison(c, found.alpha) for c in found.comparisons.comparisons],
        "rankings": [
            {
                "aspect": r.aspect,
                "clusters": [[{"metric": m, "r": _number(r.r[m])} for m in c] for c in r.clusters],
                "not_ranked": dict(r.not_ranked),
            }
            for r in found.comparisons.rankings
        ],
        "drift": [_drift(d) for d in found.drifts],
    }


def _unmatched(u: Unmatched) -> dict[str, Any]:
    return {"n": u.n, "ids": list(u.ids)}


def _correlation(c: Correlation) -> dict[str, Any]:
    return {
        "metric": c.metric,
        "aspect": c.aspect,
        "group": c.group or None,
        "mean_over_groups": c.is_mean,
        "n": c.n,
        "undefined": c.undefined,
        "systems": c.systems or None,
        "groups": c.groups if c.is_mean else None,
        "left_out": {
            why: {"n": len(groups), "groups": list(groups[:20])}
            for why, groups in c.left_out.items()
        },
        "statistics": {s: _estimate(e) for s, e in c.estimates.items()},
    }


def _estimate(e: Estimate) -> dict[str, Any]:
    record: dict[str, Any] = {
        "value": _number(e.value),
        "low": _number(e.low),
        "high": _number(e.high),
        "n": e.n,
        "clusters": e.clusters,
    }
    reasons = {
        "why_undefined": e.why_undefined,
        "why_no_interval": e.why_no_interval,
        "note": e.note,
    }
    return record | {name: why for name, why in reasons.items() if why}


def _comparison(c: MetricComparison, alpha: float) -> dict[str, Any]:
    tests: dict[str, dict[str, Any]] = {
        "williams": {
            "t": _number(c.williams.t),
            "p": _number(c.williams.p),
            "p_greater": _number(c.williams.p_greater),
            "p_adjusted": _number(c.williams_adjusted),
        },
        "permutation": {
            "p": _number(c.swapped.p),
            "p_greater": _number(c.swapped.p_greater),
            "p_adjusted": _number(c.p_adjusted),
            "clusters": c.swapped.clusters,
            "groups": c.swapped.groups,
        },
    }
    if c.williams.why_undefined:
        tests["williams"]["why_undefined"] = c.williams.why_undefined
    if c.swapped.why_undefined:
        tests["permutation"]["why_undefined"] = c.swapped.why_undefined
    return {
        "aspect": c.aspect,
        "a": c.a,
        "b": c.b,
        "r_a": _number(c.r_a),
        "r_b": _number(c.r_b),
        "r_ab": _number(c.r_ab),
        "difference": _number(c.r_a - c.r_b),
        "n": c.n,
        "left_out": c.left_out,
        **tests,
        "verdict": c.verdict(alpha),
    }


def _drift(d: Drift) -> dict[str, Any]:
    quality, evaluators = d.by_quality, d.by_evaluators
    return {
        "metric": d.metric,
        "aspect": d.aspect,
        "by_system": {name: _estimate(e) for name, e in d.by_system},
        "systems": _spread(d.systems),
        "by_quality": {
            "subsets": [_spread(s) for s in quality.subsets],
            "shares": [list(row) for row in quality.shares],
            "bounds": [[_number(low), _number(high)] for low, high in quality.bounds],
            "between": _spread(quality.between),
        },
        "by_evaluators": None
        if evaluators is None
        else {
            "shared": evaluators.shared,
            "k": [
                {"k": k, **_spread(s)}
                for k, s in zip(evaluators.k, evaluators.spreads, strict=True)
            ],
        },
    }


def _spread(s: Spread) -> dict[str, Any]:
    return {
        "mean": _number(s.mean),
        "deviation": _number(s.deviation),
        "low": _number(s.low),
        "high": _number(s.high),
        "defined": s.defined,
        "total": s.total,
        "n": _number(s.n),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(found: MetaEvaluation) -> None:
    """Tables for a person."""
    from rich.table import Table as Lines
    from rich.text import Text

    out = console()
    grouped = found.group in ("system", "dataset") and found.level == "segment"
    for aspect in found.table.aspects:
        mine = [c for c in found.correlations if c.aspect == aspect]
        out.print(Text(f"{aspect}: {_what(found)}", "bold"))
        lines = Lines(box=None, pad_edge=False, show_header=True)
        lines.add_column("metric", overflow="fold")
        if grouped:
            lines.add_column(found.group)
        for s in mine[0].estimates:
            lines.add_column(SHORT[s], justify="right")
            if s == next(iter(mine[0].estimates)):
                lines.add_column("95 % interval", justify="right", no_wrap=True)
        lines.add_column("n", justify="right")
        for c in mine:
            cells = [Text(c.metric)]
            cells += [Text(c.group or "mean", "" if c.group else "bold")] if grouped else []
            for i, e in enumerate(c.estimates.values()):
                cells.append(Text(_shown(e.value)))
                if i == 0:
                    ends = f"{_shown(e.low)} … {_shown(e.high)}"
                    cells.append(Text(e.why_undefined or e.why_no_interval or ends))
            lines.add_row(*cells, Text(_size(c)))
        out.print(lines)
        for c in mine:
            for said in _said(c):
                name = f"{c.metric}{f' ({c.group})' if grouped and c.group else ''}"
                out.print(Text(f"  {name}: {said}", "dim"), soft_wrap=True)
        for ranking in found.comparisons.rankings:
            if ranking.aspect == aspect and len(ranking.r) > 1:
                ranks = " > ".join(
                    " ≈ ".join(f"{m} {_shown(ranking.r[m])}" for m in cluster)
                    for cluster in ranking.clusters
                )
                out.print(Text(f"  ranking ({SHORT[found.by]}): {ranks}"), soft_wrap=True)
        told = [c for c in found.comparisons.comparisons if c.aspect == aspect]
        for comparison in told[:MOST_PRINTED]:
            out.print(Text(f"  {_compared(comparison, found)}"), soft_wrap=True)
        if len(told) > MOST_PRINTED:
            out.print(Text(f"  … and {len(told) - MOST_PRINTED} more comparisons", "dim"))
        for d in found.drifts:
            if d.aspect == aspect:
                for said in _drifted(d):
                    out.print(Text(f"  {said}"), soft_wrap=True)
        out.print()
    out.print(Text(found.signature, "dim"), soft_wrap=True)


def _what(found: MetaEvaluation) -> str:
    if found.level == "system":
        return "means of systems"
    return {
        "all": "all samples together",
        "system": "by system",
        "source": "mean over sources",
        "dataset": "by dataset",
    }[found.group]


def _size(c: Correlation) -> str:
    if c.systems:
        return f"{c.systems:,} systems"
    total = c.groups + sum(map(len, c.left_out.values()))
    return f"{c.n:,}" + (f" in {c.groups:,} of {total:,} groups" if c.is_mean else "")


def _said(c: Correlation) -> list[str]:
    """Why numbers are missing, and what else there is to know, each once."""
    said: dict[str, list[str]] = {}
    first = True
    for s, e in c.estimates.items():
        notes = [f"undefined: {e.why_undefined}"] if e.why_undefined else e.note.split("; ")
        for reason in notes:
            if reason and not reason.startswith("tie thresholds"):
                said.setdefault(reason, []).append(SHORT[s])
        if e.why_no_interval and not e.why_undefined and not first:
            said.setdefault(f"no interval: {e.why_no_interval}", []).append(SHORT[s])
        first = False
    lines = [f"{', '.join(of)}: {why}" for why, of in said.items()]
    if c.undefined:
        lines.append(f"no value for {c.undefined:,} of {c.n + c.undefined:,} rated samples")
    for why, groups in c.left_out.items():
        few = ", ".join(groups[:3]) + (", …" if len(groups) > 3 else "")
        lines.append(f"{len(groups):,} groups left out, {why}: {few}")
    return lines


def _compared(c: MetricComparison, found: MetaEvaluation) -> str:
    if c.swapped.why_undefined:
        p = f"not compared: {c.swapped.why_undefined}"
    else:
        p = f"permutation p = {c.swapped.p:.3g}, adjusted {c.p_adjusted:.3g}"
    w = (
        f"Williams t = {c.williams.t:.2f}, p = {c.williams.p:.3g}"
        if not c.williams.why_undefined
        else c.williams.why_undefined
    )
    left = f", {c.left_out:,} left out" if c.left_out else ""
    return (
        f"{c.a} − {c.b} = {_shown(c.r_a - c.r_b)}, {p}; {w}; n = {c.n:,}{left}: "
        f"{c.verdict(found.alpha)}"
    )


def _drifted(d: Drift) -> list[str]:
    lines = []
    if d.by_system:
        of = ", ".join(f"{name} {_shown(e.value)}" for name, e in d.by_system)
        lines.append(
            f"drift of {d.metric} by system: {of}; {_shown(d.systems.mean)} ± "
            f"{_shown(d.systems.deviation)}"
        )
    of = ", ".join(f"{_shown(s.mean)} ± {_shown(s.deviation)}" for s in d.by_quality.subsets)
    lines.append(f"drift of {d.metric} by quality, low to high: {of}")
    if d.by_evaluators is not None:
        e = d.by_evaluators
        pairs = list(zip(e.k, e.spreads, strict=True))
        few = (
            pairs if len(pairs) <= 6 else [pairs[round(i * (len(pairs) - 1) / 5)] for i in range(6)]
        )
        of = ", ".join(f"{k}: {_shown(s.mean)} ± {_shown(s.deviation)}" for k, s in few)
        lines.append(f"drift of {d.metric} by number of evaluators: {of}")
    return lines


def _shown(value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if math.isfinite(value) else "–"
