from __future__ import annotations

import csv
import io
import itertools
import json
import math
import stat
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formality_study
from levelfield.agree.agreement import agreement, rater_agreement
from levelfield.agree.preference import preferences
from levelfield.agree.strengths import strengths
from levelfield.io import load_ratings, load_samples
from levelfield.stats.resampling import Resampling
from levelfield_rating.export.documents import archive, codebook, documents, export
from levelfield_rating.model import Item, RatingCriterion
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.results.agreement import reliability, system_means, unit_ratings
from levelfield_rating.results.raters import counted
from levelfield_rating.results.ratings import sample_ratings, samples
from levelfield_rating.store import RatingStore
from rating_study import small_study
from simulated_raters import (
    Rule,
    clipped,
    comment,
    direct_study,
    opened,
    rate,
    rater_of,
    say,
    without_samples,
)
from study_folder import rewrites, write_study

SYSTEMS = {"owl": 80.0, "fox": 60.0, "elk": 35.0}
FAST = Resampling(resamples=200)
EVIL = "<script>alert(1)</script>"


def drawn(seed: int) -> Rule:
    rng = np.random.default_rng(seed)

    def rule(item: Item, _criterion: RatingCriterion) -> int:
        return 2 if item.control else clipped(rng.normal(60, 20))

    return rule


@pytest.fixture
def rated(tmp_path: Path) -> RatingStore:
    frozen = direct_study(SYSTEMS, sources=12, merged=3)
    store = opened(tmp_path, frozen)
    for slot in range(4):
        rate(store, slot, drawn(slot))
    return store


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def exported(exports: dict[str, str]) -> list[tuple[str, str, float]]:
    """Returns (id, rater, value) of all ratings."""
    return [
        (row["id"], rater, value)
        for row in rows(exports["ratings.jsonl"])
        for values in row["ratings"].values()
        for rater, value in values.items()
    ]


def test_what_is_exported_and_read_again_gives_equal_numbers(rated: RatingStore, tmp_path: Path):
    export(rated, tmp_path / "out")
    frozen, states = rated.frozen, counted(rated)
    again = load_ratings(tmp_path / "out" / "ratings.jsonl")
    ours = sample_ratings(frozen, states)
    assert sorted(again.ratings) == sorted(ours)
    assert len(ours) == 12 * 3 * 2 * 2
    for mean in system_means(frozen, states):
        values = [
            np.mean(list(s.ratings[mean.criterion].values()))
            for s in again.samples.values()
            if s.system == mean.system
        ]
        assert np.mean(values) == pytest.approx(mean.mean.value)
    there = rater_agreement(again, by="survey", resampling=FAST)
    assert [g.part for g in there.groups if g.aspect == "style"] == ["1", "2", "all"]


def test_without_merged_texts_agreement_of_the_export_is_that_of_the_pages(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=8)
    store = opened(tmp_path, frozen)
    for slot in range(4):
        rate(store, slot, drawn(slot))
    export(store, tmp_path / "out")
    again = rater_agreement(
        load_ratings(tmp_path / "out" / "ratings.jsonl"), by="survey", resampling=FAST
    )
    ours = reliability(frozen, counted(store), resampling=FAST).raw
    assert ours is not None
    for a, b in zip(again.groups, ours.groups, strict=True):
        assert (a.aspect, a.part, a.items) == (b.aspect, b.part, b.items)
        assert a.alpha.value == pytest.approx(b.alpha.value)
        assert [p.pearson.value for p in a.pairs] == pytest.approx(
            [p.pearson.value for p in b.pairs]
        )


def test_the_samples_keep_their_own_fields_and_know_survey_and_study(rated: RatingStore):
    by_id = {row["id"]: row for row in rows(documents(rated)["ratings.jsonl"])}
    assert list(by_id) == list(rated.frozen.samples)
    record = by_id["fox:5"]
    assert (record["system"], record["source"], record["topic"]) == (
        "fox",
        "Original number 5.",
        "topic 2",
    )
    assert record["survey"] == 2
    assert record["study_digest"] == rated.frozen.digest
    assert set(record["ratings"]) == {"content", "style"}
    sample = next(s for s in load_samples([record]))
    assert sample.control == {"formality": "formal"}


def test_merged_texts_have_the_ratings_of_the_one_that_was_shown(rated: RatingStore):
    by_id = {row["id"]: row for row in rows(documents(rated)["ratings.jsonl"])}
    for n in range(3):
        assert by_id[f"fox:{n}"]["ratings"] == by_id[f"elk:{n}"]["ratings"] != {}
    assert by_id["fox:3"]["ratings"] != by_id["elk:3"]["ratings"]


