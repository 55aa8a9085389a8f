"""Prompts and seeds as samples: variances against plain loops, level and coverage by simulation."""

import itertools
import math
import time

import numpy as np
import pytest
import scipy.stats

from levelfield.stats import seeds as seed_statistics
from levelfield.stats.multiplicity import holm
from levelfield.stats.resampling import Resampling
from levelfield.stats.seeds import SeedPrior, contrast, seed_prior
from levelfield.stats.sign_flip import sign_flips

STUDIES = 800


def codes(inputs: int, seeds: int, systems: int = 2):
    """Every input once with every seed of every system; each input is a cluster."""
    a, i, s = (g.ravel() for g in np.indices((systems, inputs, seeds)))
    return {"systems": a, "inputs": i, "seeds": s, "clusters": i, "strata": np.zeros_like(i)}


def weights(inputs: int, seeds: int):
    return np.repeat([1.0, -1.0], inputs * seeds) / (inputs * seeds)


def balanced(inputs: int, seeds: int, seed_sd: float, rng: np.random.Generator):
    """(systems, inputs, seeds) of two equal systems; a text's deviation is 1.6."""
    return (
        rng.normal(0, 0.9, (1, inputs, 1))
        + rng.normal(0, seed_sd, (2, 1, seeds))
        + rng.normal(0, 1.32, (2, inputs, seeds))
    )


def unbalanced(rng: np.random.Generator):
    """Texts of two systems in two strata of several clusters, a third of them missing."""
    n = 240
    systems, seeds, inputs = (rng.integers(k, size=n) for k in (2, 3, 30))
    clusters = inputs // 2
    strata = (clusters >= 6).astype(int)
    w = np.where(systems == 0, 1.0, -1.0) * rng.uniform(0.5, 1.5, n)
    rows = {
        "systems": systems,
        "seeds": seeds,
        "inputs": inputs,
        "clusters": clusters,
        "strata": strata,
    }
    return rng.normal(5, 1, n) + 2 * rng.normal(size=(2, 3))[systems, seeds], w, rows


def loop_parts(v, w, rows):
    """V_p and each system's (V_a, R_a, ν_a), text by text from the formulas."""
    texts = range(len(v))
    a, s, i, k, d = (rows[n] for n in ("systems", "seeds", "inputs", "clusters", "strata"))

    def mean(chosen):
        return sum(w[t] * v[t] for t in chosen) / sum(w[t] for t in chosen)

    def spread(parts):  # cluster -> z, stratum by stratum
        total = []
        for stratum in sorted(set(d)):
            z = [parts[c] for c in sorted({k[t] for t in texts if d[t] == stratum})]
            if len(z) > 1:
                total.append((len(z) * np.var(z, ddof=1), len(z) - 1))
        return total

    m = {(x, y): mean([t for t in texts if (a[t], d[t]) == (x, y)]) for x in set(a) for y in set(d)}
    z = {c: sum(w[t] * (v[t] - m[a[t], d[t]]) for t in texts if k[t] == c) for c in set(k)}
    seeds = []
    for x in sorted(set(a)):
        own_texts = [t for t in texts if a[t] == x]
        inputs = {j: [t for t in own_texts if i[t] == j] for j in {i[t] for t in own_texts}}
        deviation = {t: w[t] * (v[t] - mean(chosen)) for chosen in inputs.values() for t in chosen}
        names = sorted({s[t] for t in own_texts})
        u = [sum(deviation[t] for t in own_texts if s[t] == n) for n in names]
        residual = sum(
            part
            for n in names
            for part, _ in spread(
                {c: sum(deviation[t] for t in own_texts if (s[t], k[t]) == (n, c)) for c in set(k)}
            )
        )
        # what effects of the seeds make of u: the deviations of an effect of 1 of one seed
        A = np.array(
            [
                [
                    sum(
                        w[t] * ((s[t] == e) - sum(w[q] for q in inputs[i[t]] if s[q] == e)
                                / sum(w[q] for q in inputs[i[t]]))
                        for t in own_texts if s[t] == n
                    )
                    for e in names
                ]
                for n in names
            ]
        )  # fmt: skip
        W = sum(sum(w[t] for t in own_texts if s[t] == n) ** 2 for n in names)
        c = W / np.trace(A @ A.T)
        df = np.trace(A @ A.T) ** 2 / np.trace(A @ A.T @ A @ A.T)
        seeds.append((c * sum(x * x for x in u), c * residual, df))
    return spread(z), seeds


