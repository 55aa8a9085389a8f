"""Two systems under one metric: their difference, whether it is shown, and what could turn it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats, Hashes
from levelfield.scoring.seeds import SeededTexts, difference_tests, verdict_basis
from levelfield.stats.clusters import MANY, cluster_sums, coded
from levelfield.stats.effect import cohen_dz
from levelfield.stats.multiplicity import adjusted_by_family
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.seeds import Contrast
from levelfield.stats.sign_flip import SignFlips, paired_differences

ALPHA = 0.05
"""A difference is shown where the adjusted p is at most this."""

NOT_COMPARED = "not compared"
NOT_SHOWN = "no difference shown"
WITHHELD = "withheld"


@dataclass(frozen=True)
class Bounds:
    """What a difference can be where two systems have undefined values on different inputs.

    Attributes:
        lowest, highest: the difference a − b on the inputs that both answered and either has a
            value for. Where more texts of one are undefined than of the other, undefined ones have
            the worst and the best value of the run.
        p_lowest, p_highest: of the same test on these.
        only_a, only_b: on how many inputs more texts of a, and of b, have no value.
        inputs: how many inputs these differences rest on.
    """

    lowest: float
    highest: float
    p_lowest: float
    p_highest: float
    only_a: int
    only_b: int
    inputs: int

    def words(self, a: str, b: str) -> str:
        """What a reader must know of them."""
        return (
            f"undefined on {self.only_a:,} of {self.inputs:,} inputs for {a} alone and on "
            f"{self.only_b:,} for {b} alone: with these, the difference is between "
            f"{self.lowest:.4g} and {self.highest:.4g}"
        )


@dataclass(frozen=True)
class Comparison:
    """Two systems under one metric, on the inputs that every system answered.

    Attributes:
        a, b: the systems.
        inputs: how many inputs the comparison rests on.
        left_out: how many inputs some system has no defined value for.
        clusters: how many independent clusters the inputs form.
        difference: mean over the inputs of a − b.
        low, high: ends of its interval; not adjusted for the number of comparisons.
        effect: d_z, the difference over its standard deviation between inputs.
        p: two-sided, of the test that the interval agrees with.
        p_adjusted: `p_bounded` by Holm over the comparisons of its family.
        p_unbounded: p by Holm over them, whatever the bounds.
        note: what a reader must know of these numbers; empty if nothing.
        bounds: None where no input is undefined for one of the two alone.
        least_p: the smallest p that differences of so many clusters can have.
    """

    a: str
    b: str
    inputs: int
    left_out: int
    clusters: int
    difference: float
    low: float
    high: float
    effect: float
    p: float
    p_adjusted: float
    note: str
    bounds: Bounds | None = None
    least_p: float = 0.0
    p_unbounded: float = math.nan

    @property
    def p_bounded(self) -> float:
        """p, or with bounds that of the one nearer to no difference if it is larger; 1 if the
        bounds are on both sides of 0."""
        if self.bounds is None or math.isnan(self.p):
            return self.p
        end, p = (
            (self.bounds.lowest, self.bounds.p_lowest)
            if self.difference > 0
            else (self.bounds.highest, self.bounds.p_highest)
        )
        return max(self.p, p if end * self.difference > 0 else 1.0)


def better_system(
    comparison: Comparison, higher_is_better: bool, *, alpha: float = ALPHA
) -> str | None:
    """The one that is shown to be better, at `alpha` on the adjusted p; None if neither is."""
    c = comparison
    if not c.p_adjusted <= alpha or c.difference == 0:
        return None
    return c.a if (c.difference > 0) == higher_is_better else c.b


def verdict(comparison: Comparison, higher_is_better: bool, *, alpha: float = ALPHA) -> str:
    """Who is better, in words, at `alpha` on the adjusted p.

    `"x > y"`: x is better than y, whichever direction the metric has. `"no difference shown"`:
    there may be one, these samples do not show it. `"withheld"`: the defined values show one, and
    the undefined ones could turn it. `"not compared"`: there is no p.
    """
    c = comparison
    if np.isnan(c.p_adjusted):
        return NOT_COMPARED
    better = better_system(c, higher_is_better, alpha=alpha)
    if better is None:
        return WITHHELD if c.p_unbounded <= alpha < c.p_adjusted else NOT_SHOWN
    return f"{better} > {c.b if better == c.a else c.a}"


class UndefinedPair(NamedTuple):
    """Differences of two systems with undefined values at their worst and at their best.

    Attributes:
        lowest, highest: (inputs,) a − b; NaN on inputs that do not count.
        uneven: (inputs,) whether more texts of one system than of the other are undefined.
        only_a, only_b: on how many inputs more texts of a, and of b, have no value.
    """

    lowest: Floats
    highest: Floats
    uneven: Bools
    only_a: int
    only_b: int

    def bounds(self, ends: tuple[float, float], p: tuple[float, float]) -> Bounds:
        """The bounds, from the means of `lowest` and `highest` and their p."""
        return Bounds(*ends, *p, self.only_a, self.only_b, self.inputs)

    @property
    def inputs(self) -> int:
        """On how many inputs the bounds rest."""
        return int((~np.isnan(self.lowest)).sum())


def undefined_pair(
    pair: Floats, texts: Codes, lacking: Codes, worst: float, best: float
) -> UndefinedPair | None:
    """The differences of a pair, (inputs, 2), with its undefined values between two numbers.

    None if the two lack equally many values on every input that both answered. What both lack does
    not count: that is the input's fault rather than a system's.

    Args:
        pair: (inputs, 2) means of the defined values, NaN without any.
        texts, lacking: (inputs, 2) how many texts there are, and how many of them are undefined.
    """
    share = lacking / np.maximum(texts, 1)
    uneven: Bools = np.asarray((texts > 0).all(axis=1) & (share[:, 0] != share[:, 1]))
    if not uneven.any():
        return None

    def filled(value: float) -> Floats:
        return np.where(uneven[:, None], (1 - share) * np.nan_to_num(pair) + share * value, pair).T

    (a_low, b_low), (a_high, b_high) = filled(worst), filled(best)
    more = share[uneven, 0] > share[uneven, 1]
    return UndefinedPair(
        a_low - b_high, a_high - b_low, uneven, int(more.sum()), int((~more).sum())
    )


def adjusted_comparisons(
    of_metrics: Sequence[Sequence[Comparison]], resampling: Resampling = DEFAULT
) -> list[tuple[Comparison, ...]]:
    """The comparisons of each metric with p by Holm over their family, and all notes.

    Where so few inputs can't give p that stays small when it is adjusted, the note says so.
    """
    bounded, unbounded = (
        adjusted_by_family(p, resampling.family)
        for p in (
            [[c.p_bounded for c in comparisons] for comparisons in of_metrics],
            [[c.p for c in comparisons] for comparisons in of_metrics],
        )
    )
    total = sum(map(len, of_metrics))
    return [
        tuple(
            replace(
                c,
                p_adjusted=p,
                p_unbounded=p_unbounded,
                note="; ".join([*filter(None, [c.note]), *_warnings(c, size)]),
            )
            for c, p, p_unbounded in zip(comparisons, *of_metric, strict=True)
        )
        for comparisons, *of_metric in zip(of_metrics, bounded, unbounded, strict=True)
        for size in [len(comparisons) if resampling.family == "metric" else total]
    ]


def _warnings(c: Comparison, family: int) -> list[str]:
    warnings = [] if c.bounds is None else [c.bounds.words(c.a, c.b)]
    if c.least_p <= ALPHA < family * c.least_p and c.difference:
        smallest = min(1.0, family * c.least_p)
        warnings.append(
            f"few independent inputs for {family:,} comparisons: the smallest of their adjusted p "
            f"is {smallest:.3g} or more"
        )
    return warnings


_MOST_HELD = 1 << 23
"""Sums held for a test of several metrics: 64 MB of differences and as many of weights."""


@dataclass(frozen=True)
class ValuesOfSystems:
    """The values of one metric on equal inputs.

    Attributes:
        names: of the systems.
        values: (inputs, systems) means over a system's texts; NaN where undefined.
        texts, lacking: (inputs, systems) how many texts a system has for an input, and how many of
            them are undefined.
        clusters: (inputs,).
        seeded: the texts behind the values, with their seeds; None if they have none.
        why_empty: the note for two systems where no input counts.
    """

    names: Sequence[str]
    values: Floats
    texts: Codes
    lacking: Codes
    clusters: Hashes
    seeded: SeededTexts | None
    why_empty: Callable[[str, str], str]


def compared_systems(
    of_metrics: Iterable[ValuesOfSystems], resampling: Resampling = DEFAULT
) -> list[list[Comparison]]:
    """Every two systems under every metric by their values on equal inputs; p is not adjusted.

    An input counts if every system has a value there (listwise; systems without any value are left
    aside); tests and intervals are those of
    `difference_tests`. Two systems of which one lacks values that the other has get `Bounds`
    besides. Metrics with more than `MANY` clusters are tested together, as many as memory allows.
    """
    results: list[list[Comparison]] = []
    held: list[_Tested] = []

    def test() -> None:
        if held:
            tests, of_seeds = difference_tests(
                _beside([d.S for d in held]),
                _beside([d.W for d in held]),
                [c for d in held for c in d.contrasts],
                resampling,
            )
            start = 0
            for d in held:
                columns = slice(start, start := start + d.S.shape[1])
                of_own = SignFlips(
                    tests.p[columns], tests.low[columns], tests.high[columns], tests.least[columns]
                )
                results.append(d.comparisons(of_own, of_seeds[columns]))
        held.clear()

    for values in of_metrics:
        differences = _tested(values)
        few = differences.S.shape[0] <= MANY
        if few or sum(d.S.size for d in held) + differences.S.size > _MOST_HELD:
            test()
        held.append(differences)
    test()
    return results


def _beside(columns: Sequence[Floats]) -> Floats:
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class _Tested:
    """The differences of every two systems under one metric and their bounds, to be tested.

    Attributes:
        S, W: (clusters, columns) sums of differences and how many they are: of the pairs, then the
            lowest and the highest of each pair with bounds.
        means: of the columns.
        contrasts: of the columns; None without seeds.
        drafts: of each pair, what no test says.
        undefined: pair -> `only_a`, `only_b` and `inputs` of its bounds.
    """

    S: Floats
    W: Floats
    means: Sequence[float]
    contrasts: Sequence[Contrast | None]
    drafts: Sequence[_Draft]
    undefined: Mapping[int, tuple[int, int, int]]

    def comparisons(self, tests: SignFlips, of_seeds: Bools) -> list[Comparison]:
        """The comparisons with the tests of the columns."""
        pairs = len(self.drafts)
        bounds = {
            j: Bounds(self.means[k], self.means[k + 1], tests.p[k], tests.p[k + 1], *counts)
            for k, (j, counts) in zip(itertools.count(pairs, 2), self.undefined.items())
        }
        return [
            draft.comparison(tests, j, bool(of_seeds[j]), bounds.get(j))
            for j, draft in enumerate(self.drafts)
        ]


@dataclass(frozen=True)
class _Draft:
    """What no test says of a comparison.

    Attributes:
        untested: the comparison without it.
        differs: whether any difference is not 0.
        seeds: system -> how many it has; empty without seeds.
        notes: on numbers that are missing.
    """

    untested: Comparison
    differs: bool
    seeds: Mapping[str, int]
    notes: Sequence[str]

    def comparison(
        self, tests: SignFlips, j: int, of_seeds: bool, bounds: Bounds | None
    ) -> Comparison:
        least = float(tests.least[j])
        basis = [verdict_basis(self.seeds, of_seeds)] if self.seeds and self.untested.inputs else []
        few = f"too few independent inputs: p can't go below {least:.3g}"
        return replace(
            self.untested,
            low=float(tests.low[j]),
            high=float(tests.high[j]),
            p=float(tests.p[j]),
            note="; ".join([*basis, *self.notes, *[few] * (least > ALPHA and self.differs)]),
            bounds=bounds,
            least_p=least if self.untested.inputs else 0.0,
        )


def _tested(systems: ValuesOfSystems) -> _Tested:
    values, names = systems.values, systems.names
    has_values = ~np.isnan(values).all(axis=0)
    complete = ~np.isnan(values[:, has_values]).any(axis=1) & has_values.any()
    pairs = list(itertools.combinations(range(len(names)), 2))
    columns = [np.where(complete, paired_differences(*values[:, p].T), np.nan) for p in pairs]
    undefined: dict[int, UndefinedPair] = {}
    if not np.isnan(values).all():
        worst, best = float(np.nanmin(values)), float(np.nanmax(values))
        for j, p in enumerate(pairs):
            pair = undefined_pair(
                values[:, p], systems.texts[:, p], systems.lacking[:, p], worst, best
            )
            if pair is not None:
                undefined[j] = pair
                columns += [pair.lowest, pair.highest]
    D = np.stack(columns, axis=1)
    use = ~np.isnan(D)
    K, code = coded(systems.clusters)
    S = cluster_sums(np.where(use, D, 0.0), code, K)
    W = cluster_sums(use.astype(np.float64), code, K)
    with np.errstate(invalid="ignore"):
        means = (S.sum(axis=0) / W.sum(axis=0)).tolist()
    contrasts: list[Contrast | None] = [None] * D.shape[1]
    texts = systems.seeded
    if texts is not None:
        omega = use / np.maximum(use.sum(axis=0), 1)
        prior = texts.prior()
        contrasts = [
            texts.difference(*p, w, prior=prior) for p, w in zip(pairs, omega.T, strict=False)
        ]
        for (j, pair), k in zip(undefined.items(), itertools.count(len(pairs), 2)):
            for column, ends in ((k, (worst, best)), (k + 1, (best, worst))):
                contrasts.append(
                    texts.difference(
                        *pairs[j],
                        omega[:, column],
                        prior=prior,
                        filled=ends,
                        uneven=pair.uneven,
                    )
                )
    seeds = {} if texts is None else {s: texts.seeds_of(s) for s in range(len(names))}
    drafts = []
    for j, (a, b) in enumerate(pairs):
        rows = use[:, j]
        d, clusters = D[rows, j], int(np.count_nonzero(W[:, j]))
        comparison = Comparison(
            a=names[a],
            b=names[b],
            inputs=d.size,
            left_out=rows.size - d.size,
            clusters=clusters,
            difference=means[j],
            low=math.nan,
            high=math.nan,
            effect=cohen_dz(d),
            p=math.nan,
            p_adjusted=math.nan,
            note="",
        )
        of_pair = {names[s]: seeds[s] for s in (a, b)} if seeds else {}
        notes = _notes(comparison) if d.size else [systems.why_empty(names[a], names[b])]
        drafts.append(_Draft(comparison, bool(d.any()), of_pair, notes))
    counts = {j: (pair.only_a, pair.only_b, pair.inputs) for j, pair in undefined.items()}
    return _Tested(S, W, means, contrasts, drafts, counts)


def _notes(comparison: Comparison) -> list[str]:
    """Why numbers are missing."""
    if comparison.inputs == 1:
        return ["one input: no interval, no effect size"]
    one_cluster = ["one cluster: no interval"] * (comparison.clusters == 1)
    equal = ["all differences are equal: no effect size"] * math.isnan(comparison.effect)
    return one_cluster + equal
