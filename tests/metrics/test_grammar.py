"""Grammatical errors that rules find."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics import grammar
from levelfield.metrics.grammar import GrammarErrors, slips

quire = pytest.importorskip("quire_grammar")

CLEAN = (
    "The lamps in the hall are old.",
    "She bought an orange and a ticket.",
    "It is hard to breathe up here.",
    "He could loosen one of the screws himself.",
    "Their islands are further away than ours.",
    "“Who's there?” asked the porter.",
)
FAULTY = (
    "They was late.",
    "He ate a apple.",
    "We saw the the moon.",
    "The plan has it's own charm.",
    "I like tea , not milk.",
    "The door was locked, we had to wait for her.",
)
sentences = st.lists(st.sampled_from(CLEAN + FAULTY), min_size=1, max_size=5)


def value(text: str, /, *, prompt: str = "", **options) -> float:
    """Returns the errors of one text per 100 words; fails without a value."""
    scores = GrammarErrors(**options).score([Sample("1", text, prompt=prompt)])
    assert scores.undefined == {}
    return float(scores.values[0])


def reason(text: str, /, *, prompt: str = "", **options) -> str:
    """Why a text has no value."""
    scores = GrammarErrors(**options).score([Sample("1", text, prompt=prompt)])
    assert np.isnan(scores.values[0])
    return scores.undefined["1"]


def count(text: str) -> int:
    return len(slips(text))


@pytest.mark.parametrize(
    ("text", "category", "errors", "words"),
    [
        ("They was late.", "agreement", 1, 3),
        ("Its been a well-lit room.", "confusable", 1, 5),
        ("He ate a apple and the the pear.", "mechanics", 2, 8),
        ("The door was locked, we had to wait for her.", "punctuation", 1, 10),
        ("She doesn't read naïve 1990 blurbs.", "mechanics", 0, 5),
    ],
)
def test_errors_are_counted_per_hundred_words_with_a_part_a_category(text, category, errors, words):
    scores = GrammarErrors().score([Sample("1", text)])
    assert scores.values[0] == pytest.approx(100 * errors / words)
    assert scores.parts is not None
    parts = dict(scores.parts.select("part", "score").rows())
    assert set(parts) == {"agreement", "confusable", "mechanics", "punctuation"}
    assert parts.pop(category) == scores.values[0]
    assert set(parts.values()) == {0}


def test_matters_of_style_are_not_errors():
    text = "She said angrily that he saw the door open."
    assert {hit.category for hit in quire.check(text)} == {"style"}
    assert value(text) == 0


def test_the_model_is_not_asked_even_where_it_is_installed(monkeypatch: pytest.MonkeyPatch):
    requests: list[str] = []
    module = sys.modules["quire_grammar.check"]
    monkeypatch.setattr(module, "_model_predict", lambda text: requests.append(text) or [])
    quire.check("The dog bark.")
    assert requests == ["The dog bark."]
    assert value("The dog bark.") == 0
    assert len(requests) == 1


@pytest.mark.parametrize("text", ["", " \n\t", "\u2003"])
def test_a_blank_text_has_no_value(text):
    assert reason(text) == "empty text"


@given(
    st.text(
        st.sampled_from(
            "…!?.,;:'’\"-–() \n0123456789😀👍🏽❤️火山漢字ありがとうقلمשלוםжжгдεψฉันแมว\u0301"
        )
    )
)
def test_a_text_has_a_value_if_and_only_if_it_has_a_word_of_latin_letters(text):
    assert reason(text) == ("no word in the text" if text.strip() else "empty text")
    assert value(f"{text} o") >= 0


def test_other_scripts_and_emoji_among_words_are_neither_words_nor_errors():
    assert value("They was 😀 here 火山 today.") == pytest.approx(100 / 4)
    assert value("I loved it 😀 The food 👍🏽 was great ❤️") == 0


@given(sentences, st.sampled_from(CLEAN))
def test_a_correct_sentence_more_does_not_raise_the_number_of_errors(texts, sentence):
    text = " ".join(texts)
    assert count(f"{text} {sentence}") <= count(text)
    assert count(f"{text}\n{sentence}") == count(text)


@given(sentences)
def test_lines_are_read_by_themselves(texts):
    assert count("\n".join(texts)) == sum(map(count, texts))
    assert count("\n".join(texts)) == sum(text in FAULTY for text in texts)


@given(st.sampled_from(CLEAN), st.data())
def test_a_correct_text_may_be_cut_off_anywhere(text, data):
    cut = text[: data.draw(st.integers(1, len(text)))]
    if any(map(str.isalpha, cut)):
        assert value(f"{CLEAN[0]} {cut}") == 0


@pytest.mark.parametrize(
    "text",
    ["It is hard to breath", "He could loose", "Their is", "It was a on", "We saw the the"],
)
def test_a_half_word_at_the_end_of_a_cut_text_is_not_an_error(text):
    assert value(text) == 0
    assert value(f"{text} end") > 0
    assert value(f"{text}.") > 0


def test_a_text_that_lacks_its_last_mark_is_read_up_to_its_last_word():
    assert value("they was late") == pytest.approx(100 / 3)
    assert value("“They was late.”") == 0  # speech
    assert value("(They was.)") == pytest.approx(100 / 2)


def test_of_a_continuation_the_errors_of_the_prompt_do_not_count():
    read = {"text": "continuation"}
    prompt = "They was late and he ate a"
    assert value(f"{prompt} pear.", prompt=prompt, **read) == 0
    assert value(f"{prompt} apple.", prompt=prompt, **read) == 100
    assert value(f"{prompt} pear.", prompt=prompt) == pytest.approx(100 / 8)
    assert reason(f"{prompt} ...", prompt=prompt, **read) == "no word in the continuation"
    assert reason(prompt, prompt=prompt, **read) == "nothing after the prompt"
    assert reason("He left.", prompt=prompt, **read) == "prompt is not a prefix of the text"
    assert reason("He left.", **read) == "no prompt"
    assert GrammarErrors(**read).requires == {"text", "prompt"}


@pytest.mark.parametrize(
    "text", ["The plan has it's own charm.", "He don't know who's fault it is."]
)
def test_an_apostrophe_may_be_straight_or_curly(text):
    assert count(text) > 0
    assert slips(text.replace("'", "’")) == slips(text)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("That is fine :) Thanks.", "That is fine : thanks."),
        ("So happy :D here.", "So happy :Dogs here."),
        ("See www.example.org or a.example@mail.test now.", "See this.Or that now."),
        ("He left. Which way did he go then?", "He left. Which way did he go then."),
        ("An 8-hour day and an r-rated film.", "An day and an film."),
        ("It lost 4-6 6-4 in two.", "It lost lost in two."),
        ("Smith Corp. said so.", "The Corporation. said so."),
    ],
)
def test_what_the_rules_often_take_for_an_error_is_none(right, wrong):
    assert count(right) == 0
    assert count(wrong) > 0


def test_blanks_around_marks_can_be_ignored_in_texts_split_into_tokens():
    text = "we was late , and it rained ."
    assert value(text) == pytest.approx(300 / 6)
    assert value(text, spacing="ignore") == pytest.approx(100 / 6)


@given(
    st.lists(
        st.sampled_from(["a b. ", " ", "\n", "x" * 6000, "\u2028", "He left. " * 700, "oh " * 2000])
    )
)
def test_passages_are_short_and_make_up_the_text(pieces):
    text = "".join(pieces)
    passages = list(grammar._passages(text))
    assert "".join(passage for _, passage in passages) == text
    assert all(text.startswith(passage, start) for start, passage in passages)
    assert all(0 < len(passage) <= 5000 for _, passage in passages)


def test_an_error_far_into_a_long_text_is_found_where_it_stands():
    text = "The lamp is old. " * 700 + "They was late."
    (slip,) = slips(text)
    assert text[slip.start : slip.end] == "was"
    assert value(text) == pytest.approx(100 / (700 * 4 + 3))


def test_the_signature_names_the_rules_and_every_choice():
    assert GrammarErrors().signature.startswith(
        f"fluency.grammar|rules:quire-grammar-{metadata.version('quire-grammar')}"
        "|categories:agreement+confusable+mechanics+punctuation|spacing:count|text:whole|v:"
    )
    assert "|spacing:ignore|" in GrammarErrors(spacing="ignore").signature
    assert "|text:continuation|" in GrammarErrors(text="continuation").signature


def test_fewer_errors_are_better():
    assert GrammarErrors().direction == "lower"


def test_without_the_rules_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(UserError, match="install levelfield with the extra grammar"):
        GrammarErrors().score([Sample("1", "They was late.")])


def test_the_rules_are_imported_only_when_a_text_is_read():
    code = (
        "import sys, levelfield, levelfield.cli.score\n"
        "from levelfield.metrics import GrammarErrors\n"
        "GrammarErrors().signature\n"
        "assert 'quire_grammar' not in sys.modules\n"
        "levelfield.score([{'id': '1', 'text': 'Oh.'}], 'fluency.grammar', cache=False)\n"
        "assert 'quire_grammar' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
