"""The thesis's questions: what counts once, what is turned round, and the right numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pytest

import levelfield_reproductions as papers
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.datasets import load
from levelfield.stats.correlation import pearson, tau_like
from levelfield_reproductions import Grid, QuestionAnswer
from levelfield_reproductions.recipes import thesis_values
from levelfield_reproductions.recipes.thesis_values import judgements


def answer(id: str) -> QuestionAnswer:
    [question] = papers.questions(id)
    return papers.answer(question)


def column(grid: Grid, name: str) -> list[object]:
    return [row[grid.columns.index(name)] for row in grid.rows]


def sample(system: str, text: str, rating: float, n: int = 1) -> Sample:
    ratings = {a: {"1": rating, "2": rating} for a in ("content", "style", "fluency")}
    return Sample(
        id=f"{system}:{n}", text=text, source=f"s{n}", system=system, ratings=ratings,
        extra={"survey": "1"},
    )  # fmt: skip


def test_one_text_of_two_systems_is_one_judgement_and_not_the_human_references():
    same = [sample("REF", "a", 10), sample("YI", "a", 20), sample("YI", "a", 5, n=2)]
    samples = judgements(same)
    assert [s.id for s in samples] == ["YI:1", "YI:2"]
    assert samples[0].ratings["content"] == {"1": 15, "2": 15}


@pytest.mark.usefixtures("open_data")
def test_of_formal_sources_the_informal_is_wanted():
    for s in load("formality-judgements", part="ratings"):
        line = int(s.id.partition(":")[2])
        assert s.control["formality"] == ("formal" if line <= 40 else "informal")


class Backwards:
    """Stands for a metric of ours: the length of the text, of which less is better."""

    higher_is_better = False

    def __init__(self, name: str) -> None:
        self.name = name

    def score(self, samples: Sequence[Sample]) -> Scores:
        ids = tuple(s.id for s in samples)
        values = np.array([float(len(s.text)) for s in samples])
        values[0] = np.nan
        return Scores(self.name, ids, values, {ids[0]: "made up"}, f"{self.name}|v:0", False)


def test_metrics_of_ours_are_scored_turned_round_and_named_when_they_can_not_be(monkeypatch):
    there = dict.fromkeys(("bleu.source", "bleu.references", "wmd.source"))
    monkeypatch.setattr(thesis_values, "installed", lambda: there)
    monkeypatch.setattr(thesis_values, "create", lambda names, *_: [Backwards(names[0])])
    monkeypatch.setattr(thesis_values, "_RELEASED", ())
    texts = [sample("YI", "a", 1), sample("BART", "ab", 2), sample("REF", "abc", 3)]
    columns = thesis_values.metric_columns(texts, papers.Scoring())
    values = {c.metric: c.values for c in columns.values}
    assert list(values["bleu.source"]) == ["YI:1", "BART:1", "REF:1"]
    assert list(values["bleu.references"]) == ["YI:1", "BART:1"]
    assert np.isnan(values["bleu.source"]["YI:1"])
    assert values["bleu.source"]["BART:1"] == 2
    assert columns.flipped == ("bleu.source", "bleu.references")
    assert columns.signatures["bleu.source"] == "bleu.source|v:0"
    assert columns.left_out["wmd.source"] == "needs a model: name it with --model"
    assert columns.left_out["chrf.source"] == "not installed"


def test_questions_are_found_by_id_and_together():
    assert [q.id for q in papers.questions("thesis.rq")] == [
        "thesis.rq1",
        "thesis.rq2",
        "thesis.rq3",
    ]
    assert [q.id for q in papers.questions("Thesis.RQ2")] == ["thesis.rq2"]
    assert papers.questions("thesis") == papers.questions("lpf.rq1") == []


def test_without_the_data_the_answer_says_what_to_fetch(tmp_path, monkeypatch):
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    reply = answer("thesis.rq3")
    assert reply.grids == ()
    assert "levelfield data fetch formality-judgements" in reply.why


@pytest.mark.usefixtures("open_data")
def test_the_means_are_those_of_table_11_and_the_systems_in_falling_order():
    grids = answer("thesis.rq3").grids
    for grid in grids[:3]:
        means = np.array(column(grid, "mean"), float)
        printed = np.array(column(grid, "thesis"), float)
        np.testing.assert_allclose(means, printed, atol=0.1)
        assert (np.diff(means) <= 0).all()
        low, high = (np.array(column(grid, end), float) for end in ("low", "high"))
        assert ((low < means) & (means < high)).all()
        assert grid.rows[0][-1] == "best"
        assert grid.rows[-1][-1] == ""
    pairs = grids[3]
    assert len(pairs.rows) == 3 * 36
    assert set(column(pairs, "n")) == {80}
    p, adjusted = (np.array(column(pairs, name), float) for name in ("p", "p (Holm)"))
    assert (adjusted >= p).all()


@pytest.mark.usefixtures("open_data")
def test_agreement_counts_each_judgement_once():
    [grid] = answer("thesis.rq2").grids
    by_part = {(row[0], row[1]): row for row in grid.rows}
    assert by_part["content", "all surveys"][2] == 548
    surveys = [row[2] for (aspect, survey), row in by_part.items()
               if aspect == "content" and survey != "all surveys"]  # fmt: skip
    assert sum(surveys) == 548
    texts = [s for s in judgements(load("formality-judgements", part="ratings"))
             if s.extra["survey"] == "4"]  # fmt: skip
    r = pearson(*([s.ratings["style"][rater] for s in texts] for rater in ("1", "2")))
    assert by_part["style", "Survey 4"][grid.columns.index("r")] == pytest.approx(r)
    assert by_part["mean of aspects", "Survey 4"][grid.columns.index("thesis r")] == "0.72"


@pytest.mark.slow
@pytest.mark.usefixtures("open_data")
def test_released_metrics_agree_as_a_plain_computation_says(monkeypatch):
    monkeypatch.setattr(thesis_values, "PLAIN", ())
    monkeypatch.setattr(thesis_values, "_RELEASED", ("content-src", "cls-xformal"))
    reply = answer("thesis.rq1")
    content = next(g for g in reply.grids if g.title.startswith("RQ1  content"))
    by_metric = {row[0]: dict(zip(content.columns, row, strict=True)) for row in content.rows}
    samples = load("formality-judgements", part="content-src")
    texts = judgements(samples)

    def people(samples: list[Sample], aspect: str = "content") -> list[float]:
        return [fmean(s.ratings[aspect].values()) for s in samples]

    wmd = by_metric["released WMD.source"]
    x = [-s.extra["content.src"]["WMD"] for s in texts]
    assert wmd["n"] == 548
    assert wmd["τ"] == pytest.approx(tau_like(x, people(texts)))
    assert (wmd["thesis τ"], wmd["thesis r"]) == ("0.268", "0.318")
    systems = sorted({s.system for s in samples})
    by = [[s for s in samples if s.system == name] for name in systems]
    within = [
        pearson([-s.extra["content.src"]["WMD"] for s in system_samples], people(system_samples))
        for system_samples in by
    ]
    assert wmd["r within"] == pytest.approx(fmean(within))
    means = [[fmean(-s.extra["content.src"]["WMD"] for s in group) for group in by],
             [fmean(people(system_samples)) for system_samples in by]]  # fmt: skip
    assert wmd["r of means"] == pytest.approx(pearson(*means))
    style = next(g for g in reply.grids if g.title.startswith("RQ1  style"))
    classifier = {row[0]: row for row in style.rows}["released cls.xformal"]
    judged = load("formality-judgements", part="cls-xformal")
    p = {s.id: s.extra["cls.xformal"] for s in judged}
    lines = [int(s.id.partition(":")[2]) for s in texts]
    towards = [p[s.id] if n <= 40 else 1 - p[s.id] for s, n in zip(texts, lines, strict=True)]
    assert classifier[2] == pytest.approx(tau_like(towards, people(texts, "style")))
