"""Steps from an answer to a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.study.cells import CellRequest
from levelfield.study.postprocess import STEPS, parse_step, process


def request(prompt: str = "The lake", **labels: str | tuple[str, ...]) -> CellRequest:
    return CellRequest("1:a", prompt, labels, labels, "d", 1)


ARGUMENTS = {"MARK": "a", "N": "1", "START...END": "a...b", "": ""}
EVERY_STEP = [s.form.replace(s.argument, ARGUMENTS[s.argument]) for s in STEPS.values()]


@pytest.mark.parametrize(
    ("system", "steps", "raw", "input", "text"),
    [
        ("CTRL", ["strip-label"], "Fitness The lake is", "", "The lake is"),
        ("CTRL", ["strip-words:1"], "Legal The lake is", "", "The lake is"),
        (
            "CAT-PAW",
            ["strip-start:<|endoftext|>"],
            "<|endoftext|>The lake<|endoftext|>",
            "",
            "The lake<|endoftext|>",
        ),
        (
            "PPLM",
            ["strip-start:<|endoftext|>", "strip-label"],
            "<|endoftext|>Fitness:The lake is",
            "",
            "The lake is",
        ),
        (
            "Falcon",
            ["strip-input", "between:Falcon:...User:", "strip"],
            "System: write\nUser: a lake\nFalcon: The lake is\nUser: more\nFalcon: no",
            "System: write\nUser: a lake\n",
            "The lake is",
        ),
        ("LLaMA", ["strip-input"], "[INST] a [/INST]The lake", "[INST] a [/INST]", "The lake"),
        ("GeDi", ["cut-at:<|endoftext|>"], "The lake is<|endoftext|>A mine", "", "The lake is"),
        ("DExperts", [], " as it is\n", "", " as it is\n"),
    ],
)  # fmt: skip
def test_the_published_post_processing_can_be_written_as_steps(system, steps, raw, input, text):
    assert process(steps, raw, request(topic="Fitness"), input) == text, system


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("positive: It is", "It is"),
        ("positive The lake", "The lake"),
        (" positive:\nIt is", "It is"),
        ("positive", ""),
        ("positively so", "positively so"),
        ("It is positive", "It is positive"),
        (": It is", ": It is"),
        ("", ""),
    ],
)
def test_a_label_is_stripped_only_as_a_word_at_the_start(raw, text):
    assert process(["strip-label"], raw, request(sentiment="positive")) == text


def test_labels_of_several_attributes_are_stripped_together_or_not_at_all():
    request_of_two = request(sentiment="very_positive", topic="space")
    assert process(["strip-label"], "very_positive space:The lake", request_of_two) == "The lake"
    assert process(["strip-label"], "very_positive, space The lake", request_of_two) == "The lake"
    assert (
        process(["strip-label"], "very_positive: The lake", request_of_two)
        == "very_positive: The lake"
    )


def test_a_prompt_that_begins_with_the_label_keeps_it():
    science = request("Science is", topic="Science")
    assert process(["strip-label"], "Science is fun", science) == "Science is fun"
    assert process(["strip-label"], "Science Science is fun", science) == "Science is fun"


def test_without_labels_there_is_no_label_to_strip():
    assert process(["strip-label"], " : so", request()) == " : so"


@pytest.mark.parametrize(
    ("raw", "input", "text"),
    [
        ("Write: so", "Write:", " so"),
        ("\n Write: so", "Write:", " so"),
        ("Write: so", "Write:\n", " so"),
        ("I say Write: so", "Write:", "I say Write: so"),
        ("Write: so", "", "Write: so"),
        ("Write: so", " \n", "Write: so"),
    ],
)
def test_the_input_is_stripped_only_at_the_start(raw, input, text):
    assert process(["strip-input"], raw, request(), input) == text


@pytest.mark.parametrize(
    ("prompt", "raw", "text"),
    [
        ("The lake", "is blue", "The lake is blue"),
        ("The lake", " is blue", "The lake is blue"),
        ("The lake", ", blue,", "The lake, blue,"),
        ("The lake ", "is blue", "The lake is blue"),
        ("The lake", "The lake is blue", "The lake is blue"),
        ("The lake", "\nThe lake is blue", "The lake is blue"),
        ("The lake", "The lakes are blue", "The lakes are blue"),
        ("The lake", "", ""),
        ("The lake", " \n", " \n"),
        ("", "is blue", "is blue"),
        ("湖は", "青い", "湖は青い"),
        ("ทะเลสาบ", "สวย", "ทะเลสาบสวย"),
        ("호수는", "푸르다", "호수는 푸르다"),
        ("The lake", "🎉", "The lake 🎉"),
    ],
)
def test_the_prompt_is_put_in_front_of_a_continuation(prompt, raw, text):
    assert process(["add-prompt"], raw, request(prompt)) == text


@pytest.mark.parametrize(
    ("step", "raw", "text"),
    [
        ("strip-start:<s>", "<s> <s>a<s>", "a<s>"),
        ("strip-words:2", "one  two three\nfour", "three\nfour"),
        ("strip-words:2", "one two", ""),
        ("strip-preface", "Sure! Here is a story:\n\nThe lake", "The lake"),
        ("strip-preface", "Sure, he said: yes", "Sure, he said: yes"),
        ("strip-preface", "Surely so:\nyes", "Surely so:\nyes"),
        ("strip-thought", "<think>\nA lake, say.\n</think>\n\nThe lake", "The lake"),
        ("strip-thought", " <Thinking>x</Thinking> a <think>b</think>", "a <think>b</think>"),
        ("strip-thought", "A lake, say.</think>\n\nThe lake", "The lake"),
        ("strip-thought", "<think>A lake that never", ""),
        ("strip-thought", "The word <think> is a tag</think>", "The word <think> is a tag</think>"),
        ("strip-thought", "a < b", "a < b"),
        ("strip-special-tokens", "<s>a</s><pad><|im_end|>[INST]b<unk>", "ab<unk>"),
        ("strip-special-tokens", "a <b> [c] <|", "a <b> [c] <|"),
        ("cut-at:\nUser:", "a User:\nUser: b", "a User:"),
        ("cut-at:User:", "User: b", ""),
        ("between:A:...B:", "x A: y B: z", " y "),
        ("between:A:...B:", "y B: A: z", " z"),
        ("between:A:...B:", "x A: y", " y"),
        ("between:A:...B:", "y B: z", "y "),
        ("between:A:...B:", "y", "y"),
        ("first-line", "\n\n one\ntwo", "one"),
        ("first-line", " \n", ""),
        ("strip", " a b\n", "a b"),
        ("collapse-blanks", " a \n\t b\u00a0c ", "a b c"),
    ],
)
def test_a_step_does_what_it_says(step, raw, text):
    assert process([step], raw, request()) == text


@given(
    raw=st.text() | st.text(st.sampled_from("ab: \n<>|s.")),
    step=st.sampled_from(EVERY_STEP),
    given_up_to=st.integers(0, 5),
)
def test_a_step_only_takes_away(raw, step, given_up_to):
    text = process([step], raw, request("", topic="a"), input=raw[:given_up_to])
    # one blank in place of another does not add a character
    rest = iter(" " if c.isspace() else c for c in raw)
    assert all((" " if c.isspace() else c) in rest for c in text)


@given(st.text(), st.sampled_from(EVERY_STEP))
def test_nothing_stays_nothing(prompt, step):
    assert process([step], "", request(prompt, topic="a")) == ""


@given(prompt=st.text(), raw=st.text())
def test_with_the_prompt_in_front_a_text_begins_with_it_and_loses_no_word(prompt, raw):
    text = process(["add-prompt"], raw, request(prompt))
    assert not raw.strip() or text.startswith(prompt)
    assert text.endswith(raw.lstrip())


def test_every_step_is_documented_in_its_own_words():
    file = Path(__file__).parents[2] / "docs" / "study-file.md"
    documented = file.read_text(encoding="utf-8").replace("\\|", "|")
    for step in STEPS.values():
        assert f"| `{step.form}` | {step.effect} |" in documented


def test_steps_run_in_the_order_they_are_named():
    raw = "<s>positive: a"
    steps = ["strip-special-tokens", "strip-label"]
    assert process(steps, raw, request(sentiment="positive")) == "a"
    assert process(steps[::-1], raw, request(sentiment="positive")) == "positive: a"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("strip-lable", 'no step "strip-lable"; did you mean strip-label'),
        ("cut", 'no step "cut"; did you mean cut-at:MARK'),
        ("", 'no step ""; there are strip-input, '),
        ("cut-at", "expected cut-at:MARK"),
        ("cut-at:", "expected cut-at:MARK"),
        ("strip-words:0", "expected strip-words:N"),
        ("strip-words:99999999999999999999", "expected strip-words:N"),
        ("strip-words:two", "expected strip-words:N"),
        ("between:a", r"expected between:START\.\.\.END"),
        ("between:a...", "expected between"),
        ("between:a...b...c", "expected between"),
        ("strip:x", "step strip takes no argument"),
    ],
)
def test_a_step_that_is_none_is_refused(word, expected):
    with pytest.raises(UserError, match=expected):
        parse_step(word)
    with pytest.raises(UserError, match=expected):
        process([word], "a", request())
