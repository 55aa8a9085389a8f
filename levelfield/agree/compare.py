"""Which metric agrees better with people, and a ranking of those that can be told apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from levelfield.agree.design import CompareBy, CorrelationLevel, GroupBy
from levelfield.agree.join import RatedScores
from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.core.documents import Document
from levelfield.stats.clusters import coded
from levelfield.stats.correlation import statistics
from levelfield.stats.dependent import Swapped, Williams, swap_tests, williams
from levelfield.stats.estimands import Systems
from levelfield.stats.estimate import finite
from levelfield.stats.grouped import r_within, ranked_within
from levelfield.stats.measures import why_undefined
from levelfield.stats.multiplicity import adjusted_by_family, rank_clusters
from levelfield.stats.power import detectable_difference, level_of_family
from levelfield.stats.resampling import DEFAULT, Correction, Family, Resampling
from levelfield.stats.swap_both import swap_both
from levelfield.stats.system_difference import corrected_difference, corrected_r, swap_systems
from levelfield.stats.system_level import too_few_systems
from levelfield.stats.system_means import means_of
from levelfield.stats.two_way import crossed_tests

Test = Literal["swapped clusters", "swapped systems", "true means", "two-way", "swapped both"]


_KEYS: Mapping[Test, str] = {"true means": "true_means", "two-way": "two_way"}
"""Names in JSON of the tests that permute nothing."""


@dataclass(frozen=True)
class MetricComparison(Document):
    """Two metrics on one aspect, on the samples for which every metric has a value.

    Attributes:
        aspect, a, b: names; a has the higher correlation (where `test` is "true means", without
            the noise of the means).
        r_a, r_b: their correlations with the ratings (means over groups, if there are any).
        r_ab: the correlation of the two with each other, among samples or among systems.
        n: samples (at system level: systems).
        left_out: rated samples that some metric has no value for, or whose group is constant.
        williams: Williams' test.
        swapped: the test that the verdict rests on.
        test: which that is: whole clusters are swapped between the metrics, or systems, or the
            difference is of the true means of these systems (`corrected_difference`), or over its
            variance among systems and sources (`crossed_tests`).
        williams_adjusted, p_adjusted: their two-sided p, adjusted over the comparisons of a
            family: those on the aspect, or all of the run.
        detectable: where no difference is shown, the true difference of the correlations that 80 %
            of such studies show, at the level that the family leaves (`level_of_family`); infinite
            where p can't be as small. NaN where a difference is shown, and without a test.
    """

    aspect: str
    a: str
    b: str
    r_a: float
    r_b: float
    r_ab: float
    n: int
    left_out: int
    williams: Williams
    swapped: Swapped
    test: Test = "swapped clusters"
    williams_adjusted: float = math.nan
    p_adjusted: float = math.nan
    detectable: float = math.nan

    def verdict(self, alpha: float = 0.05) -> str:
        """Who agrees better, by `swapped`: `a > b`, `b > a`, or that no difference is shown."""
        if math.isnan(self.p_adjusted):
            return "not compared"
        better = self.better(alpha)
        return f"{better[0]} > {better[1]}" if better else "no difference shown"

    def better(self, alpha: float = 0.05) -> tuple[str, str] | None:
        """The metric that is shown to agree better and the other one; None if none is."""
        difference = self.swapped.difference
        if not (self.p_adjusted <= alpha and difference != 0):
            return None
        return (self.a, self.b) if difference > 0 else (self.b, self.a)

    def to_dict(self, alpha: float = 0.05) -> dict[str, Any]:
        """As JSON has it; the verdict is at `alpha`."""
        key = _KEYS.get(self.test, "permutation")
        tests: dict[str, dict[str, Any]] = {
            "williams": {
                "t": finite(self.williams.t),
                "p": finite(self.williams.p),
                "p_greater": finite(self.williams.p_greater),
                "p_adjusted": finite(self.williams_adjusted),
            },
            key: {
                "test": self.test,
                "p": finite(self.swapped.p),
                "p_greater": finite(self.swapped.p_greater),
                "p_adjusted": finite(self.p_adjusted),
                "clusters": self.swapped.clusters,
                "groups": self.swapped.groups,
            },
        }
        if self.test == "true means":
            tests[key]["difference"] = finite(self.swapped.difference)
        for name, test in (("williams", self.williams), (key, self.swapped)):
            if test.why_undefined:
                tests[name]["why_undefined"] = test.why_undefined
            if test.note:
                tests[name]["note"] = test.note
        return {
            "aspect": self.aspect,
            "a": self.a,
            "b": self.b,
            "r_a": finite(self.r_a),
            "r_b": finite(self.r_b),
            "r_ab": finite(self.r_ab),
            "difference": finite(self.r_a - self.r_b),
            "n": self.n,
            "left_out": self.left_out,
            **tests,
            "detectable": finite(self.detectable),
            "verdict": self.verdict(alpha),
        }


def test_notes(comparisons: Sequence[MetricComparison]) -> list[str]:
    """What a reader must know of the tests, each once."""
    notes = (note for c in comparisons for note in (c.williams.note, c.swapped.note) if note)
    return list(dict.fromkeys(notes))


@dataclass(frozen=True)
class Ranking(Document):
    """The metrics on one aspect, those that can't be told apart together.

    Attributes:
        aspect: its name.
        clusters: best first; within a cluster by correlation, for the true means of these systems
            by that without noise.
        r: metric -> correlation on the compared samples.
        not_ranked: metric -> why.
    """

    aspect: str
    clusters: tuple[tuple[str, ...], ...]
    r: Mapping[str, float]
    not_ranked: Mapping[str, str]

    _entries = "aspect clusters=_metrics not_ranked"

    @property
    def _metrics(self) -> list[list[dict[str, Any]]]:
        return [[{"metric": m, "r": self.r[m]} for m in cluster] for cluster in self.clusters]


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of a run, and the ranking on every aspect."""

    comparisons: tuple[MetricComparison, ...]
    rankings: tuple[Ranking, ...]

    def tested(self, aspect: str) -> bool:
        """Whether a test compares any two metrics on the aspect."""
        return any(c.aspect == aspect and not c.swapped.why_undefined for c in self.comparisons)


