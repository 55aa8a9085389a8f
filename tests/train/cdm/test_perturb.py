"""Perturbations: each does what it says, never gives the text back, depends on its seed only."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from levelfield.cli.train import perturb as command
from levelfield.core.errors import UserError
from levelfield.train.cdm import negation
from levelfield.train.cdm.perturb import (
    drop,
    make_perturbed,
    negate,
    perturb,
    repeat,
    shuffle,
    substitute,
)

ALL = ("shuffle", "drop", "repeat", "negate", "substitute")
SENTENCES = ("The barge left.", "It rained all week!", "Who would pay?", "She waved.")
TEXT = "  ".join(SENTENCES)
DIALOGUE = "Hello, you.\nHi! How was it?\nIt was fine. I slept."
OTHER = "Snow fell on the roofs. Nobody spoke."


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def outcomes(perturbation, text: str, n: int = 300, **options: str) -> set[str | None]:
    generator = rng()
    return {perturbation(text, generator, **options) for _ in range(n)}


texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*SENTENCES, "🙂🙂", "是的。好。", "\n", " \t", "a"]), max_size=6).map(
        " ".join
    ),
)


@given(texts, st.integers(0, 2**32), st.lists(st.sampled_from(ALL), min_size=1, unique=True))
def test_a_negative_is_never_its_positive_and_names_what_was_done(text, seed, kinds):
    negative, applied = perturb(text, rng(seed), kinds, times=3, other=OTHER)
    assert (negative is None) == (not applied)
    assert negative != text
    assert set(applied) <= set(kinds)
    assert len(applied) <= 3


@given(texts, st.integers(0, 2**32))
def test_every_perturbation_takes_any_text_and_gives_the_same_for_the_same_seed(text, seed):
    for perturbation in (shuffle, drop, repeat, negate):
        assert perturbation(text, rng(seed)) == perturbation(text, rng(seed))
    assert substitute(text, rng(seed), other=OTHER) == substitute(text, rng(seed), other=OTHER)


@given(texts, st.integers(0, 2**32))
def test_shuffling_keeps_every_character(text, seed):
    shuffled = shuffle(text, rng(seed))
    assert shuffled is None or Counter(shuffled) == Counter(text)


@given(texts, st.integers(0, 2**32))
def test_repeating_adds_and_dropping_takes_away(text, seed):
    longer, shorter = repeat(text, rng(seed)), drop(text, rng(seed))
    assert (longer is None) == (not text.strip())
    assert longer is None or len(longer) > len(text)
    assert shorter is None or len(shorter) < len(text)


def test_shuffling_reaches_every_other_order_and_leaves_the_blanks_where_they_were():
    texts = outcomes(shuffle, "One. Two.   Three.")
    assert texts == {
        "One. Three.   Two.",
        "Two. One.   Three.",
        "Two. Three.   One.",
        "Three. One.   Two.",
        "Three. Two.   One.",
    }


@pytest.mark.parametrize("text", ["", " \n", "One sentence only.", "Ha. Ha. Ha.", "🙂", "word"])
def test_what_has_no_two_different_units_is_not_shuffled(text):
    assert shuffle(text, rng()) is None


def test_the_units_of_a_dialogue_are_its_turns():
    turns = DIALOGUE.split("\n")
    assert {frozenset(dialogue.split("\n")) for dialogue in outcomes(shuffle, DIALOGUE)} == {
        frozenset(turns)
    }
    assert outcomes(drop, DIALOGUE) == {f"{turns[0]}\n{turns[2]}"}


def test_only_sentences_between_others_are_dropped():
    a, b, c, d = SENTENCES
    assert outcomes(drop, TEXT) == {f"{a}  {c}  {d}", f"{a}  {b}  {d}"}
    assert drop("One. Two.", rng()) is None


def test_a_repeated_sentence_or_run_of_words_follows_itself():
    texts = outcomes(repeat, "We ate. Then we slept well.", 2000)
    assert texts == {
        "We ate. We ate. Then we slept well.",
        "We ate. Then we slept well. Then we slept well.",
        "We We ate. Then we slept well.",
        "We ate. ate. Then we slept well.",
        "We ate. Then Then we slept well.",
        "We ate. Then we we slept well.",
        "We ate. Then we slept slept well.",
        "We ate. Then we slept well. well.",
        "We ate. Then we Then we slept well.",
        "We ate. Then we slept we slept well.",
        "We ate. Then we slept well. slept well.",
        "We ate. Then we slept Then we slept well.",
        "We ate. Then we slept well. we slept well.",
    }


def test_where_a_script_has_no_blanks_none_are_put_in():
    assert outcomes(repeat, "火山") == {"火火山", "火山山", "火山火山", "火山 火山"}


def test_a_substitute_is_a_sentence_of_the_other_text_in_the_place_of_one():
    texts = outcomes(substitute, "We ate. We slept.", other=OTHER)
    assert texts == {
        "Snow fell on the roofs. We slept.",
        "Nobody spoke. We slept.",
        "We ate. Snow fell on the roofs.",
        "We ate. Nobody spoke.",
    }
    assert substitute("We ate.", rng(), other=OTHER) is None
    assert substitute("We ate. We slept.", rng(), other="We slept.") is None
    assert substitute("We ate. We slept.", rng(), other="") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He didn't bark.", {"He barked."}),
        ("She doesn’t mind it.", {"She minds it."}),
        ("They do not know.", {"They know."}),
        ("Don't go there.", {"Go there."}),
        ("We can't swim.", {"We can swim."}),
        ("It won't rain.", {"It will rain."}),
        ("One cannot know.", {"One can know."}),
        ("He never came.", {"He came."}),
        ("Not everyone left.", {"Everyone left."}),
        ("The dog was wet.", {"The dog was not wet."}),
        ("Dogs can swim.", {"Dogs cannot swim."}),
        ("In May it may rain.", {"In May it may not rain."}),
        ("Is Ann here?", {"Isn't Ann here?"}),
        ("Ann has eaten.", {"Ann has not eaten."}),
        ("She saw Ann.", {"She didn't see Ann."}),
        ("She sees Ann.", {"She doesn't see Ann."}),
        ("We see Ann.", {"We don't see Ann."}),
        ("I have a car.", {"I don't have a car."}),
        ("He did it.", {"He didn't do it."}),
        ("You’re late.", {"You’re not late."}),
        ("We'll wait.", {"We won't wait."}),
        ("It is late and I wept.", {"It is not late and I wept.", "It is late and I didn't weep."}),
    ],
)
def test_negation_puts_one_in_or_takes_one_out_wherever_it_can(text, expected):
    assert outcomes(negate, text, 50) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The dog barked.",
        "Did you go?",
        "Not only that.",
        "Er kam nicht.",
        "是的。",
        "May Will ?",
    ],
)
def test_what_the_rules_do_not_know_is_left_alone(text):
    assert negate(text, rng()) is None


def test_a_kind_that_does_not_apply_gives_way_to_one_that_does():
    for seed in range(20):
        negative, applied = perturb("The dog barked.", rng(seed), ALL, other=OTHER)
        assert applied == ("repeat",)
        assert negative
    assert perturb("The dog barked.", rng(), ("negate", "shuffle")) == (None, ())


def test_the_number_of_perturbations_is_uniform_from_one_to_times():
    generator = rng()
    counts = Counter(len(perturb(TEXT, generator, ("repeat",), times=3)[1]) for _ in range(1500))
    assert set(counts) == {1, 2, 3}
    assert max(counts.values()) - min(counts.values()) < 150


def test_a_twin_depends_on_the_seed_its_place_and_the_document_before_only():
    documents = [(str(i), f"{TEXT} Number {i} came last.") for i in range(12)]
    twins = list(make_perturbed(documents, ALL, seed=1, times=2))
    assert twins == list(make_perturbed(iter(documents), ALL, seed=1, times=2))
    assert twins != list(make_perturbed(documents, ALL, seed=2, times=2))
    assert twins[:7] == list(make_perturbed(documents[:7], ALL, seed=1, times=2))
    assert [(twin.id, twin.positive) for twin in twins] == documents
    assert all(twin.negative not in (None, twin.positive) for twin in twins)


def test_documents_that_can_not_be_perturbed_are_there_without_a_negative():
    twins = list(make_perturbed([("a", "Ha."), ("a", TEXT), ("", "")], ["shuffle"], seed=0))
    assert [twin.negative is None for twin in twins] == [True, False, True]
    assert twins[0] == ("a", "Ha.", None, ())


def test_the_first_document_takes_its_substitute_from_the_second():
    (first, _) = make_perturbed([("1", "We ate. We slept."), ("2", OTHER)], ["substitute"], seed=0)
    assert any(sentence in first.negative for sentence in ("Snow fell on the roofs", "Nobody"))
    alone = list(make_perturbed([("1", "We ate. We slept.")], ["substitute"], seed=0))
    assert alone[0].negative is None
    assert list(make_perturbed([], ["substitute"], seed=0)) == []


@pytest.mark.parametrize(
    ("kinds", "times", "seed", "complaint"),
    [
        (["shuffel"], 1, 0, "shuffle, drop, repeat, negate, substitute, got 'shuffel'"),
        ([], 1, 0, "got none"),
        (["drop"], 0, 0, "times 0"),
        (["drop"], 1, -1, "seed -1"),
    ],
)
def test_wrong_choices_are_refused_in_one_line(kinds, times, seed, complaint):
    with pytest.raises(UserError, match=complaint) as raised:
        list(make_perturbed([("a", TEXT)], kinds, seed=seed, times=times))
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_long_text_with_many_places_takes_no_quadratic_time():
    edits = list(negation._edits("It was late. " * 20_000))
    assert len(edits) == 20_000


def test_the_command_writes_negatives_and_counts_what_it_left_out(tmp_path: Path):
    corpus, out = tmp_path / "corpus.txt", tmp_path / "negatives.jsonl"
    corpus.write_text(f"{TEXT}\n\nHa.\n\n{DIALOGUE}\n", encoding="utf-8")
    words = [str(corpus), "--out", str(out), "--kinds", "shuffle, drop", "--seed", "3"]
    ran = CliRunner().invoke(command, words)
    assert ran.exit_code == 0, ran.output
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    expected = make_perturbed(
        [("0", TEXT), ("1", "Ha."), ("2", DIALOGUE)], ["shuffle", "drop"], seed=3
    )
    assert rows == [
        {**twin._asdict(), "kinds": list(twin.kinds)}
        for twin in expected
        if twin.negative is not None
    ]
    assert [row["id"] for row in rows] == ["0", "2"]
    assert "nothing can be perturbed: 1" in ran.stderr


def test_a_corpus_without_anything_to_perturb_is_refused_and_leaves_no_file(tmp_path: Path):
    corpus, out = tmp_path / "corpus.txt", tmp_path / "negatives.jsonl"
    for text in ("", "Ha.\n"):
        corpus.write_text(text, encoding="utf-8")
        ran = CliRunner().invoke(command, [str(corpus), "--out", str(out), "--kinds", "shuffle"])
        assert isinstance(ran.exception, UserError)
        assert "texts of the corpus can be perturbed by shuffle" in str(ran.exception)
        assert not out.exists()
