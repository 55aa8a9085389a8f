"""Defaults against people: all that can be scored, and nothing left out in silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import levelfield_reproductions as papers
from levelfield.core.errors import UserError
from levelfield.core.metric import MetricError
from levelfield.core.sample import Sample
from levelfield.scoring.run import score
from levelfield.stats.correlation import estimates
from levelfield_reproductions import defaults_page
from levelfield_reproductions.agreement import MetricAgreement, SetAgreement
from levelfield_reproductions.defaults import drawn
from tiny_sets import TinySet, absent_set, tiny_set, use_sets

ROOT = Path(__file__).parents[2]
CHEAP = ["chrf", "style.degenerate", "diversity.distinct-1", "keywords.any", "question", "comet"]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Callable[..., papers.DefaultsReport]:
    """Makes the report of these sets."""

    def report(*sets: TinySet, **words: object) -> papers.DefaultsReport:
        use_sets(monkeypatch, *sets)
        return papers.agreement_of_defaults(**{"metrics": CHEAP, **words})  # type: ignore[arg-type]

    return report


def row_of(agreement: SetAgreement, metric: str) -> MetricAgreement:
    [row] = [m for m in agreement.metrics if m.metric == metric]
    return row


def test_a_cell_is_the_correlation_with_mean_ratings_and_its_interval_draws_clusters(report):
    rated = tiny_set()
    [rated_set] = report(rated).sets
    values = score(rated.samples(), "chrf.source").scores["chrf.source"].values
    people = np.array([np.mean([*s.ratings["content"].values()]) for s in rated.samples()])
    expected = estimates(values, people, [s.source for s in rated.samples()])
    c = row_of(rated_set, "chrf.source").of_aspects["content"]
    assert c.n == 40
    for statistic in ("pearson", "spearman"):
        assert c.estimates[statistic] == expected[statistic]
    assert c.estimates["pearson"].value == pytest.approx(np.corrcoef(values, people)[0, 1])
    assert (rated_set.texts, rated_set.every, rated_set.clusters) == (40, 40, 20)


def test_a_set_says_which_of_its_texts_depend_on_each_other(report):
    alone = report(tiny_set()).sets[0]
    together = report(tiny_set(shared=lambda sample: sample.id[0])).sets[0]
    assert (alone.clusters, together.clusters) == (20, 4)
    r = [row_of(s, "chrf.source").of_aspects["content"].estimates for s in (alone, together)]
    assert r[0]["pearson"].value == r[1]["pearson"].value
    assert r[0]["pearson"].low != r[1]["pearson"].low
    assert r[1]["pearson"].clusters == 4


def test_texts_without_a_value_are_counted_with_their_reason(report):
    agreement = report(tiny_set(empty=3))
    metric = row_of(agreement.sets[0], "chrf.source")
    assert sum(metric.undefined.values()) == 3
    assert metric.of_aspects["content"].n == 37
    [reason] = metric.undefined
    assert f"- Undefined, {reason}: chrf.source 3." in agreement.to_markdown()
    [row] = [
        line for line in agreement.to_markdown().splitlines() if line.startswith("| `chrf.source`")
    ]
    assert row.startswith("| `chrf.source` | 37 | 3 | ")


def test_the_sign_is_turned_where_lower_is_better(report):
    rated = tiny_set()
    copies = [
        replace(s, text=s.source, ratings={"content": {"a": 0.0}}) if int(s.id) < 10 else s
        for s in rated.samples()
    ]
    agreement = report(replace(rated, texts=copies))
    metric = row_of(agreement.sets[0], "style.degenerate")
    assert metric.turned
    assert metric.of_aspects["content"].estimates["pearson"].value > 0.5
    assert "- Lower is better, sign reversed: style.degenerate." in agreement.to_markdown()


def test_every_metric_that_has_no_row_has_a_reason(report):
    agreement = report(tiny_set())
    left_out = {left.metric: left for left in agreement.sets[0].left_out}
    assert {name: left.kind for name, left in left_out.items()} == {
        "chrf.references": "field",
        "comet.references": "lacking",
        "comet.source": "lacking",
        "diversity.distinct-1": "many texts",
        "keywords.any": "field",
        "question": "lacking",
    }
    assert left_out["chrf.references"].why == "no text has references"
    assert "question" in left_out["question"].why
    text = agreement.to_markdown()
    assert "- No text has references: \\*.references." in text
    assert "option on this machine: comet.\\*, question." in text
    assert "one value for many texts: diversity.distinct-1." in text.lower()


def test_a_metric_with_few_values_has_no_row_and_says_so(report):
    agreement = report(tiny_set(empty=21))
    [left] = [left for left in agreement.sets[0].left_out if left.metric == "chrf.source"]
    assert left.kind == "few"
    assert left.why == "19 of 40 texts have a value"
    assert "| `chrf.source`" not in agreement.to_markdown()
    assert report(tiny_set(empty=20)).sets[0].metrics


def test_a_metric_that_fails_leaves_the_others_alone(report, monkeypatch):
    def failing(*_: object) -> NoReturn:
        raise MetricError("metric 'chrf.source' broke")

    monkeypatch.setattr("levelfield.metrics.overlap.CHRFSource.score", failing)
    [rated_set] = report(with_references(tiny_set())).sets
    assert [m.metric for m in rated_set.metrics] == ["chrf.references", "style.degenerate"]
    assert [(left.metric, left.why) for left in rated_set.left_out if left.kind == "failed"] == [
        ("chrf.source", "metric 'chrf.source' broke")
    ]


def test_the_members_of_a_family_are_scored_in_one_run(report, monkeypatch):
    runs = []

    def counted(samples, names, **words):
        runs.append(names)
        return score(samples, names, **words)

    monkeypatch.setattr("levelfield_reproductions.defaults.score", counted)
    report(with_references(tiny_set()))
    assert runs == [["chrf.references", "chrf.source"], ["style.degenerate"]]


def test_what_the_user_goes_without_is_not_scored_and_is_named(report, monkeypatch):
    monkeypatch.setattr("levelfield.metrics.overlap.CHRFSource.score", None)
    agreement = report(tiny_set(), without=["chrf"])
    assert [m.metric for m in agreement.sets[0].metrics] == ["style.degenerate"]
    assert "- Left out by --without: chrf.\\*." in agreement.to_markdown()
    assert agreement.command.endswith(" --without chrf")


def with_references(rated: TinySet) -> TinySet:
    return replace(rated, texts=[replace(s, references=(s.source,)) for s in rated.texts])


def test_the_default_of_score_comes_first_and_is_marked(report, monkeypatch):
    monkeypatch.setattr(
        "levelfield_reproductions.defaults.defaults_of_score", lambda: {"style.degenerate"}
    )
    agreement = report(tiny_set())
    assert [m.metric for m in agreement.sets[0].metrics] == ["style.degenerate", "chrf.source"]
    _, _, table = agreement.to_markdown().partition("## ctrleval.sentiment")
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[0] for row in rows] == [
        "| `style.degenerate` (run by default)",
        "| `chrf.source`",
    ]


def test_a_set_that_is_not_here_is_a_row_with_its_role_and_the_command(report):
    agreement = report(tiny_set(), absent_set())
    text = agreement.to_markdown()
    assert "\n| `deam.dstc9` | never looked at | not here: `levelfield data fetch TINY` |\n" in text
    assert "\n| `ctrleval.sentiment` | chosen on | 40 texts in 20 clusters |\n" in text
    assert "## deam.dstc9" not in text
    assert "Role: **chosen on**; it was so." in text


def test_the_page_is_the_same_whenever_it_is_made_and_shows_intervals_and_signatures(report):
    first = report(tiny_set(), absent_set()).to_markdown()
    assert first == report(tiny_set(), absent_set()).to_markdown()
    assert first.startswith(defaults_page.head())
    assert re.search(r"\| 40 \| 0 \| 0\.\d{3} \[−?0\.\d\d, 0\.\d\d\] \| 0\.\d{3} \|", first)
    assert "\nchrf.source|" in first
    assert "\n| :-- |" in first


def test_the_document_has_every_number_of_every_set(report):
    document = report(tiny_set(empty=3), absent_set()).to_dict()
    here, gone = document["sets"]
    assert (here["id"], here["roles"], here["here"]) == ("ctrleval.sentiment", ["chosen on"], True)
    metric = next(m for m in here["metrics"] if m["metric"] == "chrf.source")
    content, style = metric["aspects"]
    assert (content["aspect"], style["aspect"]) == ("content", "style")
    assert (content["n"], content["undefined"]) == (37, 3)
    low, value, high = (content["statistics"]["spearman"][k] for k in ("low", "value", "high"))
    assert low < value < high
    assert metric["signature"].startswith("chrf.source|")
    assert gone["here"] is False
    assert gone["command"] == "levelfield data fetch TINY"


def test_the_table_has_a_row_a_statistic(report):
    table = report(tiny_set(), absent_set()).to_polars()
    assert table.select("metric", "aspect", "statistic").unique().height == table.height == 8
    assert set(table["roles"]) == {"chosen on"}


@pytest.mark.parametrize("most", [20, 33])
def test_most_takes_whole_clusters_and_says_how_many(report, most):
    agreement = report(tiny_set(), most=most)
    [rated_set] = agreement.sets
    assert rated_set.texts == most - most % 2
    assert rated_set.clusters == rated_set.texts // 2
    assert (
        f"{rated_set.texts} of 40 texts, drawn in {rated_set.clusters} clusters."
        in agreement.to_markdown()
    )
    assert agreement.command.endswith(f" --most {most}")


def test_what_is_drawn_does_not_depend_on_the_order_of_the_texts():
    samples = tiny_set().samples()

    def cluster(sample: Sample) -> str:
        return sample.source

    few = {s.id for s in drawn(samples, cluster, 20)}
    assert few == {s.id for s in drawn(samples[::-1], cluster, 20)}
    assert few < {s.id for s in drawn(samples, cluster, None)}


def test_a_second_run_takes_its_values_from_the_cache(report, monkeypatch):
    first = report(tiny_set())

    def fail(*_: object) -> NoReturn:
        raise AssertionError("a value was computed again")

    monkeypatch.setattr("levelfield.metrics.overlap.CHRFSource.score", fail)
    assert report(tiny_set(), metrics=["chrf.source"]).sets[0].metrics == tuple(
        m for m in first.sets[0].metrics if m.metric == "chrf.source"
    )


@pytest.mark.parametrize(
    ("id", "sets"),
    [
        ("defaults", len(papers.RATED_SETS)),
        ("defaults.deam", 2),
        ("defaults.commongen-trinity", 3),
        ("Defaults.ctrleval.sentiment", 1),
    ],
)
def test_an_id_names_all_sets_those_of_a_data_set_or_one(id, sets):
    assert len(papers.rated_sets(id)) == sets
    assert papers.is_of_defaults(id)


def test_an_unknown_set_is_answered_with_those_that_are_near():
    with pytest.raises(UserError, match=r"no rated set .*did you mean .*defaults\.ctrleval"):
        papers.rated_sets("defaults.ctrlevel")


def test_the_rated_sets_are_parts_of_data_sets_and_each_has_a_role():
    assert len({rated_set.id for rated_set in papers.RATED_SETS}) == len(papers.RATED_SETS)
    for rated_set in papers.RATED_SETS:
        assert rated_set.title
        assert rated_set.roles
    model_rated = {
        rated_set.id for rated_set in papers.RATED_SETS if "not people" in rated_set.roles
    }
    assert model_rated == {f"commongen-trinity.{j}" for j in ("gpt-4", "flan-t5", "vicuna")}


@pytest.mark.slow
def test_every_rated_set_that_is_here_can_be_read_and_says_what_its_texts_share(rated_data):
    assert rated_data
    here = [rated_set for rated_set in papers.RATED_SETS if rated_set.gap() is None]
    clusters = {
        rated_set.id: len({rated_set.cluster(s) for s in rated_set.samples()}) for rated_set in here
    }
    assert clusters["ctrleval.sentiment"] == 15
    assert clusters["deam.fed"] == 125
    assert clusters["formality-judgements.ratings"] == 80
    assert clusters["commongen-trinity.gpt-4"] == 1497
    assert clusters["pt16.test"] == 500
    for rated_set in here:
        assert all(s.ratings for s in rated_set.samples())


def test_the_page_in_the_docs_begins_with_the_head_that_the_command_writes():
    text = (ROOT / "docs" / "defaults.md").read_text("utf-8")
    assert text.startswith(defaults_page.head())
    for rated_set in papers.RATED_SETS:
        assert f"\n| `{rated_set.id}` | {', '.join(rated_set.roles)} | " in text
