"""Files of a cell are whole or not there, and read as what was written."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import KEY, command, plan

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import load_samples
from levelfield.study.ask.requests import TimedAnswer, requests_of
from levelfield.study.audit import audit
from levelfield.study.cells import CellKey, Cost, GroupValue, SystemAnswer
from levelfield.study.fingerprint import Fingerprint, fingerprint
from levelfield.study.plan import CallableSource, CommandSource, FilesSource, Plan
from levelfield.study.store import StudyStore
from levelfield.study.store.journal import CellRecord
from levelfield.study.store.reading import export, read_cell

MARK = Fingerprint("answers", "texts")
RECORD = CellRecord(MARK, asked=2, answered=2, cost=Cost(1.5, 2, None, 10), problems=("odd",))
ANSWERS = [SystemAnswer("1", "one"), SystemAnswer("2", "zwei\n🎉", "given", 5)]
SAMPLES = [
    Sample("S/1", "one", prompt="o", control={"k": ("a", "b")}, seed=1, extra={"request": "1"}),
    Sample("S/2", "", control={"k": ("c",)}, seed=1, extra={"request": "2", "raw": "x"}),
]


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore(tmp_path / "out")


def test_a_finished_cell_reads_as_it_was_written(store: StudyStore) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    record = store.record(KEY)
    assert record is not None
    assert replace(record, when="") == RECORD
    assert record.when.endswith("+00:00")
    assert [kept.answer for kept in store.resume(KEY, MARK)] == ANSWERS
    cell = read_cell(store, KEY)
    assert cell.samples == tuple(SAMPLES)
    assert (cell.asked, cell.problems, cell.cost) == (2, ("odd",), RECORD.cost)
    assert store.state(KEY, MARK) == "done"
    assert store.state(KEY, replace(MARK, texts="other")) == "texts"
    assert store.state(KEY, Fingerprint("other", "other")) == "stale"
    assert store.resume(KEY, Fingerprint("other", "other")) == []


def test_a_cell_that_never_ran_says_so(store: StudyStore) -> None:
    assert store.state(KEY, MARK) == "missing"
    assert "not finished" in read_cell(store, KEY).failure
    assert not store.out.exists()


def test_values_votes_and_groups_come_back(store: StudyStore) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    scores = [
        {"id": "S/1", "metric": "m", "value": 0.5, "signature": "m|v"},
        {"id": "S/2", "metric": "m", "value": None, "undefined": "empty text", "signature": "m|v"},
    ]
    labels = {"S/1": "positive", "S/2": "(undecided)"}
    parts = [
        {
            "metric": "control.average",
            "id": id,
            "part": f"sentiment/org/judge: {label}",
            "score": 1.0,
            "weight": 1.0,
        }
        for id, label in labels.items()
    ]
    parts.append({"metric": "other", "id": "S/1", "part": "a/b: c", "score": 1.0, "weight": 1.0})
    row = {"metric": "d", "value_asked": "a, b", "value": None, "n": 0, "signature": "d|v"}
    groups = [row, row | {"value": 2.0, "n": 3}]
    store.write_measured(
        KEY, STAMP, {"scores.jsonl": scores, "parts.jsonl": parts, "groups.jsonl": groups}
    )
    cell = read_cell(store, KEY)
    assert cell.scores["m"]["S/1"] == 0.5
    assert math.isnan(cell.scores["m"]["S/2"])
    assert cell.votes == {"sentiment": {"org/judge": {"S/1": "positive", "S/2": ""}}}
    assert cell.groups[1] == GroupValue("d", "a, b", 2.0, 3)
    assert math.isnan(cell.groups[0].value)
    assert cell.signatures == {"m": "m|v", "d": "d|v"}


def test_empty_outputs_and_ties_come_back(store: StudyStore) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    signature = "control.majority|rule:majority|ties:share|v:1"
    scores = [
        {"id": id, "metric": "control.majority", "value": 0.5, "signature": signature}
        for id in ("S/1", "S/2")
    ]
    parts = [
        {"metric": metric, "id": id, "part": part, "score": 0.0, "weight": 1.0}
        for metric, id, part in (
            ("control.average", "S/1", "tone/j: warm"),
            ("control.average", "S/2", "tone/j: (empty)"),
            ("control.majority", "S/1", "tone/majority: tie of cold, warm"),
            ("control.majority", "S/2", "tone/majority: (empty)"),
            ("other", "S/2", "a text that speaks of majority: tie of cold, warm"),
        )
    ]
    store.write_measured(KEY, STAMP, {"scores.jsonl": scores, "parts.jsonl": parts})
    cell = read_cell(store, KEY)
    assert cell.votes["tone"]["j"] == {"S/1": "warm", "S/2": "(empty)"}
    assert cell.ties == {"control.majority": 1}


def write_votes(
    store: StudyStore, votes: list[tuple[str, str, float]], scores: list[float] | None = None
) -> None:
    """Writes a cell with a vote a text, each the topic asked for, the judge's word and score."""
    samples = [
        Sample(id=f"S/{n}", text="So.", control={"topic": topic})
        for n, (topic, _, _) in enumerate(votes)
    ]
    rows = [
        {"metric": "control.average", "id": f"S/{n}", "part": f"topic/j: {word}", "score": right}
        for n, (_, word, right) in enumerate(votes)
    ]
    values = scores or [right for _, _, right in votes]
    scored = [
        {"metric": "control.average", "id": f"S/{n}", "value": value, "signature": "s"}
        for n, value in enumerate(values)
    ]
    store.finish(KEY, RECORD, ANSWERS, samples)
    store.write_measured(KEY, STAMP, {"scores.jsonl": scored, "parts.jsonl": rows})


