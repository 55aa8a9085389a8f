"""Metrics against aspects: the join, levels, groups, rankings, what is left out and why."""

import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from levelfield.agree.compare import compare
from levelfield.agree.correlate import correlations
from levelfield.agree.drift import drift
from levelfield.agree.evaluation import evaluate
from levelfield.agree.join import join
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io.ratings import Rated, Rating
from levelfield.io.scores import ScoreColumn
from levelfield.show.correlate_page import in_short
from levelfield.stats.correlation import pearson, statistics
from levelfield.stats.resampling import Resampling

QUICK = Resampling(resamples=100, permutations=200)
SYSTEMS = ("copy", "rules", "neural", "human")


def made(sources=12, noise=1.0, seed=0):
    """A set of four systems on equal sources, two aspects, two raters."""
    rng = np.random.default_rng(seed)
    ratings, samples, values = [], {}, {"good": {}, "bad": {}}
    for s in range(sources):
        for k, system in enumerate(SYSTEMS):
            id = f"{s:02}-{system}"
            quality = k + rng.normal()
            samples[id] = Sample(
                id=id, text=f"text {id}", source=f"source {s}", system=system,
                dataset="a" if s % 2 else "b",
            )  # fmt: skip
            for rater in ("ann", "ben"):
                value = float(np.clip(round(quality + rng.normal() / 2), -2, 5))
                ratings.append(Rating(id, "content", rater, value))
            ratings.append(Rating(id, "style", "ann", float(rng.integers(1, 6))))
            values["good"][id] = quality + noise * rng.normal()
            values["bad"][id] = float(rng.normal())
    columns = [ScoreColumn(m, f"{m}|v:1", v) for m, v in values.items()]
    return columns, Rated(tuple(ratings), samples)


def column(name, values):
    return ScoreColumn(name, f"{name}|v:1", values)


def test_a_sample_is_rated_with_the_mean_over_its_raters():
    rated = Rated(
        (Rating("1", "content", "a", 2), Rating("1", "content", "b", 5), Rating("2", "content",
         "a", 1)), {},
    )  # fmt: skip
    table = join([column("m", {"1": 0.5, "2": 0.1})], rated)
    assert table.aspects["content"].tolist() == [3.5, 1]
    assert table.raters == {"content": 2}


def test_ids_of_one_side_are_counted_and_named():
    rated = Rated(tuple(Rating(str(i), "x", "a", i) for i in range(5)), {})
    table = join([column("m", {"3": 1.0, "4": 2.0, "9": 3.0})], rated)
    assert table.ids == ("3", "4")
    assert (table.only_scored.n, table.only_scored.ids) == (1, ("9",))
    assert (table.only_rated.n, table.only_rated.ids) == (3, ("0", "1", "2"))


def test_no_common_id_is_an_error_that_shows_both_sides():
    rated = Rated((Rating("a:1", "x", "a", 1.0),), {})
    with pytest.raises(UserError, match=r"no id is in both.*'1'.*'a:1'"):
        join([column("m", {"1": 1.0})], rated)


def test_names_that_are_not_there_are_named_with_those_that_are():
    columns, rated = made()
    with pytest.raises(UserError, match="no aspect 'fluency'; there are content, style"):
        join(columns, rated, aspects=["fluency"])
    with pytest.raises(UserError, match="no metric 'bleu'; there are good, bad"):
        join(columns, rated, metrics=["bleu"])
    with pytest.raises(UserError, match=r"two columns of good.*good\|v:1.*good\|v:2"):
        join([columns[0], ScoreColumn("good", "good|v:2", {})], rated)