def test_earlier_ratings_and_clashing_fields_of_a_sample_do_not_mix_with_ours(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=2)
    original = frozen.samples["owl:0"]
    clash = {
        **original,
        "ratings": {"content": {"r1": 99.5, "ann": 3}},
        "extra": {"survey": "theirs", "study_digest": "x", "text": "raw"},
    }
    frozen = replace(frozen, samples={**frozen.samples, "owl:0": clash})
    store = opened(tmp_path, frozen)
    rate(store, 0, drawn(1))
    record = next(r for r in rows(documents(store)["ratings.jsonl"]) if r["id"] == "owl:0")
    assert record["ratings"]["content"].keys() == {"r1"}
    assert record["ratings"]["content"]["r1"] != 99.5
    assert (record["survey"], record["survey_of_sample"]) == (1, "theirs")
    assert (record["text"], record["text_of_sample"]) == (original["text"], "raw")


def test_a_study_without_records_of_its_samples_exports_their_texts(tmp_path: Path):
    store = opened(tmp_path, without_samples(direct_study(SYSTEMS, sources=2)))
    rate(store, 0, drawn(1))
    ratings = rows(documents(store)["ratings.jsonl"])
    assert {row["id"] for row in ratings} == {f"{s}:{n}" for s in SYSTEMS for n in range(2)}
    assert all(row["text"].startswith("Number") for row in ratings)


def test_negative_samples_are_exported_apart(rated: RatingStore):
    exports = documents(rated)
    assert "Something else." not in exports["ratings.jsonl"] + exports["ratings.csv"]
    controls = rows(exports["controls.jsonl"])
    assert len(controls) == 4 * 2
    assert {(c["kind"], c["negative"], c["answer"]) for c in controls} == {("other", 0, 2)}


def test_who_is_excluded_replaced_or_withdrawn_is_left_out_and_the_codebook_says_why(
    rated: RatingStore,
):
    rated.exclude("r1", f"asleep {EVIL} | x")
    rated.withdraw("r2")
    rated.reassign(2)
    raters = {rater for _, rater, _ in exported(documents(rated))}
    assert raters == {"r4"}
    book = codebook(rated)
    assert "asleep &lt;script&gt;alert(1)&lt;/script&gt; \\| x" in book
    assert "<script>" not in book
    assert "withdrawn; answers are deleted" in book
    assert "the slot was given to another person" in book
    with_all = {rater for _, rater, _ in exported(documents(rated, excluded=True))}
    assert with_all == {"r1", "r3", "r4"}


def test_answers_of_a_withdrawn_rater_are_in_no_file(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=4)
    store = opened(tmp_path, frozen)
    rater = rater_of(store, 0)
    say(store, rater, 0, lambda _item, _criterion: 73)
    comment(store, rater, 0, "UNFORGETTABLE")
    store.withdraw(rater)
    exports = documents(store, excluded=True)
    assert not [name for name, text in exports.items() if "UNFORGETTABLE" in text]
    events = rows(exports["events.jsonl"])
    assert [e["value"] for e in events if e["kind"] == "rating"] == [None] * 14
    assert [e["kind"] for e in events][-1] == "withdrawn"


def test_every_event_is_in_the_log_earlier_answers_too(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=2, surveys=1)
    store = opened(tmp_path, frozen)
    rater = rater_of(store, 0)
    say(store, rater, 0, lambda _item, _criterion: 10)
    say(store, rater, 0, lambda _item, _criterion: 90)
    exports = documents(store)
    ratings = [e for e in rows(exports["events.jsonl"]) if e["kind"] == "rating"]
    assert sorted(e["value"] for e in ratings) == [10] * 14 + [90] * 14
    assert {value for *_, value in exported(exports)} == {90}
    assert all(e["study_digest"] == frozen.digest for e in rows(exports["events.jsonl"]))


