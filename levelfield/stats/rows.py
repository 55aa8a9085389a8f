"""Statistics of the rows of two matrices, e.g. of the means of systems in every resample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.stats.estimands import Statistic
from levelfield.stats.measures import pair_statistics


def r_of_rows(X: Floats, Y: Floats, ranks: bool = False) -> Floats:
    """Returns (r,) Pearson's (or Spearman's) r of each row of X (r, S) with Y, (S,) or (r, S)."""
    Y = np.broadcast_to(Y, X.shape)
    if ranks:
        from scipy.stats import rankdata

        X, Y = (rankdata(v, axis=1) for v in (X, Y))
    X, Y = X - X.mean(axis=1, keepdims=True), Y - Y.mean(axis=1, keepdims=True)
    X, Y = (v / np.maximum(np.abs(v).max(axis=1, keepdims=True), 1e-300) for v in (X, Y))
    vx, vy = (X * X).sum(axis=1), (Y * Y).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (X * Y).sum(axis=1) / np.sqrt(vx * vy)
    return np.where((vx > 0) & (vy > 0), np.clip(r, -1, 1), np.nan)


def row_statistics(X: Floats, Y: Floats, kinds: Sequence[Statistic]) -> dict[Statistic, Floats]:
    """Returns (r,) statistics of the rows of X and Y, both (r, S); NaN where a row holds NaN.

    Means that are equal but for rounding are tied.
    """
    lacking = np.asarray(np.isnan(X + Y).any(axis=1))
    X, Y = (rounded(np.where(lacking[:, None], 0.0, v)) for v in (X, Y))
    results: dict[Statistic, Floats] = {}
    i, j = np.triu_indices(X.shape[1], k=1)
    sx, sy = np.sign(X[:, i] - X[:, j]), np.sign(Y[:, i] - Y[:, j])
    counts = pair_statistics(
        *(
            v.sum(axis=1).astype(np.float64)
            for v in (
                sx * sy > 0,
                sx * sy < 0,
                (sx == 0) & (sy != 0),
                (sx != 0) & (sy == 0),
                (sx == 0) & (sy == 0),
            )
        )
    )
    counts["calibrated"] = np.full(X.shape[0], np.nan)
    for s in kinds:
        values = r_of_rows(X, Y, s == "spearman") if s in ("pearson", "spearman") else counts[s]
        results[s] = np.where(lacking, np.nan, values)
    return results


def rounded(V: Floats) -> Floats:
    """Rows without the rounding that tells equal means apart."""
    scale = np.abs(V).max(axis=1, keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    return np.asarray(np.round(V / scale, 12) * scale)