@pytest.mark.parametrize("systems", ["these", "like-these"])
@pytest.mark.parametrize("group", ["all", "system", "source", "dataset"])
def test_infinite_values_have_ranks_and_no_pearson(systems, group):
    columns, rated = made()
    values = columns[0].values
    first, second, *_ = values
    low, high = min(values.values()) - 1, max(values.values()) + 1
    infinite, finite = (
        join([column("good", {**values, first: a, second: b})], rated, aspects=["content"])
        for a, b in ((-math.inf, math.inf), (low, high))
    )
    how = {"group": group, "systems": systems, "resampling": QUICK}
    ranks = ("spearman", "kendall", "accuracy")
    one, other = (correlations(t, wanted=ranks, **how) for t in (infinite, finite))
    for a, b in zip(one, other, strict=True):
        for s in ranks:
            assert a.estimates[s].value == pytest.approx(b.estimates[s].value)
            assert a.estimates[s].low == pytest.approx(b.estimates[s].low, nan_ok=True)
    whole = correlations(infinite, **how)[-1].estimates["pearson"]
    if group == "all":
        assert whole.why_undefined == "infinite values, which have ranks only"
    else:
        assert math.isfinite(whole.value)  # of the groups without
    both = join([column("good", {**values, first: -math.inf}), columns[1]], rated)
    found = evaluate(both, by="pearson", with_drift=True, **how)
    assert found.comparisons.rankings[0].not_ranked["good"].startswith("infinite values")
    by_ranks = compare(both, by="spearman", group=group, systems="these", resampling=QUICK)
    assert by_ranks.comparisons[0].swapped.p <= 1
    means = correlations(both, level="system", resampling=QUICK)[0]
    assert {e.why_undefined for e in means.estimates.values()} == {
        "infinite values, which have ranks only"
    }


def test_all_together_equals_the_plain_statistics():
    columns, rated = made()
    table = join(columns, rated)
    for c in correlations(table, resampling=QUICK):
        plain = statistics(table.metrics[c.metric], table.aspects[c.aspect])
        for s, value in plain.items():
            assert c.estimates[s].value == pytest.approx(value)
        assert c.estimates["pearson"].clusters == 12


def test_by_system_there_is_a_row_each_and_their_mean():
    columns, rated = made()
    table = join(columns, rated, aspects=["content"], metrics=["good"])
    *rows, mean = correlations(table, group="system", systems="these", resampling=QUICK)
    assert [r.group for r in rows] == sorted(SYSTEMS)
    for r in rows:
        mine = table.systems == r.group
        value = pearson(table.metrics["good"][mine], table.aspects["content"][mine])
        assert r.estimates["pearson"].value == pytest.approx(value)
    assert mean.is_mean
    assert mean.estimates["kendall"].value == pytest.approx(
        np.mean([r.estimates["kendall"].value for r in rows])
    )
    assert mean.estimates["pearson"].low < mean.estimates["pearson"].value


def test_by_source_the_mean_leaves_out_sources_whose_ratings_are_constant():
    columns, rated = made()
    flat = tuple(r._replace(value=3.0) if r.id.startswith("00-") else r for r in rated.ratings)
    table = join(columns, Rated(flat, rated.samples), aspects=["content"], metrics=["good"])
    (found,) = correlations(table, group="source", resampling=QUICK)
    assert found.groups == 11
    assert found.left_out == {"constant rating": ("source 0",)}
    values = [
        pearson(table.metrics["good"][table.sources == s], table.aspects["content"][mine])
        for s in range(12)
        if np.ptp(table.aspects["content"][(mine := table.sources == s)])
    ]
    assert found.estimates["pearson"].value == pytest.approx(np.mean(values))
    assert "mean over 11 of 12 groups" in found.estimates["pearson"].note
    assert not math.isnan(found.estimates["calibrated"].value)


def test_by_dataset_too():
    columns, rated = made()
    table = join(columns, rated, aspects=["content"], metrics=["good"])
    assert [c.group for c in correlations(table, group="dataset", resampling=QUICK)] == [
        "a",
        "b",
        "",
    ]


def test_system_level_correlates_means_of_systems():
    columns, rated = made(sources=30)
    table = join(columns, rated, aspects=["content"])
    of_these = correlations(table, level="system", systems="these", resampling=QUICK)
    found = {c.metric: c for c in of_these}
    mean = {
        m: [v[table.systems == s].mean() for s in SYSTEMS]
        for m, v in (*table.metrics.items(), ("rating", table.aspects["content"]))
    }
    for m in ("good", "bad"):
        e = found[m].estimates
        plain = statistics(mean[m], mean["rating"])
        assert {s: e[s].value for s in plain} == pytest.approx(plain)
        assert e["pearson"].n == found[m].systems == 4
        assert e["calibrated"].why_undefined == "not calibrated at system level"
    assert found["good"].estimates["pearson"].low > 0.8


