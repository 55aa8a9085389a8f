"""Plans: sizes against formulas and oracles, and the power that they promise, by simulation."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from levelfield import plan_metrics, plan_raters, plan_systems
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import ScoreColumn
from levelfield.planning.metrics import (
    mean_reliability,
    samples_for_correlation,
    samples_for_difference,
    samples_for_width,
)
from levelfield.planning.raters import agreement_variance, items_for_width
from levelfield.planning.systems import DifferenceSpread
from levelfield.scoring.seeds import SeededTexts
from levelfield.stats.dependent import williams
from levelfield.stats.krippendorff import krippendorff_alpha

SPREAD = DifferenceSpread.stated(1.0, 0.5, 0.2)


def studies(rng, n, seeds, difference, count, systems=2):
    """Differences of the first two systems of studies with the spread of `SPREAD`."""
    a, i, s = (codes.ravel() for codes in np.indices((systems, n, seeds)))
    for _ in range(count):
        values = (
            rng.normal(0, 0.5, (systems, n))[a, i]
            + rng.normal(0, 0.2, (systems, seeds))[a, s]
            + rng.normal(0, 0.5, a.size)
            + difference * (a == 0)
        )
        texts = SeededTexts(values, a, s, i, np.arange(n), np.zeros(n, np.intp))
        yield texts.difference(0, 1, np.full(n, 1 / n), prior=texts.prior())


def test_one_seed_needs_the_inputs_of_a_paired_t_test():
    plan = plan_systems(sd=2.0, difference=0.8, seeds=[1])
    expected = TTestPower().solve_power(effect_size=0.4, alpha=0.05, power=0.8)
    assert plan.rows[0]["inputs_needed"] == math.ceil(expected)
    assert plan.rows[0]["texts_needed"] == math.ceil(expected)


def test_systems_divide_the_level_by_the_number_of_their_pairs():
    plan = plan_systems(sd=2.0, difference=0.8, seeds=[1], systems=5)
    expected = TTestPower().solve_power(effect_size=0.4, alpha=0.005, power=0.8)
    assert plan.rows[0]["inputs_needed"] == math.ceil(expected)
    assert plan.assumptions["comparisons"] == 10


def test_so_few_inputs_that_sign_flips_show_nothing_are_not_planned():
    plan = plan_systems(sd=0.1, difference=10, seeds=[1], inputs=5)
    assert plan.rows[0]["inputs_needed"] == 6
    assert plan.rows[0]["detectable"] is None


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 5])
def test_a_study_of_several_seeds_has_the_error_that_is_planned(seeds: int):
    rng = np.random.default_rng(0)
    error = SPREAD.error(30, seeds)
    drawn = list(studies(rng, 30, seeds, 0.0, 300))
    assert np.std([c.value for c in drawn]) == pytest.approx(error.se, rel=0.1)
    assert np.mean([c.variance for c in drawn]) == pytest.approx(error.variances.mean(), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "systems"), [(2, 2), (5, 2), (3, 5)])
def test_a_planned_difference_is_shown_as_often_as_promised(seeds: int, systems: int):
    pairs = systems * (systems - 1) // 2
    row = plan_systems(
        sd=1.0, sd_texts=0.5, sd_seeds=0.2, seeds=[seeds], systems=systems, inputs=30,
        difference=2.0,
    ).rows[0]  # fmt: skip
    rng = np.random.default_rng(1)
    drawn = studies(rng, 30, seeds, row["detectable"], 400, systems)
    shown = [c.p <= 0.05 / pairs for c in drawn]
    assert np.mean(shown) == pytest.approx(0.8, abs=0.06)  # 3 standard errors


def test_where_seeds_alone_differ_too_much_no_inputs_are_enough():
    plan = plan_systems(sd=1.0, sd_seeds=1.0, seeds=[2, 50], difference=0.7)
    assert plan.rows[0]["inputs_needed"] is None
    assert plan.rows[1]["inputs_needed"] is not None
    assert any("seeds alone" in note for note in plan.notes)


@pytest.mark.parametrize(
    "words", [{}, {"sd_seeds": 0.0}, {"sd_seeds": 1e-9, "seeds": [5]}], ids=str
)
def test_a_difference_that_takes_too_many_inputs_is_not_blamed_on_seeds(words: dict):
    plan = plan_systems(sd=1.0, difference=1e-4, **words)
    assert {row["inputs_needed"] for row in plan.rows} == {None}
    assert "– : more than 10,000,000 inputs" in plan.notes
    assert not any("seeds alone" in note for note in plan.notes)


def test_each_reason_for_a_missing_number_is_given_once():
    plan = plan_systems(sd=1.0, sd_seeds=0.1, difference=1e-4, inputs=3)
    assert [note.partition(":")[2] for note in plan.notes if note.startswith("–")] == [
        " p of so few inputs is never small enough to show a difference",
        " more than 10,000,000 inputs",
        " no number of inputs is enough, since seeds alone differ too much",
    ]


def test_numbers_of_samples_and_items_that_are_too_large_are_explained():
    note = "– : more than 10,000,000 samples"
    assert note in plan_metrics(r=1e-5).notes
    assert note in plan_metrics(r=0.4, against=0.39999).notes
    assert "– : more than 10,000,000 items" in plan_raters(agreement=0.5, width=1e-5).notes
    plan = plan_metrics(r=0.0)
    assert note not in plan.notes
    assert "– : an r of 0 is never shown not to be 0" in plan.notes
    assert not any(note.startswith("–") for note in plan_metrics(r=0.4, against=0.3).notes)


def test_unknown_seeds_are_not_planned():
    plan = plan_systems(sd=1.0, difference=0.5)
    assert [row["seeds"] for row in plan.rows] == [1]
    assert any("--sd-seeds" in note for note in plan.notes)


def pilot(rng, inputs=200, seeds=20, systems="abc", sd_seeds=0.2):
    samples, values = [], {}
    for system in systems:
        seed_effects = rng.normal(0, sd_seeds, seeds)
        for i in range(inputs):
            input_effect = rng.normal(0, 0.5)
            for k in range(seeds):
                sample = Sample(f"{system}{i}.{k}", "text", prompt=f"p{i}", system=system, seed=k)
                samples.append(sample)
                values[sample.id] = input_effect + seed_effects[k] + rng.normal(0, 0.5)
    return ScoreColumn("m", "m|v:0", values), samples


@pytest.mark.slow
def test_a_pilot_gives_the_standard_deviations_that_made_it():
    scores, samples = pilot(np.random.default_rng(2), inputs=60)
    plan = plan_systems(scores, samples=samples, difference=0.3)
    (spread,) = plan.assumptions["spread"]
    assert spread["sd"] == pytest.approx(1.0, rel=0.1)
    assert spread["sd_texts"] == pytest.approx(0.5, rel=0.03)
    assert spread["sd_seeds"] == pytest.approx(0.2, rel=0.3)
    assert (spread["inputs"], spread["seeds"], plan.assumptions["systems"]) == (60, 20, 3)


def test_a_pilot_with_one_seed_plans_claims_about_these_runs():
    rng = np.random.default_rng(3)
    scores, samples = pilot(rng, inputs=300, seeds=1, systems="ab")
    plan = plan_systems(scores, samples=samples, difference=0.3)
    d = [scores.values[f"a{i}.0"] - scores.values[f"b{i}.0"] for i in range(300)]
    (spread,) = plan.assumptions["spread"]
    assert spread["sd"] == pytest.approx(np.std(d, ddof=1))
    assert spread["sd_seeds"] is None
    assert [row["seeds"] for row in plan.rows] == [1]


def test_what_the_user_states_overrides_the_pilot():
    scores, samples = pilot(np.random.default_rng(4), inputs=20, seeds=2)
    plan = plan_systems(scores, samples=samples, sd_seeds=0.7)
    assert plan.assumptions["spread"][0]["sd_seeds"] == pytest.approx(0.7)
    assert not any("95 % limit" in note for note in plan.notes)


def test_undefined_values_of_a_pilot_count_for_nothing():
    scores, samples = pilot(np.random.default_rng(5), inputs=40, seeds=1)
    whole = plan_systems(scores, samples=samples)
    for i in range(5):
        scores.values[f"a{i}.0"] = math.nan
        scores.values[f"b{i + 5}.0"] = -math.inf
    part = plan_systems(scores, samples=samples)
    assert whole.assumptions["spread"][0]["sd"] != part.assumptions["spread"][0]["sd"]
    assert math.isfinite(part.assumptions["spread"][0]["sd"])


def test_a_metric_of_whole_groups_is_not_planned_and_spoils_no_pilot():
    scores, samples = pilot(np.random.default_rng(6), inputs=20, seeds=1)
    corpus = ScoreColumn("distinct", "distinct|v:0", {"system=a": 0.3, "system=b": 0.4})
    plan = plan_systems([scores, corpus], samples=samples)
    assert {row["metric"] for row in plan.rows} == {"m"}
    assert plan.notes[-1] == "not planned: distinct: no id is in both the scores and the samples"
    with pytest.raises(UserError, match="distinct: no id is in both the scores and the samples"):
        plan_systems([corpus], samples=samples)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "nothing to plan from"),
        ({"sd": 1.0, "sd_texts": 0.9}, "expected at most 0.707"),
        ({"sd": 1.0, "power": 0.04}, "more than alpha"),
        ({"sd": 1.0, "seeds": []}, "seeds="),
    ],
)
def test_what_can_not_be_planned_is_refused(words: dict, message: str):
    with pytest.raises(UserError, match=message):
        plan_systems(**words)


def test_pilots_without_two_systems_are_refused():
    scores, samples = pilot(np.random.default_rng(6), inputs=5, seeds=1, systems="a")
    with pytest.raises(UserError, match="1 systems"):
        plan_systems(scores, samples=samples)
    with pytest.raises(UserError, match="give --samples"):
        plan_systems(scores)
    with pytest.raises(UserError, match="no id is in both"):
        plan_systems(scores, samples=[Sample("other", "text", system="a")])
    with pytest.raises(UserError, match="no metric 'n'"):
        plan_systems(scores, samples=samples, metrics=["n"])


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.5, 0.9])
def test_samples_for_a_width_are_the_fewest_with_fishers_interval(r: float):
    def width(n: int) -> float:
        half = stats.norm.ppf(0.975) / math.sqrt(n - 3)
        return math.tanh(math.atanh(r) + half) - math.tanh(math.atanh(r) - half)

    expected = next(n for n in range(4, 5000) if width(n) <= 0.15)
    assert samples_for_width(r, 0.15) == expected


def test_samples_for_a_correlation_are_those_of_tables():
    # Hulley et al. (2013), appendix 6C, two-sided 0.05, power 0.8
    published = {0.1: 783, 0.2: 194, 0.3: 85, 0.5: 29}
    for r, n in published.items():
        assert samples_for_correlation(r, power=0.8, alpha=0.05) == pytest.approx(n, abs=1)
    assert samples_for_correlation(0.0, power=0.8, alpha=0.05) is None


def test_a_difference_of_metrics_is_shown_as_often_as_promised():
    n = samples_for_difference(0.6, 0.3, 0.5, power=0.8, alpha=0.05)
    assert n is not None
    L = np.linalg.cholesky(np.array([[1, 0.6, 0.3], [0.6, 1, 0.5], [0.3, 0.5, 1]]))
    rng = np.random.default_rng(7)
    shown = []
    for _ in range(1500):
        C = np.corrcoef(L @ rng.normal(size=(3, n)))
        shown.append(williams(C[0, 1], C[0, 2], C[1, 2], n).p <= 0.05)
    assert np.mean(shown) == pytest.approx(0.8, abs=0.031)  # 3 standard errors


def test_more_raters_raise_the_correlation_by_their_reliability():
    rows = plan_metrics(r=0.3, agreement=0.4, raters=[1, 4]).rows
    assert rows[0]["r"] == pytest.approx(0.3)
    assert rows[1]["r"] == pytest.approx(0.3 * math.sqrt(mean_reliability(0.4, 4) / 0.4))
    assert rows[1]["samples_for_correlation"] < rows[0]["samples_for_correlation"]


def test_without_their_agreement_raters_are_not_planned():
    plan = plan_metrics(r=0.3)
    assert [row["raters"] for row in plan.rows] == [None]
    assert "--agreement" in plan.notes[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "nothing to plan from"),
        ({"against": 0.2}, "needs r"),
        ({"r": 0.2, "against": 0.2}, "a number other than r"),
        ({"r": 0.9, "against": -0.9, "between": 0.9}, "no two metrics"),
    ],
)
def test_correlations_that_can_not_be_planned_are_refused(words: dict, message: str):
    with pytest.raises(UserError, match=message):
        plan_metrics(**words)


def rated(n: int, rng) -> tuple[list[ScoreColumn], list[Sample]]:
    y = rng.normal(size=n)
    samples = [
        Sample(
            str(i), "text", source=f"s{i}",
            ratings={"style": {r: float(y[i] + rng.normal(0, 0.7)) for r in ("ann", "bo")}},
        )
        for i in range(n)
    ]  # fmt: skip
    columns = [
        ScoreColumn(m, f"{m}|v:0", {str(i): float(y[i] + rng.normal(0, sd)) for i in range(n)})
        for m, sd in (("m", 1.0), ("k", 2.0))
    ]
    return columns, samples


def test_a_pilot_of_independent_samples_is_worth_its_samples():
    columns, samples = rated(300, np.random.default_rng(8))
    plan = plan_metrics(columns, ratings=samples)
    (first, _) = plan.assumptions["pilot"]
    assert first["design"] == pytest.approx(1, abs=0.25)
    assert first["agreement"] == pytest.approx(1 / 1.49, abs=0.06)
    pair = plan.rows[-1]
    assert pair["metric"] == "m − k"
    expected = samples_for_difference(0.62, 0.4, 0.35, power=0.8, alpha=0.05)
    assert expected is not None
    assert 0.4 * expected < pair["samples_for_difference"] < 2.5 * expected


def test_metrics_of_a_pilot_that_no_test_compares_are_not_planned_with_a_reason():
    columns, samples = rated(60, np.random.default_rng(9))
    systems = [replace(s, system="ab"[int(s.id) % 2]) for s in samples]
    plan = plan_metrics(columns, ratings=systems)
    assert plan.rows[-1]["samples_for_difference"] is None
    (note,) = [note for note in plan.notes if note.startswith("m − k")]
    assert note.startswith("m − k: not planned: 2 systems, and a claim")
    assert not any("the pilot is taken as the true one" in note for note in plan.notes)


@pytest.mark.parametrize("apart", [0.0, 20.0])
def test_a_plan_says_whether_r_is_that_of_differences_between_systems(apart: float):
    columns, samples = rated(60, np.random.default_rng(9))
    shift = {s.id: apart * (int(s.id) % 3) for s in samples}
    columns = [
        replace(c, values={id: v + shift[id] for id, v in c.values.items()}) for c in columns[:1]
    ]
    samples = [
        replace(
            s, system="abc"[int(s.id) % 3],
            ratings={"style": {r: v + shift[s.id] for r, v in s.ratings["style"].items()}},
        )
        for s in samples
    ]  # fmt: skip
    plan = plan_metrics(columns, ratings=samples)
    (pilot,) = plan.assumptions["pilot"]
    assert pilot["r_within_systems"] < 0.9
    assert "within systems, with 2 raters" in plan.notes[0]
    asks = [note for note in plan.notes if "plans that within systems" in note]
    assert bool(asks) == bool(apart)


def test_the_variance_of_alpha_is_that_of_normal_ratings():
    rng = np.random.default_rng(9)
    alphas = []
    for _ in range(400):
        items, ratings = rng.normal(size=(80, 1)), rng.normal(size=(80, 3))
        values = math.sqrt(0.6) * items + math.sqrt(0.4) * ratings
        D_o = values.var(axis=1, ddof=1).mean()
        alphas.append(1 - D_o / values.var(ddof=1))
    assert np.var(alphas) == pytest.approx(agreement_variance(0.6, 3, 80), rel=0.25)


def test_items_for_a_width_are_those_of_bonetts_formula():
    rho, k, w = 0.6, 3, 0.2
    z = stats.norm.ppf(0.975)
    n = 8 * z**2 * (1 - rho) ** 2 * (1 + (k - 1) * rho) ** 2 / (k * (k - 1) * w**2) + 1
    assert items_for_width(rho, k, w) == math.ceil(n)


def test_a_pilot_of_ratings_is_worth_what_its_interval_says():
    rng = np.random.default_rng(10)
    _, samples = rated(120, rng)
    plan = plan_raters(samples, raters=[2], width=0.1)
    (p,) = plan.assumptions["pilot"]
    by_id = sorted(samples, key=lambda s: s.id)
    values = np.array([list(s.ratings["style"].values()) for s in by_id])
    e = krippendorff_alpha(values)
    assert p["agreement"] == pytest.approx(e.value)
    expected = (e.high - e.low) ** 2 / 0.1**2 * 119 + 1
    assert plan.rows[0]["items"] == pytest.approx(expected, abs=1)


def test_agreement_that_can_not_be_planned_is_refused():
    with pytest.raises(UserError, match="nothing to plan from"):
        plan_raters()
    alone = [Sample("1", "text", ratings={"style": {"ann": 1.0}})]
    with pytest.raises(UserError, match="style: the pilot has no α"):
        plan_raters(alone)


def test_a_plan_is_a_document_a_frame_and_a_table():
    plan = plan_systems(sd=1.0, sd_seeds=1.0, seeds=[1, 2], difference=0.5)
    document = plan.to_dict()
    assert list(document) == ["question", "files", "signature", "assumptions", "rows", "notes"]
    assert document["signature"].startswith("plan.systems|power:0.8|alpha:0.05|systems:2")
    frame = plan.to_polars()
    assert frame.schema["inputs_needed"] == pl.Int64
    assert frame["inputs_needed"].to_list() == [34, None]
    assert "\\toprule" in plan.to_latex()
    assert plan.table().rows[1][1] == "–"
