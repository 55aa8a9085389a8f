"""The same statistics from packages that others wrote."""

from __future__ import annotations

import krippendorff
import numpy as np
import pandas as pd
import pingouin
import pytest
from statsmodels.stats.inter_rater import cohens_kappa, to_table
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from levelfield.stats.correlation import statistics
from levelfield.stats.icc import intraclass
from levelfield.stats.kappa import cohen_kappa
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.multiplicity import bonferroni, false_discovery_rate, holm
from levelfield.stats.resampling import Resampling
from levelfield.stats.shares import share_ends
from levelfield.stats.system_level import system_correlations

FEW = Resampling(resamples=20)
SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_equals_that_of_krippendorff(level, seed):
    rng = np.random.default_rng(seed)
    ratings = np.clip(rng.integers(1, 6, (30, 1)) + rng.integers(-1, 2, (30, 4)), 1, 5).astype(
        float
    )
    ratings[rng.random(ratings.shape) < 0.2] = np.nan
    reference = krippendorff.alpha(reliability_data=ratings.T, level_of_measurement=level)
    ours = krippendorff_alpha(ratings, level=level, resampling=FEW).value
    assert ours == pytest.approx(reference, abs=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_six_intraclass_correlations_equal_those_of_pingouin(seed):
    rng = np.random.default_rng(seed)
    ratings = rng.normal(size=(12, 1)) + rng.normal(size=4) + rng.normal(size=(12, 4))
    item, rater = np.indices(ratings.shape)
    frame = pd.DataFrame({"item": item.ravel(), "rater": rater.ravel(), "value": ratings.ravel()})
    reference = pingouin.intraclass_corr(frame, "item", "rater", "value").set_index("Type")
    # A: absolute agreement, C: consistency (McGraw and Wong 1996)
    names = {"ICC(2,1)": "ICC(A,1)", "ICC(3,1)": "ICC(C,1)", "ICC(2,k)": "ICC(A,k)",
             "ICC(3,k)": "ICC(C,k)"}  # fmt: skip
    for name, ours in intraclass(ratings).items():
        row = reference.loc[names.get(name, name)]
        assert ours.value == pytest.approx(row["ICC"])
        assert (ours.low, ours.high) == pytest.approx(tuple(row["CI95"]), abs=0.0051)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weights", ["none", "quadratic"])
def test_kappa_equals_that_of_statsmodels(weights, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, 60)
    y = np.where(rng.random(60) < 0.6, x, rng.integers(0, 4, 60))
    table, _ = to_table(np.column_stack([x, y]), bins=4)
    reference = cohens_kappa(
        table, wt=None if weights == "none" else "quadratic", return_results=True
    )
    ours = cohen_kappa(x, y, weights=weights, resampling=FEW).value
    assert ours == pytest.approx(reference.kappa)


@pytest.mark.parametrize("seed", SEEDS)
def test_adjusted_p_values_equal_those_of_statsmodels(seed):
    p = np.random.default_rng(seed).beta(0.4, 2, 25)
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert false_discovery_rate(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])
    assert bonferroni(p) == pytest.approx(multipletests(p, method="bonferroni")[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_correlations_equal_those_of_pingouin(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, 40)
    y = x + rng.integers(-4, 5, 40)
    ours = statistics(x, y)
    for method in ("pearson", "spearman", "kendall"):
        assert ours[method] == pytest.approx(pingouin.corr(x, y, method=method)["r"].item())


@pytest.mark.parametrize(("count", "n"), [(0, 20), (3, 20), (17, 50), (50, 50)])
def test_the_interval_of_a_share_is_wilsons(count, n):
    reference = proportion_confint(count, n, method="wilson")
    ours = share_ends(count / n, 0.0, n=n, clusters=n, level=0.95)
    assert ours == pytest.approx(reference, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_noise_the_interval_of_systems_like_these_is_nearly_that_of_pingouin(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=25)
    y = x + rng.normal(size=25)
    cluster, system = np.repeat(np.arange(2), 25), np.tile(np.arange(25), 2)
    e = system_correlations(np.tile(x, 2), np.tile(y, 2), cluster, system, ("pearson",)).estimates
    reference = pingouin.corr(x, y)["CI95"].item()
    assert (e["pearson"].low, e["pearson"].high) == pytest.approx(tuple(reference), abs=0.03)