def test_one_system_has_no_system_level_and_unnamed_ones_are_the_users_mistake():
    columns, rated = made()
    one = {id: s for id, s in rated.samples.items() if s.system == "copy"}
    kept = tuple(r for r in rated.ratings if r.id in one)
    found = correlations(join(columns, Rated(kept, one)), level="system", resampling=QUICK)
    assert {e.why_undefined for c in found for e in c.estimates.values()} == {"one system"}
    bare = join(columns, Rated(kept, {}))
    for more in ({"level": "system"}, {"group": "source"}, {"group": "dataset"}):
        with pytest.raises(UserError, match="--samples"):
            correlations(bare, resampling=QUICK, **more)


def test_constant_metrics_have_reasons_everywhere():
    columns, rated = made()
    columns.append(column("flat", dict.fromkeys(columns[0].values, 1.0)))
    columns.append(column("none", dict.fromkeys(columns[0].values, math.nan)))
    found = evaluate(join(columns, rated), with_drift=True, resampling=QUICK)
    for c in found.correlations:
        for e in c.estimates.values():
            assert math.isnan(e.value) == bool(e.why_undefined)
    for ranking in found.comparisons.rankings:
        assert ranking.not_ranked == {"flat": "constant metric", "none": "no samples"}
        assert set(ranking.r) == {"good", "bad"}


def test_the_better_metric_is_ranked_first_and_alone():
    columns, rated = made(sources=40)
    columns.append(column("twin", {id: 2 * v + 1 for id, v in columns[0].values.items()}))
    found = compare(join(columns, rated), systems="these", resampling=Resampling(permutations=2000))
    content, style = found.rankings
    assert content.clusters == (("good", "twin"), ("bad",))
    assert len(style.clusters) == 1
    twins = [c for c in found.comparisons if {c.a, c.b} == {"good", "twin"}]
    assert [(c.p_adjusted, c.williams.p) for c in twins] == [(1, 1), (1, 1)]
    assert all(c.verdict() == "no difference shown" for c in twins)


@pytest.mark.parametrize(
    "how", [{"group": "source"}, {"group": "system"}, {"level": "system"}, {"by": "spearman"}]
)
def test_comparisons_follow_level_group_and_statistic(how):
    columns, rated = made(sources=40)
    table = join(columns, rated, aspects=["content"])
    found = compare(table, systems="these", resampling=QUICK, **how)
    (c,) = found.comparisons
    assert (c.a, c.b) == ("good", "bad")
    if "level" in how:
        assert "true means of the metric bad can't be told apart" in c.swapped.why_undefined
    else:
        assert c.r_a - c.r_b == pytest.approx(c.swapped.difference, abs=0.02)
    assert c.n == (4 if "level" in how else 160)
    assert bool(c.williams.why_undefined) == ("group" in how)


@pytest.mark.parametrize(("family", "comparisons"), [("metric", 1), ("run", 2)])
def test_a_correction_counts_the_comparisons_on_an_aspect_or_all(family, comparisons):
    columns, rated = made()
    table = join(columns, rated)
    resampling = replace(QUICK, family=family)
    found = compare(
        table, systems="these", correction="bonferroni", resampling=resampling
    ).comparisons
    assert len(found) == 2
    for c in found:
        assert c.p_adjusted == pytest.approx(min(1, comparisons * c.swapped.p))


@pytest.mark.slow
def test_many_nearly_equal_metrics_do_not_hide_a_clear_difference():
    rng = np.random.default_rng(1)
    y, ids = rng.normal(size=60), [str(i) for i in range(60)]
    noise = [0.1] * 20 + [5.0] * 14
    columns = [
        column(f"m{i}", dict(zip(ids, y + sd * rng.normal(size=60), strict=True)))
        for i, sd in enumerate(noise)
    ]
    rated = Rated(tuple(Rating(id, "content", "ann", v) for id, v in zip(ids, y, strict=True)), {})
    found = compare(join(columns, rated), resampling=Resampling(family="run")).comparisons
    assert len(found) == 34 * 33 // 2
    clear = [c for c in found if c.r_a > 0.98 and c.r_b < 0.5]
    assert len(clear) > 200
    assert all(" > " in c.verdict() for c in clear)


