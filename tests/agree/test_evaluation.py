"""`levelfield.correlate` on files and on what is loaded already."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from levelfield.agree.evaluation import correlate
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.show.correlate_page import in_short
from levelfield.show.terminal.correlation_tables import print_evaluation
from levelfield.stats.correlation import pearson
from levelfield.stats.power import detectable_difference

QUICK = {"resamples": 40, "permutations": 99}
RATED = [
    Sample(
        id=str(i),
        text=f"Text {i}.",
        source=f"s{i // 2}",
        system="ab"[i % 2],
        ratings={"style": {"ann": i % 5, "bo": math.nan if i == 2 else (i * 3) % 5}},
    )
    for i in range(20)
]


def scores(metric: str, values: list[float]) -> Scores:
    undefined = {str(i): "empty text" for i, v in enumerate(values) if math.isnan(v)}
    ids = tuple(str(i) for i in range(len(values)))
    return Scores(metric, ids, np.array(values), undefined, f"{metric}|v:1", True)


GOOD = scores("good", [math.nan if i == 7 else i % 5 + 0.1 * i for i in range(20)])
TIES = scores("ties", [float(i % 2) for i in range(20)])


def test_scores_and_samples_need_no_files():
    evaluation = correlate([GOOD, TIES], RATED, **QUICK)
    ratings = [np.nanmean([*s.ratings["style"].values()]) for s in RATED]
    defined = ~np.isnan(GOOD.values)
    (found,) = [c for c in evaluation.correlations if c.metric == "good"]
    assert found.estimates["pearson"].value == pytest.approx(
        pearson(GOOD.values[defined], np.array(ratings)[defined])
    )
    assert (found.n, found.undefined) == (19, 1)
    assert evaluation.to_dict()["scores"] == []
    assert evaluation.to_dict()["ratings"] == []


def test_one_metric_has_no_comparisons_and_a_missing_rating_is_no_rating():
    document = correlate(GOOD, RATED, **QUICK).to_dict()
    assert document["comparisons"] == []
    assert document["n"] == 20
    assert document["raters"] == {"style": 2}


def test_a_frame_has_a_row_for_every_statistic_of_every_correlation():
    evaluation = correlate([GOOD, TIES, scores("flat", [1.0] * 20)], RATED, group="system", **QUICK)
    frame = evaluation.to_polars()
    assert len(frame) == sum(len(c.estimates) for c in evaluation.correlations)
    assert set(frame["group"]) == {"a", "b", None}
    flat = frame.filter(metric="flat", statistic="pearson", group="a")
    assert flat["value"].to_list() == [None]
    assert flat["why_undefined"].to_list() == ["constant metric"]


def test_the_latex_table_names_metrics_and_marks_the_best():
    table = correlate([GOOD, TIES], RATED, statistics=["pearson"], **QUICK).to_latex()
    assert table.count("\\textbf{") == 2  # all samples together, and within systems
    assert "good & \\textbf{" in table
    assert "mean" not in table


def test_the_same_metric_twice_is_named_after_its_place():
    again = Scores("good", GOOD.ids, GOOD.values, GOOD.undefined, "good|v:2", True)
    assert set(correlate([GOOD, again], RATED, **QUICK).table.metrics) == {"good (1)", "good (2)"}


def test_system_level_takes_no_group():
    with pytest.raises(UserError, match="does not accept --group"):
        correlate(GOOD, RATED, level="system", group="source")


@pytest.mark.parametrize("systems", ["these", "like-these"])
def test_every_output_says_whose_means_it_speaks_of(systems):
    six = [
        Sample(
            id=str(i), text="", source=f"s{i // 6}", system=f"system {i % 6}",
            ratings={"style": {"ann": i % 6 + (i * 7) % 5 / 5}},
        )
        for i in range(120)
    ]  # fmt: skip
    metric = scores("metric", [i % 6 + (i * 3) % 7 / 7 for i in range(120)])
    evaluation = correlate(metric, six, level="system", systems=systems, **QUICK)
    words = f"true means of {'these systems' if systems == 'these' else 'systems like these'}"
    assert f"|systems:{systems}|" in evaluation.signature
    assert evaluation.to_dict()["systems"] == systems
    assert words in evaluation.to_latex()
    frame = evaluation.to_polars()
    corrected = frame.filter(statistic="pearson")["corrected"].to_list()
    assert corrected == [evaluation.correlations[0].corrected]
    assert frame.filter(statistic="kendall")["corrected"].to_list() == [None]
    of_samples = correlate(metric, six, systems=systems, **QUICK)
    words = f"{'these systems' if systems == 'these' else 'systems like these'} on sources like"
    assert f"|systems:{systems}|" in of_samples.signature
    assert words in of_samples.to_latex()
    assert words in of_samples.to_dict()["speaks_of"]
    nameless = correlate(metric, [replace(s, system="") for s in six], systems=systems, **QUICK)
    assert "|systems:none|" in nameless.signature
    assert nameless.to_dict()["speaks_of"] == "intervals and tests: texts like these"
    assert nameless.to_dict()["systems"] is None
    one, other = (e.to_dict()["correlations"] for e in (nameless, of_samples))
    assert (one == other) == (systems == "these")


def test_two_metrics_that_are_not_told_apart_have_a_detectable_difference():
    rng = np.random.default_rng(0)
    y = np.array([np.nanmean([*s.ratings["style"].values()]) for s in RATED])
    alike = [scores(name, (y + rng.normal(0, 1, 20)).tolist()) for name in ("x", "y", "z")]
    evaluation = correlate(alike, RATED, systems="these", permutations=500, resamples=40)
    comparisons = evaluation.comparisons.comparisons
    assert any(c.p_adjusted > 0.05 for c in comparisons)
    shown = sum(c.p_adjusted <= 0.05 for c in comparisons)
    for c in comparisons:
        if c.p_adjusted > 0.05:
            expected = detectable_difference(c.swapped.se, 9, alpha=0.05 / (3 - shown))
            assert c.detectable == pytest.approx(expected)
            assert c.to_dict()["detectable"] == pytest.approx(expected)
        else:
            assert math.isnan(c.detectable)


def test_so_few_clusters_that_no_p_is_small_detect_nothing():
    few = RATED[:6]
    pair = [
        scores("x", [1.0, 2, 3, 4, 5, 7]),
        scores("y", [2.0, 1, 5, 3, 7, 4]),
    ]
    (c,) = correlate(pair, few, systems="these", **QUICK).comparisons.comparisons
    assert math.isinf(c.detectable)
    assert c.to_dict()["detectable"] is None


def of_three_systems(apart: float, within: float):
    """Ratings that a metric shares between systems by `apart` and within them by `within`."""
    rng = np.random.default_rng(4)
    samples, values = [], []
    for i in range(60):
        level = apart * (i % 3)
        rating = level + rng.normal()
        noise = rng.normal()
        values.append(level + within * (rating - level) + (1 - within) * noise)
        samples.append(
            Sample(str(i), "text", prompt=f"p{i // 3}", system="abc"[i % 3],
                   ratings={"quality": {"ann": float(rating)}})
        )  # fmt: skip
    return [scores("m", values), scores("k", [-v for v in values])], samples


def test_differences_between_systems_are_not_presented_as_agreement(capsys):
    both, samples = of_three_systems(5.0, 0.0)
    evaluation = correlate(both, samples)
    pooled = {c.metric: c.estimates["pearson"].value for c in evaluation.rows()}
    inside = evaluation.within_of("m", "quality")
    assert pooled["m"] > 0.8
    assert abs(inside.value) < 0.4
    (mean,) = [
        c for c in correlate(both, samples, group="system").rows() if c.metric == "m"
    ]  # the same number
    assert inside.value == mean.estimates["pearson"].value
    assert evaluation.parted("quality") == ["m", "k"]
    document = evaluation.to_dict()["within_systems"]
    assert [c["metric"] for c in document] == ["m", "k"]
    print_evaluation(evaluation)
    shown = capsys.readouterr().out
    assert "within systems, mean: m " in shown
    assert "m, k: all samples together and samples within systems do not agree alike" in shown
    page = in_short(evaluation, evaluation.comparisons.rankings[0])
    assert "Within systems it is" in page
    assert "do not agree alike" in page
    assert "within systems" in evaluation.to_latex()


def test_where_both_agree_no_line_says_otherwise():
    both, samples = of_three_systems(0.0, 0.7)
    evaluation = correlate(both, samples)
    assert evaluation.within_of("m", "quality").value > 0.7
    assert evaluation.parted("quality") == []
    alone = [replace(s, system="") for s in samples]
    assert correlate(both, alone).within == []
    assert "within_systems" not in correlate(both, alone).to_dict()