def compare(
    table: RatedScores,
    *,
    level: CorrelationLevel = "segment",
    group: GroupBy = "all",
    systems: Systems = "like-these",
    by: CompareBy = "pearson",
    perm_both: bool = False,
    correction: Correction = "holm",
    alpha: float = 0.05,
    resampling: Resampling = DEFAULT,
) -> Comparisons:
    """Compares every two metrics on every aspect: `williams`, a test, and `rank_clusters`.

    At segment level the test is `crossed_tests` for systems `like-these`, where two or more are
    named, else `swap_tests`.

    At system level the systems are the sample: the two metrics' standardised means are swapped
    system by system. For `these` systems the difference is of their true means, and metrics are in
    the order of the correlations without noise.

    Metrics are compared on the samples that all of them have a value for (a metric without any, or
    a constant one, is left aside with the reason), in the groups where none of them is constant.
    p-values are adjusted over the comparisons on an aspect, or over all of the run
    (`Resampling.family`). Williams' test is for one group; it is
    undefined for means over groups.

    Args:
        by: which correlation. For Spearman values are ranked within groups beforehand.
        perm_both: test by `swap_both` where `crossed_tests` would.
        alpha: for the clusters of the ranking, on the adjusted p of the test.
    """
    by_system = level == "system"
    groups = None if by_system or group == "all" else table.groups(group)
    test: Test
    if by_system:
        test = "true means" if systems == "these" else "swapped systems"
    elif systems == "like-these" and table.has_systems:
        test = "swapped both" if perm_both else "two-way"
    else:
        test = "swapped clusters"
    names = table.systems if test == "swapped clusters" else table.groups("system")
    pairs: list[list[MetricComparison]] = []
    parts: list[tuple[str, Mapping[str, float], Mapping[str, str]]] = []
    for aspect in table.aspects:
        rows, why_not = _rows(table, aspect, "pearson" if by_system else by, groups)
        samples = _Samples(
            {m: v[rows] for m, v in table.metrics.items() if m not in why_not},
            table.aspects[aspect][rows],
            table.clusters[rows],
            None if groups is None else groups[rows],
            names[rows],
            by_system,
            by,
        )
        r, strength = _correlations(samples, test, resampling)
        why_not |= {m: _UNDEFINED for m in samples.metrics if m not in r}
        order = sorted(sorted(r), key=strength.__getitem__, reverse=True)
        parts.append((aspect, {m: r[m] for m in order}, why_not))
        swapped = _tests(samples, list(itertools.combinations(order, 2)), test, resampling)
        left_out = table.rows(aspect).size - rows.size
        pairs.append(
            [
                _comparison(aspect, a, b, samples, r, left_out, s, test)
                for (a, b), s in swapped.items()
            ]
        )
    done = tuple(_adjusted(pairs, correction=correction, alpha=alpha, family=resampling.family))
    shown = {(c.aspect, c.better(alpha)) for c in done}

    def ranking(aspect: str, r: Mapping[str, float], why_not: Mapping[str, str]) -> Ranking:
        clusters = rank_clusters(list(r), lambda a, b: (aspect, (a, b)) in shown)
        return Ranking(aspect, tuple(map(tuple, clusters)), r, why_not)

    return Comparisons(done, tuple(ranking(*part) for part in parts))


