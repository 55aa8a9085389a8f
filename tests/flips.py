"""One comparison at a time, for tests of what takes many."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.resampling import Resampling
from levelfield.stats.sign_flip import SignFlips, sign_flips


def flips(differences, clusters=None, **resampling) -> SignFlips:
    """The test of the mean of differences, NaN left out; every one a cluster by default."""
    d = np.asarray(differences, dtype=np.float64)
    clusters = np.arange(d.size) if clusters is None else np.asarray(clusters)
    d, clusters = d[~np.isnan(d)], clusters[~np.isnan(d)]
    K, code = coded(clusters)
    S, W = (cluster_sums(v, code, K)[:, None] for v in (d, np.ones(d.size)))
    return sign_flips(S, W, resampling=Resampling(**resampling))


def p_of(differences, clusters=None, **resampling) -> float:
    return float(flips(differences, clusters, **resampling).p[0])


numbers = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))


@st.composite
def clustered(draw, most=24):
    """Values, and the cluster of each."""
    n = draw(st.integers(2, most))
    values = draw(hnp.arrays(np.float64, n, elements=numbers))
    clusters = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 6)))
    return values, clusters
