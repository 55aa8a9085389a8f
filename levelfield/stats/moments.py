"""Pearson's r from moments, so that those of clusters add up."""

from __future__ import annotations

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_sums
from levelfield.stats.measures import constant

_ROUNDING = 1e-12

LARGE = 1e300
"""Differences of larger numbers may overflow."""


def standardised(x: Floats) -> Floats:
    """Returns values with mean 0 and standard deviation 1 (with n); all 0 if they are equal."""
    if not x.size or constant(x):
        return np.zeros_like(x)
    d = x / 4 if np.abs(x).max() > LARGE else x
    d = d - d.min()  # exact where values are near each other, so that a large mean takes no digits
    d = d - d.mean()
    d /= np.abs(d).max()  # so that no square is lost to underflow
    return np.asarray(d / np.sqrt(np.mean(d * d)), dtype=np.float64)


def r_of_moments(M: Floats) -> Floats:
    """Pearson's r from moments: `M[..., :]` = Σw, Σx, Σy, Σx², Σy², Σxy; NaN if one is constant.

    x and y are standardised, so that their squares are of the size of Σw.
    """
    w, sx, sy, sxx, syy, sxy = np.moveaxis(M, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        vx, vy = sxx - sx * sx / w, syy - sy * sy / w
        r = (sxy - sx * sy / w) / np.sqrt(vx * vy)
    defined = (vx > _ROUNDING * w) & (vy > _ROUNDING * w)
    return np.where(defined, np.clip(r, -1, 1), np.nan)


def moments(x: Floats, y: Floats, code: Codes, K: int) -> Floats:
    """Returns sums per cluster for `r_of_moments`: (K, 6)."""
    return cluster_sums(np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y]), code, K)