def test_comments_and_problems_are_exported_as_they_were_written(rated: RatingStore):
    session = rated.exchange(rated.reassign(0))
    assert session is not None
    rater = rated.session(session)
    assert rater is not None
    rated.consent(rater, "1")
    rated.enter(rater, "instructions")
    rated.enter(rater, "rating")
    comment(rated, rater, 0, f"=HYPERLINK() {EVIL}\nline", problem=True)
    (remark,) = rows(documents(rated)["comments.jsonl"])
    assert (remark["comment"], remark["problem"]) == (f"=HYPERLINK() {EVIL}\nline", True)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_of_a_spreadsheet_is_a_formula(tmp_path: Path, start: str):
    evil = f"{start}cmd|' /C calc'!A0"
    frozen = direct_study({evil: 50.0, "fox": 60.0}, sources=2)
    store = opened(tmp_path, frozen)
    rate(store, 0, drawn(1))
    store.exclude("r1", evil)
    exports = documents(store, excluded=True)
    for name in ("ratings.csv", "raters.csv"):
        cells = [cell for row in csv.reader(io.StringIO(exports[name], newline="")) for cell in row]
        assert not [cell for cell in cells if cell.startswith(start)]
        assert [cell for cell in cells if cell == f"'{evil}"]
    raw = [row["system"] for row in rows(exports["ratings.jsonl"])]
    assert evil in raw  # JSONL stays as it is


def test_choices_are_exported_raw_and_as_shares_of_wins(tmp_path: Path):
    frozen = small_study(scale="pairwise", practice=False, examples=False, raters=1)
    store = opened(tmp_path, frozen)
    answers = iter([0, 1, -1] * 9)
    rater = rate(store, 0, lambda _item, _criterion: next(answers))
    exports = documents(store)
    raw = rows(exports["pairs.jsonl"])
    assert len(raw) == 3 * 2
    saved = store.state(rater).answers
    for row in raw:
        assert row["better"] == saved[row["item"]][row["aspect"]]
        won = (
            frozen.items[row["item"]].candidates[row["better"]].samples
            if row["better"] >= 0
            else ()
        )
        assert row["better_samples"] == list(won)
        assert row["shown_first"] in (0, 1)
    assert {value for *_, value in exported(exports)} == {0, 0.5, 1}
    assert load_ratings_of(exports, tmp_path).ratings


def test_rankings_are_exported_raw_and_reversed(tmp_path: Path):
    frozen = small_study(scale="ranking", practice=False, examples=False, raters=1)
    store = opened(tmp_path, frozen)
    rate(store, 0, lambda _item, criterion: (2, 1, 3) if criterion.id == "style" else (1, 1, 3))
    exports = documents(store)
    assert {tuple(r["ranks"]) for r in rows(exports["rankings.jsonl"])} == {(2, 1, 3), (1, 1, 3)}
    item = next(i for i in frozen.items.values() if not i.control)
    by_id = {r["id"]: r["ratings"] for r in rows(exports["ratings.jsonl"])}
    shares = [by_id[c.samples[0]]["style"]["r1"] for c in item.candidates]
    assert shares == [0.5, 1, 0]
    assert [by_id[c.samples[0]]["content"]["r1"] for c in item.candidates] == [0.75, 0.75, 0]


@pytest.mark.parametrize(("scale", "file"), [("pairwise", "pairs"), ("ranking", "rankings")])
def test_what_raters_chose_meets_metrics_and_other_raters(tmp_path: Path, scale: str, file: str):
    records = rewrites(4, ("plain", "florid", "terse"))
    study = write_study(tmp_path, records, f'[design]\nkind = "{scale}"\nraters = 2')
    store = opened(tmp_path, freeze(study))
    answers: Any = [0, 1] if scale == "pairwise" else [(1, 2, 3), (3, 1, 2)]
    for place in range(2):
        rate(store, place, lambda item, _criterion: answers[sum(map(ord, item.key)) % 2])
    for name, text in documents(store).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    choices, samples = tmp_path / f"{file}.jsonl", tmp_path / "ratings.jsonl"
    scores = [{"id": record["id"], "metric.length": 1} for record in records]
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, scores)), encoding="utf-8")
    report = preferences(tmp_path / "scores.jsonl", choices, samples=[samples])
    shares = {
        (a.metric, a.estimates["decided"].value, a.decided == a.pairs)
        for a in report.agreements
        if not a.systems
    }
    assert shares == {("length", 0.5, True), ("(one rater)", 1, True)}
    groups = agreement(choices, samples=[samples]).groups
    assert {group.alpha.value for group in groups} == {1}


