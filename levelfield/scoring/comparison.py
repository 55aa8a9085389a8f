"""Two systems under one metric: their difference, whether it is shown, and what could turn it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
import scipy

from levelfield.core.arrays import Bools, Codes, Floats, Hashes
from levelfield.core.direction import SIGNS, Direction
from levelfield.core.documents import Document
from levelfield.scoring.power import NO_ERROR, ErrorOfTest
from levelfield.scoring.seeds import SeededTexts, difference_tests, verdict_basis
from levelfield.scoring.unpaired import SeparateTexts
from levelfield.stats.clusters import MANY, cluster_sums, coded
from levelfield.stats.effect import cohen_dz
from levelfield.stats.estimate import FEWEST_CLUSTERS
from levelfield.stats.multiplicity import adjusted_by_family
from levelfield.stats.power import level_of_family
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.seeds import Contrast
from levelfield.stats.shares import equal_difference_ends, votes_of
from levelfield.stats.sign_flip import SignFlips, paired_differences

ALPHA = 0.05
"""A difference is shown where the adjusted p is at most this."""

NOT_COMPARED = "not compared"
NOT_SHOWN = "no difference shown"
WITHHELD = "withheld"
UNDECIDED = "undecided: the study is too small"
OF_RANKS = "some values are infinite: the differences are of ranks among all texts"
NO_SPREAD = "undecided: all differences are equal"


@dataclass(frozen=True)
class Bounds:
    """What a difference can be where two systems have undefined values on different inputs.

    Attributes:
        lowest, highest: the difference a − b on the inputs that both answered and either has a
            value for. Where more texts of one are undefined than of the other, undefined ones lie
            at one of `undefined_ends`.
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
    line: UndefinedLine | None = field(default=None, compare=False, repr=False)

    def words(
        self, a: str, b: str, tipping: Tipping | None = None, *, unpaired: bool = False
    ) -> str:
        """What a reader must know of them."""
        undefined = (
            f"undefined for {self.only_a:,} texts of {a} and {self.only_b:,} of {b}"
            if unpaired
            else f"undefined on {self.only_a:,} of {self.inputs:,} inputs for {a} alone and on "
            f"{self.only_b:,} for {b} alone"
        )
        ends = f"the difference is between {self.lowest:.4g} and {self.highest:.4g}"
        return "; ".join(
            [f"{undefined}: with these, {ends}", *([tipping.words(a, b)] if tipping else [])]
        )


class Tipping(NamedTuple):
    """What undefined values must average for a difference to be shown no longer.

    Attributes:
        a, b: of each system; NaN if it has none.
        above: whether a difference above 0 is shown.
    """

    a: float
    b: float
    above: bool

    def words(self, a: str, b: str) -> str:
        """The condition, in words.

        >>> Tipping(0.314, math.nan, above=True).words("x", "y")
        'the difference is shown unless those of x average below 0.314'
        """
        sides = [
            f"those of {system} average {'below' if below else 'above'} "
            + f"{value:.3g}".replace("-", "−")
            for system, value, below in ((a, self.a, self.above), (b, self.b, not self.above))
            if not math.isnan(value)
        ]
        return f"the difference is shown unless {' and '.join(sides)}"


class UndefinedLine(NamedTuple):
    """A difference while undefined values move from one of their ends to the other.

    At λ from 0 to 1 undefined values of a are `worst + λ (best − worst)`, those of b
    `best − λ (best − worst)`. The difference is `D(λ) = D_0 + λ (D_1 − D_0)`, its variance
    `V(λ) = (1 − λ)² V_0 + 2 λ (1 − λ) V_01 + λ² V_1`.

    Attributes:
        D: D_0 and D_1.
        V: V_0, V_01 and V_1.
        df: degrees of freedom of V.
        ends: worst and best.
    """

    D: tuple[float, float]
    V: tuple[float, float, float]
    df: float
    ends: tuple[float, float]

    def turning(self, *, above: bool, p: float) -> tuple[float, float] | None:
        """The values of a and of b at which Student's t has this p; None if it has it nowhere.

        Args:
            above: whether the difference is above 0.
        """
        (D_0, D_1), (V_0, V_01, V_1) = self.D, self.V
        t2 = float(scipy.special.stdtrit(self.df, p / 2)) ** 2
        D = np.polynomial.Polynomial([D_0, D_1 - D_0])
        V = np.polynomial.Polynomial([V_0, 2 * (V_01 - V_0), V_0 - 2 * V_01 + V_1])
        roots = np.asarray((D * D - t2 * V).roots(), dtype=np.complex128)
        shares: Floats = roots.real[np.abs(roots.imag) < _ROUNDING]
        inside = shares[(shares >= 0) & (shares <= 1) & ((D(shares) > 0) == above)]
        if not inside.size:
            return None
        share = float(inside.max() if above else inside.min())
        worst, best = self.ends
        return worst + share * (best - worst), best - share * (best - worst)


