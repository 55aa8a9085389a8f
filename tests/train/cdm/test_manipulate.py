"""Where strategies cut, and what happens with what is written instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from levelfield.core.errors import UserError
from levelfield.models.contracts import Gapped
from levelfield.train.cdm import manipulate as module
from levelfield.train.cdm.manipulate import (
    LOCATORS,
    Cut,
    Document,
    Edit,
    Manipulated,
    Strategy,
    gapped,
    manipulate,
    mixed,
    segment,
    strategy,
    utterance,
    words_of,
)

DIALOGUE = ("Hello there!", "", "Have you been to the new museum by the river?", "No 👍🏽", "  ")
documents = st.lists(
    st.text(st.sampled_from("ab \t👍火.é"), max_size=60), min_size=0, max_size=5
).map(tuple)


class Writer:
    """An infiller that writes what a function says, and notes what it was asked."""

    def __init__(self, write: Callable[[Gapped, tuple[int, ...]], str], sees_right: bool = True):
        self.write, self.sees_right = write, sees_right
        self.asked: list[tuple[Gapped, tuple[int, ...]]] = []

    def infill(
        self, sources: Sequence[Gapped], *, seed: int, max_tokens: int, keys: Any
    ) -> list[str]:
        assert (seed, max_tokens) == (7, 30)
        self.asked += zip(sources, keys, strict=True)
        return [self.write(source, key) for source, key in zip(sources, keys, strict=True)]


def run(
    texts: Sequence[Document], writer: Writer, name: str | Strategy, **options: Any
) -> list[Manipulated]:
    chosen = strategy(name) if isinstance(name, str) else name
    options = {"indices": range(len(texts)), **options}
    return manipulate(texts, writer, chosen, seed=7, max_tokens=30, **options)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(documents, st.integers(0, 2**32))
def test_a_segment_is_one_to_twenty_whole_words_of_one_turn(document: Document, seed: int):
    cut = segment(document, rng(seed))
    words = [words_of(turn) for turn in document]
    if cut is None:
        assert not any(words)
        return
    within = [w for w in words[cut.turn] if cut.begin <= w[0] and w[1] <= cut.end]
    assert 1 <= len(within) <= 20
    assert (within[0][0], within[-1][1]) == (cut.begin, cut.end)


@given(documents, st.integers(0, 2**32))
def test_an_utterance_is_a_whole_turn_that_is_not_blank(document: Document, seed: int):
    cut = utterance(document, rng(seed))
    if cut is None:
        assert not any(turn.strip() for turn in document)
    else:
        assert document[cut.turn].strip()
        assert (cut.begin, cut.end) == (0, len(document[cut.turn]))


def test_all_runs_of_words_are_equally_likely():
    document = ("a b c", "", "d e")
    runs = {"a", "b", "c", "a b", "b c", "a b c", "d", "e", "d e"}
    source = rng()
    counts: Counter[str] = Counter()
    for _ in range(4500):
        cut = segment(document, source)
        assert cut is not None
        counts[document[cut.turn][cut.begin : cut.end]] += 1
    assert counts.keys() == runs
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_mixed_cuts_are_segments_and_utterances_in_equal_parts():
    document = (" ".join("abcdefghijklmnopqrstuvwxyz"),)  # 26 words: no segment is the turn
    source = rng()
    whole = sum(mixed(document, source) == Cut(0, 0, 51) for _ in range(2000))
    assert chisquare([whole, 2000 - whole]).pvalue > 1e-3


def test_words_of_scripts_without_blanks_are_single_characters():
    text = "火山 在 Île-de-France"
    assert [text[a:b] for a, b in words_of(text)] == ["火", "山", "在", "Île-de-France"]


def test_a_gap_has_the_turns_around_it_on_lines_of_their_own():
    turns = ["One.", "Two three four.", "Five."]
    assert gapped(turns, Cut(1, 4, 9)) == Gapped("One.\nTwo ", " four.\nFive.")
    assert gapped(turns, Cut(1, 0, 15)) == Gapped("One.\n", "\nFive.")
    assert gapped(turns, Cut(0, 0, 4), " </UTT> ").right == " </UTT> Two three four. </UTT> Five."


@given(documents, st.sampled_from([f"{n}-{t}" for n in LOCATORS for t in ("single", "multi")]))
def test_edits_one_after_the_other_lead_from_the_positive_to_the_negative(
    document: Document, name: str
):
    writer = Writer(lambda _, key: f"new {key[1]}")
    (manipulated,) = run([document], writer, name)
    now = list(document)
    for (turn, begin, end), old, new in manipulated.edits:
        assert now[turn][begin:end] == old
        now[turn] = now[turn][:begin] + new + now[turn][end:]
    assert tuple(now) == manipulated.turns
    assert len(manipulated.turns) == len(document)
    assert len(manipulated.edits) <= (1 if name.endswith("single") else 4)
    assert bool(manipulated.edits) == any(turn.strip() for turn in document)


def test_multi_manipulates_one_to_four_times_equally_often():
    documents = run([DIALOGUE] * 2000, Writer(lambda _, key: f"new {key}"), "mixed-multi")
    times = Counter(len(document.edits) for document in documents)
    assert times.keys() == {1, 2, 3, 4}
    assert chisquare(list(times.values())).pvalue > 1e-3
    single = run([DIALOGUE] * 50, Writer(lambda _, key: f"new {key}"), "mixed-single")
    assert {len(document.edits) for document in single} == {1}


def test_what_is_written_again_word_for_word_is_tried_again_and_then_left_and_marked():
    def echo(_: Gapped, key: tuple[int, ...]) -> str:
        return "other words" if key[0] == 1 and key[2] == 3 else " Same \n"

    writer = Writer(echo)
    texts = [("Same",), ("Same",)]
    never, finally_changed = run(texts, writer, "utterance-single", tries=5)
    assert never == Manipulated(("Same",), (Edit(Cut(0, 0, 4), "Same", "Same"),))
    assert finally_changed.turns == ("other words",)
    assert [key for _, key in writer.asked if key[0] == 0] == [(0, 0, t) for t in range(5)]
    assert [key for _, key in writer.asked if key[0] == 1] == [(1, 0, t) for t in range(4)]


@pytest.mark.parametrize("nothing", ["", "  ", "\nA turn of its own"])
def test_writing_nothing_leaves_the_text(nothing: str):
    (document,) = run([("Some words here",)], Writer(lambda *_: nothing), "segment-single")
    assert document.turns == ("Some words here",)
    assert document.edits[0].old == document.edits[0].new


def test_other_blanks_between_the_same_words_are_not_a_change():
    document = ("Same  words\there",)
    (manipulated,) = run([document], Writer(lambda *_: "Same words here"), "utterance-single")
    assert manipulated.turns == document


def test_what_is_written_stays_within_its_turn():
    (document,) = run([("Some",)], Writer(lambda *_: "x y\nz"), "utterance-single")
    assert document.turns == ("x y",)
    (document,) = run(
        [("Some",)], Writer(lambda *_: "x y</UTT>z"), "utterance-single", separator="</UTT>"
    )
    assert document.turns == ("x y",)


def test_sentences_joined_by_a_blank_are_written_again_whole():
    writer = Writer(lambda *_: "Several new words.")
    (document,) = run([("One. ", "Two.")], writer, "utterance-single", separator=" ", indices=[3])
    assert "Several new words." in document.turns
    (document,) = run([("Some", "words")], writer, "utterance-single", separator="")
    assert "Several new words." in document.turns


def test_a_model_that_reads_the_left_side_only_writes_as_many_words_as_were_there():
    text = (" ".join(f"w{i}" for i in range(40)),)

    def endless(*_: Any) -> str:
        return "x " * 60

    for index in range(20):
        blind = Writer(endless, sees_right=False)
        (document,) = run([text], blind, "segment-single", indices=[index])
        assert len(document.turns[0].split()) == 40
    (document,) = run([text], Writer(endless, sees_right=False), "utterance-single")
    assert document.turns == (" ".join(["x"] * 60),)


def test_a_document_is_manipulated_alike_whatever_others_are_with_it():
    texts = [DIALOGUE, ("one",), (), ("Same 👍🏽 as ever", "Same"), DIALOGUE]
    together = run(texts, Writer(lambda _, key: f"new {key}"), "mixed-multi")
    for i, text in enumerate(texts):
        writer = Writer(lambda _, key: f"new {key}")
        assert run([text], writer, "mixed-multi", indices=[i]) == [together[i]]
    assert together[0] != together[4]


@pytest.mark.parametrize("empty", [(), ("",), ("  ", "\t")])
def test_a_document_without_text_has_nothing_to_cut(empty: Document):
    writer = Writer(lambda *_: "new")
    assert run([empty], writer, "mixed-multi") == [Manipulated(empty, ())]
    assert writer.asked == []


def test_other_packages_bring_locators_by_entry_points(monkeypatch: pytest.MonkeyPatch):
    entry = EntryPoint("amr", "levelfield.train.cdm.manipulate:utterance", module.GROUP)
    broken = EntryPoint("broken", "no_such_module:thing", module.GROUP)

    def installed(group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == "levelfield.locators"
        return [point for point in (entry, broken) if name in (None, point.name)]

    monkeypatch.setattr(module, "entry_points", installed)
    assert strategy("amr-multi") == Strategy("amr-multi", utterance, 4)
    with pytest.raises(UserError, match="locator 'broken' can't be loaded from no_such_module"):
        strategy("broken-single")
    with pytest.raises(UserError, match=r"no locator 'srl'; there are .*, amr, broken; "):
        strategy("srl-single")


@pytest.mark.parametrize("name", ["segment", "", "-", "single", "segment-twice"])
def test_strategies_that_are_none_are_refused_with_those_there_are(name: str):
    with pytest.raises(UserError, match="segment, utterance, mixed"):
        strategy(name)


def test_the_papers_four_strategies_are_there():
    names = ("segment-single", "utterance-single", "mixed-single", "mixed-multi")
    assert [(strategy(n).locate, strategy(n).most) for n in names] == [
        (segment, 1),
        (utterance, 1),
        (mixed, 1),
        (mixed, 4),
    ]


@pytest.mark.parametrize("cut", [Cut(3, 0, 1), Cut(0, 2, 2), Cut(0, 0, 99), Cut(-1, 0, 1)])
def test_a_locator_that_cuts_where_no_text_is_is_named(cut: Cut):
    wrong = Strategy("amr-single", lambda *_: cut)
    with pytest.raises(UserError, match="locator of strategy 'amr-single' cuts"):
        run([("Some", "words")], Writer(lambda *_: "new"), wrong)
