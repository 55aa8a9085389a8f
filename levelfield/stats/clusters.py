"""Clusters of samples: their codes, sums over them, and draws of whole clusters.

A cluster is what samples share, such as the prompt they continue. Samples of one cluster are not
independent, so they are drawn, swapped and flipped together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats

_CHUNK = 1 << 17
"""Weights of resamples held at a time: 1 MB, which a processor's cache can hold."""

_SLICE = 1 << 18
"""Random draws held at a time: 2 MB."""


def coded(clusters: npt.ArrayLike) -> tuple[int, Codes]:
    """The number of clusters, and the position of each sample's own, clusters in sorted order."""
    names, code = np.unique(np.asarray(clusters), return_inverse=True)
    return names.size, code.astype(np.intp)


def defined_rows(
    values: npt.ArrayLike, clusters: npt.ArrayLike
) -> tuple[Floats, npt.NDArray[np.generic]]:
    """The values, or rows of values, without NaN, with their clusters."""
    v, c = np.asarray(values, dtype=np.float64), np.asarray(clusters)
    if v.ndim not in (1, 2) or v.shape[:1] != c.shape:
        raise ValueError(f"expected one cluster a value, got {c.shape} for {v.shape}")
    defined = ~np.isnan(v) if v.ndim == 1 else ~np.isnan(v).any(axis=1)
    return v[defined], c[defined]


def cluster_sums(rows: Floats, code: Codes, K: int) -> Floats:
    """(K,) or (K, p) sums over each cluster, from (n,) or (n, p)."""
    if rows.ndim == 1:
        return np.bincount(code, weights=rows, minlength=K).astype(np.float64)
    return np.stack([np.bincount(code, weights=c, minlength=K) for c in rows.T], axis=1)


def cluster_sizes(code: Codes, K: int) -> Floats:
    """(K,) the number of samples in each cluster."""
    return np.bincount(code, minlength=K).astype(np.float64)


def cluster_draws(K: int, resamples: int, seed: int, *, width: int) -> Iterator[Floats]:
    """How often each of K clusters was drawn, in chunks of (r, K) that add up to `resamples`.

    Args:
        width: of the widest array that a chunk becomes; more of it means smaller chunks.
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(width, K))
    for start in range(0, resamples, step):
        r = min(step, resamples - start)
        drawn = rng.integers(K, size=(r, K))
        drawn += np.arange(r)[:, None] * K
        yield np.bincount(drawn.ravel(), minlength=r * K).reshape(r, K).astype(np.float64)


def chunks(rows: int, width: int) -> Iterator[slice]:
    """Slices of so many rows that a chunk of this width stays small."""
    step = max(1, _SLICE // width)
    return (slice(i, min(i + step, rows)) for i in range(0, rows, step))
