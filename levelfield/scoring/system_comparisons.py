"""Every two systems under several metrics, by their values on equal inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats, Hashes
from levelfield.scoring.comparison import (
    ALPHA,
    Bounds,
    Comparison,
    UndefinedPair,
    undefined_pair,
)
from levelfield.scoring.seeds import SeededTexts, difference_tests, verdict_basis
from levelfield.stats.clusters import MANY, cluster_sums, coded
from levelfield.stats.effect import cohen_dz
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.seeds import Contrast
from levelfield.stats.sign_flip import SignFlips, paired_differences

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
                own = slice(start, start := start + d.S.shape[1])
                of_own = SignFlips(tests.p[own], tests.low[own], tests.high[own], tests.least[own])
                results.append(d.comparisons(of_own, of_seeds[own]))
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
        known: the comparison without it.
        differs: whether any difference is not 0.
        seeds: system -> how many it has; empty without seeds.
        notes: on numbers that are missing.
    """

    known: Comparison
    differs: bool
    seeds: Mapping[str, int]
    notes: Sequence[str]

    def comparison(
        self, tests: SignFlips, j: int, of_seeds: bool, bounds: Bounds | None
    ) -> Comparison:
        least = float(tests.least[j])
        basis = [verdict_basis(self.seeds, of_seeds)] if self.seeds and self.known.inputs else []
        few = f"too few independent inputs: p can't go below {least:.3g}"
        return replace(
            self.known,
            low=float(tests.low[j]),
            high=float(tests.high[j]),
            p=float(tests.p[j]),
            note="; ".join([*basis, *self.notes, *[few] * (least > ALPHA and self.differs)]),
            bounds=bounds,
            least_p=least if self.known.inputs else 0.0,
        )


def _tested(of: ValuesOfSystems) -> _Tested:
    values, names = of.values, of.names
    has_values = ~np.isnan(values).all(axis=0)
    complete = ~np.isnan(values[:, has_values]).any(axis=1) & has_values.any()
    pairs = list(itertools.combinations(range(len(names)), 2))
    columns = [np.where(complete, paired_differences(*values[:, p].T), np.nan) for p in pairs]
    undefined: dict[int, UndefinedPair] = {}
    if not np.isnan(values).all():
        worst, best = float(np.nanmin(values)), float(np.nanmax(values))
        for j, p in enumerate(pairs):
            pair = undefined_pair(values[:, p], of.texts[:, p], of.lacking[:, p], worst, best)
            if pair is not None:
                undefined[j] = pair
                columns += [pair.lowest, pair.highest]
    D = np.stack(columns, axis=1)
    use = ~np.isnan(D)
    K, code = coded(of.clusters)
    S = cluster_sums(np.where(use, D, 0.0), code, K)
    W = cluster_sums(use.astype(np.float64), code, K)
    with np.errstate(invalid="ignore"):
        means = (S.sum(axis=0) / W.sum(axis=0)).tolist()
    contrasts: list[Contrast | None] = [None] * D.shape[1]
    texts = of.seeded
    if texts is not None:
        omega = use / np.maximum(use.sum(axis=0), 1)
        contrasts = [texts.difference(*p, w) for p, w in zip(pairs, omega.T, strict=False)]
        for (j, pair), k in zip(undefined.items(), itertools.count(len(pairs), 2)):
            for column, ends in ((k, (worst, best)), (k + 1, (best, worst))):
                contrasts.append(
                    texts.difference(*pairs[j], omega[:, column], filled=ends, uneven=pair.uneven)
                )
    seeds = {} if texts is None else {s: texts.seeds_of(s) for s in range(len(names))}
    drafts = []
    for j, (a, b) in enumerate(pairs):
        rows = use[:, j]
        d, clusters = D[rows, j], int(np.count_nonzero(W[:, j]))
        known = Comparison(
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
        notes = _notes(known) if d.size else [of.why_empty(names[a], names[b])]
        drafts.append(_Draft(known, bool(d.any()), of_pair, notes))
    counts = {j: (pair.only_a, pair.only_b, pair.inputs) for j, pair in undefined.items()}
    return _Tested(S, W, means, contrasts, drafts, counts)


def _notes(known: Comparison) -> list[str]:
    """Why numbers are missing."""
    if known.inputs == 1:
        return ["one input: no interval, no effect size"]
    one_cluster = ["one cluster: no interval"] * (known.clusters == 1)
    equal = ["all differences are equal: no effect size"] * math.isnan(known.effect)
    return one_cluster + equal