_ROUNDING = 1e-9
"""An imaginary part below this is rounding."""

_QUANTILE = 0.025
"""Undefined values lie between the quantiles at this and 1 − this of the values of a run."""


def undefined_ends(values: Floats, unit: float = 1.0) -> tuple[float, float]:
    """Between what numbers undefined values of a metric lie, for `Bounds`.

    0 and 1 where values are shares of a few votes, which have no worse value; else the quantiles at
    0.025 and 0.975 of the values of the run. The least and the greatest value would withhold nearly
    every verdict, for one outlier alone decides them; with quantiles at 0.05 a system that loses
    its worst texts is called better in up to 8 % of runs (docs/numbers.md).

    Args:
        values: (texts,) NaN where undefined.
        unit: what a share of 1 is in these values.

    Undefined (NaN): no values.
    """
    defined = values[np.isfinite(values)]
    if not defined.size:
        return math.nan, math.nan
    if votes_of(defined / unit):
        return 0.0, unit
    worst, best = np.quantile(defined, [_QUANTILE, 1 - _QUANTILE])
    return float(worst), float(best)


@dataclass(frozen=True)
class Comparison(Document):
    """Two systems under one metric, on the inputs that they share.

    Attributes:
        a, b: the systems.
        inputs: how many inputs the comparison rests on; of an unpaired one, how many texts.
        left_out: how many inputs of the run, or texts, one of the two has no defined value for.
        clusters: how many independent clusters the inputs form.
        difference: mean over the inputs of a − b.
        low, high: ends of its interval; not adjusted for the number of comparisons.
        effect: d_z, the difference over its standard deviation between inputs; of an unpaired
            comparison Cohen's d, over that of texts.
        p: two-sided, of the test that the interval agrees with.
        p_adjusted: `p_bounded`, adjusted over the comparisons of its family.
        p_unbounded: p adjusted over them, whatever the bounds.
        note: what a reader must know of these numbers; empty if nothing.
        bounds: None where no input is undefined for one of the two alone.
        least_p: the smallest p that differences of this many clusters can have.
        unpaired: whether the texts of the two are independent samples, as they share too little.
        tipping: where undefined values could turn a difference that the defined ones show.
        error: the standard error that the test rests on.
        detectable: where no difference is shown, the true difference that 80 % of such studies
            show, at the level that the family leaves (`level_of_family`); infinite where p can't be
            as small. NaN where a difference is shown, and without a test.
        detectable_with_more: the same with `ENOUGH_SEEDS` seeds; NaN where there are as many, and
            where seeds are not a sample.
        margin: differences below it do not matter; NaN where none is set.
        p_alike: of "the two differ by the margin or more" (`alike_p`), at whichever of `bounds`
            fits it worst, adjusted over the family; NaN without a margin or a test.
        of_ranks: whether the values are ranks, as some are infinite; no margin holds for these.
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
    unpaired: bool = False
    tipping: Tipping | None = None
    error: ErrorOfTest = NO_ERROR
    detectable: float = math.nan
    detectable_with_more: float = math.nan
    margin: float = math.nan
    p_alike: float = math.nan
    of_ranks: bool = False

    _entries = (
        "a b inputs left_out clusters difference low high effect p p_adjusted lowest=bounds.lowest "
        "highest=bounds.highest tipping_a=tipping.a tipping_b=tipping.b unpaired detectable margin "
        "p_alike note"
    )

    @property
    def unit(self) -> str:
        """What `inputs` counts."""
        return "text" if self.unpaired else "input"

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


def grounds(comparisons: Iterable[Comparison]) -> str:
    """What the comparisons rest on, in words."""
    paired = sorted({not c.unpaired for c in comparisons}, reverse=True) or [True]
    return " or ".join("equal inputs" if p else "independent texts" for p in paired)


def differ(comparison: Comparison, *, alpha: float = ALPHA) -> bool:
    """Whether a difference is shown, at `alpha` on the adjusted p."""
    return comparison.p_adjusted <= alpha and comparison.difference != 0


def better_system(comparison: Comparison, direction: Direction) -> str | None:
    """The one that is shown to be better; None if neither is, or no end of the values is better."""
    gain = SIGNS[direction] * comparison.difference
    if not gain or not differ(comparison):
        return None
    return comparison.a if gain > 0 else comparison.b


def verdict(comparison: Comparison, direction: Direction, *, alpha: float = ALPHA) -> str:
    """Who is better, in words, at `alpha` on the adjusted p.

    `"x > y"`: x is better than y, whichever direction the metric has. `"x higher than y"`: they
    differ under a metric of which no end is better. `"no difference shown"`:
    there may be one, these samples do not show it. `"withheld"`: the defined values show one, and
    the undefined ones could turn it. `"not compared"`: there is no p.
    """
    c = comparison
    if np.isnan(c.p_adjusted):
        return NOT_COMPARED
    if not differ(c, alpha=alpha):
        return WITHHELD if c.p_unbounded <= alpha < c.p_adjusted else NOT_SHOWN
    sign = SIGNS[direction]
    first, second = (c.a, c.b) if (sign or 1) * c.difference > 0 else (c.b, c.a)
    return f"{first} {'>' if sign else 'higher than'} {second}"


def conclusion(comparison: Comparison, direction: Direction, *, alpha: float = ALPHA) -> str:
    """Who is better, in words, or whether the two are alike within the margin, where one is set.

    `"alike within 0.5"`: the difference is shown to be smaller. `"undecided: the study is too
    small"`: neither is shown. `"x > y, by less than 0.5"`: both are. Else as `verdict`.
    """
    c = comparison
    outcome = verdict(c, direction, alpha=alpha)
    if math.isnan(c.margin) or outcome in (NOT_COMPARED, WITHHELD):
        return outcome
    if not c.p_alike <= alpha:
        undecided = NO_SPREAD if c.error.se == 0 else UNDECIDED
        return undecided if outcome == NOT_SHOWN else outcome
    return (
        f"alike within {c.margin:g}"
        if outcome == NOT_SHOWN
        else f"{outcome}, by less than {c.margin:g}"
    )


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
    metric_comparisons: Sequence[Sequence[Comparison]],
    resampling: Resampling = DEFAULT,
    names: Sequence[str] = (),
) -> list[tuple[Comparison, ...]]:
    """The comparisons of each metric with p adjusted over their family, what they could have shown,
    and all notes.

    Where so few inputs can't give p that stays small when it is adjusted, the note says so.

    Args:
        names: of the metrics, by which they have their margins (`Resampling.margin`).
    """
    margins = [resampling.margin_of(name) for name in names] or [math.nan] * len(metric_comparisons)
    bounded, unbounded, alike = (
        adjusted_by_family(p, resampling.family)
        for p in (
            [[c.p_bounded for c in comparisons] for comparisons in metric_comparisons],
            [[c.p for c in comparisons] for comparisons in metric_comparisons],
            [
                [_alike_p(c, margin) for c in comparisons]
                for comparisons, margin in zip(metric_comparisons, margins, strict=True)
            ],
        )
    )
    family = resampling.family
    whole_run = level_of_family(
        itertools.chain(*bounded), alpha=ALPHA, correction="fdr" if family == "fdr" else "holm"
    )
    sizes = {"run": sum(map(len, metric_comparisons)), "fdr": 1}  # worst factor of the smallest p
    results = []
    for comparisons, margin, *p_values in zip(
        metric_comparisons, margins, bounded, unbounded, alike, strict=True
    ):
        level = level_of_family(p_values[0], alpha=ALPHA) if family == "metric" else whole_run
        size = sizes.get(family, len(comparisons))
        results.append(
            tuple(
                _noted(
                    replace(
                        c,
                        p_adjusted=p,
                        p_unbounded=p_unbounded,
                        p_alike=math.nan if math.isnan(margin) else p_alike,
                        margin=math.nan if c.of_ranks else margin,
                        **_detectable(c, p, level),
                    ),
                    size,
                )
                for c, p, p_unbounded, p_alike in zip(comparisons, *p_values, strict=True)
            )
        )
    return results


def _alike_p(c: Comparison, margin: float) -> float:
    if math.isnan(margin) or c.of_ranks or math.isnan(c.p):
        return math.nan
    ends = [c.bounds.lowest, c.bounds.highest] if c.bounds else []
    return c.error.alike_p([c.difference, *ends], margin)


def _detectable(c: Comparison, p_adjusted: float, level: float) -> dict[str, float]:
    """The fields on what a comparison without a verdict could have shown."""
    if not p_adjusted > ALPHA:
        return {}
    never = c.least_p > level and (c.error.is_known or c.clusters == 1)
    return {
        "detectable": math.inf if never else c.error.detectable(level),
        "detectable_with_more": c.error.detectable_with_more(level),
    }


def _noted(c: Comparison, family: int) -> Comparison:
    """The comparison with its tipping point and all notes."""
    tipping = _tipping(c)
    warnings = [] if c.bounds is None else [c.bounds.words(c.a, c.b, tipping, unpaired=c.unpaired)]
    if c.least_p <= ALPHA < family * c.least_p and c.difference:
        smallest = min(1.0, family * c.least_p)
        warnings.append(
            f"few independent inputs for {family:,} comparisons: the smallest of their adjusted p "
            f"is {smallest:.3g} or more"
        )
    return replace(c, tipping=tipping, note="; ".join([*filter(None, [c.note]), *warnings]))


def _tipping(c: Comparison) -> Tipping | None:
    """What turns a withheld verdict; None of another, or where it can't be told."""
    if c.bounds is None or c.bounds.line is None or not c.p_unbounded <= ALPHA < c.p_adjusted:
        return None
    above = c.difference > 0
    p = ALPHA * (c.p / c.p_unbounded if c.p_unbounded else 1.0)
    values = c.bounds.line.turning(above=above, p=p)
    if values is None:
        return None
    value_a, value_b = (
        value if count else math.nan
        for value, count in zip(values, (c.bounds.only_a, c.bounds.only_b), strict=True)
    )
    return Tipping(value_a, value_b, above)


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
        seeded: the texts that have the values, with their seeds; None if they have none.
        why_empty: the note for two systems where no input counts.
        ends: `undefined_ends` of the texts.
        votes: of how many votes the values of texts are shares (`votes_of`); 0 if of none.
        unit: what a share of 1 is in these values: 100 in percent.
        of_ranks: whether the values are ranks among the texts, as some are infinite.
        separate: all texts, for pairs that share too few inputs; None if there is no other test.
        strata: (inputs,) codes of data sets.
        weights: (datasets,) what a data set weighs in a difference; None if all inputs weigh alike.
        datasets: their names, which a note gives where a pair does not share all.
    """

    names: Sequence[str]
    values: Floats
    texts: Codes
    lacking: Codes
    clusters: Hashes | Codes
    seeded: SeededTexts | None
    why_empty: Callable[[str, str], str]
    ends: tuple[float, float]
    votes: int = 0
    unit: float = 1.0
    of_ranks: bool = False
    separate: Callable[[], SeparateTexts] | None = None
    strata: Codes | None = None
    weights: Floats | None = None
    datasets: Sequence[str] = ()

    @property
    def binary(self) -> bool:
        """Whether the values of texts are 0 or 1, or 0 or 100 in percent."""
        return self.votes == 1

    def equal_ends(self, c: Comparison, level: float) -> tuple[float, float]:
        """The interval of a comparison whose differences are all equal; NaN where nothing tells
        how far those of other inputs may be, as it is known of shares."""
        d = c.difference / self.unit
        if not self.votes or c.clusters < FEWEST_CLUSTERS or d not in (-1.0, 0.0, 1.0):
            return math.nan, math.nan
        low, high = equal_difference_ends(
            d, n=c.inputs, clusters=c.clusters, level=level, votes=self.votes
        )
        return self.unit * low, self.unit * high

    def omega(self, use: Bools) -> Floats:
        """(inputs, columns): the weights of the inputs that count, which sum to 1."""
        if self.strata is None or self.weights is None:
            return np.asarray(use / np.maximum(use.sum(axis=0), 1), dtype=np.float64)
        w = self.weights[:, None]
        n = np.stack([np.bincount(self.strata, u, len(w)) for u in use.T], axis=1)
        share = np.where(n > 0, w / np.maximum(n, 1), 0.0)
        share /= np.maximum((w * (n > 0)).sum(axis=0), np.finfo(float).tiny)
        return np.where(use, share[self.strata], 0.0)


def compared_systems(
    metric_values: Iterable[ValuesOfSystems], resampling: Resampling = DEFAULT
) -> list[list[Comparison]]:
    """Every two systems under every metric by their values on equal inputs; p is not adjusted.

    An input counts for a pair if both have a value there; tests and intervals are those of
    `difference_tests`. Two systems of which one lacks values that the other has get `Bounds`
    besides. Two that share fewer than six clusters, and have far more of their own, are compared by
    `SeparateTexts.difference`. Metrics with more than `MANY` clusters are tested together, as many
    as memory allows.
    """
    results: list[list[Comparison]] = []
    held: list[_Tested] = []

    def test() -> None:
        if held:
            tests, seed_test = difference_tests(
                _beside([d.S for d in held]),
                _beside([d.W for d in held]),
                [c for d in held for c in d.contrasts],
                np.repeat([d.binary for d in held], [d.S.shape[1] for d in held]),
                resampling,
            )
            start = 0
            for d in held:
                columns = slice(start, start := start + d.S.shape[1])
                flips = SignFlips(*(getattr(tests, f.name)[columns] for f in fields(SignFlips)))
                results.append(d.comparisons(flips, seed_test[columns]))
        held.clear()

    for values in metric_values:
        differences = _tested(values, resampling)
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
        S, W: (clusters, columns) weighted sums of differences and weights: of the pairs, then the
            lowest and the highest of each pair with bounds.
        means: of the columns.
        contrasts: of the columns; None without seeds.
        drafts: of each pair, what no test says.
        undefined: pair -> its bounds without their p.
        binary: whether values are 0 or 1.
    """

    S: Floats
    W: Floats
    means: Sequence[float]
    contrasts: Sequence[Contrast | None]
    drafts: Sequence[_Draft]
    undefined: Mapping[int, Bounds]
    binary: bool

    def comparisons(self, tests: SignFlips, seed_test: Bools) -> list[Comparison]:
        """The comparisons with the tests of the columns."""
        pairs = len(self.drafts)
        bounds = {
            j: replace(b, p_lowest=float(tests.p[k]), p_highest=float(tests.p[k + 1]))
            for k, (j, b) in zip(itertools.count(pairs, 2), self.undefined.items())
        }
        return [
            draft.comparison(tests, j, self.contrasts[j] if seed_test[j] else None, bounds.get(j))
            for j, draft in enumerate(self.drafts)
        ]


