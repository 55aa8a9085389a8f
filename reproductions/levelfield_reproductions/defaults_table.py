"""A rated set's table in words: what a terminal and the page of the docs both show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levelfield.core.registry import matching
from levelfield.stats.estimate import Estimate
from levelfield_reproductions.agreement import (
    Kind,
    LeftOut,
    MetricAgreement,
    SetAgreement,
    no_text_has,
)
from levelfield_reproductions.choices import FEWEST

NONE = "–"
MARK = " (run by default)"
"""Follows the name of a metric that `levelfield score FILE` runs when none is named."""

_WEIGHT: tuple[Kind, ...] = ("without", "many texts", "lacking", "failed", "few", "field")
"""Of several reasons that keep a metric from all tables, the first is told."""

_WHY: dict[Kind, str] = {
    "many texts": "one value for many texts",
    "lacking": "lacks a model, a package or an option on this machine",
    "few": f"fewer than {FEWEST} values",
}


@dataclass(frozen=True)
class TableColumn:
    """A column under the name of an aspect, or under none; a cell a metric."""

    aspect: str
    head: str
    cells: Sequence[str]


def names(agreement: SetAgreement) -> list[str]:
    """Returns the first column: the metrics, the default of `levelfield score FILE` marked."""
    return [m.metric + MARK * m.is_default for m in agreement.metrics]


def columns(agreement: SetAgreement) -> list[TableColumn]:
    """Returns the other columns: how many texts, and r with its interval and ρ for each aspect."""
    metrics = agreement.metrics
    table = [
        TableColumn("", "n", [_sizes(m) for m in metrics]),
        TableColumn("", "undefined", [f"{sum(m.undefined.values()):,}" for m in metrics]),
    ]
    for aspect in agreement.aspects:
        correlations = [m.of_aspects.get(aspect) for m in metrics]
        r = [_with_interval(c.estimates["pearson"]) if c else NONE for c in correlations]
        ρ = [_shown(c.estimates["spearman"].value, 3) if c else NONE for c in correlations]
        table += [TableColumn(aspect, "r", r), TableColumn(aspect, "ρ", ρ)]
    return table


def size(agreement: SetAgreement) -> str:
    """`360 texts in 15 clusters`."""
    drawn = agreement.texts < agreement.of
    texts = f"{agreement.texts:,}{f' of {agreement.of:,}' * drawn} texts"
    clusters = f"in {agreement.clusters:,} clusters"
    return f"{texts}, drawn {clusters}" if drawn else f"{texts} {clusters}"


def role(agreement: SetAgreement) -> str:
    """Returns the roles of a set and why it has them."""
    return f"{', '.join(agreement.rated.roles)}: {agreement.rated.why}"


def notes(agreement: SetAgreement) -> list[str]:
    """Returns what must be known of the numbers of a table."""
    lines = []
    turned = [m.metric for m in agreement.metrics if m.turned]
    if turned:
        lines.append(f"lower is better, sign turned: {', '.join(turned)}")
    reasons: dict[str, list[str]] = {}
    for m in agreement.metrics:
        for reason, n in m.undefined.items():
            reasons.setdefault(reason, []).append(f"{m.metric} {n:,}")
    lines += [f"undefined, {reason}: {', '.join(metrics)}" for reason, metrics in reasons.items()]
    whys: dict[str, list[str]] = {}
    for m in agreement.metrics:
        for aspect, c in m.of_aspects.items():
            e = c.estimates["pearson"]
            if e.why_undefined:
                whys.setdefault(f"no r, {e.why_undefined}", []).append(f"{m.metric} ({aspect})")
            elif e.why_no_interval:
                reason = f"no interval, {e.why_no_interval}"
                whys.setdefault(reason, []).append(f"{m.metric} ({aspect})")
    return lines + [f"{reason}: {', '.join(metrics)}" for reason, metrics in whys.items()]


def left_out(entries: Iterable[LeftOut]) -> list[str]:
    """Returns a line a reason with the metrics that it keeps from a table."""
    whys: dict[str, list[str]] = {}
    for entry in entries:
        whys.setdefault(_WHY.get(entry.kind, entry.why), []).append(entry.metric)
    return [
        f"{reason}: {', '.join(_shortened(reason, metrics))}" for reason, metrics in whys.items()
    ]


def in_no_table(sets: Sequence[SetAgreement]) -> list[LeftOut]:
    """Returns the metrics that have a row nowhere, by name, each with the reason that weighs
    most."""
    shown = {m.metric for agreement in sets for m in agreement.metrics}
    every = [left for agreement in sets for left in agreement.left_out if left.metric not in shown]
    weightiest: dict[str, LeftOut] = {}
    for left in sorted(every, key=lambda left: (left.metric, _WEIGHT.index(left.kind))):
        weightiest.setdefault(left.metric, left)
    return list(weightiest.values())


def left_out_here(agreement: SetAgreement, sets: Sequence[SetAgreement]) -> list[LeftOut]:
    """Returns what is left out of this table and is in another one."""
    nowhere = {left.metric for left in in_no_table(sets)}
    return [left for left in agreement.left_out if left.metric not in nowhere]


def _shortened(reason: str, metrics: Sequence[str]) -> list[str]:
    """Returns the names: all members of a family as `bleu.*`, those named after what is missing as
    `*.source`."""
    names = []
    for metric in metrics:
        family, _, member = metric.partition(".")
        if reason == no_text_has([member]):
            names.append(f"*.{member}")
        elif member and set(matching(family)) <= set(metrics):
            names.append(f"{family}.*")
        else:
            names.append(metric)
    return list(dict.fromkeys(names))


def _sizes(m: MetricAgreement) -> str:
    sizes = sorted({c.n for c in m.of_aspects.values()})
    return " to ".join(f"{n:,}" for n in dict.fromkeys((sizes[0], sizes[-1])))


def _with_interval(e: Estimate) -> str:
    if e.why_undefined:
        return NONE
    if e.why_no_interval:
        return _shown(e.value, 3)
    return f"{_shown(e.value, 3)} [{_shown(e.low, 2)}, {_shown(e.high, 2)}]"


def _shown(value: float, places: int) -> str:
    if not math.isfinite(value):
        return NONE
    shown = f"{value:.{places}f}"
    return shown.replace("-", "" if float(shown) == 0 else "−")