def test_lower_is_better_turns_the_sign():
    columns, rated = made()
    there = correlations(join(columns, rated), wanted=("pearson",), resampling=QUICK)
    back = correlations(join(columns, rated, flip=["good"]), wanted=("pearson",), resampling=QUICK)
    for a, b in zip(there, back, strict=True):
        sign = -1 if a.metric == "good" else 1
        assert b.estimates["pearson"].value == pytest.approx(sign * a.estimates["pearson"].value)


def test_nothing_depends_on_the_order_of_the_input():
    columns, rated = made()
    order = np.random.default_rng(0).permutation(len(rated.ratings))
    mixed = [column(c.metric, dict(reversed(c.values.items()))) for c in columns]
    other = join(mixed, Rated(tuple(rated.ratings[i] for i in order), rated.samples),
                 aspects=["content", "style"])  # fmt: skip
    one, two = (
        evaluate(t, systems="these", with_drift=True, resampling=QUICK)
        for t in (join(columns, rated), other)
    )
    for a, b in zip(one.correlations, two.correlations, strict=True):
        assert a.estimates["pearson"].high == pytest.approx(b.estimates["pearson"].high)
    assert [d.by_quality.subsets for d in one.drifts] == [d.by_quality.subsets for d in two.drifts]
    assert [c.p_adjusted for c in one.comparisons.comparisons] == [
        c.p_adjusted for c in two.comparisons.comparisons
    ]


def test_equal_texts_for_one_source_are_counted_and_drawn_together():
    columns, rated = made()
    samples = dict(rated.samples)
    for system in ("copy", "rules"):
        samples[f"00-{system}"] = Sample(id="x", text="same", source="source 0", system=system)
    table = join(columns, Rated(rated.ratings, samples))
    assert table.same_text == 2
    rows = [table.ids.index(f"00-{s}") for s in ("copy", "rules")]
    assert table.clusters[rows[0]] == table.clusters[rows[1]]


def test_drift_by_system_is_the_correlation_of_each_with_its_spread():
    columns, rated = made()
    table = join(columns, rated, aspects=["content"], metrics=["good"])
    (found,) = drift(table, resampling=QUICK)
    values = [e.value for _, e in found.by_system]
    assert [name for name, _ in found.by_system] == sorted(SYSTEMS)
    assert found.systems.deviation == pytest.approx(np.std(values, ddof=1))
    assert found.by_evaluators is None
    assert drift(join(columns, Rated(rated.ratings, {})), resampling=QUICK)[0].by_system == ()


def of_systems(S, **how):
    """The evaluation of two metrics on the means of so many systems."""
    rng = np.random.default_rng(3)
    ratings, samples, values = [], {}, {"good": {}, "bad": {}}
    for s, k in itertools.product(range(25), range(S)):
        id = f"{s}-{k}"
        samples[id] = Sample(id=id, text="", source=f"source {s}", system=f"system {k}")
        quality = k + rng.normal()
        ratings.append(Rating(id, "content", "ann", quality))
        values["good"][id] = quality + rng.normal()
        values["bad"][id] = 2 * (k % 3) + rng.normal()
    columns = [ScoreColumn(m, f"{m}|v:1", v) for m, v in values.items()]
    return evaluate(
        join(columns, Rated(tuple(ratings), samples)), level="system", resampling=QUICK, **how
    )


@pytest.mark.parametrize("systems", ["these", "like-these"])
def test_means_of_systems_have_the_plain_r_and_the_one_without_noise(systems):
    good, bad = of_systems(8, systems=systems).correlations
    for c in (good, bad):
        e = c.estimates["pearson"]
        assert e.low < c.corrected <= e.high
    assert good.corrected > good.estimates["pearson"].value > 0.95
    document = good.to_dict()
    assert document["corrected"] == good.corrected
    assert document["statistics"]["kendall"]["value"] == 1
    assert ("why_no_interval" in document["statistics"]["kendall"]) == (systems == "these")