@pytest.mark.parametrize("texts", [240, 110])  # with 110, some inputs have one seed
@pytest.mark.parametrize("seed", range(6))
def test_variance_and_degrees_of_freedom_are_those_of_the_plain_loop(seed: int, texts: int):
    v, w, rows = unbalanced(np.random.default_rng(seed))
    v, w, rows = v[:texts], w[:texts], {name: code[:texts] for name, code in rows.items()}
    by_stratum, seeds = loop_parts(v, w, rows)
    V_p = sum(part for part, _ in by_stratum)
    df_p = V_p**2 / sum(part**2 / n for part, n in by_stratum)
    V = V_p + max(0.0, sum(gross - residual for gross, residual, _ in seeds))
    assert V_p != V
    parts = [(V_p, df_p), *((gross, df) for gross, _, df in seeds)]
    satterthwaite = V**2 / sum(part**2 / (df + 2) for part, df in parts) - 2
    satterthwaite = max(satterthwaite, min(df for _, df in parts))
    shares = sum(gross**2 / df for gross, _, df in seeds)
    G_s = sum(gross for gross, *_ in seeds)
    linear = (V_p + G_s) / (V_p / df_p + G_s / (G_s**2 / shares))
    c = contrast(v, w, **rows)
    assert c is not None
    assert c.value == pytest.approx(float(w @ v))
    assert c.variance == pytest.approx(V)
    assert c.df == pytest.approx(min(satterthwaite, linear))
    assert c.p == pytest.approx(2 * scipy.stats.t.sf(abs(c.value) / math.sqrt(V), c.df))


def test_where_all_is_there_the_seeds_part_is_that_of_a_two_way_analysis_of_variance():
    inputs, seeds = 12, 4
    x = balanced(inputs, seeds, 2.0, np.random.default_rng(1))
    c = contrast(x.ravel(), weights(inputs, seeds), **codes(inputs, seeds))
    expected = np.var((x[0] - x[1]).mean(axis=1), ddof=1) / inputs
    for table in x:
        deviation = table - table.mean(axis=1, keepdims=True)
        effect = deviation.mean(axis=0)
        mse = ((deviation - effect) ** 2).sum() / ((inputs - 1) * (seeds - 1))
        expected += (effect @ effect / (seeds - 1) - mse / inputs) / seeds
    assert c is not None
    assert c.variance == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "seed_sd"), [(40, 0.3), (200, 0.1)])
def test_a_true_null_is_rejected_in_5_percent_where_sign_flips_reject_three_times_as_often(
    inputs: int, seed_sd: float
):
    rng = np.random.default_rng(0)
    x = np.stack([balanced(inputs, 3, seed_sd, rng) for _ in range(STUDIES)])
    d = (x[:, 0] - x[:, 1]).mean(axis=2)
    flipped = sign_flips(d.T, np.ones_like(d.T), resampling=Resampling(permutations=1000)).p
    rows, w = codes(inputs, 3), weights(inputs, 3)
    results = [contrast(values.ravel(), w, **rows) for values in x]
    rejected = np.mean([c is not None and c.p <= 0.05 for c in results])
    assert (flipped <= 0.05).mean() > 0.12
    tolerance = 2.6 * math.sqrt(0.05 * 0.95 / STUDIES)  # 99 % of such shares
    assert 0.04 - tolerance < rejected < 0.06 + tolerance


@pytest.mark.slow
def test_the_interval_of_a_mean_holds_the_true_mean_of_a_system_whose_seeds_differ():
    rng = np.random.default_rng(2)
    rows, w = codes(40, 3, systems=1), np.full(120, 1 / 120)
    covered = prompts_only = 0
    for _ in range(STUDIES):
        x = balanced(40, 3, 0.5, rng)[0]
        c = contrast(x.ravel(), w, **rows)
        assert c is not None
        low, high = c.ends(0.95)
        covered += low <= 0 <= high
        prompts_only += abs(x.mean()) <= 1.96 * x.mean(axis=1).std(ddof=1) / math.sqrt(40)
    assert prompts_only / STUDIES < 0.8
    assert covered / STUDIES > 0.93 - 2.6 * math.sqrt(0.07 * 0.93 / STUDIES)


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_excludes_0_where_the_test_rejects_and_only_there(seed: int):
    x = balanced(10, 3, 0.3, np.random.default_rng(seed))
    x[0] += 0.1 * seed
    c = contrast(x.ravel(), weights(10, 3), **codes(10, 3))
    assert c is not None
    low, high = c.ends(0.95)
    assert (low <= 0 <= high) == (c.p > 0.05)


