"""Effect sizes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats

_TIE = 1e-10
"""A deviation below this share of the largest difference is rounding."""


def cohen_dz(differences: npt.ArrayLike, weights: Floats | None = None) -> float:
    """Effect size of paired differences: their mean over their standard deviation.

    `d_z = mean(d) / sd(d)`, sd with n − 1 (Cohen 1988, section 2.3.5). With weights ω that sum to
    1, `d_z = m / s`, `m = Σ ω d`, `s² = n / (n − 1) Σ ω (d − m)²`. 0 if all differences are 0.

    Args:
        differences: (n,); NaN is left out.
        weights: (n,); by default all weigh the same. With weights no difference is NaN.

    Undefined (NaN): fewer than two differences, or all of them equal and not 0.
    """
    d = np.asarray(differences, dtype=np.float64)
    if weights is None:
        d = d[~np.isnan(d)]
    if d.size and not np.any(d):
        return 0.0
    if d.size < 2:
        return math.nan
    if weights is None:
        m, s = float(d.mean()), float(d.std(ddof=1))
    else:
        m = float(weights @ d)
        s = math.sqrt(float(weights @ (d - m) ** 2) * d.size / (d.size - 1))
    return m / s if s > _TIE * float(np.abs(d).max()) else math.nan
