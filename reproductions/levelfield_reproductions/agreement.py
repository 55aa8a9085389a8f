"""Agreement of metrics with the ratings of a set, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from levelfield.agree.correlate import Correlation
from levelfield.core.registry import matching
from levelfield.io.tables import NONE, Table, TableCell, TableColumn
from levelfield.stats.estimate import Estimate
from levelfield_reproductions.choices import FEWEST
from levelfield_reproductions.published_tables import Gap
from levelfield_reproductions.rated import RatedSet

Kind = Literal["without", "many texts", "lacking", "field", "few", "failed"]
"""Why a metric is in no table: the user goes without it; its value is of many texts; it lacks
something on this machine; the texts lack a field; it has fewer than `FEWEST` values; it failed."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metric that is not in the table of a set.

    Attributes:
        why: the reason, in one line.
    """

    metric: str
    kind: Kind
    why: str


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Agreement of one metric, with its defaults, with the ratings of one set.

    Attributes:
        is_default: `levelfield score FILE` runs it when no metric is named.
        turned: lower values are better, and their sign is turned.
        undefined: reason -> how many texts have no value.
        of_aspects: aspect -> its correlation; only those with `FEWEST` values or more.
    """

    metric: str
    signature: str
    is_default: bool
    turned: bool
    undefined: Mapping[str, int]
    of_aspects: Mapping[str, Correlation]


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """One rated set with every metric that can be compared with it.

    Attributes:
        gap: what is missing where the set is not on this machine; the rest is then empty.
        aspects: what is rated.
        texts, every: how many texts were scored, and how many the set has.
        clusters: into how many groups of dependent texts the scored ones fall.
        metrics: the default of `levelfield score FILE` first, then by name.
    """

    rated: RatedSet
    gap: Gap | None = None
    aspects: tuple[str, ...] = ()
    texts: int = 0
    every: int = 0
    clusters: int = 0
    metrics: tuple[MetricAgreement, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def no_text_has(fields: Sequence[str]) -> str:
    """Returns why a metric can't be scored on a set whose texts lack fields."""
    return f"no text has {' and '.join(fields)}"


MARK = " (run by default)"
"""Follows the name of a metric that `levelfield score FILE` runs when none is named."""

_WEIGHT: tuple[Kind, ...] = ("without", "many texts", "lacking", "failed", "few", "field")
"""Reasons that keep a metric from all tables, the one to report first."""

_WHY: dict[Kind, str] = {
    "many texts": "one value for many texts",
    "lacking": "lacks a model, a package or an option on this machine",
    "few": f"fewer than {FEWEST} values",
}


def table_of(agreement: SetAgreement) -> Table:
    """Returns one row per metric, the default of `levelfield score FILE` marked: how many texts,
    and for each aspect r with its interval, beside it ρ.
    """
    rows: list[list[TableCell | str]] = []
    for m in agreement.metrics:
        undefined = sum(m.undefined.values())
        cells = [_coefficients(m.of_aspects.get(aspect)) for aspect in agreement.aspects]
        rows.append([m.metric + MARK * m.is_default, _sizes(m), f"{undefined:,}", *cells])
    columns = [TableColumn("metric", words=True), TableColumn("n"), TableColumn("undefined")]
    columns += [TableColumn("r, ρ", above=aspect) for aspect in agreement.aspects]
    return Table(columns, rows)


def _coefficients(c: Correlation | None) -> TableCell:
    if c is None:
        return TableCell(beside=NONE)
    r, ρ = c.estimates["pearson"], c.estimates["spearman"]
    return TableCell(_with_interval(r), beside=_shown(ρ.value, 3))


def size(agreement: SetAgreement) -> str:
    """Returns `360 texts in 15 clusters`."""
    drawn = agreement.texts < agreement.every
    texts = f"{agreement.texts:,}{f' of {agreement.every:,}' * drawn} texts"
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
        lines.append(f"lower is better, sign reversed: {', '.join(turned)}")
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
    """Returns one line per reason with the metrics that it keeps from a table."""
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