@pytest.mark.parametrize(
    ("df", "variances"),
    [([2.0] * 5, [0.1, 0.09, 0.12, 0.08, 0.11]), ([2.0, 1.0, 4.0], [0.1, 0.8, 0.05])],
)
def test_the_prior_is_worth_the_fewest_degrees_of_freedom_that_the_variances_allow(df, variances):
    prior = seed_prior([*zip(variances, df, strict=True)])
    assert prior is not None
    assert prior.variance == pytest.approx(np.average(variances, weights=df))
    assert prior.pooled_df == sum(df)

    def log_likelihood(d: float) -> float:
        ratios = np.array(variances) / prior.variance
        return float(scipy.stats.f.logpdf(ratios, df, d).sum())

    best = max(map(log_likelihood, np.geomspace(0.25, 1e6, 200)))
    assert log_likelihood(prior.df) >= best - 1.01
    assert log_likelihood(prior.df / 1.3) < best - 1


def test_one_system_says_nothing_of_how_systems_differ():
    assert seed_prior([(0.1, 2.0)]) is None


def test_a_prior_draws_the_variance_of_seeds_towards_that_of_all_systems():
    x = balanced(12, 3, 1.0, np.random.default_rng(11))
    rows, w = codes(12, 3), weights(12, 3)
    without_prior = contrast(x.ravel(), w, **rows)
    drawn = contrast(x.ravel(), w, **rows, prior=SeedPrior(0.5, 30.0, 90.0))
    assert without_prior is not None
    assert drawn is not None
    variances = [table.mean(axis=0).var(ddof=1) for table in x]
    assert [v for v, df in without_prior.seed_variances] == pytest.approx(variances)
    assert [df for v, df in without_prior.seed_variances] == pytest.approx([2, 2])
    moved = [(30 * 0.5 + 2 * v) / 32 - v for v in variances]
    assert drawn.variance == pytest.approx(without_prior.variance + sum(moved) / 3)
    assert drawn.df > without_prior.df


@pytest.mark.slow
def test_holm_over_systems_with_seeds_errs_in_5_percent_of_runs():
    rng = np.random.default_rng(12)
    systems, inputs, seeds, runs = 6, 12, 2, 150
    pairs = list(itertools.combinations(range(systems), 2))
    rows, w = codes(inputs, seeds), weights(inputs, seeds)
    single = codes(inputs, seeds, systems=1)
    errors = np.zeros(2)
    for _ in range(runs):
        x = rng.normal(0, 0.3, (systems, 1, seeds)) + rng.normal(0, 1, (systems, inputs, seeds))
        means = [contrast(table.ravel(), np.abs(w[: table.size]), **single) for table in x]
        prior = seed_prior([v for c in means if c is not None for v in c.seed_variances])
        contrasts = [contrast(x[[a, b]].ravel(), w, **rows, prior=prior) for a, b in pairs]
        p = [c.p for c in contrasts if c is not None]
        before = [
            2 * scipy.stats.t.sf(abs(c.value) / math.sqrt(c.variance), inputs - 1)
            for c in contrasts
            if c is not None
        ]
        errors += [holm(p).min() <= 0.05, holm(before).min() <= 0.05]
    assert errors[0] / runs <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / runs)
    assert errors[1] > errors[0]


def test_equal_seeds_leave_the_variance_of_the_prompts_and_its_degrees_of_freedom():
    x = np.repeat(np.random.default_rng(3).normal(size=(2, 15, 1)), 3, axis=2)
    c = contrast(x.ravel(), weights(15, 3), **codes(15, 3))
    assert c is not None
    expected = scipy.stats.ttest_rel(x[0, :, 0], x[1, :, 0])
    assert c.p == pytest.approx(expected.pvalue)
    assert c.df == pytest.approx(14)


def test_the_order_of_texts_changes_nothing():
    v, w, rows = unbalanced(np.random.default_rng(4))
    order = np.random.default_rng(5).permutation(len(v))
    first = contrast(v, w, **rows)
    other = contrast(v[order], w[order], **{name: code[order] for name, code in rows.items()})
    assert first is not None
    assert other is not None
    assert (other.value, other.variance, other.df) == pytest.approx(
        (first.value, first.variance, first.df)
    )


def test_one_seed_each_leaves_the_variance_of_the_prompts():
    x = balanced(10, 1, 0.3, np.random.default_rng(6))
    c = contrast(x.ravel(), weights(10, 1), **codes(10, 1))
    assert c is not None
    assert not c.samples_seeds
    assert c.variance == pytest.approx(np.var((x[0] - x[1])[:, 0], ddof=1) / 10)