@dataclass(frozen=True)
class _Draft:
    """What no test says of a comparison.

    Attributes:
        untested: the comparison without it; one that is unpaired with it.
        differing: how many clusters have a difference that is not 0.
        seeds: system -> how many it has; empty without seeds.
        notes: on numbers that are missing.
    """

    untested: Comparison
    differing: int
    seeds: Mapping[str, int]
    notes: Sequence[str]

    def comparison(
        self, tests: SignFlips, j: int, contrast: Contrast | None, bounds: Bounds | None
    ) -> Comparison:
        if self.untested.unpaired:
            return self.untested
        least = float(tests.least[j])
        seed_test, seeds = contrast is not None, self.seeds
        basis = [verdict_basis(seeds, seed_test)] if seeds and self.untested.inputs else []
        return replace(
            self.untested,
            low=self.untested.low if math.isnan(tests.low[j]) else float(tests.low[j]),
            high=self.untested.high if math.isnan(tests.high[j]) else float(tests.high[j]),
            p=float(tests.p[j]),
            note="; ".join([*basis, *self.notes, *self._few(least)]),
            bounds=bounds,
            least_p=least if self.untested.inputs else 0.0,
            error=ErrorOfTest.of(tests.se[j], tests.df[j], contrast, self.seeds),
        )

    def _few(self, least: float) -> Iterator[str]:
        """Why p can't be small, if it can't."""
        clusters = self.untested.clusters
        if not self.differing or not least > ALPHA:
            return
        reason = (
            "too few independent inputs"
            if 2.0 ** (1 - clusters) > ALPHA
            else f"ties on {clusters - self.differing:,} of {clusters:,} independent inputs"
        )
        yield f"{reason}: p can't go below {least:.3g}"


