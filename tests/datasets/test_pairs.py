"""The formats of sets with choices between texts, on rows of our own."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import pytest

from levelfield import datasets
from levelfield.core.errors import InputError, UserError
from levelfield.datasets import pairs
from levelfield.io.comparisons import PairChoice

BATCH = "human_eval/batch.csv"
COLUMNS = ("HITId", "AssignmentId", "sentprefix", "sourcea", "senta", "sourceb", "sentb")


def table(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def assignment(hit: str, id: str, answers: str, **cells: str) -> list[str]:
    usual = {
        "sentprefix": "The soup",
        "sourcea": "GPT-2",
        "senta": ", once hot,\nwent cold",
        "sourceb": "DExperts",
        "sentb": "was lovely",
    }
    return [hit, id, *(usual | cells).values(), *answers]


def batch(*rows: Sequence[str], question: str = "qPositive") -> str:
    inputs = [f"Input.{name}" for name in COLUMNS[2:]]
    header = [*COLUMNS[:2], *inputs, f"Answer.{question}", "Answer.qTopic", "Answer.qFluent"]
    return table([header, *rows])


def test_dexperts_texts_are_samples_and_answers_are_choices(files):
    content = batch(
        assignment("H1", "1", "bca"),
        assignment("H1", "2", ["A", "", "c"]),
        assignment("H2", "3", "abc", sourceb="CTRL", sentb=" was 🍲"),
    )
    parts = files(neutral_positive={BATCH: content})
    samples = pairs.dexperts(parts)
    assert [(s.id, s.text) for s in samples] == [
        ("neutral-positive:GPT-2:1", "The soup, once hot,\nwent cold"),
        ("neutral-positive:DExperts:1", "The soup was lovely"),
        ("neutral-positive:CTRL:1", "The soup was 🍲"),
    ]
    assert {(s.prompt, s.control["sentiment"], s.dataset) for s in samples} == {
        ("The soup", "positive", "dexperts-human")
    }
    choices = pairs.dexperts_choices(parts)
    first = PairChoice(
        "GPT-2",
        "DExperts",
        0.0,
        "control",
        "",
        "The soup",
        "neutral-positive:GPT-2:1",
        "neutral-positive:DExperts:1",
        "H1",
    )
    assert choices[0] == first
    assert choices[1] == first._replace(aspect="topicality", outcome=0.5, tie="equal")
    answers = [(c.item, c.aspect, c.outcome) for c in choices]
    assert answers[2:5] == [("H1", "fluency", 1), ("H1", "control", 1), ("H1", "fluency", 0.5)]
    assert len(choices) == 8


def test_the_less_toxic_text_is_better(files):
    content = batch(assignment("H1", "1", "acc"), question="qToxic")
    [choice, *_] = pairs.dexperts_choices(files(toxicity={BATCH: content}))
    assert (choice.aspect, choice.outcome) == ("control", 1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", r"csv:1: no column Answer.qFluent, .*HITId"),
        (batch().replace(",Answer.qFluent", ""), "csv:1: no column Answer.qFluent"),
        (batch(assignment("H1", "1", "abd")), "csv:2: Answer.qFluent: expected a, b or c, .*'d'"),
        (batch(assignment("H1", "1", "ab")), "csv:2: no column Answer.qFluent"),
        (
            batch(assignment("H1", "1", "abc"), assignment("H1", "1", "abc")),
            "csv:4: repeats the assignment of line 2",
        ),
        (
            batch(assignment("H1", "1", "abc"), assignment("H1", "2", "abc", sentb=" sank")),
            "csv:4: HIT H1 has other texts in an earlier row",
        ),
        (batch(assignment("H1", "1", "abc", sourcea="")), "csv:2: expected a prompt and two"),
        (batch().encode() + b'"\xff"', "csv:2: not CSV"),
    ],
)
def test_malformed_batches_are_named_with_file_and_line(files, content, problem):
    with pytest.raises(InputError, match=problem) as caught:
        pairs.dexperts(files(neutral_positive={BATCH: content}))
    assert "\n" not in str(caught.value)


FILES = ["From files: x_R.p, x_A.p, x_RB.p, x_A,B.p"]
ROAD = "The road was closed."
LAKE = "The lake froze"
SUMS: list[list[str]] = [[""] * 16, ["", "A", "1", *[""] * 13], ["done by hand", *[""] * 15]]


def header(*names: str) -> list[str]:
    questions = ("Which is better?", "Fluency of A?", "Fluency of B?")
    return ["A", "B", *(cell for name in names for cell in (*questions, name)), "", ""]


def row(a: str, b: str, key: str, *answers: str) -> list[str]:
    return [a, b, *(cell for answer in answers for cell in (*answer.split(","), "")), "", key]


ROWS = [
    header("Ann", "bo", ""),
    row(ROAD, f"<|endoftext|>{ROAD}", "0_5_4", "A,5,4", "both,4,4", "neither,,3"),
    row("The road, long", f"\n{ROAD} ", "0_2_8", "b,3,5", "B,3,4", ",2,4"),
]


def ablation(rows: Sequence[Sequence[str]] = ROWS, part: str = "positive") -> Mapping[str, str]:
    return {f"pplm_labeled_csvs/{part}.csv": table(rows)}


def test_pplm_texts_are_samples_with_ratings_of_fluency(files):
    samples = pairs.pplm(files(positive=ablation([*ROWS, *SUMS])))
    assert [(s.id, s.system, s.text, s.prompt) for s in samples] == [
        ("positive:0:BC", "BC", ROAD, "The road"),
        ("positive:0:B", "B", ROAD, "The road"),
        ("positive:0:BR", "BR", "The road, long", "The road"),
    ]
    assert samples[0].control == {"sentiment": "positive"}
    assert samples[1].ratings == {"fluency": {"Ann": 4.5, "Bo": 4, "positive:3": 3.5}}
    assert samples[1].extra == {"fluency": {"Ann": [4, 5], "Bo": [4, 4], "positive:3": [3, 4]}}
    assert samples[0].ratings == {"fluency": {"Ann": 5, "Bo": 4}}


def test_pplm_answers_are_choices_and_a_blank_one_is_none(files):
    choices = pairs.pplm_choices(files(positive=ablation()))
    assert [(c.a, c.b, c.outcome, c.rater, c.tie) for c in choices] == [
        ("BC", "B", 1, "Ann", ""),
        ("BC", "B", 0.5, "Bo", "both"),
        ("BC", "B", 0.5, "positive:3", "neither"),
        ("BR", "B", 0, "Ann", ""),
        ("BR", "B", 0, "Bo", ""),
    ]
    assert choices[0].item == "positive:0_5_4"
    assert (choices[0].sample_a, choices[0].sample_b) == ("positive:0:BC", "positive:0:B")
    assert {(c.aspect, c.prompt) for c in choices} == {("control", "The road")}


def test_a_first_row_that_names_files_is_not_a_header(files):
    wide = [*FILES, *[""] * 15]
    two = pairs.pplm_choices(files(positive=ablation([wide, *ROWS])))
    named = [FILES[0], "", *ROWS[0][2:]]
    assert two == pairs.pplm_choices(files(positive=ablation([named, *ROWS[1:]])))
    assert len(two) == 5


def test_texts_that_differ_under_one_number_and_system_are_samples_of_their_own(files):
    rows = [
        *ROWS[:2],
        row(LAKE, f"{ROAD}.", "0_6_9", "a,1,1", "a,1,1", "a,1,1"),
        row("Nothing.", ROAD, "0_7_0", "a,1,1", "a,1,1", "a,1,1"),
    ]
    samples = {s.id: s for s in pairs.pplm(files(space=ablation(rows, "space")))}
    assert samples["space:0:BC:2"].text == f"{ROAD}."
    assert samples["space:0:BR"].prompt == "The lake"
    assert samples["space:0:BCR"].prompt == "The road"
    assert samples["space:0:BCR"].control == {"topic": "space"}
    choices = pairs.pplm_choices(files(space=ablation(rows, "space")))
    assert {c.prompt for c in choices} == {"The road"}


@pytest.mark.parametrize(
    ("rival", "system"),
    [("ctrl", "CTRL"), ("greedy", "weighted decoding"), ("openai", "GPT2-FT-RL")],
)
def test_rivals_are_compared_with_pplm_modulo_two(files, rival, system):
    rows = [ROWS[0], row(ROAD, LAKE, "0_5_4", "a,5,4", "a,4,4", "b,3,3")]
    content = {f"ctrl_wd_openai_csvs/{rival}_negative.csv": table(rows)}
    choices = pairs.pplm_choices(files(**{f"{rival}_negative": content}))
    assert {(c.a, c.b) for c in choices} == {(system, "BCR")}
    [sample, _] = pairs.pplm(files(**{f"{rival}_negative": content}))
    assert sample.control == {"sentiment": "negative"}


GOOD = ROWS[1]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([], "csv:1: expected a header of .*, 15 columns or more; found 0"),
        ([ROWS[0][:9]], "csv:1: expected a header of .*found 9"),
        ([ROWS[0], GOOD[:-1]], "csv:2: expected a key i_j_k in column 16"),
        ([ROWS[0], [*GOOD[:-1], ""]], "csv:2: expected a key i_j_k in column 16"),
        ([ROWS[0], [*GOOD[:-1], "0_1"]], "csv:2: expected a key i_j_k .*found '0_1'"),
        ([ROWS[0], [*GOOD[:-1], "0_4_8"]], "csv:2: the key 0_4_8 names one system twice, B"),
        ([ROWS[0], GOOD, GOOD], "csv:3: repeats the key 0_5_4 of line 2"),
        (
            [ROWS[0], row(ROAD, LAKE, "0_5_4", "c,5,4", "a,4,4", "b,3,3")],
            "csv:2: expected a, b, both or neither, found 'c'",
        ),
        (
            [ROWS[0], row(ROAD, LAKE, "0_5_4", "a,6,4", "a,4,4", "b,3,3")],
            "csv:2: expected a fluency of 1 to 5, found '6'",
        ),
    ],
)
def test_malformed_rows_are_named_with_file_and_line(files, rows, problem):
    for read in (pairs.pplm, pairs.pplm_choices):
        with pytest.raises(InputError, match=problem) as caught:
            read(files(positive=ablation(rows)))
        assert "\n" not in str(caught.value)


def test_a_set_without_choices_names_those_that_have_some():
    with pytest.raises(
        UserError, match=r"ctrleval has no choices .*; these have: dexperts-human, pplm-human"
    ):
        datasets.choices("ctrleval")