def test_seeds_that_share_no_input_are_not_a_sample():
    x = balanced(10, 1, 0.3, np.random.default_rng(7))
    rows = codes(10, 1)
    c = contrast(x.ravel(), weights(10, 1), **(rows | {"seeds": rows["inputs"]}))
    assert c is not None
    assert not c.samples_seeds


def test_a_seed_a_text_takes_no_time():
    n = 20_000
    one_each = np.arange(n)
    rows = {"systems": np.zeros(n, int), "seeds": one_each, "inputs": one_each}
    start = time.process_time()
    c = contrast(
        np.random.default_rng(0).normal(size=n), np.full(n, 1 / n),
        **rows, clusters=one_each // 2, strata=one_each // 10_000,
    )  # fmt: skip
    assert time.process_time() - start < 1
    assert c is not None
    assert not c.samples_seeds


def test_many_seeds_that_share_inputs_with_few_others_take_little_time():
    n = 20_000
    rows = {"systems": np.zeros(n, int), "seeds": np.arange(n), "inputs": np.arange(n) // 4}
    x = np.random.default_rng(0).normal(size=n)
    start = time.process_time()
    c = contrast(
        x, np.full(n, 1 / n),
        **rows, clusters=rows["inputs"], strata=rows["systems"],
    )  # fmt: skip
    assert time.process_time() - start < 1
    assert c is not None
    assert c.samples_seeds
    by_prompt = x.reshape(-1, 4).mean(axis=1)  # seeds of one prompt show nothing besides
    assert c.variance == pytest.approx(np.var(by_prompt, ddof=1) / by_prompt.size)


@pytest.mark.parametrize("crossed", [True, False])
def test_degrees_of_freedom_of_many_seeds_are_exact_in_a_balanced_design(
    crossed: bool, monkeypatch: pytest.MonkeyPatch
):
    rows = codes(6, 4)
    seeds = rows["seeds"] if crossed else np.arange(rows["seeds"].size)
    x = balanced(6, 4, 2.0, np.random.default_rng(10)).ravel()
    exact = contrast(x, weights(6, 4), **(rows | {"seeds": seeds}))
    monkeypatch.setattr(seed_statistics, "_MOST_SEEDS", 0)
    bound = contrast(x, weights(6, 4), **(rows | {"seeds": seeds}))
    assert exact is not None
    assert bound is not None
    assert (bound.variance, bound.df) == pytest.approx((exact.variance, exact.df))


@pytest.mark.parametrize("seed", range(6))
def test_degrees_of_freedom_of_many_seeds_are_at_most_the_exact_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    v, w, rows = unbalanced(np.random.default_rng(seed))
    exact = contrast(v, w, **rows)
    monkeypatch.setattr(seed_statistics, "_MOST_SEEDS", 0)
    bound = contrast(v, w, **rows)
    assert exact is not None
    assert bound is not None
    assert bound.variance == pytest.approx(exact.variance)
    assert bound.df < exact.df


def test_one_prompt_is_not_a_sample_of_prompts():
    x = balanced(1, 3, 0.3, np.random.default_rng(8))
    assert contrast(x.ravel(), weights(1, 3), **codes(1, 3)) is None


def test_differences_that_are_all_equal_have_no_variance():
    x = np.broadcast_to(np.array([0.1, 0.7])[:, None, None], (2, 10, 3))
    c = contrast(x.ravel(), weights(10, 3), **codes(10, 3))
    assert c is not None
    assert (c.variance, c.df) == (0, 9)


def test_a_system_with_one_seed_adds_nothing_to_one_with_three():
    x = balanced(10, 3, 3.0, np.random.default_rng(9))
    rows = codes(10, 3)
    kept = (rows["systems"] == 0) | (rows["seeds"] == 0)
    w = np.where(rows["systems"] == 0, 1 / 30, -1 / 10)[kept]
    kept_rows = {name: code[kept] for name, code in rows.items()}
    c = contrast(x.ravel()[kept], w, **kept_rows)
    single = rows["systems"] == 0
    single_rows = {name: code[single] for name, code in rows.items()}
    first = contrast(x[0].ravel(), np.full(30, 1 / 30), **single_rows)
    assert c is not None
    assert first is not None
    d = x[0].mean(axis=1) - x[1, :, 0]
    prompts_of_first = np.var(x[0].mean(axis=1), ddof=1) / 10
    assert c.variance == pytest.approx(np.var(d, ddof=1) / 10 + first.variance - prompts_of_first)