_FEW_CLUSTERS = 6
"""Sign flips of fewer clusters reject nothing at 5 %."""

_MANY_MORE = 3
"""An unpaired test replaces a paired one if it has this many times the clusters of the latter."""


def _tested(systems: ValuesOfSystems, resampling: Resampling) -> _Tested:
    values, names = systems.values, systems.names
    pairs = list(itertools.combinations(range(len(names)), 2))
    columns = [paired_differences(*values[:, p].T) for p in pairs]
    undefined: dict[int, UndefinedPair] = {}
    worst, best = systems.ends
    if not math.isnan(worst):
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
    omega = systems.omega(use)
    S = cluster_sums(omega * np.where(use, D, 0.0), code, K)
    W = cluster_sums(omega, code, K)
    with np.errstate(invalid="ignore"):
        means = (S.sum(axis=0) / W.sum(axis=0)).tolist()
    contrasts: list[Contrast | None] = [None] * D.shape[1]
    halfway: dict[int, Contrast | None] = {}
    texts = systems.seeded
    if texts is not None:
        prior = texts.prior()
        contrasts = [
            texts.difference(*p, w, prior=prior) for p, w in zip(pairs, omega.T, strict=False)
        ]
        middle = (worst + best) / 2
        for (j, pair), k in zip(undefined.items(), itertools.count(len(pairs), 2)):
            *end_contrasts, halfway[j] = (
                texts.difference(
                    *pairs[j], omega[:, k], prior=prior, filled=ends, uneven=pair.uneven
                )
                for ends in ((worst, best), (best, worst), (middle, middle))
            )
            contrasts += end_contrasts
    bounds: dict[int, Bounds] = {}
    for (j, pair), k in zip(undefined.items(), itertools.count(len(pairs), 2)):
        ends = slice(k, k + 2)
        seed_contrasts = (contrasts[k], halfway.get(j), contrasts[k + 1])
        D_ends = (means[k], means[k + 1])
        V, df = _variances(S[:, ends], W[:, k], seed_contrasts)
        bounds[j] = Bounds(
            *D_ends, math.nan, math.nan, pair.only_a, pair.only_b, pair.inputs,
            UndefinedLine(D_ends, V, df, systems.ends),
        )  # fmt: skip
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
            effect=cohen_dz(d, omega[rows, j] if systems.weights is not None else None),
            p=math.nan,
            p_adjusted=math.nan,
            note="",
            of_ranks=systems.of_ranks,
        )
        equal = d.size > 1 and _are_equal(S[:, j], W[:, j])
        if equal:
            low, high = systems.equal_ends(comparison, resampling.level)
            comparison = replace(comparison, low=low, high=high)
        notes = [*_notes(comparison, rows, systems, equal=equal)]
        if clusters < _FEW_CLUSTERS and systems.separate is not None:
            comparison = _unpaired(comparison, (a, b), systems, resampling) or comparison
        pair_seeds = {names[s]: seeds[s] for s in (a, b) if seeds.get(s)}
        differing = int(np.count_nonzero(S[:, j]))
        drafts.append(_Draft(comparison, differing, pair_seeds, notes))
    return _Tested(S, W, means, contrasts, drafts, bounds, systems.binary)


