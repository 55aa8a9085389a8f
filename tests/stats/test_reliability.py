"""α, intraclass correlations and κ against published examples and the plain definitions."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import f as f_distribution

from levelfield.stats.estimands import MEASUREMENTS
from levelfield.stats.estimate import percentile_ends
from levelfield.stats.icc import intraclass
from levelfield.stats.kappa import cohen_kappa
from levelfield.stats.krippendorff import krippendorff_alpha, mean_alpha
from levelfield.stats.resampling import Resampling

FEW = Resampling(resamples=50)
nan = math.nan

# Krippendorff (2011): four observers, twelve units
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
        [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
    ]
).T

# Shrout and Fleiss (1979), table 2: six targets, four judges
SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
)


def distance(level, c, k, values):
    """δ² by Krippendorff's definitions; values: all pairable ones."""
    if level == "nominal":
        return float(c != k)
    if level == "interval":
        return (c - k) ** 2
    low, high = sorted((c, k))
    between = sum(low <= value <= high for value in values)
    return (between - (values.count(c) + values.count(k)) / 2) ** 2


def plain_alpha(table, level):
    """α by all pairs of ratings, straight from the definition."""
    units = [[x for x in row if not math.isnan(x)] for row in table]
    units = [unit for unit in units if len(unit) > 1]
    values = [x for unit in units for x in unit]
    n = len(values)
    observed = sum(
        distance(level, a, b, values) / (len(unit) - 1)
        for unit in units
        for a, b in itertools.permutations(unit, 2)
    )
    expected = sum(distance(level, a, b, values) for a, b in itertools.permutations(values, 2))
    return 1 - (observed / n) / (expected / (n * (n - 1)))


LIKERT = st.integers(1, 5)


@st.composite
def tables(draw, numbers=LIKERT, missing=True):
    raters = draw(st.integers(2, 4))
    rating = st.one_of(numbers, st.just(nan)) if missing else numbers
    row = st.lists(rating, min_size=raters, max_size=raters)
    table = np.array(draw(st.lists(row, min_size=2, max_size=8)), dtype=float)
    pairable = table[(~np.isnan(table)).sum(axis=1) > 1]
    assume(len(pairable) > 1 and np.nanmin(pairable) < np.nanmax(pairable))
    return table


def alpha(table, level="interval", **options):
    return krippendorff_alpha(table, level=level, resampling=FEW, **options).value


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_own_example(level, published):
    scores = krippendorff_alpha(KRIPPENDORFF, level=level)
    assert scores.value == pytest.approx(published, abs=5e-4)
    assert scores.n == 11
    assert scores.low < scores.value <= scores.high <= 1


@given(tables(), st.sampled_from(MEASUREMENTS))
def test_alpha_is_what_the_definition_says(table, level):
    assert alpha(table, level) == pytest.approx(plain_alpha(table.tolist(), level), abs=1e-9)


@given(tables(st.floats(-1e3, 1e3).map(lambda x: round(x, 2))), st.sampled_from(MEASUREMENTS))
def test_alpha_of_continuous_ratings_is_what_the_definition_says(table, level):
    assert alpha(table, level) == pytest.approx(plain_alpha(table.tolist(), level), abs=1e-7)


@given(tables(), st.sampled_from(MEASUREMENTS), st.randoms())
def test_alpha_does_not_depend_on_the_order_of_raters_or_items(table, level, random):
    rows, columns = list(range(len(table))), list(range(table.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    shuffled = table[rows][:, columns]
    first = krippendorff_alpha(table, level=level, clusters=np.arange(len(table)), resampling=FEW)
    second = krippendorff_alpha(shuffled, level=level, clusters=rows, resampling=FEW)
    for name in ("value", "low", "high"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-9, nan_ok=True)


@given(tables(), st.sampled_from(MEASUREMENTS))
def test_alpha_is_at_most_one(table, level):
    scores = krippendorff_alpha(table, level=level, resampling=FEW)
    assert scores.value <= 1 + 1e-12
    assert math.isnan(scores.low) or scores.low <= scores.high <= 1 + 1e-12


@given(tables(), st.floats(0.01, 100), st.floats(-1000, 1000))
def test_interval_alpha_does_not_depend_on_unit_and_origin(table, unit, origin):
    assert alpha(unit * table + origin) == pytest.approx(alpha(table), abs=1e-8)
    assert alpha(-table) == pytest.approx(alpha(table), abs=1e-8)


@given(tables())
def test_ordinal_alpha_depends_on_the_order_alone(table):
    assert alpha(np.exp(table), "ordinal") == pytest.approx(alpha(table, "ordinal"), abs=1e-9)


@given(tables(), st.permutations([1, 2, 3, 4, 5]))
def test_nominal_alpha_does_not_depend_on_names(table, names):
    renamed = np.full(table.shape, nan)
    for old, new in enumerate(names, 1):
        renamed[table == old] = new
    assert alpha(renamed, "nominal") == pytest.approx(alpha(table, "nominal"), abs=1e-9)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=8), st.sampled_from(MEASUREMENTS))