_UNDEFINED = "undefined on the samples that all metrics have values for"
"""Why a metric is not ranked."""


@dataclass(frozen=True)
class _Samples:
    """The samples that metrics are compared on, for one aspect. Every array is (n,).

    Attributes:
        metrics: name -> values, all of them defined.
        y: ratings.
        clusters: of samples that share an input.
        groups: of which correlations have a mean; None if there are none.
        systems: names.
        by_system: whether correlations are those of means of systems.
        by: which correlation.
    """

    metrics: Mapping[str, Floats]
    y: Floats
    clusters: Codes
    groups: npt.NDArray[Any] | None
    systems: npt.NDArray[Any]
    by_system: bool
    by: CompareBy

    @property
    def n(self) -> int:
        """Samples, or systems where their means are compared."""
        return np.unique(self.systems).size if self.by_system else self.y.size

    def agreement(self, x: Floats, y: Floats, *, grouped: bool = True) -> float:
        """Returns the correlation of two values of the samples."""
        groups = self.groups if grouped else None
        return _agreement(x, y, groups, self.systems if self.by_system else None, self.by)


def _rows(
    table: RatedScores, aspect: str, by: CompareBy, groups: npt.NDArray[Any] | None
) -> tuple[npt.NDArray[np.intp], dict[str, str]]:
    """Returns the rows on which all metrics can be compared, and why other metrics can't."""
    usable, why_not = _usable(table, aspect, by)
    rows = table.rows(aspect, *usable)
    if groups is not None:
        rows = rows[_varying(table, aspect, usable, rows, groups)]
    return rows, why_not


