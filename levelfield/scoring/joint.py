"""Two criteria in one number: the geometric and the harmonic mean of two metrics' means.

A rewrite that copies its source keeps all content and has no style; one that ignores its source can
have all style and no content. So style transfer is reported as one mean of both, which is high only
if both are.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.direction import in_words
from levelfield.core.errors import UserError
from levelfield.core.signature import signature, with_run
from levelfield.scoring.comparison import (
    Comparison,
    ValuesOfSystems,
    compared_systems,
    undefined_ends,
)
from levelfield.scoring.run_table import Pairing, RunTable
from levelfield.scoring.summary import OVERALL, GroupSummary, MetricSummary, mean_of_rows
from levelfield.stats.means import natural_range
from levelfield.stats.resampling import DEFAULT, Resampling


def geometric(means: Floats) -> Floats:
    """G = √(c s) of means (…, 2), 0 where one of them is negative.

    >>> geometric(np.array([[0.9, 0.4]]))
    array([0.6])
    """
    c, s = np.moveaxis(np.maximum(means, 0), -1, 0)
    mean: Floats = np.sqrt(c * s)
    return mean


def harmonic(means: Floats) -> Floats:
    """H = 2 c s / (c + s) of means (…, 2), 0 where one of them is 0 or negative.

    >>> harmonic(np.array([[0.6, 0.3]]))
    array([0.4])
    """
    c, s = np.moveaxis(np.maximum(means, 0), -1, 0)
    total = c + s
    mean: Floats = np.divide(2 * c * s, total, out=np.zeros_like(total), where=total > 0)
    return mean


MEANS: Mapping[str, Callable[[Floats], Floats]] = {"geometric": geometric, "harmonic": harmonic}


_LEAST = 1e-12
"""A smaller mean is 0 but for rounding."""


def slopes(name: str, means: Floats) -> Floats:
    """(∂f/∂c, ∂f/∂s) of a joint mean at means (2,); 0 where it is 0.

    Of G they are ½ √(s / c) and ½ √(c / s), of H 2 s² / (c + s)² and 2 c² / (c + s)². Both means
    are homogeneous, so f = c ∂f/∂c + s ∂f/∂s.

    >>> slopes("geometric", np.array([0.9, 0.4])), slopes("harmonic", np.array([0.3, 0.1]))
    (array([0.33333333, 0.75      ]), array([0.125, 1.125]))
    """
    if means.min() <= _LEAST:
        return np.zeros(2)
    ratio = means[::-1] / means
    powers = np.sqrt(ratio) / 2 if name == "geometric" else 2 * (ratio / (1 + ratio)) ** 2
    return np.asarray(powers, dtype=np.float64)


def slopes_of_pair(name: str, means: Floats) -> Floats:
    """(2, 2) slopes of two systems with these means (2, 2), one row a system.

    Each has its own. Where just one joint mean is 0 it has no slopes, and both systems have those
    of the product c s halfway between them, scaled so that `Σ_j (c_j ∂_c + s_j ∂_s)` still differs
    by what the joint means do. With equal slopes, values of exchangeable systems are exchangeable.
    """
    f, positive = MEANS[name](means), means.min(axis=1) > _LEAST
    if positive.all() or not positive.any():
        return np.stack([slopes(name, m) for m in means])
    shared = np.maximum(means, 0).mean(axis=0)[::-1]
    return np.tile(shared * (f[0] - f[1]) / (shared @ (means[0] - means[1])), (2, 1))


@dataclass(frozen=True)
class Criterion:
    """A metric of samples with what its best value is, so that 1 is best."""

    metric: str
    best: float = 1.0


def joint(
    run: RunTable,
    content: Criterion,
    style: Criterion,
    *,
    compare: bool = True,
    resampling: Resampling = DEFAULT,
) -> list[MetricSummary]:
    """Summaries of the geometric and the harmonic mean of content and style, as
    `joint.geometric` and `joint.harmonic`.

    A system's G and H are of its two means over the samples that have both values, in [0, 1]. They
    are means of what each sample adds to first order, c_i ∂f/∂c + s_i ∂f/∂s (`slopes`), whose
    intervals and comparisons are those of any metric (`summarise`). Systems are compared on the
    inputs on which both have both values. There is no effect size: what a sample adds depends on
    its system's means.

    Args:
        run: samples and scores of a run that has both metrics.
        compare: whether the groups are systems.

    p is not adjusted for the number of comparisons; `adjusted` does that.

    Raises:
        UserError: a metric of which higher is not better, or that the run does not have.
    """
    columns = {column.metric: column for column in run.columns()}
    for criterion in (content, style):
        if criterion.metric not in columns:
            raise UserError(f"no values of {criterion.metric}; there are {', '.join(columns)}")
        if (direction := columns[criterion.metric].direction) != "higher":
            raise UserError(
                f"{criterion.metric}: {in_words(direction)}, so it has no part in a mean"
            )
    table = run.table()
    values = np.stack([table.values[c.metric] / c.best for c in (content, style)], axis=1)
    infinite = int(np.isinf(values).any(axis=1).sum())
    values[np.isinf(values)] = np.nan  # which no joint mean can hold
    # an empty rewrite has missed the style (0) and, whatever the metric of content, kept none of it
    values[table.empty & (values[:, 1] == 0) & np.isnan(values[:, 0]), 0] = 0
    values[np.isnan(values).any(axis=1)] = np.nan
    clusters = table.own_clusters
    pairing = Pairing(table) if compare else None
    limits = natural_range(np.maximum(values, 0))
    groups = range(len(table.names))
    means = None if pairing is None else np.stack([pairing.means(v) for v in values.T], axis=2)

    def added(name: str, code: int | None) -> Floats:
        """What each sample of a group adds to its joint mean; NaN of other samples."""
        rows = slice(None) if code is None else table.groups == code
        linear = np.full(len(values), np.nan)
        if not np.isnan(v := values[rows]).all():
            linear[rows] = v @ slopes(name, np.nanmean(v, axis=0))
        return linear

    def row(name: str, code: int | None) -> GroupSummary:
        rows = np.ones(len(values), np.bool_) if code is None else table.groups == code
        n = int(rows.sum())
        mean = mean_of_rows(
            added(name, code), rows, clusters, pairing, code,
            votes=0, limits=limits, level=resampling.level,
        )  # fmt: skip
        return GroupSummary(OVERALL if code is None else table.names[code], n, n - mean.n, mean)

    def values_of_pairs(name: str, pairing: Pairing, means: Floats) -> Iterator[ValuesOfSystems]:
        first_order = np.full(len(values), np.nan)
        for code in groups:
            first_order = np.where(table.groups == code, added(name, code), first_order)
        for pair in map(list, itertools.combinations(groups, 2)):
            pair_means = means[:, pair]
            complete = pair_means[~np.isnan(pair_means).any(axis=(1, 2))]
            linear = first_order.copy()
            if complete.size:
                system_slopes = slopes_of_pair(name, complete.mean(axis=0))
                for code, slope in zip(pair, system_slopes, strict=True):
                    rows = table.groups == code
                    linear[rows] = values[rows] @ slope
            texts = pairing.seeded(linear)
            order = np.argsort([*pair, *(code for code in groups if code not in pair)])
            yield ValuesOfSystems(
                names=[table.names[code] for code in pair],
                values=pairing.means(linear)[:, pair],
                texts=pairing.texts[:, pair],
                lacking=pairing.lacking(linear)[:, pair],
                clusters=pairing.clusters,
                seeded=None if texts is None else replace(texts, systems=order[texts.systems]),
                why_empty=pairing.why_empty,
                ends=undefined_ends(linear[np.isin(table.groups, pair)]),
            )

    def compared(name: str) -> Iterator[Comparison]:
        if pairing is not None and means is not None and len(groups) > 1:
            for (c,) in compared_systems(values_of_pairs(name, pairing, means), resampling):
                yield replace(c, effect=math.nan)

    choices = {
        "content": _named(columns[content.metric].signature),
        "best": content.best,
        "style": _named(columns[style.metric].signature),
        "best-style": style.best,
        "empty": 0,
    }
    undefined = int(np.isnan(values).any(axis=1).sum())
    return [
        MetricSummary(
            metric=f"joint.{name}",
            signature=with_run(
                signature(f"joint.{name}", choices), n=len(values), undefined=undefined, truncated=0
            ),
            direction="higher",
            overall=row(name, None),
            groups=tuple(row(name, code) for code in groups),
            comparisons=tuple(compared(name)),
            reasons={
                reason: count
                for reason, count in (
                    ("content or style undefined", undefined - infinite),
                    ("content or style infinite", infinite),
                )
                if count
            },
        )
        for name in MEANS
    ]


def _named(signature: str) -> str:
    """Returns a signature's metric with its checksum; the run has the signature itself."""
    digest = hashlib.sha256(signature.encode()).hexdigest()
    return f"{signature.partition('|')[0]}#{digest[:8]}"