def test_perfect_agreement_is_one(values, level):
    assume(len(set(values)) > 1)
    assert alpha(np.array([values] * 3).T, level) == pytest.approx(1)


@pytest.mark.parametrize("level", MEASUREMENTS)
def test_raters_who_guess_have_alpha_near_zero(level):
    values = np.random.default_rng(1).integers(1, 6, size=(2000, 3)).astype(float)
    scores = krippendorff_alpha(values, level=level, resampling=Resampling(resamples=200))
    assert abs(scores.value) < 0.03
    assert scores.low < 0 < scores.high


def test_single_ratings_do_not_count():
    more = np.vstack([KRIPPENDORFF, [[nan, 5, nan, nan], [nan] * 4]])
    assert alpha(more) == alpha(KRIPPENDORFF)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.empty((0, 2)), "no ratings"),
        ([[nan, nan]], "no ratings"),
        ([[1, nan], [2, nan]], "one rater only"),
        ([[1, nan], [nan, 2]], "no item was rated by two raters"),
        ([[1, 2], [3, nan]], "only one item was rated by two raters"),
        ([[3, 3], [3, 3]], "all ratings are 3"),
        ([[3, 3], [3, 3], [4, nan]], "all ratings are 3"),
    ],
)
def test_undefined_agreement_has_a_reason(table, reason):
    for level in MEASUREMENTS:
        agreement = krippendorff_alpha(table, level=level)
        assert math.isnan(agreement.value)
        assert agreement.why_undefined == reason
    for agreement in intraclass(table).values():
        assert math.isnan(agreement.value)
        assert agreement.why_undefined == reason


def test_the_interval_of_alpha_draws_clusters():
    rng = np.random.default_rng(0)
    true = np.repeat(rng.normal(size=12), 40)
    table = true[:, None] + rng.normal(size=(480, 2))
    alone = krippendorff_alpha(table)
    together = krippendorff_alpha(table, clusters=np.repeat(np.arange(12), 40))
    assert alone.value == pytest.approx(together.value)
    assert (alone.clusters, together.clusters) == (480, 12)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)
    single_cluster = krippendorff_alpha(table, clusters=np.zeros(480))
    assert single_cluster.why_no_interval == "one cluster"


@pytest.mark.parametrize("level", ["ordinal", "interval"])
def test_resamples_are_the_statistic_of_what_was_drawn(level):
    """Drawing an item twice is the same as having it twice."""
    rng = np.random.default_rng(3)
    table = rng.integers(1, 5, size=(9, 3)).astype(float)
    table[rng.random(table.shape) < 0.15] = nan
    table = table[(~np.isnan(table)).sum(axis=1) > 1]
    resampling = Resampling(resamples=40, seed=5)
    K = len(table)
    drawn = np.random.default_rng(5).integers(K, size=(40, K))
    plain = [plain_alpha(table[rows].tolist(), level) for rows in drawn]
    scores = krippendorff_alpha(table, level=level, resampling=resampling)
    assert (scores.low, scores.high) == pytest.approx(percentile_ends(np.array(plain), 0.95, K))


def label_ratings(items, seed, *, share=0.05, agreement=0.6):
    """Two raters of labels 0 and 1, who see one draw of an item or two, with α = agreement."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((items, 2)) < share).astype(float)
    return np.where(rng.random((items, 1)) < agreement, labels[:, :1], labels)


def test_the_interval_of_rare_labels_holds_the_truth():
    """It is Jeffreys' of the items that have the label; a bootstrap holds it in two of three."""
    held = total = 0
    for seed in range(150):
        table = label_ratings(50, seed)
        if table.min() < table.max():
            scores = krippendorff_alpha(table, resampling=Resampling(resamples=200, seed=seed))
            held += scores.low <= 0.6 <= scores.high
            total += 1
    assert held / total >= 0.88