@pytest.mark.parametrize(("scale", "file"), [("pairwise", "pairs"), ("ranking", "rankings")])
def test_exported_choices_and_rankings_give_strengths(tmp_path: Path, scale: str, file: str):
    records = rewrites(4, ("plain", "florid", "terse"))
    study = write_study(tmp_path, records, f'[design]\nkind = "{scale}"\nraters = 1')
    store = opened(tmp_path, freeze(study))
    answers = itertools.cycle([0, 1, -1, 1] if scale == "pairwise" else [(1, 2, 3), (3, 1, 2)])
    rate(store, 0, lambda _item, _criterion: next(answers))
    for name, text in documents(store).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    report = strengths(tmp_path / f"{file}.jsonl", samples=tmp_path / "ratings.jsonl")
    assert {s.system for s in report.strengths} == {"plain", "florid", "terse"}
    assert {s.estimate.n for s in report.strengths} == {2 * 4}  # two others on four sources
    assert {s.aspect for s in report.strengths} == {"content"}


def load_ratings_of(exports: dict[str, str], folder: Path):
    (folder / "again.jsonl").write_text(exports["ratings.jsonl"], encoding="utf-8")
    return load_ratings(folder / "again.jsonl")


def test_a_study_that_nobody_rated_yet_exports_its_samples(tmp_path: Path):
    store = opened(tmp_path, direct_study(SYSTEMS, sources=2))
    exports = documents(store)
    assert len(rows(exports["ratings.jsonl"])) == 6
    assert exports["controls.jsonl"] == exports["comments.jsonl"] == ""


def test_files_are_whole_and_those_there_are_replaced(rated: RatingStore, tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "ratings.jsonl").write_text("old")
    written = export(rated, out)
    assert {path.name for path in out.iterdir()} == {path.name for path in written}
    assert "old" not in (out / "ratings.jsonl").read_text(encoding="utf-8")
    with zipfile.ZipFile(io.BytesIO(archive(rated))) as whole:
        names = {name.partition("/")[2] for name in whole.namelist()}
    assert names == {path.name for path in written}
    # raters are named in them
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def test_the_study_digest_is_that_of_the_study_in_the_export(rated: RatingStore):
    import hashlib

    text = documents(rated)["study.json"].rstrip("\n")
    assert hashlib.sha256(text.encode()).hexdigest() == rated.frozen.digest
    assert rated.frozen.digest in documents(rated)["codebook.md"]


@pytest.mark.slow
def test_the_thesis_judgements_go_through_the_store_and_come_back(
    rated_data: Path,  # noqa: ARG001
    tmp_path: Path,
):
    judged = formality_study.judged()
    frozen = formality_study.study_of(judged)
    store = opened(tmp_path, frozen)
    ratings = {s.id: s.ratings for s in judged}
    for n, slot in enumerate(frozen.slots):
        expert = slot.name[-1]
        rate(store, n, lambda i, c, e=expert: clipped(ratings[i.key][c.id][e]))  # type: ignore[misc]
    export(store, tmp_path / "out")
    again = load_ratings(tmp_path / "out" / "ratings.jsonl")
    assert len(again.ratings) == 720 * 3 * 2
    printed = formality_study.published("11")
    for (system, criterion), value in printed.items():
        expert_ratings = [
            v
            for s in again.samples.values()
            if s.system == system
            for v in s.ratings[criterion].values()
        ]
        # ours are whole numbers, theirs have a tenth
        assert math.isclose(np.mean(expert_ratings), value, abs_tol=0.16), (system, criterion)
    names = formality_study.survey_names(judged)
    for survey, r in formality_study.pooled_pearson(again).items():
        value = formality_study.published("10")["Pearson", names[survey]]
        assert math.isclose(r, value, abs_tol=0.006)


def test_units_are_what_was_shown(rated: RatingStore):
    rated_units, texts = unit_ratings(rated.frozen, counted(rated))
    assert len(texts) == 12 * 3 - 3
    assert len(rated_units.ratings) == len(texts) * 2 * 2
    assert len(samples(rated.frozen)) == 36


@pytest.mark.parametrize("scale", ["slider", "pairwise", "ranking"])
def test_raters_of_slots_that_are_gone_do_not_stop_an_export(tmp_path: Path, scale: str):
    path = tmp_path / "study.sqlite"
    wide = RatingStore.create(path, small_study(scale=scale, raters=3))
    wide.exchange(wide.new_link(2))
    wide.close()
    narrow = replace(small_study(scale=scale, raters=2), source_digest="1" * 64)
    store = RatingStore.create(path, narrow)
    assert [rater.replaced for rater in store.raters()] == [True]
    assert "r1" in documents(store, excluded=True)["raters.csv"]
