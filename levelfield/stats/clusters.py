"""Clusters of samples: their codes, sums over them, and draws of whole clusters.

A cluster is what samples share, such as the prompt they continue. Samples of one cluster are not
independent, so they are drawn, swapped and flipped together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Bits, Codes, Floats

_CHUNK = 1 << 17
"""Weights of resamples held at a time: 1 MB, which a processor's cache can hold."""

_SLICE = 1 << 18
"""Random draws held at a time: 2 MB."""

MANY = 1 << 14
"""Of more clusters than these, columns share what is drawn: sums of one column may then differ by
rounding with the columns beside it."""

_HELD = 1 << 23
"""Counts or bits held at a time for columns that share them: 64 MB of the former."""

BLOCK = 4096
"""Clusters of which many rows fit a processor's cache."""


def coded(clusters: npt.ArrayLike) -> tuple[int, Codes]:
    """Returns the number of clusters and the index of each sample's cluster, in sorted order."""
    names = np.asarray(clusters)
    if names.dtype == np.intp and names.size > MANY and names.min() >= 0:
        most = int(names.max())
        if most < 4 * names.size:  # codes already: nothing to sort
            used = np.zeros(most + 1, dtype=np.bool_)
            used[names] = True
            place = np.cumsum(used) - 1
            return int(place[-1]) + 1, place[names].astype(np.intp)
    names, code = np.unique(names, return_inverse=True)
    return names.size, code.astype(np.intp)


def defined_rows(
    values: npt.ArrayLike, clusters: npt.ArrayLike
) -> tuple[Floats, npt.NDArray[np.generic]]:
    """Returns the values, or rows of values, without NaN, with their clusters."""
    v, c = np.asarray(values, dtype=np.float64), np.asarray(clusters)
    if v.ndim not in (1, 2) or v.shape[:1] != c.shape:
        raise ValueError(f"expected one cluster per value, got {c.shape} for {v.shape}")
    defined = ~np.isnan(v) if v.ndim == 1 else ~np.isnan(v).any(axis=1)
    return v[defined], c[defined]


def cluster_sums(rows: Floats, code: Codes, K: int) -> Floats:
    """Returns (K,) or (K, p) sums over each cluster, from (n,) or (n, p)."""
    if rows.ndim == 1:
        return np.bincount(code, weights=rows, minlength=K).astype(np.float64)
    return np.stack([np.bincount(code, weights=c, minlength=K) for c in rows.T], axis=1)


def cluster_sizes(code: Codes, K: int) -> Floats:
    """Returns the number of samples in each cluster: (K,)."""
    return np.bincount(code, minlength=K).astype(np.float64)


def cluster_errors(S: Floats, W: Floats) -> tuple[Floats, Floats]:
    """Returns standard errors of weighted means over clusters, and their degrees of freedom.

    `se² = K / (K − 1) Σ_k (S_k − W_k m)² / (Σ W_k)²`, m = Σ S_k / Σ W_k, over the K clusters with a
    weight; K − 1 degrees of freedom.

    Args:
        S, W: (clusters, comparisons) weighted sums and weights.

    Undefined (NaN): fewer than two clusters.
    """
    K = (W > 0).sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = W.sum(axis=0)
        squares = ((S - W * (S.sum(axis=0) / total)) ** 2).sum(axis=0)
        se = np.sqrt(K / (K - 1) * squares) / total
    return np.where(K > 1, se, np.nan), np.maximum(K - 1, 0.0)


def cluster_draws(K: int, resamples: int, seed: int, *, width: int) -> Iterator[Floats]:
    """Yields how often each of K clusters was drawn, in chunks of (r, K) that add up to
    `resamples`.

    Args:
        width: of the widest array that a chunk becomes; more of it means smaller chunks.
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(width, K))
    for start in range(0, resamples, step):
        yield _counts(rng, min(step, resamples - start), K)


def _counts(rng: np.random.Generator, r: int, K: int) -> Floats:
    """Returns how often each cluster is drawn: (r, K). The draws do not depend on r."""
    drawn = rng.integers(K, size=(r, K))
    drawn += np.arange(r)[:, None] * K
    return np.bincount(drawn.ravel(), minlength=r * K).reshape(r, K).astype(np.float64)


def bayesian_draws(
    K: int, resamples: int, seed: int, *, width: int, pseudo: int
) -> Iterator[Floats]:
    """Weights of the Bayesian bootstrap (Rubin 1981), in chunks of (r, K + pseudo).

    Exponential ones of K clusters, and Gamma(1/2) ones of the items of a Jeffreys prior.

    Args:
        width: as for `cluster_draws`.
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(width, K))
    for start in range(0, resamples, step):
        r = min(step, resamples - start)
        prior = rng.standard_gamma(0.5, size=(r, pseudo))
        yield np.hstack([rng.standard_exponential(size=(r, K)), prior])


def shared_draws(K: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yields the draws of `cluster_draws` in chunks of rows for one product with many columns."""
    rng = np.random.default_rng(seed)
    step = max(1, _HELD // K)
    for start in range(0, resamples, step):
        counts = np.empty((min(step, resamples - start), K))
        for part in chunks(len(counts), K, held=_CHUNK):
            counts[part] = _counts(rng, part.stop - part.start, K)
        yield counts


def held_together(chunks: Iterator[Bits], rows: int) -> Iterator[Bits]:
    """Yields chunks of rows, joined up to the size that may be held, or to this number of rows."""
    held: list[Bits] = []
    for chunk in chunks:
        most = min(rows, 4 * _HELD // chunk.shape[1])
        if held and sum(map(len, held)) + len(chunk) > most:
            yield np.concatenate(held)
            held = []
        held.append(chunk)
    if held:
        yield np.concatenate(held)


def bits_times(bits: Bits, X: Floats) -> Floats:
    """Returns the product (r, p) of (r, K) bits and (K, p), without storing all bits as numbers."""
    total = np.zeros((len(bits), X.shape[1]))
    for start in range(0, len(X), BLOCK):
        block = slice(start, start + BLOCK)
        total += bits[:, block].astype(np.float64) @ X[block]
    return total


def chunks(rows: int, width: int, *, held: int = _SLICE) -> Iterator[slice]:
    """Yields slices of rows, short enough to keep a chunk of this width small."""
    step = max(1, held // width)
    return (slice(i, min(i + step, rows)) for i in range(0, rows, step))