def test_labels_that_all_raters_agree_on_have_an_interval_of_some_width():
    table = np.zeros((40, 3))
    table[:4] = 1
    for level in MEASUREMENTS:
        scores = krippendorff_alpha(table, level=level)
        assert (scores.value, scores.high) == (1, 1)
        # Beta(4.5, 0.5) of the items that have the label, and α = 2 q / (1 + q) of two raters
        assert 0.5 < scores.low < 0.85


def test_the_mean_of_one_table_is_its_alpha():
    table = label_ratings(60, 1, share=0.3)
    clusters = np.arange(60) // 2
    for level in MEASUREMENTS:
        assert mean_alpha({"a": (table, clusters)}, level=level, resampling=FEW) == (
            krippendorff_alpha(table, level=level, clusters=clusters, resampling=FEW)
        )


def test_shrout_and_fleiss_own_example():
    icc = intraclass(SHROUT_FLEISS)
    published = {
        "ICC(1,1)": 0.17,
        "ICC(2,1)": 0.29,
        "ICC(3,1)": 0.71,
        "ICC(1,k)": 0.44,
        "ICC(2,k)": 0.62,
        "ICC(3,k)": 0.91,
    }
    assert {name: round(e.value, 2) for name, e in icc.items()} == published
    # Intervals of this table as statistical packages print them
    ends = {name: (round(e.low, 2), round(e.high, 2)) for name, e in icc.items()}
    assert ends == {
        "ICC(1,1)": (-0.13, 0.72),
        "ICC(2,1)": (0.02, 0.76),
        "ICC(3,1)": (0.34, 0.95),
        "ICC(1,k)": (-0.88, 0.91),
        "ICC(2,k)": (0.07, 0.93),
        "ICC(3,k)": (0.68, 0.99),
    }


def complete():
    return tables(st.floats(-100, 100).map(lambda x: round(x, 1)), missing=False)


@given(complete(), st.randoms(), st.floats(0.1, 50), st.floats(-100, 100))
def test_intraclass_correlations_keep_their_value_under_order_unit_and_origin(
    table, random, unit, origin
):
    columns = list(range(table.shape[1]))
    random.shuffle(columns)
    first, second = intraclass(table), intraclass(unit * table[:, columns] + origin)
    for name, e in first.items():
        if name.endswith(",k)") and not abs(e.value) < 1e6:
            continue  # a mean square near 0 divides
        assert second[name].value == pytest.approx(e.value, rel=1e-6, abs=1e-6, nan_ok=True)


@given(complete())
def test_single_reliabilities_are_at_most_one_and_inside_their_interval(table):
    for name, e in intraclass(table).items():
        if not math.isnan(e.value):
            assert e.value <= 1 + 1e-9
        if name in ("ICC(1,1)", "ICC(3,1)") and not math.isnan(e.low):
            assert e.low <= e.value + 1e-9
            assert e.value <= e.high + 1e-9


@given(complete(), st.lists(st.floats(-100, 100), min_size=4, max_size=4))
def test_consistency_ignores_that_a_rater_is_strict(table, strictness):
    strict = table + np.array(strictness[: table.shape[1]])
    first, second = intraclass(table)["ICC(3,1)"], intraclass(strict)["ICC(3,1)"]
    assume(not math.isnan(first.value))
    assert second.value == pytest.approx(first.value, abs=1e-6, nan_ok=True)


def test_raters_who_differ_by_a_constant_are_consistent_but_do_not_agree():
    icc = intraclass([[1, 3], [2, 4], [5, 7]])
    assert icc["ICC(3,1)"].value == pytest.approx(1)
    assert icc["ICC(3,1)"].why_no_interval == "no residual variance"
    assert icc["ICC(2,1)"].value < 0.8
    assert icc["ICC(1,1)"].value < 0.8


def test_items_without_any_difference_have_no_reliability_of_means():
    icc = intraclass([[1, 3], [3, 1], [2, 2]])
    for name in ("ICC(1,k)", "ICC(2,k)", "ICC(3,k)"):
        assert icc[name].why_undefined == "no variance between items"
    assert icc["ICC(1,1)"].value < 0