def test_these_systems_are_surer_than_systems_like_these():
    (these, _), (like, _) = (of_systems(8, systems=s).correlations for s in ("these", "like-these"))
    one, two = these.estimates["pearson"], like.estimates["pearson"]
    assert one.value == two.value
    assert one.high - one.low < (two.high - two.low) / 2


def test_the_test_follows_the_question():
    for systems, test in (("these", "true means"), ("like-these", "swapped systems")):
        (c,) = of_systems(8, systems=systems).comparisons.comparisons
        assert c.test == test
        assert c.verdict() == "good > bad"
        assert ("true_means" in c.to_dict()) == (systems == "these")
        assert bool(c.williams.note) == (systems == "these")
    ranks = of_systems(8, systems="these", by="spearman").comparisons.comparisons[0]
    assert ranks.swapped.why_undefined == "noise can't be taken out of ranks"
    assert ranks.verdict() == "not compared"


@pytest.mark.parametrize("perm_both", [False, True])
def test_samples_of_six_systems_are_compared_for_systems_like_these(perm_both):
    of_six, of_five = (
        compare(of_systems(S).table, perm_both=perm_both, resampling=QUICK).comparisons[0]
        for S in (6, 5)
    )
    assert of_six.test == ("swapped both" if perm_both else "two-way")
    assert of_six.verdict() == "good > bad"
    assert ("permutation" if perm_both else "two_way") in of_six.to_dict()
    assert of_five.swapped.why_undefined.startswith("5 systems, and a claim about systems like")
    assert of_five.verdict() == "not compared"


def test_few_systems_show_nothing_and_it_is_said():
    evaluation = of_systems(5)
    (c,) = evaluation.comparisons.comparisons
    assert c.verdict() == "not compared"
    why = "5 systems, and a claim about systems like these needs 6"
    assert c.to_dict()["permutation"]["why_undefined"] == why
    assert len(evaluation.comparisons.rankings[0].clusters) == 1
    e = evaluation.correlations[0].estimates["pearson"]
    assert (e.note, e.why_no_interval) == ("5 systems: little can be said", why)
    of_seven = of_systems(7).correlations[0].estimates
    assert not of_seven["pearson"].why_no_interval
    assert of_seven["kendall"].why_no_interval == "7 systems, and ranks need 8"
    assert not of_systems(8).comparisons.comparisons[0].swapped.note


def test_williams_is_doubted_where_samples_share_sources():
    columns, rated = made()
    (c, _) = compare(join(columns, rated), resampling=QUICK).comparisons
    assert "48 samples as independent, which form 12 clusters" in c.williams.note
    assert c.to_dict()["williams"]["note"] == c.williams.note
    alone = {
        id: Sample(id=id, text="", source=id, system=s.system) for id, s in rated.samples.items()
    }
    (c, _) = compare(join(columns, Rated(rated.ratings, alone)), resampling=QUICK).comparisons
    assert not c.williams.note