def test_votes_come_back_in_the_words_of_the_study(store: StudyStore) -> None:
    votes = [("Science/Technology", "Sci/Tech", 1.0), ("World", "Sci/Tech", 0.0)]
    write_votes(store, [*votes, ("World", "World", 1.0)])
    labels = read_cell(store, KEY).votes["topic"]["j"]
    assert labels == {"S/0": "Science/Technology", "S/1": "Science/Technology", "S/2": "World"}


SHARED_WORD = [
    ("science", "Sci/Tech", 1.0),
    ("technology", "Sci/Tech", 1.0),
    ("World", "Sci/Tech", 0.0),
    ("science", "World", 0.0),
    ("World", "World", 1.0),
] * 6


def test_a_judge_word_for_two_values_counts_as_the_requested_one(
    store: StudyStore,
) -> None:
    write_votes(store, SHARED_WORD)
    labels = list(read_cell(store, KEY).votes["topic"]["j"].values())
    for (topic, _, right), label in zip(SHARED_WORD, labels, strict=True):
        assert (label == topic) == (right == 1)
    assert set(labels[2::5]) < {"science", "technology"}


def test_scores_contradict_votes_only_where_they_do_though_two_values_share_a_word(
    store: StudyStore,
) -> None:
    def contradictions() -> list[int]:
        findings = audit([read_cell(store, KEY)])
        return [f.n for f in findings if f.check == "scores-contradict-votes"]

    write_votes(store, SHARED_WORD)
    assert contradictions() == []
    scores = [right for _, _, right in SHARED_WORD]
    write_votes(store, SHARED_WORD, [1 - v if n < 10 else v for n, v in enumerate(scores)])
    assert contradictions() == [10]


kept_answers = st.lists(
    st.builds(
        TimedAnswer,
        st.builds(
            SystemAnswer,
            id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
            text=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
            tokens=st.none() | st.integers(0, 9),
        ),
        st.integers(0, 99).map(float),
        st.none() | st.integers(0, 9),
    ),
    unique_by=lambda kept: kept.answer.id,
    max_size=4,
)