def test_only_complete_items_count_and_other_raters_a_part_leave_icc_1():
    gaps = np.vstack([SHROUT_FLEISS, [[1, 2, nan, nan]]])
    assert intraclass(gaps)["ICC(2,1)"].value == intraclass(SHROUT_FLEISS)["ICC(2,1)"].value
    # four raters, each pair of them in its own part
    apart = np.full((8, 4), nan)
    apart[:4, :2] = [[1, 2], [4, 4], [3, 5], [5, 5]]
    apart[4:, 2:] = [[2, 2], [1, 3], [5, 4], [3, 3]]
    icc = intraclass(apart)
    assert icc["ICC(2,1)"].why_undefined == "no item was rated by all 4 raters"
    assert icc["ICC(1,1)"].note == "k = 2 ratings an item"
    alike = apart[~np.isnan(apart)].reshape(8, 2)
    assert icc["ICC(1,1)"].value == intraclass(alike)["ICC(1,1)"].value


def test_the_interval_of_icc_3_covers_as_often_as_it_says():
    rng = np.random.default_rng(11)
    true, inside, runs = 0.6, 0, 400
    for _ in range(runs):
        table = rng.normal(scale=math.sqrt(0.6), size=(15, 1)) + rng.normal(
            scale=math.sqrt(0.4), size=(15, 3)
        )
        e = intraclass(table + np.arange(3))["ICC(3,1)"]
        inside += e.low <= true <= e.high
    assert 0.92 <= inside / runs <= 0.98


def test_the_interval_of_icc_3_is_that_of_f():
    e = intraclass(SHROUT_FLEISS)["ICC(3,k)"]
    F = 1 / (1 - e.value)
    assert e.low == pytest.approx(1 - f_distribution.ppf(0.975, 5, 15) / F)
    assert e.high == pytest.approx(1 - 1 / (F * f_distribution.ppf(0.975, 15, 5)))


def plain_kappa(x, y, weight):
    values = sorted({*x, *y})
    n = len(x)
    observed = sum(weight(a, b) for a, b in zip(x, y, strict=True)) / n
    expected = sum(
        weight(a, b) * (x.count(a) / n) * (y.count(b) / n) for a in values for b in values
    )
    return 1 - observed / expected


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=3, max_size=12))
def test_kappa_is_what_the_definition_says(pairs):
    x, y = ([float(p[i]) for p in pairs] for i in (0, 1))
    assume(len({*x, *y}) > 1)
    for weights, weight in (
        ("none", lambda a, b: float(a != b)),
        ("quadratic", lambda a, b: (a - b) ** 2),
    ):
        kappa = cohen_kappa(x, y, weights=weights, resampling=FEW)
        assert kappa.value == pytest.approx(plain_kappa(x, y, weight), abs=1e-9)
        assert cohen_kappa(y, x, weights=weights, resampling=FEW).value == pytest.approx(
            kappa.value, abs=1e-9
        )


def test_kappa_of_a_constant_pair_says_why():
    assert cohen_kappa([3, 3, 3], [3, 3, 3]).why_undefined == "all ratings are 3"
    assert cohen_kappa([3, 3, nan], [nan, 2, 3]).why_undefined == "one item in common"


@settings(max_examples=10)
@given(tables(), st.integers(0, 5))
def test_equal_seeds_give_equal_intervals(table, seed):
    resampling = Resampling(resamples=100, seed=seed)
    for level in MEASUREMENTS:
        first = krippendorff_alpha(table, level=level, resampling=resampling)
        assert first == krippendorff_alpha(table, level=level, resampling=resampling) or (
            math.isnan(first.low)
        )


def test_the_interval_of_alpha_is_quick_on_continuous_ratings():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(480, 1)) + rng.normal(size=(480, 2))
    began = time.process_time()
    scores = krippendorff_alpha(table)
    took = time.process_time() - began
    assert scores.clusters == 480
    assert not math.isnan(scores.low)
    assert took < 3, f"{took:.2f} s"


@pytest.mark.parametrize("wrong", [[1, 2, 3], [[1, math.inf]]])
def test_other_shapes_and_infinite_ratings_are_refused(wrong):
    with pytest.raises(ValueError, match="shape"):
        krippendorff_alpha(wrong)
    with pytest.raises(ValueError, match="one cluster per item"):
        krippendorff_alpha([[1, 2]], clusters=[1, 2])
    with pytest.raises(ValueError, match="level"):
        krippendorff_alpha([[1, 2]], level="ratio")