def _correlations(
    samples: _Samples, test: Test, resampling: Resampling
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Returns the defined correlations with the ratings, and what metrics are in the order of."""
    r = {m: samples.agreement(x, samples.y) for m, x in samples.metrics.items()}
    r = {m: v for m, v in r.items() if not math.isnan(v)}
    if test != "true means" or samples.by != "pearson":
        return r, {m: (0.0, v) for m, v in r.items()}
    strength = {}
    codes = coded(samples.clusters)[1], coded(samples.systems)[1]
    for m, v in r.items():
        corrected = corrected_r(samples.metrics[m], samples.y, *codes, level=resampling.level)
        strength[m] = (-math.inf if math.isnan(corrected) else corrected, v)
    return r, strength


def _tests(
    samples: _Samples, pairs: Sequence[tuple[str, str]], test: Test, resampling: Resampling
) -> dict[tuple[str, str], Swapped]:
    """Returns the test of every pair of metrics."""
    x, y, clusters, systems = samples.metrics, samples.y, samples.clusters, samples.systems
    ranks = samples.by == "spearman"
    permutations, seed = resampling.permutations, resampling.seed
    few = too_few_systems(np.unique(systems).size)
    if test == "true means":
        tests = [
            _true_means_test(pair, x[pair[0]], x[pair[1]], samples, resampling) for pair in pairs
        ]
    elif test == "swapped systems":
        tests = [
            swap_systems(x[a], x[b], y, systems, ranks=ranks, permutations=permutations, seed=seed)
            for a, b in pairs
        ]
    elif test == "swapped both" and not few:
        tests = [
            swap_both(
                x[a], x[b], y, systems, clusters, ranks=ranks, permutations=permutations, seed=seed
            )
            for a, b in pairs
        ]
    else:
        order = list(dict.fromkeys(itertools.chain(*pairs)))
        places = [(order.index(a), order.index(b)) for a, b in pairs]
        values = [x[m] for m in order]
        if test == "swapped clusters":
            tests = swap_tests(
                values,
                places,
                y,
                clusters,
                samples.groups,
                ranks=ranks,
                permutations=permutations,
                seed=seed,
            )
        else:
            tests = crossed_tests(values, places, y, systems, clusters, samples.groups, ranks=ranks)
    return dict(zip(pairs, tests, strict=True))


def _comparison(
    aspect: str,
    a: str,
    b: str,
    samples: _Samples,
    r: Mapping[str, float],
    left_out: int,
    swapped: Swapped,
    test: Test,
) -> MetricComparison:
    r_ab = samples.agreement(samples.metrics[a], samples.metrics[b], grouped=False)
    n, K = samples.n, np.unique(samples.clusters).size
    tested = _williams(r[a], r[b], r_ab, n, K, samples.groups is None, test)
    return MetricComparison(aspect, a, b, r[a], r[b], r_ab, n, left_out, tested, swapped, test)


def _adjusted(
    pairs: Sequence[Sequence[MetricComparison]],
    *,
    correction: Correction,
    alpha: float,
    family: Family,
) -> Iterator[MetricComparison]:
    """Yields the comparisons on each aspect with p adjusted over their families.

    Where p can't be small enough there is a note, and where no difference is shown the one that
    could be.
    """
    p, w = (
        adjusted_by_family(p_values, family, correction)
        for p_values in (
            [[c.swapped.p for c in comparisons] for comparisons in pairs],
            [[c.williams.p for c in comparisons] for comparisons in pairs],
        )
    )
    numbers = [sum(not math.isnan(c.swapped.p) for c in comparisons) for comparisons in pairs]
    run_family = (
        sum(numbers),
        level_of_family(itertools.chain(*p), alpha=alpha, correction=correction),
    )
    for comparisons, p_aspect, w_aspect, number in zip(pairs, p, w, numbers, strict=True):
        aspect_family = number, level_of_family(p_aspect, alpha=alpha, correction=correction)
        m, level = run_family if family == "run" else aspect_family
        for c, p_adjusted, williams_adjusted in zip(comparisons, p_aspect, w_aspect, strict=True):
            yield replace(
                c,
                p_adjusted=p_adjusted,
                williams_adjusted=williams_adjusted,
                swapped=_with_resolution(c.swapped, test=c.test, comparisons=m, alpha=alpha),
                detectable=_detectable(c, level) if p_adjusted > alpha else math.nan,
            )


def _williams(
    r_a: float, r_b: float, r_ab: float, n: int, K: int, one_group: bool, test: Test
) -> Williams:
    """Williams' test, with what its assumption leaves out."""
    if not one_group:
        nan = math.nan
        return Williams(nan, nan, nan, n, "Williams' test is for one group")
    result = williams(r_a, r_b, r_ab, n)
    if result.why_undefined:
        return result
    if test == "true means":
        return result._replace(note="Williams' test is for systems like these, not for these")
    if test in ("swapped clusters", "two-way", "swapped both") and n > K:
        return result._replace(
            note=f"Williams' test takes {n:,} samples as independent, which form {K:,} clusters: "
            "its p is too small"
        )
    return result


def _detectable(c: MetricComparison, level: float) -> float:
    """The difference that 80 % of such studies show at a level."""
    K = c.swapped.n if c.test == "swapped systems" else c.swapped.clusters
    if c.test in ("swapped clusters", "swapped systems") and level < 2.0 ** (1 - K):
        return math.inf
    df = K - 1 if math.isnan(c.swapped.df) else c.swapped.df
    return detectable_difference(c.swapped.se, df, alpha=level)


def _with_resolution(swapped: Swapped, test: Test, comparisons: int, alpha: float) -> Swapped:
    """Returns the test, with a note if no p over these comparisons can be small enough."""
    n, units = (
        (swapped.n, "systems") if test == "swapped systems" else (swapped.clusters, "clusters")
    )
    least = 2.0 ** (1 - n)
    most = min(1.0, least * comparisons)
    if test in (*_KEYS, "swapped both") or swapped.why_undefined or most <= alpha:
        return swapped
    over = f", {most:.2g} over {comparisons:,} comparisons" * (comparisons > 1)
    note = f"with {n} {units} p can't go below {least:.2g}{over}: no difference can be shown"
    return replace(swapped, note=note)


def _true_means_test(
    names: tuple[str, str], a: Floats, b: Floats, samples: _Samples, resampling: Resampling
) -> Swapped:
    """The test of the true means of these systems."""
    K, cluster = coded(samples.clusters)
    S, system = coded(samples.systems)
    if samples.by == "spearman":
        nan = math.nan
        return Swapped(nan, nan, nan, S, K, 0, "noise can't be taken out of ranks")
    return corrected_difference(
        a, b, samples.y, cluster, system,
        draws=resampling.permutations, level=resampling.level, seed=resampling.seed,
        names=(f"metric {names[0]}", f"metric {names[1]}"),
    )  # fmt: skip


def _usable(table: RatedScores, aspect: str, by: CompareBy) -> tuple[list[str], dict[str, str]]:
    """The metrics that have a correlation over the rated samples, and why the others do not.

    Means of systems have none, by ranks either, where a value is infinite.
    """
    usable, why_not = [], {}
    for metric in table.metrics:
        rows = table.rows(aspect, metric)
        reason = why_undefined(by, table.metrics[metric][rows], table.aspects[aspect][rows])
        if reason:
            why_not[metric] = reason
        else:
            usable.append(metric)
    return usable, why_not


def _varying(
    table: RatedScores,
    aspect: str,
    metrics: Sequence[str],
    rows: Codes,
    group_of: npt.NDArray[Any],
) -> Bools:
    """Which rows are in a group where the ratings and every metric vary."""
    _, code = np.unique(group_of[rows], return_inverse=True)
    varies = np.ones(code.size, dtype=bool)
    G = int(code.max(initial=-1)) + 1
    for v in (table.aspects[aspect][rows], *(table.metrics[m][rows] for m in metrics)):
        low, high = np.full(G, np.inf), np.full(G, -np.inf)
        np.minimum.at(low, code, v)
        np.maximum.at(high, code, v)
        varies &= (low < high)[code]
    return varies


def _agreement(
    x: Floats,
    y: Floats,
    group_of: npt.NDArray[Any] | None,
    systems: npt.NDArray[Any] | None,
    by: CompareBy,
) -> float:
    if systems is not None:
        return statistics(means_of(x, systems), means_of(y, systems), (by,))[by]
    if group_of is None:
        return statistics(x, y, (by,))[by]
    G, group = coded(group_of)
    if by == "spearman":
        x, y = ranked_within(x, group), ranked_within(y, group)
    r = r_within(x, y, group, G)
    return float(np.nanmean(r)) if not np.isnan(r).all() else math.nan