@pytest.mark.slow
def test_williams_finds_too_much_in_clustered_ratings_and_the_swap_test_does_not():
    rng = np.random.default_rng(5)
    rejected = []
    for _ in range(150):
        # sources differ in what the ratings and both metrics say of all their texts
        y, shared, *own = (np.repeat(rng.normal(size=30), 8) for _ in range(4))
        y, a, b = (v + 0.5 * rng.normal(size=240) for v in (y, *(y + shared + v for v in own)))
        ids = [str(i) for i in range(240)]
        samples = {id: Sample(id=id, text="", source=str(i // 8)) for i, id in enumerate(ids)}
        ratings = tuple(Rating(id, "x", "a", v) for id, v in zip(ids, y, strict=True))
        columns = [column(m, dict(zip(ids, v, strict=True))) for m, v in (("a", a), ("b", b))]
        (c,) = compare(join(columns, Rated(ratings, samples)), resampling=QUICK).comparisons
        rejected.append((c.williams.p <= 0.05, c.verdict() != "no difference shown"))
    williams, verdict = np.mean(rejected, axis=0)
    assert williams > 0.15
    assert verdict <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 150)


def test_few_sources_say_that_they_can_show_nothing():
    columns, rated = made(sources=4)
    (c, *_) = compare(join(columns, rated), systems="these", resampling=QUICK).comparisons
    assert c.swapped.note == "with 4 clusters p can't go below 0.12: no difference can be shown"
    assert "no difference" in c.verdict()


def of_noise(*, noisy):
    """A table of 8 systems: `sharp` agrees well, `noisy` better still but for its noise."""
    rng = np.random.default_rng(7)
    ratings, samples = [], {}
    values = {"sharp": {}, "noisy": {}}
    off = np.array([1, -1, -1, 1, 1, -1, -1, 1])
    for k in range(8):
        around = noisy * rng.normal(size=60)
        for s in range(60):
            id = f"{s}-{k}"
            samples[id] = Sample(id=id, text="", source=f"source {s}", system=f"system {k}")
            ratings.append(Rating(id, "content", "ann", k + 0.1 * rng.normal()))
            values["sharp"][id] = k + 0.6 * off[k] + 0.1 * rng.normal()
            values["noisy"][id] = k + around[s]
    columns = [column(m, v) for m, v in values.items()]
    return join(columns, Rated(tuple(ratings), samples))


def test_metrics_of_these_systems_are_in_the_order_of_r_without_noise():
    found = compare(of_noise(noisy=12.0), level="system", systems="these", resampling=QUICK)
    (c,) = found.comparisons
    assert (c.a, c.b) == ("noisy", "sharp")
    assert c.r_a < c.r_b
    assert c.swapped.difference > 0
    assert c.to_dict()["true_means"]["difference"] == c.swapped.difference
    assert next(iter(found.rankings[0].r)) == "noisy"
    like = compare(of_noise(noisy=12.0), level="system", resampling=QUICK).comparisons[0]
    assert (like.a, like.b) == ("sharp", "noisy")


def test_a_verdict_names_the_metric_that_is_shown_better_whichever_stands_first():
    (c,) = compare(
        of_noise(noisy=0.1), level="system", systems="these", resampling=QUICK
    ).comparisons
    assert c.verdict() == "noisy > sharp"
    turned = replace(c, a=c.b, b=c.a, swapped=replace(c.swapped, difference=-c.swapped.difference))
    assert turned.verdict() == "noisy > sharp"
    assert replace(turned, p_adjusted=0.06).verdict() == "no difference shown"


def test_the_page_calls_no_metric_better_that_is_not_compared():
    evaluation = of_systems(8, systems="these", by="spearman")
    said = in_short(evaluation, evaluation.comparisons.rankings[0])
    assert "better than every other" not in said
    assert "No difference is shown" not in said
    assert "It is not compared with <b>bad</b> (noise can" in said


def test_the_reason_of_true_means_names_the_metric():
    table = of_noise(noisy=500.0)
    (c,) = compare(table, level="system", systems="these", resampling=QUICK).comparisons
    assert "metric noisy can't be told apart" in c.swapped.why_undefined


def test_comparisons_without_p_do_not_count_for_the_least_p(monkeypatch):
    module = sys.modules[compare.__module__]
    swap_tests = module.swap_tests

    def of_more_than_five(*args, **how):
        tested = swap_tests(*args, **how)
        return [t if t.n > 5 else replace(t, p=math.nan, why_undefined="few") for t in tested]

    monkeypatch.setattr(module, "swap_tests", of_more_than_five)
    rng = np.random.default_rng(8)
    ids = [str(i) for i in range(6)]
    ratings = [Rating(id, "content", "ann", float(i)) for i, id in enumerate(ids)]
    ratings += [Rating(id, "style", "ann", float(i)) for i, id in enumerate(ids[:5])]
    columns = [column(m, dict(zip(ids, rng.normal(size=6), strict=True))) for m in "abc"]
    resampling = replace(QUICK, family="run")
    found = compare(join(columns, Rated(tuple(ratings), {})), resampling=resampling).comparisons
    assert [math.isnan(c.swapped.p) for c in found] == [False] * 3 + [True] * 3
    for c in found[:3]:
        assert c.swapped.note == (
            "with 6 clusters p can't go below 0.031, 0.094 over 3 comparisons: "
            "no difference can be shown"
        )
