"""Seeds as a sample beside prompts: contrasts of systems, and what is said of their seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.means import Range, within
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.seeds import Contrast, SeedPrior, contrast, seed_prior
from levelfield.stats.shares import share_ends
from levelfield.stats.sign_flip import SignFlips, sign_flips

NO_SEED = -1
"""Code in place of a seed's, of texts that share no seed with others."""


@dataclass(frozen=True)
class SeededTexts:
    """Texts with their values of a metric.

    Attributes:
        values: (texts,) NaN where undefined.
        systems, seeds, inputs: (texts,) codes; `NO_SEED` for texts with a draw of their own, which
            share no seed.
        clusters, strata: (inputs,) codes.
    """

    values: Floats
    systems: Codes
    seeds: Codes
    inputs: Codes
    clusters: Codes
    strata: Codes

    def seeds_of(self, system: int) -> int:
        """Returns the number of a system's seeds; 0 if its texts share none."""
        seeds = np.unique(self.seeds[self.systems == system])
        return int(np.count_nonzero(seeds != NO_SEED))

    def mean(self, weights: Floats) -> Contrast | None:
        """Returns the mean of one system with these weights, (texts,); 0 where undefined."""
        rows = np.flatnonzero(weights)
        if not rows.size:
            return None
        texts = _Texts(self.values[rows], weights[rows], self.seeds[rows], self.inputs[rows])
        return self._contrast([texts])

    def prior(self) -> SeedPrior | None:
        """Returns what all systems say of how far seeds of one differ; None of fewer than two."""
        defined = ~np.isnan(self.values)
        variances: list[tuple[float, float]] = []
        for system in np.unique(self.systems):
            texts = defined & (self.systems == system)
            c = self.mean(texts / max(int(texts.sum()), 1))
            variances += () if c is None else c.seed_variances
        return seed_prior(variances)

    def difference(
        self,
        a: int,
        b: int,
        omega: Floats,
        *,
        prior: SeedPrior | None,
        filled: tuple[float, float] = (math.nan, math.nan),
        uneven: Bools | None = None,
    ) -> Contrast | None:
        """Returns the difference of two systems.

        Args:
            a, b: the systems.
            omega: (inputs,) weight of each input, which a system's texts with a value share.
            prior: `self.prior()`.
            filled: the values of a's and of b's undefined texts on inputs that are `uneven`.
        """
        if not omega.any():
            return None
        t_a, t_b = (self._texts(s, omega, v, uneven) for s, v in zip((a, b), filled, strict=True))
        return self._contrast([t_a, t_b._replace(weights=-t_b.weights)], prior)

    def _texts(self, system: int, omega: Floats, filled: float, uneven: Bools | None) -> _Texts:
        rows = np.flatnonzero((self.systems == system) & (omega[self.inputs] > 0))
        values, inputs = self.values[rows], self.inputs[rows]
        if uneven is not None:
            values = np.where(np.isnan(values) & uneven[inputs], filled, values)
        defined = ~np.isnan(values)
        values, inputs = values[defined], inputs[defined]
        n = np.bincount(inputs, minlength=len(omega))
        return _Texts(values, omega[inputs] / n[inputs], self.seeds[rows][defined], inputs)

    def _contrast(
        self, system_texts: Sequence[_Texts], prior: SeedPrior | None = None
    ) -> Contrast | None:
        values, weights, seeds, inputs = map(np.concatenate, zip(*system_texts, strict=True))
        return contrast(
            values,
            weights,
            systems=np.repeat(range(len(system_texts)), [t.values.size for t in system_texts]),
            seeds=seeds,
            inputs=inputs,
            clusters=self.clusters[inputs],
            strata=self.strata[inputs],
            prior=prior,
        )


class _Texts(NamedTuple):
    """Texts of one system, (texts,) each."""

    values: Floats
    weights: Floats
    seeds: Codes
    inputs: Codes


