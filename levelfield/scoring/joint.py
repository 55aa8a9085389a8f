"""Two criteria in one number: the geometric and the harmonic mean of two metrics' means.

A rewrite that copies its source keeps all content and has no style; one that ignores its source can
have all style and no content. So style transfer is reported as one mean of both, which is high only
if both are.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from levelfield.core.arrays import Bools, Floats, Hashes
from levelfield.core.direction import in_words
from levelfield.core.errors import UserError
from levelfield.core.signature import signature, with_run
from levelfield.scoring.comparison import ALPHA, Bounds, Comparison, undefined_ends
from levelfield.scoring.power import NO_ERROR, ErrorOfTest
from levelfield.scoring.seeds import SeededTexts, verdict_basis
from levelfield.scoring.summary import OVERALL, GroupSummary, MetricSummary
from levelfield.scoring.tally import Pairing, RunTally
from levelfield.stats.bootstrap import OfMeans, cluster_bootstrap
from levelfield.stats.estimate import Estimate, without_few_clusters
from levelfield.stats.permutation import slopes, swap_permutation
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.seeds import Contrast


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


MEANS: Mapping[str, OfMeans] = {"geometric": geometric, "harmonic": harmonic}


@dataclass(frozen=True)
class Criterion:
    """A metric of samples with what its best value is, so that 1 is best."""

    metric: str
    best: float = 1.0


def joint(
    tally: RunTally,
    content: Criterion,
    style: Criterion,
    *,
    compare: bool = True,
    resampling: Resampling = DEFAULT,
) -> list[MetricSummary]:
    """Summaries of the geometric and the harmonic mean of content and style, as
    `joint.geometric` and `joint.harmonic`.

    A system's G and H are of its two means over the samples that have both values, in [0, 1].
    Their intervals draw clusters with both columns; systems are compared on the inputs on which
    all of them have both values, p by swapping the two systems' values of whole clusters. With two
    seeds or more of a system, intervals and p are those of `contrast` for the linearised G and H.
    There is no effect size: G and H are no means of differences.

    Args:
        tally: samples and scores of a run that has both metrics.
        compare: whether the groups are systems.

    p is not adjusted for the number of comparisons; `adjusted` does that.

    Raises:
        UserError: a metric of which higher is not better, or that the run does not have.
    """
    columns = {column.metric: column for column in tally.columns()}
    for criterion in (content, style):
        if criterion.metric not in columns:
            raise UserError(f"no values of {criterion.metric}; there are {', '.join(columns)}")
        if (direction := columns[criterion.metric].direction) != "higher":
            raise UserError(
                f"{criterion.metric}: {in_words(direction)}, so it has no part in a mean"
            )
    table = tally.table()
    values = np.stack([table.values[c.metric] / c.best for c in (content, style)], axis=1)
    infinite = int(np.isinf(values).any(axis=1).sum())
    values[np.isinf(values)] = np.nan  # which no joint mean can hold
    # an empty rewrite has missed the style (0) and, whatever the metric of content, kept none of it
    values[table.empty & (values[:, 1] == 0) & np.isnan(values[:, 0]), 0] = 0
    clusters = table.own_clusters
    pairing = Pairing(table) if compare else None
    ends_of_range = (
        np.array([undefined_ends(column) for column in values.T]).T
        if not np.isnan(values).all(axis=0).any()
        else None
    )

    def row(code: int | None, joint_mean: OfMeans) -> GroupSummary:
        rows = np.ones(len(values), np.bool_) if code is None else table.groups == code
        v = values[rows]
        mean = cluster_bootstrap(v, clusters[rows], joint_mean, resampling=resampling)
        if pairing is not None and code is not None and mean.n:
            linear = values @ slopes(joint_mean, v[~np.isnan(v).any(axis=1)].mean(axis=0))
            texts = pairing.seeded(linear, code)
            if texts is not None and texts.values.size == mean.n:
                c = texts.mean(np.full(mean.n, 1 / mean.n))
                if c is not None and c.of_seeds and c.variance:
                    low, high = replace(c, value=mean.value).ends(resampling.level)
                    mean = replace(mean, low=low, high=high)
        name = OVERALL if code is None else table.names[code]
        return GroupSummary(name, len(v), len(v) - mean.n, without_few_clusters(mean))

    def compared(joint_mean: OfMeans) -> list[Comparison]:
        if pairing is None or len(table.names) < 2:
            return []
        of_content, of_style = (pairing.means(column) for column in values.T)
        content_and_style = np.stack([of_content, of_style], axis=2)  # (inputs, systems, 2)
        texts = None
        defined: Bools = np.asarray(~np.isnan(content_and_style).any(axis=2))
        if defined.any(axis=0).all():
            of_systems = np.stack(
                [
                    slopes(joint_mean, content_and_style[use, s].mean(axis=0))
                    for s, use in enumerate(defined.T)
                ]
            )
            texts = pairing.seeded((values * of_systems[table.groups]).sum(axis=1))
        compare = _PairComparison(
            table.names, joint_mean, pairing, texts, ends_of_range, resampling
        )
        return [
            compare((a, b), content_and_style[:, [a, b]], pairing.texts[:, [a, b]] > 0)
            for a, b in itertools.combinations(range(len(table.names)), 2)
        ]

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
            overall=row(None, joint_mean),
            groups=tuple(row(code, joint_mean) for code in range(len(table.names))),
            comparisons=tuple(compared(joint_mean)),
            reasons={
                reason: count
                for reason, count in (
                    ("content or style undefined", undefined - infinite),
                    ("content or style infinite", infinite),
                )
                if count
            },
        )
        for name, joint_mean in MEANS.items()
    ]


def _named(signature: str) -> str:
    """A metric with a checksum of its own signature, which stands beside it in the same run."""
    digest = hashlib.sha256(signature.encode()).hexdigest()
    return f"{signature.partition('|')[0]}#{digest[:8]}"


@dataclass(frozen=True)
class _PairComparison:
    """Compares two systems by their values on equal inputs, (inputs, 2 systems, 2 criteria).

    Attributes:
        names: of the systems.
        joint_mean: of both criteria.
        texts: with `joint_mean` linearised at each system's means, Σ_j ∂f/∂m_j x_j;
            None without seeds.
        ends: (2, criteria) `undefined_ends`; None without any value.
    """

    names: tuple[str, ...]
    joint_mean: OfMeans
    pairing: Pairing
    texts: SeededTexts | None
    ends: Floats | None
    resampling: Resampling

    def __call__(self, pair: tuple[int, int], values: Floats, answered: Bools) -> Comparison:
        complete: Bools = np.asarray(~np.isnan(values).any(axis=(1, 2)))
        rows, clusters = values[complete], self.pairing.clusters[complete]
        difference = self._difference(rows, clusters)
        seeded = self._seeded(pair, complete)
        low, high, p = difference.low, difference.high, self._p(rows, clusters)
        least_p = 2.0 ** (1 - difference.clusters) if len(rows) else 0.0
        if seeded is not None:
            seeded = replace(seeded, value=difference.value)
            (low, high), p, least_p = seeded.ends(self.resampling.level), seeded.p, 0.0
        a, b = (self.names[s] for s in pair)
        notes = [] if len(rows) else [self.pairing.why_empty(a, b)]
        if self.texts is not None and len(rows):
            seeds = {self.names[s]: self.texts.seeds_of(s) for s in pair}
            notes.append(verdict_basis(seeds, seeded is not None))
        if least_p > ALPHA:
            notes.append(f"too few independent inputs: p can't go below {least_p:.3g}")
        return Comparison(
            a=a,
            b=b,
            inputs=len(rows),
            left_out=len(values) - len(rows),
            clusters=difference.clusters,
            difference=difference.value,
            low=low,
            high=high,
            effect=math.nan,
            p=p,
            p_adjusted=math.nan,
            note="; ".join(notes),
            bounds=self._bounds(values, answered, seeded),
            least_p=least_p,
            error=self._error(difference, seeded, pair),
        )

    def _error(
        self, difference: Estimate, seeded: Contrast | None, pair: tuple[int, int]
    ) -> ErrorOfTest:
        if seeded is not None and self.texts is not None:
            seeds = {self.names[s]: self.texts.seeds_of(s) for s in pair}
            return ErrorOfTest.of(math.sqrt(seeded.variance), seeded.df, seeded, seeds)
        df, half = difference.clusters - 1, (difference.high - difference.low) / 2
        if math.isnan(half) or not df:
            return NO_ERROR
        return ErrorOfTest(half / float(stdtrit(df, (1 + self.resampling.level) / 2)), df)

    def _seeded(self, pair: tuple[int, int], complete: Bools) -> Contrast | None:
        """The difference with seeds as a sample; None where they are none."""
        if self.texts is None or not complete.any():
            return None
        weights = complete / complete.sum()
        c = self.texts.difference(*pair, weights, prior=self.texts.prior())
        return c if c is not None and c.of_seeds and c.variance else None

    def _bounds(self, values: Floats, answered: Bools, seeded: Contrast | None) -> Bounds | None:
        lacks: Bools = np.asarray(
            np.isnan(values).any(axis=2) & answered.all(axis=1, keepdims=True)
        )
        only: Bools = np.asarray(lacks & ~lacks[:, ::-1])
        if self.ends is None or not only.any():
            return None
        fill = np.isnan(values) & only[..., None]
        means, p = [], []
        for order in ([0, 1], [1, 0]):  # a at its worst and b at its best, and the other way round
            filled = np.where(fill, self.ends[order], values)
            means.append(self._difference(filled, self.pairing.clusters).value)
            p.append(
                self._p(filled, self.pairing.clusters)
                if seeded is None
                else replace(seeded, value=means[-1]).p
            )
        only_a, only_b = map(int, only.sum(axis=0))
        inputs = int((~np.isnan(np.where(fill, 0.0, values))).all(axis=(1, 2)).sum())
        return Bounds(means[0], means[1], p[0], p[1], only_a, only_b, inputs)

    def _difference(self, values: Floats, clusters: Hashes) -> Estimate:
        return cluster_bootstrap(
            values.reshape(len(values), 4),
            clusters,
            lambda means: self.joint_mean(means[:, :2]) - self.joint_mean(means[:, 2:]),
            resampling=self.resampling,
        )

    def _p(self, values: Floats, clusters: Hashes) -> float:
        return swap_permutation(
            values[:, 0], values[:, 1], clusters, self.joint_mean,
            permutations=self.resampling.permutations, seed=self.resampling.seed,
        )  # fmt: skip
