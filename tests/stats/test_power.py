"""What tests can detect, against statsmodels and the distribution written out."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from levelfield.stats.clusters import cluster_errors
from levelfield.stats.multiplicity import false_discovery_rate
from levelfield.stats.power import (
    alike_p,
    detectable_difference,
    detectable_shift,
    fewest,
    level_of_family,
    t_power,
)
from levelfield.stats.seeds import SeedComponent, SeedPrior, VarianceParts, contrast


def integrated_power(noncentrality: float, df: float, alpha: float) -> float:
    """P(|Z + δ| > t √(χ²_ν / ν)), integrated over χ²."""
    t = stats.t.isf(alpha / 2, df)

    def density(x: float) -> float:
        root = t * math.sqrt(x / df)
        tails = stats.norm.sf(root - noncentrality) + stats.norm.cdf(-root - noncentrality)
        return float(tails * stats.chi2.pdf(x, df))

    most = stats.chi2.isf(1e-12, df)
    return float(integrate.quad(density, 0, most, limit=200)[0])


@pytest.mark.parametrize("df", [2, 4.5, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 28])
def test_power_is_that_of_the_noncentral_t_distribution(df: float, alpha: float):
    for shift in (0.0, 1.5, 4.0):
        expected = integrated_power(shift, df, alpha)
        assert t_power(shift, df, alpha) == pytest.approx(expected, abs=1e-6)
        assert t_power(-shift, df, alpha) == t_power(shift, df, alpha)


def test_power_agrees_with_statsmodels():
    n, d = 34, 0.5
    expected = TTestPower().power(d, n, 0.05)
    assert t_power(d * math.sqrt(n), n - 1, 0.05) == pytest.approx(expected, abs=1e-9)


def test_power_has_no_gaps_where_scipy_has_none():
    for df in (1, 1.7, 5, 1000, math.inf):
        powers = [t_power(shift, df, 0.05 / 56) for shift in np.linspace(0, 1000, 101)]
        assert all(0 < p <= 1 for p in powers)
        assert powers == sorted(powers)


@pytest.mark.parametrize("df", [1.2, 7, 99])
def test_a_detectable_difference_is_shown_by_eighty_percent(df: float):
    d = detectable_difference(0.3, df, alpha=0.01)
    assert t_power(d / 0.3, df, 0.01) == pytest.approx(0.8, abs=1e-6)


def test_a_detectable_difference_agrees_with_statsmodels():
    effect = TTestPower().solve_power(nobs=50, alpha=0.05, power=0.8)
    assert detectable_difference(2 / math.sqrt(50), 49) == pytest.approx(2 * effect, rel=1e-6)


@pytest.mark.parametrize("df", [1.0, 2.5, 9])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 6])
def test_a_repetition_shows_what_a_study_of_few_degrees_of_freedom_calls_detectable(
    df: float, alpha: float
):
    rng = np.random.default_rng(3)
    first, second = np.sqrt(rng.chisquare(df, (2, 100_000)) / df)
    difference = first * detectable_difference(1.0, df, alpha=alpha, error_df=df)
    t = (rng.normal(size=first.size) + difference) / second
    shown = np.mean(np.abs(t) > stats.t.isf(alpha / 2, df))
    assert shown == pytest.approx(0.8, abs=0.01)


def test_an_error_that_is_sure_has_the_detectable_difference_of_the_t_test():
    assert detectable_difference(0.3, 12, error_df=1e9) == pytest.approx(
        detectable_difference(0.3, 12), rel=1e-4
    )


def test_the_error_of_seeds_has_no_more_degrees_of_freedom_than_all_seeds():
    """Also where seeds seem to add nothing, so that the test takes those of the prompts."""
    component = SeedComponent(seed_variance=1e-6, weight=0.5, residual=4e-7, df=1)
    for prior, df in ((None, 2), (SeedPrior(1e-6, 1.0, 5.0), 5)):
        parts = VarianceParts(1.0, 39, (component, component), prior)
        assert parts.total()[1] > 30
        assert parts.error_df == df
    assert VarianceParts(1.0, 39, ()).error_df == 39


def test_without_an_error_nothing_is_detectable():
    assert math.isnan(detectable_difference(0.0, 9))
    assert math.isnan(detectable_difference(math.nan, 9))
    assert math.isnan(detectable_difference(1.0, 0))
    assert math.isinf(detectable_shift(0.0, 0.05))


def test_the_level_that_holm_leaves_is_that_of_the_comparisons_not_shown():
    assert level_of_family([0.01, 0.2, 0.3, math.nan]) == pytest.approx(0.025)
    assert level_of_family([0.01, 0.2, 0.3], correction="bonferroni") == pytest.approx(0.05 / 3)
    assert level_of_family([]) == level_of_family([0.01]) == 0.05


def test_the_level_of_a_false_discovery_rate_is_that_of_one_rejection_more():
    p = [0.001, 0.004, 0.2, 0.6, math.nan]
    level = level_of_family(false_discovery_rate(p), correction="fdr")
    assert level == pytest.approx(0.05 * 3 / 4)
    assert false_discovery_rate([*p[:2], level - 1e-9, 0.6])[2] <= 0.05
    assert false_discovery_rate([*p[:2], level + 1e-9, 0.6])[2] > 0.05
    assert level_of_family([0.01, 0.02], correction="fdr") == 0.05


def test_two_one_sided_tests_agree_with_statsmodels():
    d = np.random.default_rng(0).normal(0.1, 1, 40)
    expected, *_ = DescrStatsW(d).ttost_mean(-0.5, 0.5)
    se, df = cluster_errors(d[:, None], np.ones((40, 1)))
    assert alike_p(float(d.mean()), float(se[0]), float(df[0]), 0.5) == pytest.approx(expected)
    assert alike_p(-float(d.mean()), float(se[0]), float(df[0]), 0.5) == pytest.approx(expected)


def test_without_variance_equivalence_has_no_power():
    assert math.isnan(alike_p(0.0, 0.0, 9, 0.5))


def test_the_error_of_clusters_is_that_of_their_means_where_they_weigh_alike():
    rng = np.random.default_rng(1)
    S, W = rng.normal(size=(12, 2)), np.array([[1.0, 3.0]] * 12)
    se, df = cluster_errors(S, W)
    assert se == pytest.approx([stats.sem(S[:, 0]), stats.sem(S[:, 1] / 3)])
    assert df.tolist() == [11, 11]
    one_cluster, _ = cluster_errors(S[:1], W[:1])
    assert np.isnan(one_cluster).all()


def test_the_error_of_clusters_of_unequal_weight_is_that_of_a_ratio():
    rng = np.random.default_rng(2)
    S, W = rng.normal(size=7), rng.uniform(1, 4, 7)
    mean = sum(S) / sum(W)
    expected = math.sqrt(7 / 6 * sum((s - w * mean) ** 2 for s, w in zip(S, W, strict=True))) / sum(
        W
    )
    assert cluster_errors(S[:, None], W[:, None])[0] == pytest.approx([expected])


@pytest.mark.parametrize("least", [1, 2, 37, 1000])
def test_the_fewest_that_are_enough_are_what_a_loop_finds(least: int):
    for bound in (1, 36, 37, 38, 999, 5000):
        expected = next(n for n in range(least, 10_000) if n >= bound)
        assert fewest(lambda n, bound=bound: n >= bound, least) == expected
    assert fewest(lambda _: False, least, 10_000) is None


PRIOR = SeedPrior(variance=0.2, df=5.0, pooled_df=40.0)


def contrast_parts(seeds: int, prior: SeedPrior | None = None) -> VarianceParts:
    rng = np.random.default_rng(3)
    a, i, s = (codes.ravel() for codes in np.indices((2, 60, seeds)))
    effects = rng.normal(0, 0.3, (2, seeds))
    values = rng.normal(0, 1, (2, 60))[a, i] + effects[a, s] + rng.normal(0, 0.5, a.size)
    c = contrast(
        values, np.where(a == 0, 1.0, -1.0) / (60 * seeds),
        systems=a, seeds=s, inputs=i, clusters=i, strata=np.zeros_like(i), prior=prior,
    )  # fmt: skip
    assert c is not None
    assert c.parts is not None
    assert c.parts.total() == (c.variance, c.df)
    return c.parts


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_parts_of_as_many_inputs_and_seeds_are_unchanged(prior: SeedPrior | None):
    parts = contrast_parts(4, prior)
    same = parts.scaled()
    assert same.total() == pytest.approx(parts.total())
    assert same.prompts == pytest.approx(parts.prompts)
    assert sum(same.seeds) == pytest.approx(sum(parts.seeds))
    assert same.seeds_df == pytest.approx(parts.seeds_df)


def test_more_inputs_lower_what_texts_make_and_leave_what_seeds_make():
    parts = contrast_parts(4)
    many = parts.scaled(inputs=1e9)
    assert many.prompts == pytest.approx(0, abs=1e-8)
    assert sum(many.seeds) == pytest.approx(sum(parts.seeds) - parts.texts)
    double = parts.scaled(seeds=2)
    assert sum(double.seeds) == pytest.approx(sum(parts.seeds) / 2)
    assert double.prompts < parts.prompts
    assert double.seeds_df == pytest.approx((7.0, 7.0))


def test_more_seeds_have_a_smaller_part_of_the_moderated_variance_with_more_freedom():
    parts = contrast_parts(3, PRIOR)
    V, df = parts.scaled(seeds=2).total()
    V_a, squares = 0.0, 0.0
    for c in parts.sampled:
        s2 = (PRIOR.df * PRIOR.variance + 5 * c.seed_variance) / (PRIOR.df + 5)  # 6 seeds
        V_a += s2 / 6
        squares += (s2 / 6) ** 2 / (PRIOR.df + 5)
    V_p = parts.prompts - parts.texts / 2
    assert pytest.approx(V_p + V_a - parts.texts / 2) == V
    df_s = V_a**2 / squares
    most = V_p**2 / (parts.prompts_df + 2) + V_a**2 / (df_s + 2)
    bound = (V_p + V_a) / (V_p / parts.prompts_df + V_a / df_s)
    assert df == pytest.approx(min(bound, V**2 / most - 2))