def mean_with_seeds(
    texts: SeededTexts, *, votes: int, limits: Range, level: float, by_input: bool = False
) -> Estimate | None:
    """Returns the mean of one system's texts with an interval that holds prompts and seeds.

    The interval is that of `contrast` within the limits of the values, of shares that of
    `share_ends` with its variance. None where seeds are not a sample.

    Args:
        by_input: whether every input weighs the same, rather than every text.
    """
    n = texts.values.size
    weights = np.full(n, 1 / max(n, 1))
    if by_input and n:
        _, code, counts = np.unique(texts.inputs, return_inverse=True, return_counts=True)
        weights = 1 / (counts.size * counts[code])
    c = texts.mean(weights) if n else None
    if c is None or not c.samples_seeds or not c.variance:
        return None
    K = np.unique(texts.clusters[texts.inputs]).size
    low, high = (
        share_ends(c.value, c.variance, n=n, clusters=K, level=level, df=c.df, votes=votes)
        if votes
        else within(c.ends(level), limits)
    )
    return estimate_of_mean(c.value, low, high, n=n, clusters=K)


def difference_tests(
    S: Floats,
    W: Floats,
    contrasts: Sequence[Contrast | None],
    mid: Bools,
    resampling: Resampling = DEFAULT,
) -> tuple[SignFlips, Bools]:
    """Returns the tests of comparisons, and of which the seeds are a sample.

    Those with two seeds or more of a system have the t test of their contrast; the others are
    tested by `sign_flips`.

    Args:
        S, W: (clusters, comparisons), for `sign_flips`.
        contrasts: of each comparison; None without one.
        mid: (comparisons,) which have mid-p, as their values are 0 or 1.
    """
    seed_test = np.array([c is not None and c.samples_seeds and c.variance > 0 for c in contrasts])
    if not seed_test.any():
        return sign_flips(S, W, mid=mid, resampling=resampling), seed_test
    rest = ~seed_test
    flipped = sign_flips(S[:, rest], W[:, rest], mid=mid[rest], resampling=resampling)
    tests = SignFlips(*(np.zeros(len(contrasts)) for _ in fields(SignFlips)))
    for field in fields(SignFlips):
        getattr(tests, field.name)[rest] = getattr(flipped, field.name)
    for j, c in enumerate(contrasts):
        if c is not None and seed_test[j]:
            tests.p[j], (tests.low[j], tests.high[j]) = c.p, c.ends(resampling.level)
            tests.se[j], tests.df[j] = math.sqrt(c.variance), c.df
    return tests, seed_test


def verdict_basis(seeds: Mapping[str, int], seeds_sampled: bool) -> str:
    """Returns how many seeds each system has, and what a test says of them.

    >>> verdict_basis({"a": 1, "b": 1}, seeds_sampled=False)
    'one seed each: sign-flip test of prompts, a claim about these runs'
    >>> verdict_basis({"a": 3, "b": 1}, seeds_sampled=True)
    'a 3 seeds, b one seed: t test with prompts and seeds as samples, a claim about this run of b'
    """
    if not seeds_sampled:
        test = "sign-flip test of prompts, a claim about these runs"
    else:
        single = [system for system, n in seeds.items() if n == 1]
        claim = f", a claim about this run of {single[0]}" if single else ""
        test = f"t test with prompts and seeds as samples{claim}"
    return f"{seeds_in_words(seeds)}: {test}"


def seeds_in_words(seeds: Mapping[str, int]) -> str:
    """Returns how many seeds each system has.

    >>> seeds_in_words({"a": 3, "b": 1}), seeds_in_words({"a": 1, "b": 1})
    ('a 3 seeds, b one seed', 'one seed each')
    """
    if len(set(seeds.values())) == 1 and len(seeds) > 1:
        n = next(iter(seeds.values()))
        return f"{n} seeds each" if n > 1 else "one seed each"
    return ", ".join(f"{s} {n} seeds" if n > 1 else f"{s} one seed" for s, n in seeds.items())
