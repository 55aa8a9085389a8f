"""The figures of DExperts and PPLM from choices of our own, against counts by hand."""

from __future__ import annotations

import pytest

import levelfield_reproductions as papers
from levelfield.core.sample import Sample
from levelfield.io.comparisons import PairChoice
from levelfield_reproductions.recipes import dexperts, pplm


def derived(id: str) -> dict[tuple[str, str], float | None]:
    [table] = papers.tables(id)
    return {(o.number.row, o.number.column): o.derived.value for o in papers.derive(table).outcomes}


def test_shares_are_counted_whichever_side_dexperts_is_on(monkeypatch: pytest.MonkeyPatch):
    choices = [
        PairChoice("DExperts", "GeDi", 1.0, "control", "", "x"),
        PairChoice("GeDi", "DExperts", 0.0, "control", "", "x"),
        PairChoice("GeDi", "DExperts", 1.0, "control", "", "x"),
        PairChoice("GeDi", "DExperts", 0.5, "control", "", "x", tie="equal"),
    ]
    monkeypatch.setattr(dexperts, "choices_of", lambda *_: choices)
    values = derived("dexperts.toxicity")
    shares = [values["GeDi, control", column] for column in ("DExperts", "equal", "other")]
    assert shares == [0.5, 0.25, 0.25]
    assert values["GeDi, fluency", "equal"] is None


def judgement(item: str, word: str, a: str = "B", b: str = "BCR") -> PairChoice:
    outcome = {"a": 1.0, "b": 0.0}.get(word, 0.5)
    return PairChoice(
        a, b, outcome, "control", "", "x", item=item, tie=word if outcome == 0.5 else ""
    )


def test_two_of_three_raters_put_a_text_on_topic(monkeypatch: pytest.MonkeyPatch):
    rows = {"1": "a both b", "2": "neither neither both", "3": "b b neither", "4": "a a"}
    choices = [judgement(item, word) for item, words in rows.items() for word in words.split()]
    monkeypatch.setattr(pplm, "choices_of", lambda _, part: choices if part == "positive" else [])
    values = derived("pplm.ablation")
    assert values["positive", "B"] == pytest.approx(100 / 3)  # row 1; row 4 lacks a rater
    assert values["positive", "BCR"] == pytest.approx(200 / 3)  # rows 1 and 3
    assert values["positive", "BC"] is None
    assert values["positive and negative", "BCR"] == values["positive", "BCR"]


def test_fluency_is_over_single_judgements(monkeypatch: pytest.MonkeyPatch):
    samples = [
        Sample(id="1", text="x", system="B", extra={"fluency": {"Ann": [1, 1, 1], "Bo": [5]}}),
        Sample(id="2", text="y", system="B"),
    ]
    monkeypatch.setattr(pplm, "samples_of", lambda *_: samples)
    values = derived("pplm.fluency")
    assert values["negative", "B"] == 2
    assert values["negative", "B sd"] == pytest.approx(3**0.5)
