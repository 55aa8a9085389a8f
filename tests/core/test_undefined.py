"""The words of the reasons are in users' files: none may change."""

from __future__ import annotations

import pytest

from levelfield.core import undefined

CONSTANTS = {
    "IMPOSSIBLE": "the model finds a token impossible",
    "EMPTY_TEXT": "empty text",
    "EMPTY_SOURCE": "empty source",
    "NO_REFERENCES": "no references",
    "NO_PROMPT": "no prompt",
    "NO_CONTEXT": "no context",
    "NOT_A_PREFIX": "prompt is not a prefix of the text",
    "NOTHING_AFTER": "nothing after the prompt",
    "ONE_SENTENCE": "one sentence only",
    "ONE_TURN": "one turn only",
    "NO_KEYWORDS": "control has no keywords",
    "ONE_TOKEN": "one token only, and the model reads nothing before it",
    "NO_STYLE": "no wanted style",
    "NO_ATTRIBUTE": "no judged attribute",
    "ONE_ATTRIBUTE": "one attribute only",
    "NO_MAJORITY": "no majority of the judges",
    "JUDGE_CANT_READ": "a judge can't read the text",
    "UNREADABLE": "nothing in it that the model has tokens for",
    "PROBABILITIES_NOT_NUMBERS": "the model gives probabilities that are not numbers",
    "STATES_NOT_NUMBERS": "the model gives states that are not numbers",
    "PROMPT_TOO_LONG": "the prompt is longer than the model takes",
    "FIRST_SENTENCE_TOO_LONG": "the first sentence is as long as what the model takes",
    "CERTAIN_ALONE": (
        "a part of the text is certain by itself, so that nothing can make it likelier"
    ),
    "QUESTION_TOO_LONG": "the question alone is longer than the model takes",
    "LABEL_WITHOUT_TOKEN": "a label's word has no token of the model",
    "NO_MASS": "no number of the scale has any probability",
    "UNRESOLVED": (
        "the server's log-probabilities don't tell a number from a longer one, as 1 from 10"
    ),
    "NO_TOKEN": "no token in the text",
    "NO_TEXT_WITH_TOKEN": "no text has a token",
    "NO_VECTOR": "no word that has a vector",
    "NO_WEIGHT": "every token has idf 0",
    "NOT_SOLVED": "the optimal transport was not solved",
    "NO_SAMPLES": "no samples",
    "NO_TEXT_WITH_VALUE": "no text of the group has a value",
    "ONE_PROMPT": "one prompt a dataset",
    "ONE_SEED": "one seed",
    "NO_COMPLETE_SEEDS": "no two seeds have every dataset",
    "ONLY_CELLS": "only values of whole cells are known",
    "OF_CORPUS": "a value of a corpus: it has no single texts",
}

FUNCTIONS = [
    (undefined.undefined_parts({"a": "empty text", "b": "empty text"}), "empty text"),
    (
        undefined.undefined_parts({"a": "empty text", "b": "no prompt", "c": "no prompt"}),
        "a: empty text; b, c: no prompt",
    ),
    (undefined.no_field("source"), "no source"),
    (undefined.no_control("topic"), "control has no topic"),
    (undefined.no_control_among(["sentiment", "topic"]), "control names none of: sentiment, topic"),
    (
        undefined.several_controls(["sentiment", "topic"]),
        "control names several attributes: sentiment, topic",
    ),
    (undefined.several_wanted("topic"), "several values wanted for topic"),
    (undefined.unknown_wanted("topic", "x" * 70), f"unknown topic '{'x' * 60}'"),
    (undefined.unknown_wanted("topic", ("a", "b")), "unknown topic 'a, b'"),
    (undefined.no_judge("style"), "no judge of style"),
    (
        undefined.unknown_to_judge("vader", "sentiment", "calm", ["negative", "positive"]),
        "vader knows no sentiment 'calm', only negative, positive",
    ),
    (
        undefined.unknown_to_judge("vader", "sentiment", "0", ["negative", "positive"]),
        "vader knows no sentiment '0', only negative, positive; give it a name: "
        "--label-name 0=negative",
    ),
    (undefined.unreadable("source"), "nothing in it that the model has tokens for: source"),
    (undefined.holds_gap_token("<mask>"), "the text holds the model's gap token <mask>"),
    (
        undefined.reading_holds_gap_token("<mask>"),
        "what is read holds the models' gap token <mask>",
    ),
    (undefined.holds_control_token("<s>"), "the text holds the model's control token <s>"),
    (undefined.no_number(1, 1, 10), "the answer is no number from 1 to 10"),
    (undefined.no_number(20, 1, 5), "none of 20 answers is a number from 1 to 5"),
    (undefined.no_unit("2-gram", "either"), "no 2-gram in either"),
    (
        undefined.few_words("the text"),
        "the tokenizer sees fewer than half of the words in the text",
    ),
    (undefined.no_vector("source"), "no word that has a vector: source"),
    (undefined.no_text_of(2), "no text of 2 or more tokens"),
    (undefined.too_few_ngrams(300, 2), "fewer than draws=300 2-grams"),
    (undefined.texts_without(2, 5, "no source"), "2 of 5 texts have no source"),
]


def test_every_constant_keeps_its_words():
    constants = {name: value for name, value in vars(undefined).items() if name.isupper()}
    assert constants == CONSTANTS


@pytest.mark.parametrize(("reason", "words"), FUNCTIONS)
def test_every_function_keeps_its_words(reason, words):
    assert reason == words
