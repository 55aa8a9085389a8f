"""Systems whose texts share nothing: an unpaired test within control values and data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.clusters import cluster_sums
from levelfield.stats.seeds import Contrast, contrast

FEWEST_CLUSTERS = 5
"""A system with fewer independent clusters has no variance worth a test, and no interval."""


class UnpairedDifference(NamedTuple):
    """The difference of two systems by independent texts.

    Attributes:
        contrast: the difference with its variance and degrees of freedom.
        effect: Cohen's d, the difference over the deviation of texts within strata.
        n_a, n_b: how many texts of each system it rests on.
        left_out: how many others there are.
        clusters: how many independent clusters they form.
    """

    contrast: Contrast
    effect: float
    n_a: int
    n_b: int
    left_out: int
    clusters: int


@dataclass(frozen=True)
class SeparateTexts:
    """Texts with their values of a metric, whatever other systems have.

    Attributes:
        values: (texts,) NaN where undefined.
        systems, seeds, inputs: (texts,) codes.
        clusters: (texts,) codes of what texts share; a text that shares nothing has its own.
        strata: (texts,) codes of control values and data sets.
    """

    values: Floats
    systems: Codes
    seeds: Codes
    inputs: Codes
    clusters: Codes
    strata: Codes

    def filled(self, a: int, value_a: float, b: int, value_b: float) -> SeparateTexts:
        """Returns the texts with numbers for the undefined values of two systems."""
        values, lacks = self.values.copy(), np.isnan(self.values)
        values[lacks & (self.systems == a)] = value_a
        values[lacks & (self.systems == b)] = value_b
        return replace(self, values=values)

    def lacking(self, system: int) -> int:
        """Returns the number of a system's texts without a value."""
        return int((np.isnan(self.values) & (self.systems == system)).sum())

    def difference(self, a: int, b: int) -> UnpairedDifference | None:
        """Returns `Σ_h w_h (m_ah − m_bh)` over the strata h of both systems.

        m_ah is the mean of system a in stratum h, n_ah its number of texts there, and
        `w_h ∝ n_ah n_bh / (n_ah + n_bh)`, the weights with the least variance where texts vary
        alike. The variance is the sum of those of the two means (`stats.seeds.contrast`: clusters
        within strata, and seeds), with Welch's (1947) degrees of freedom,
        `(V_a + V_b)² / (V_a²/ν_a + V_b²/ν_b)`.

        Undefined (None): one of the two has fewer than five clusters in the strata of both, or
        nothing varies. A stratum in which one has fewer than two clusters is left out.
        """
        rows_a, rows_b = (self._of(system) for system in (a, b))
        strata = int(self.strata.max(initial=-1)) + 1
        n_a, n_b = (np.bincount(self.strata[rows], minlength=strata) for rows in (rows_a, rows_b))
        K_a, K_b = (self._clusters(rows, strata) for rows in (rows_a, rows_b))
        shared: Bools = np.asarray((K_a > 1) & (K_b > 1))
        if min(K_a[shared].sum(), K_b[shared].sum()) < FEWEST_CLUSTERS:
            return None
        w = np.where(shared, n_a * n_b / np.maximum(n_a + n_b, 1), 0.0)
        w /= w.sum()
        c_a, c_b = (
            self._mean(rows[shared[self.strata[rows]]], w / np.maximum(n, 1))
            for rows, n in ((rows_a, n_a), (rows_b, n_b))
        )
        if c_a is None or c_b is None or not c_a.variance + c_b.variance:
            return None
        parts = [(c.variance, c.df) for c in (c_a, c_b) if c.variance]
        V = sum(v for v, _ in parts)
        df = V**2 / sum(v**2 / df for v, df in parts)
        difference = Contrast(c_a.value - c_b.value, V, df, c_a.samples_seeds or c_b.samples_seeds)
        deviation = self._deviation([rows[shared[self.strata[rows]]] for rows in (rows_a, rows_b)])
        n = [int(n[shared].sum()) for n in (n_a, n_b)]
        texts = int(np.isin(self.systems, (a, b)).sum())
        return UnpairedDifference(
            contrast=difference,
            effect=difference.value / deviation if deviation else math.nan,
            n_a=n[0],
            n_b=n[1],
            left_out=texts - sum(n),
            clusters=int(K_a[shared].sum() + K_b[shared].sum()),
        )

    def _of(self, system: int) -> Codes:
        return np.flatnonzero((self.systems == system) & ~np.isnan(self.values))

    def _clusters(self, rows: Codes, strata: int) -> Codes:
        """(strata,) how many clusters the texts form in each."""
        pairs = np.unique(np.stack([self.strata[rows], self.clusters[rows]]), axis=1)
        return np.bincount(pairs[0], minlength=strata)

    def _mean(self, rows: Codes, weight: Floats) -> Contrast | None:
        strata, clusters = self.strata[rows], self.clusters[rows]
        pairs = np.unique(np.stack([strata, clusters]), axis=1).shape[1]
        if pairs > np.unique(clusters).size:  # clusters that have texts in several strata
            strata = np.zeros_like(strata)
        return contrast(
            self.values[rows],
            weight[self.strata[rows]],
            systems=np.zeros(rows.size, np.intp),
            seeds=self.seeds[rows],
            inputs=self.inputs[rows],
            clusters=clusters,
            strata=strata,
        )

    def _deviation(self, system_rows: list[Codes]) -> float:
        """The deviation of texts within systems and strata."""
        squares = df = 0.0
        for rows in system_rows:
            names, code = np.unique(self.strata[rows], return_inverse=True)
            v = self.values[rows]
            means = cluster_sums(v, code, names.size) / np.bincount(code)
            squares += float(((v - means[code]) ** 2).sum())
            df += rows.size - names.size
        return math.sqrt(squares / df) if df else math.nan