@given(kept_answers, st.randoms())
def test_however_a_crash_tears_the_file_whole_answers_stay_and_more_can_follow(
    tmp_path_factory: pytest.TempPathFactory, answers: list[TimedAnswer], random: Any
) -> None:
    store = StudyStore(tmp_path_factory.mktemp("out"))
    store.folder(KEY).mkdir(parents=True)
    with store.keeping(KEY, MARK) as keep:
        for kept in answers:
            keep(kept)
    assert store.resume(KEY, MARK) == answers
    path = store.folder(KEY) / "answers.partial.jsonl"
    content = path.read_bytes()
    cut = random.randint(0, len(content))
    path.write_bytes(content[:cut])
    whole = max(content[:cut].count(b"\n") - 1, 0)
    assert store.resume(KEY, MARK) == answers[:whole]
    with store.keeping(KEY, MARK) as keep:
        for kept in answers[whole:]:
            keep(kept)
    assert store.resume(KEY, MARK) == answers


def test_a_line_that_is_spoilt_costs_that_answer_only(store: StudyStore) -> None:
    store.folder(KEY).mkdir(parents=True)
    with store.keeping(KEY, MARK) as keep:
        for answer in ANSWERS:
            keep(TimedAnswer(answer))
    path = store.folder(KEY) / "answers.partial.jsonl"
    head, first, two = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + b"\0" * len(first) + b"\n[]\n7\n" + two)
    assert [kept.answer for kept in store.resume(KEY, MARK)] == ANSWERS[1:]
    assert store.state(KEY, MARK) == "partial"
    assert store.state(KEY, Fingerprint("other", "texts")) == "stale"


def test_whatever_bit_of_the_journal_is_flipped_no_other_answer_is_read(store: StudyStore) -> None:
    store.folder(KEY).mkdir(parents=True)
    answers = [TimedAnswer(answer, 0.5) for answer in ANSWERS]
    with store.keeping(KEY, MARK) as keep:
        for timed in answers:
            keep(timed)
    path = store.folder(KEY) / "answers.partial.jsonl"
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 13):
        raw = bytearray(whole)
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        assert all(timed in answers for timed in store.resume(KEY, MARK))


def test_an_error_while_writing_leaves_what_was_there(store: StudyStore) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)

    def broken() -> Any:
        yield {"id": "new"}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.write_lines(KEY, "texts.jsonl", broken())
    assert len(list(store.samples(KEY))) == 2
    assert [p for p in store.folder(KEY).iterdir() if p.suffix == ".tmp"] == []


def without_seals(store: StudyStore) -> None:
    """Leaves a cell as older versions wrote it."""
    for path in store.folder(KEY).glob("*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({k: record[k] for k in record.keys() - {"digest", "files"}}))


STAMP = {"texts": MARK.texts, "metrics": {"m": "m|v", "d": "d|v"}}
VALUES: dict[str, list[dict[str, Any]]] = {
    "scores.jsonl": [
        {"id": f"S/{i}", "metric": "m", "value": i / 7, "signature": "m|v"} for i in (1, 2)
    ],
    "parts.jsonl": [
        {"metric": "control.average", "id": "S/1", "part": "k/j: a", "score": 1.0, "weight": 1.0}
    ],
    "groups.jsonl": [
        {"metric": "d", "value_asked": "a, b", "value": 0.25, "n": 3, "signature": "d|v"}
    ],
}


@pytest.fixture
def measured(store: StudyStore) -> StudyStore:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    store.write_measured(KEY, STAMP, VALUES)
    return store


def test_a_cell_without_seals_is_read(measured: StudyStore) -> None:
    without_seals(measured)
    row = {"id": "S/1", "metric": "m", "value": "inf"}  # of a version without signatures
    (measured.folder(KEY) / "scores.jsonl").write_text(json.dumps(row) + "\n")
    cell = read_cell(measured, KEY)
    assert cell.scores == {"m": {"S/1": math.inf}}
    assert cell.signatures == {"m": "", "d": "d|v"}


@pytest.mark.parametrize(
    ("name", "lacking"),
    [("scores.jsonl", "metric"), ("scores.jsonl", "id"), ("parts.jsonl", "part"),
     ("parts.jsonl", "metric"), ("groups.jsonl", "n"), ("groups.jsonl", "value_asked")],
)  # fmt: skip
def test_a_row_without_a_field_in_a_cell_without_seals_is_named(
    measured: StudyStore, name: str, lacking: str
) -> None:
    without_seals(measured)
    path = measured.folder(KEY) / name
    row = {field: value for field, value in VALUES[name][0].items() if field != lacking}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=rf'{name}:1: there is no "{lacking}"; remove measured'):
        read_cell(measured, KEY)
    path.write_text(json.dumps({**VALUES[name][0], "value": "high"}) + "\n")
    with pytest.raises(UserError, match=rf"{name}:1: value: expected a number"):
        read_cell(measured, KEY)