def _variances(
    S: Floats, w: Floats, seed_contrasts: Sequence[Contrast | None]
) -> tuple[tuple[float, float, float], float]:
    """The variances of `UndefinedLine` with their degrees of freedom.

    Args:
        S: (clusters, 2) sums at both ends.
        w: (clusters,) weights, which sum to 1.
        seed_contrasts: the differences at both ends and halfway where seeds are a sample.
    """
    contrasts = [c for c in seed_contrasts if c is not None and c.samples_seeds]
    if len(contrasts) == 3:
        V_0, V_half, V_1 = (c.variance for c in contrasts)
        return (V_0, 2 * V_half - (V_0 + V_1) / 2, V_1), min(c.df for c in contrasts)
    K = int(np.count_nonzero(w))
    residual = S - w[:, None] * S.sum(axis=0)
    V = residual.T @ residual * (K / max(K - 1, 1))
    return (float(V[0, 0]), float(V[0, 1]), float(V[1, 1])), float(max(K - 1, 1))


def _are_equal(S: Floats, W: Floats) -> bool:
    """Whether the mean difference of each cluster is the same."""
    means = S[W > 0] / W[W > 0]
    return bool(np.ptp(means) <= _ROUNDING * np.abs(means).max())


def _notes(c: Comparison, rows: Bools, systems: ValuesOfSystems, *, equal: bool) -> Iterator[str]:
    """Why numbers are missing, and on what data sets a comparison rests.

    Args:
        equal: whether the differences of all clusters are.
    """
    if not c.inputs:
        yield systems.why_empty(c.a, c.b)
        return
    if systems.of_ranks:
        yield OF_RANKS
    if systems.strata is not None:
        shared = np.unique(systems.strata[rows])
        if len(shared) < len(systems.datasets):
            names = ", ".join(systems.datasets[i] for i in shared)
            yield f"on the inputs that both have: {names}"
    if c.inputs == 1:
        yield "one input: no interval, no effect size"
        return
    if c.clusters == 1:
        yield "one cluster: no interval"
    lacking = [
        *(["no interval"] if equal and math.isnan(c.low) and c.clusters > 1 else []),
        *(["no effect size"] if math.isnan(c.effect) else []),
    ]
    if lacking:
        yield f"all differences are equal: {', '.join(lacking)}"


