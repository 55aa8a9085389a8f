"""Agreement by aspect and part, pairs of raters, z-scores and the worst items."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from levelfield.agree.agreement import MEAN_OF_ASPECTS, agreement, rater_agreement
from levelfield.agree.sources import part_of, rating_table, z_scores
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import Rated, Rating
from levelfield.scoring.summary import OVERALL
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.resampling import Resampling

FEW = Resampling(resamples=100)


def study(n=24, aspects=("content", "style"), raters=("ann", "bo", "cy"), seed=0):
    """Samples of two surveys, four a source, with ratings by everyone."""
    rng = np.random.default_rng(seed)
    ratings = [
        Rating(str(i), aspect, rater, float(level + rng.normal(scale=10)))
        for i in range(n)
        for aspect in aspects
        for level in [rng.uniform(20, 80)]
        for rater in raters
    ]
    samples = {
        str(i): Sample(str(i), "", source=f"source {i // 4}", extra={"survey": 1 + i % 2})
        for i in range(n)
    }
    return Rated(tuple(ratings), samples)


def of(report, aspect, part=OVERALL):
    (found,) = [g for g in report.groups if (g.aspect, g.part) == (aspect, part)]
    return found


def test_one_aspect_is_one_group():
    report = rater_agreement(study(aspects=("style",)), resampling=FEW)
    assert [(g.aspect, g.part) for g in report.groups] == [("style", OVERALL)]
    assert (report.groups[0].items, report.groups[0].ratings) == (24, 72)
    assert report.signature.startswith("agreement|aspects:style|by:none|level:interval|")


def test_several_aspects_are_looked_at_one_by_one_and_averaged():
    rated = study()
    report = rater_agreement(rated, resampling=FEW)
    assert [g.aspect for g in report.groups] == ["content", "style", MEAN_OF_ASPECTS]
    content, style, mean = report.groups
    assert (mean.items, mean.ratings, mean.alpha.n) == (48, 144, 48)
    assert mean.alpha.value == pytest.approx((content.alpha.value + style.alpha.value) / 2)
    assert mean.alpha.low < mean.alpha.value < mean.alpha.high
    assert (mean.icc, mean.pairs, mean.raters) == ({}, (), ())
    only = rater_agreement(rated, aspects=["style"], resampling=FEW)
    assert only.groups == (style,)


def test_raters_who_agree_on_the_aspect_alone_do_not_agree():
    rng = np.random.default_rng(1)
    ratings = [
        Rating(str(i), aspect, rater, float(centre + rng.normal()))
        for aspect, centre in (("length", 90), ("style", 10))
        for i in range(60)
        for rater in ("ann", "bo")
    ]
    pooled = krippendorff_alpha(rating_table(ratings).values, resampling=FEW)
    assert pooled.value > 0.98
    mean = rater_agreement(Rated(tuple(ratings), {}), resampling=FEW).groups[-1]
    assert mean.aspect == MEAN_OF_ASPECTS
    assert abs(mean.alpha.value) < 0.2
    assert mean.alpha.low < 0 < mean.alpha.high


def test_an_aspect_without_alpha_is_left_out_of_the_mean_and_named():
    rated = study(aspects=("style",))
    constant = tuple(r._replace(aspect="fluency", value=5.0) for r in rated.ratings)
    fluency, style, mean = rater_agreement(
        Rated(rated.ratings + constant, rated.samples), resampling=FEW
    ).groups
    assert fluency.alpha.why_undefined == "all ratings are 5"
    assert mean.alpha.value == pytest.approx(style.alpha.value)
    assert mean.alpha.note == "fluency is left out: all ratings are 5"
    alone = rater_agreement(
        Rated(constant + tuple(r._replace(aspect="tone") for r in constant), {}), resampling=FEW
    )
    assert alone.groups[-1].alpha.why_undefined == "all ratings are 5"


def test_parts_and_all_of_them():
    report = rater_agreement(study(), by="survey", resampling=FEW)
    assert [g.part for g in report.groups] == ["1", "2", OVERALL] * 3
    assert of(report, "style", "1").items == 12
    assert {d.part for d in report.worst} == {"1", "2"}


def test_intervals_resample_what_samples_share():
    rated = study()
    assert of(rater_agreement(rated, resampling=FEW), "style").alpha.clusters == 6
    unknown = Rated(rated.ratings, {})
    assert of(rater_agreement(unknown, resampling=FEW), "style").alpha.clusters == 24
    # two aspects of a sample are not independent of each other
    assert of(rater_agreement(unknown, resampling=FEW), MEAN_OF_ASPECTS).alpha.clusters == 24


def test_the_order_of_ratings_changes_nothing():
    rated = study()
    shuffled = list(rated.ratings)
    random.Random(1).shuffle(shuffled)
    assert rater_agreement(Rated(tuple(shuffled), rated.samples), by="survey", resampling=FEW) == (
        rater_agreement(rated, by="survey", resampling=FEW)
    )


def test_pairs_have_the_correlations_of_their_common_items():
    rated = study(aspects=("style",))
    kept = tuple(r for r in rated.ratings if not (r.rater == "bo" and r.id in ("3", "4")))
    pairs = rater_agreement(Rated(kept, rated.samples), resampling=FEW).groups[0].pairs
    assert [(p.a, p.b, p.items) for p in pairs] == [
        ("ann", "bo", 22),
        ("ann", "cy", 24),
        ("bo", "cy", 22),
    ]
    ann = {r.id: r.value for r in kept if r.rater == "ann"}
    bo = {r.id: r.value for r in kept if r.rater == "bo"}
    x, y = [ann[id] for id in bo], list(bo.values())
    assert pairs[0].pearson.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert pairs[0].spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert pairs[0].pearson.low < pairs[0].pearson.value < pairs[0].pearson.high


def test_raters_who_share_no_item_are_no_pair():
    rated = Rated((Rating("1", "s", "a", 1.0), Rating("2", "s", "b", 2.0)), {})
    group = rater_agreement(rated, resampling=FEW).groups[0]
    assert group.pairs == ()
    assert group.alpha.why_undefined == "no item was rated by two raters"


def test_a_rater_without_variance_is_named():
    values = [("a", 3.0, "1"), ("b", 1.0, "1"), ("a", 3.0, "2"), ("b", 5.0, "2")]
    values += [("a", 3.0, "3"), ("b", 4.0, "3")]
    rated = Rated(tuple(Rating(id, "s", rater, value) for rater, value, id in values), {})
    group = rater_agreement(rated, resampling=FEW).groups[0]
    assert group.pairs[0].pearson.why_undefined == "a gave every item 3"
    assert math.isnan(group.pairs[0].pearson.value)
    assert not math.isnan(group.alpha.value)
    constant, other = group.raters
    assert (constant.n, constant.mean, constant.sd, constant.low) == (3, 3, 0, 3)
    assert (other.low, other.high) == (1, 5)


def test_the_worst_items_come_first():
    ratings = [Rating("1", "s", "a", 1.0), Rating("1", "s", "b", 9.0)]
    ratings += [Rating("2", "s", "a", 4.0), Rating("2", "s", "b", 4.0)]
    ratings += [Rating("3", "s", "b", 2.0), Rating("3", "s", "a", 5.0), Rating("4", "s", "a", 1.0)]
    report = rater_agreement(Rated(tuple(ratings), {}), resampling=FEW)
    assert [(d.id, d.variance) for d in report.worst] == [("1", 32.0), ("3", 4.5)]
    assert list(report.worst[1].values.items()) == [("a", 5.0), ("b", 2.0)]
    assert len(rater_agreement(Rated(tuple(ratings), {}), worst=1, resampling=FEW).worst) == 1


@given(st.lists(st.floats(1, 100), min_size=2, max_size=20))
def test_z_scores_have_mean_0_and_variance_1(values):
    rated = Rated(tuple(Rating(str(i), "s", "a", x) for i, x in enumerate(values)), {})
    z = [r.z for r in z_scores(rated)]
    if max(values) - min(values) > 1e-6:
        assert np.mean(z) == pytest.approx(0, abs=1e-6)
        assert np.var(z) == pytest.approx(1)
        assert z == pytest.approx(stats.zscore(values).tolist(), abs=1e-6)
    elif max(values) == min(values):
        assert all(map(math.isnan, z))


def test_z_scores_are_within_rater_aspect_and_part():
    rated = study()
    z = z_scores(rated, by="survey")
    assert [r[:4] for r in z] == list(rated.ratings)
    some = [r.z for r in z if (r.rater, r.aspect) == ("bo", "style") and int(r.id) % 2]
    assert np.mean(some) == pytest.approx(0, abs=1e-12)
    assert np.std(some) == pytest.approx(1)


def test_the_part_of_a_sample():
    sample = Sample(
        "1", "", system="x", seed=0, control={"topic": ("a", "b")}, extra={"survey": 2, "note": ""}
    )
    assert part_of(sample, "system") == "x"
    assert part_of(sample, "seed") == "0"
    assert part_of(sample, "control.topic") == "a, b"
    assert part_of(sample, "survey") == "2"
    for nothing in ("dataset", "control.sentiment", "note", "wave"):
        assert part_of(sample, nothing) == "(none)"
    assert part_of(None, "system") == "(none)"


def test_unknown_aspects_and_parts_are_the_users_mistake():
    with pytest.raises(UserError, match=r"--aspect form: nothing is rated on it; there are"):
        rater_agreement(study(), aspects=["form"])
    with pytest.raises(UserError, match=r"--by wave: no rated sample has it; there are survey"):
        rater_agreement(study(), by="wave")
    with pytest.raises(UserError, match="hold nothing to group by"):
        z_scores(Rated(study().ratings, {}), by="survey")


def test_samples_need_no_files_and_a_missing_rating_is_none():
    samples = [
        Sample(
            id=str(i), text="t", ratings={"style": {"ann": i, "bo": math.nan if i == 3 else i % 4}}
        )
        for i in range(8)
    ]
    report = agreement(samples)
    assert (report.groups[0].items, report.groups[0].ratings) == (8, 15)
    assert report.to_dict()["files"] == []


def test_a_frame_has_a_row_for_every_measure_and_pair():
    report = agreement(study(aspects=("style",)))
    frame = report.to_polars()
    assert len(frame) == 2 + 6 + 3 * 3
    alpha = frame.filter(measure="alpha")
    assert alpha["value"].item() == report.groups[0].alpha.value
    assert set(frame.filter(measure="kappa")["a"]) == {"ann", "bo"}


def test_labels_that_are_rare_have_a_low_alpha_and_a_high_ac1():
    ratings = [Rating(str(i), "slur", rater, 1.0) for i in range(40) for rater in ("ann", "bo")]
    ratings[0] = ratings[0]._replace(value=2.0)
    report = rater_agreement(Rated(tuple(ratings), {}), level="nominal")
    (group,) = report.groups
    assert group.ac is not None
    assert group.alpha.value == pytest.approx(0, abs=0.02)
    assert group.ac.value == pytest.approx(0.974, abs=0.001)
    assert group.to_dict()["ac"]["value"] == group.ac.value
    assert "AC1" in str(report)


def test_sliders_with_more_than_a_hundred_values_have_no_ac():
    values = [Rating(str(i), "q", rater, i + 0.5 * (rater == "bo")) for i in range(60)
              for rater in ("ann", "bo")]  # fmt: skip
    (group,) = rater_agreement(Rated(tuple(values), {})).groups
    assert group.ac is None
    assert "ac" not in group.to_dict()


def test_one_rater_gives_reasons_in_the_frame_and_dashes_in_the_table():
    rated = Rated(tuple(Rating(str(i), "form_al", "ann", i) for i in range(4)), {})
    report = agreement(rated)
    assert set(report.to_polars()["undefined"]) == {"one rater only"}
    assert set(report.to_polars()["value"]) == {None}
    assert "form\\_al & -- & -- & -- & -- & -- & --" in report.to_latex()


def test_the_latex_table_has_a_row_a_group_with_the_part():
    report = agreement(study(), by="survey")
    table = report.to_latex()
    assert table.startswith(f"% {report.signature}")
    assert table.count(" to ") == len(report.groups)
    assert "Aspect & Survey & $\\alpha$" in table
    assert table.count("{") == table.count("}")


def test_tables_have_a_row_a_group_and_name_the_level_of_their_intervals():
    narrow = Resampling(resamples=20, level=0.8)
    report = rater_agreement(study(), by="survey", resampling=narrow)
    alphas, coefficients, pairs, raters, worst = report.tables()
    assert [column.name for column in alphas.columns][:4] == [
        "aspect",
        "survey",
        "α",
        "80 % interval",
    ]
    assert [row[:2] for row in alphas.rows] == [[g.aspect, g.part] for g in report.groups]
    assert [row[0] for row in coefficients.rows] == ["content"] * 3 + ["style"] * 3
    assert len(pairs.rows) == sum(len(g.pairs) for g in report.groups)
    assert len(raters.rows) == sum(len(g.raters) for g in report.groups)
    assert len(worst.rows) == len(report.worst)
    for table in report.tables():
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_one_group_has_a_row_a_coefficient_with_its_interval():
    report = rater_agreement(study(aspects=("style",)), resampling=FEW)
    coefficients = report.tables()[1]
    assert [row[1] for row in coefficients.rows] == list(report.groups[0].icc)
    estimate = report.groups[0].icc["ICC(1,1)"]
    assert coefficients.rows[0][2:4] == [
        f"{estimate.value:.3f}",
        f"{estimate.low:.3f} to {estimate.high:.3f}",
    ]