def test_whatever_bit_of_a_cell_is_flipped_it_is_read_as_it_was_or_refused(
    measured: StudyStore,
) -> None:
    expected = repr(read_cell(measured, KEY))
    refusals = []
    for path in sorted(measured.folder(KEY).iterdir()):
        whole = path.read_bytes()
        for n, offset in enumerate(range(0, len(whole), max(1, len(whole) // 50))):
            raw = bytearray(whole)
            raw[offset] ^= 1 << n % 8
            path.write_bytes(raw)
            try:
                assert repr(read_cell(measured, KEY)) == expected
            except UserError as error:
                refusals.append((path.name, str(error)))
            assert measured.state(KEY, MARK) in ("done", "texts", "missing")
            assert measured.measured(KEY) in (None, STAMP)
        path.write_bytes(whole)
    assert len(refusals) > 200
    for name, message in refusals:
        assert name in message
        assert "`levelfield study run`" in message


@pytest.mark.parametrize(
    ("file", "state", "mend"),
    [
        ("cell.json", "missing", "requests the cell again"),
        ("answers.jsonl", "missing", "requests the cell again"),
        ("texts.jsonl", "texts", "makes it again from the answers"),
        ("measured.json", "done", "measures the cell again"),
        ("scores.jsonl", "done", "measures the cell again"),
        ("parts.jsonl", "done", "measures the cell again"),
        ("groups.jsonl", "done", "measures the cell again"),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
def test_a_damaged_file_is_named_with_its_mend_and_rewritten(
    measured: StudyStore, file: str, state: str, mend: str, gone: bool
) -> None:
    path = measured.folder(KEY) / file
    path.write_bytes(path.read_bytes().replace(b":", b";", 1))
    if gone:
        path.unlink()
    assert measured.state(KEY, MARK) == state
    if gone and file == "cell.json":
        return  # as after a run that was killed
    if gone and file == "measured.json":
        file = "scores.jsonl"
    with pytest.raises(UserError, match=rf"{file}: is not as it was written; .*{mend}"):
        read_cell(measured, KEY)
    with pytest.raises(UserError, match=file):
        export(measured, measured.out / "all.jsonl", [KEY], "scores")
    assert (measured.measured(KEY) == STAMP) == (mend != "measures the cell again")


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff", b"[" * 100_000, b"9" * 5_000])
def test_a_record_that_is_not_an_object_is_damaged(measured: StudyStore, content: bytes) -> None:
    (measured.folder(KEY) / "cell.json").write_bytes(content)
    assert measured.state(KEY, MARK) == "missing"
    with pytest.raises(UserError, match=r"cell\.json: is not as it was written"):
        read_cell(measured, KEY)


def test_what_a_failed_run_says_does_not_vouch_for_damaged_texts(measured: StudyStore) -> None:
    path = measured.folder(KEY) / "texts.jsonl"
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))
    measured.write_record(KEY, replace(RECORD, failure="no room"))
    assert "texts.jsonl" in measured.damage(KEY)
    (measured.folder(KEY) / "cell.json").write_text("garbage")
    measured.write_record(KEY, replace(RECORD, failure="no room"))
    assert list(measured.samples(KEY)) == []


@pytest.mark.parametrize("last", ["texts.jsonl", "answers.jsonl", "cell.json"])
def test_a_cell_whose_writing_was_killed_is_read_as_it_was_or_refused_and_mended(
    measured: StudyStore, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = [replace(sample, text="other") for sample in SAMPLES]
    write = StudyStore.write_lines

    def killed(store: StudyStore, key: CellKey, name: str, records: Any) -> None:
        write(store, key, name, records)
        if name == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(StudyStore, "write_lines", killed)
    now = replace(RECORD, fingerprint=replace(MARK, texts="new"))
    with contextlib.suppress(KeyboardInterrupt):
        measured.finish(KEY, now, ANSWERS, other)
    new_state = measured.state(KEY, now.fingerprint)
    assert new_state == ("done" if last == "cell.json" else "texts")
    if new_state == "texts":
        with pytest.raises(UserError, match=r"texts\.jsonl"):
            read_cell(measured, KEY)
    monkeypatch.undo()
    measured.finish(KEY, now, ANSWERS, other)
    assert read_cell(measured, KEY).samples == tuple(other)


@pytest.mark.parametrize("last", VALUES)
def test_values_whose_writing_was_killed_are_refused_and_recomputed(
    measured: StudyStore, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = StudyStore.write_lines

    def killed(store: StudyStore, key: CellKey, name: str, records: Any) -> None:
        write(store, key, name, records)
        if name == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(StudyStore, "write_lines", killed)
    with pytest.raises(KeyboardInterrupt):
        measured.write_measured(KEY, STAMP, VALUES)
    with pytest.raises(UserError, match=r"scores\.jsonl.*measures the cell again"):
        read_cell(measured, KEY)
    assert measured.measured(KEY) is None
    monkeypatch.undo()
    measured.write_measured(KEY, STAMP, VALUES)
    assert read_cell(measured, KEY).scores["m"]["S/1"] == 1 / 7


def test_cells_of_older_versions_have_no_seals_and_are_read_as_they_are(
    measured: StudyStore,
) -> None:
    expected = repr(read_cell(measured, KEY))
    without_seals(measured)
    assert repr(read_cell(measured, KEY)) == expected
    assert measured.state(KEY, MARK) == "done"
    assert measured.measured(KEY) == STAMP


def test_a_broken_line_is_named_with_its_place(store: StudyStore) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    without_seals(store)
    path = store.folder(KEY) / "texts.jsonl"
    path.write_text(path.read_text() + "{oops\n")
    with pytest.raises(UserError, match=r"texts\.jsonl:3: not JSON"):
        read_cell(store, KEY)
    path.write_text('{"id": "no text"}\n')
    with pytest.raises(UserError, match=r"texts\.jsonl: text: missing"):
        read_cell(store, KEY)


def test_stale_answers_outlive_a_run_that_answered_nothing(store: StudyStore) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    assert store.set_aside(KEY)
    assert store.state(KEY, MARK) == "missing"
    stale = (store.folder(KEY) / "answers.stale.jsonl").read_text()
    with store.keeping(KEY, MARK):
        pass
    assert not store.set_aside(KEY)
    assert (store.folder(KEY) / "answers.stale.jsonl").read_text() == stale
    assert "one" in stale


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_exported_texts_read_as_samples(store: StudyStore, tmp_path: Path, suffix: str) -> None:
    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    other = KEY._replace(control="keywords")
    mixed = [Sample("T/1", "t", control={"k": "a", "topic": "World"}, extra={"request": "1"})]
    store.finish(other, RECORD, [], mixed)
    path = tmp_path / f"all{suffix}"
    assert export(store, path, [KEY, other]) == 3
    samples = load_samples(path)
    assert [s.id for s in samples] == ["S/1", "S/2", "T/1"]
    assert samples[0].control == {"k": ("a", "b")}
    assert samples[2].control["topic"] == "World"
    assert samples[1].text == ""
    assert samples[1].extra["raw"] == "x"
    assert [s.extra["kind"] for s in samples] == ["sentiment", "sentiment", "keywords"]


def test_exported_texts_are_not_formulas_in_csv(store: StudyStore, tmp_path: Path) -> None:
    texts = [Sample("S/1", "=1+1"), Sample("S/2", '"a", b\nc')]
    store.finish(KEY, RECORD, [], texts)
    path = tmp_path / "all.csv"
    assert export(store, path, [KEY]) == 2
    assert [s.text for s in load_samples(path)] == ["'=1+1", '"a", b\nc']


def test_exported_scores_have_their_cell(store: StudyStore, tmp_path: Path) -> None:
    import polars as pl

    store.finish(KEY, RECORD, ANSWERS, SAMPLES)
    rows = [
        {"id": f"S/{i}", "metric": "m", "value": v, "signature": "s"}
        for i, v in ((1, 1), (2, None))
    ]
    store.write_measured(KEY, STAMP, {"scores.jsonl": rows})
    assert export(store, tmp_path / "s.parquet", [KEY], "scores") == 2
    export(store, tmp_path / "s.csv", [KEY], "scores")
    assert len(pl.read_csv(tmp_path / "s.csv")) == 2
    table = pl.read_parquet(tmp_path / "s.parquet")
    assert table["value"].to_list() == [1, None]
    assert table["system"].to_list() == ["S", "S"]
    with pytest.raises(
        UserError, match=r"expected a name that ends in \.parquet, \.csv or \.jsonl"
    ):
        export(store, tmp_path / "s.xls", [KEY])
    with pytest.raises(UserError, match="can't be written"):
        export(store, tmp_path / "nowhere" / "s.parquet", [KEY])


class TestFingerprint:
    def of(self, study: Plan) -> Fingerprint:
        (key,) = study.cells()
        return fingerprint(study, key, requests_of(study, key))

    def test_it_does_not_depend_on_time_limits_and_retries(self, tmp_path: Path) -> None:
        first = self.of(plan(tmp_path, command("well")))
        assert first == self.of(plan(tmp_path, command("well", timeout_s=1.0, retries=9)))
        tried = CallableSource("a:b", retries=3)
        assert self.of(plan(tmp_path, tried)) == self.of(plan(tmp_path, CallableSource("a:b")))

    def test_steps_change_the_texts_and_not_the_answers(self, tmp_path: Path) -> None:
        first = self.of(plan(tmp_path, command("well")))
        two = self.of(plan(tmp_path, command("well"), steps=("strip",)))
        assert first.answers == two.answers
        assert first.texts != two.texts

    def test_everything_else_that_may_change_an_answer_changes_it(self, tmp_path: Path) -> None:
        marks = [
            self.of(study).answers
            for study in (
                plan(tmp_path, CommandSource(("a", "b"))),
                plan(tmp_path, CommandSource(("a", "c"))),
                plan(tmp_path, CommandSource(("a", "b"), environment={"X": "1"})),
                plan(tmp_path, CommandSource(("a", "b")), prompts=5),
                plan(tmp_path, CommandSource(("a", "b")), seeds=(2,)),
                plan(tmp_path, CallableSource("a:b")),
                plan(tmp_path, CallableSource("a:b", options={"x": 1})),
                plan(tmp_path, FilesSource("a")),
                plan(tmp_path, FilesSource("a", mapping={"text": "t"})),
            )
        ]
        assert len(set(marks)) == len(marks)

    @pytest.mark.parametrize(
        "source",
        [
            CommandSource(("python3", "--config=named.py")),
            CommandSource(("./named.py",)),
            CallableSource("named:generate"),
            FilesSource("named.py", format="jsonl"),
        ],
    )
    def test_files_count_by_content(self, tmp_path: Path, source: Any) -> None:
        study = plan(tmp_path, source)
        marks = []
        for content in ("", "one", "two!"):
            if content:
                (tmp_path / "named.py").write_text(content)
            marks.append(self.of(study).answers)
        assert len(set(marks)) == 3
        (tmp_path / "unnamed.py").write_text("x")
        assert self.of(study).answers == marks[-1]

    def test_programs_elsewhere_do_not_count(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        program = tmp_path / "program"
        study = plan(home, CommandSource((str(program), "x" * 10_000, "a\0b")))
        before = self.of(study)
        program.write_text("updated")
        assert self.of(study) == before


names = st.tuples(*[st.text(min_size=1, max_size=6)] * 3)


@given(names, names)
def test_no_two_cells_share_a_folder(
    first: tuple[str, str, str], two: tuple[str, str, str]
) -> None:
    folders = [CellKey(*names, 1).folder for names in (first, two)]
    assert (folders[0] == folders[1]) == (first == two)