def _unpaired(
    c: Comparison, pair: tuple[int, int], systems: ValuesOfSystems, resampling: Resampling
) -> Comparison | None:
    """The comparison by independent texts; None if these are not many more clusters."""
    if systems.separate is None:
        return None
    texts = systems.separate()
    difference = texts.difference(*pair)
    if difference is None or difference.clusters < 2 * _MANY_MORE * c.clusters:
        return None
    low, high = difference.contrast.ends(resampling.level)
    bounds = None
    lacking = [texts.lacking(s) for s in pair]
    if any(lacking):
        a, b = pair
        worst, best = systems.ends
        middle = (worst + best) / 2
        filled = [
            texts.filled(a, value_a, b, value_b).difference(a, b)
            for value_a, value_b in ((worst, best), (middle, middle), (best, worst))
        ]
        low_end, half, high_end = (None if f is None else f.contrast for f in filled)
        if low_end is None or half is None or high_end is None:
            return None
        D = (low_end.value, high_end.value)
        V_01 = 2 * half.variance - (low_end.variance + high_end.variance) / 2
        V = (low_end.variance, V_01, high_end.variance)
        bounds = Bounds(
            *D, low_end.p, high_end.p, lacking[0], lacking[1],
            difference.n_a + difference.n_b + sum(lacking),
            UndefinedLine(D, V, min(low_end.df, high_end.df), systems.ends),
        )  # fmt: skip
    shared = "1 shared input" if c.inputs == 1 else f"{c.inputs:,} shared inputs"
    reason = f"only {shared}" if c.inputs else systems.why_empty(c.a, c.b)
    test = (
        f"unpaired: Welch's t test of {difference.n_a:,} and {difference.n_b:,} texts within "
        "control values and data sets"
    )
    return replace(
        c,
        inputs=difference.n_a + difference.n_b,
        left_out=difference.left_out,
        clusters=difference.clusters,
        difference=difference.contrast.value,
        low=low,
        high=high,
        effect=difference.effect,
        p=difference.contrast.p,
        note="; ".join([test, reason, *([OF_RANKS] if systems.of_ranks else [])]),
        bounds=bounds,
        error=ErrorOfTest.of(
            math.sqrt(difference.contrast.variance), difference.contrast.df, None, {}
        ),
        unpaired=True,
    )
