"""Tokenised, lower-case text with its spacing and capitals restored."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.text.natural import natural


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the bread was n't bad , was it ?", "The bread wasn't bad, was it?"),
        ("we 've seen `` the lake '' twice .", 'We\'ve seen "the lake" twice.'),
        ("i paid $ 5 ( in june ) .", "I paid $5 (in june)."),
        ("slow . i left ... fast", "Slow. I left... Fast"),
        ("The lake was cold.", "The lake was cold."),
        ("Ann said : it 's fine .", "Ann said: it's fine."),
        ("", ""),
        ("fine", "Fine"),
        ("湖 很 冷 。", "湖 很 冷 。"),
        ("🙂 good", "🙂 good"),
        ("i.e. the lake", "I.e. The lake"),
    ],
)
def test_marks_go_back_to_their_words_and_sentences_get_capitals(text, expected):
    assert natural(text) == expected


@given(st.text(st.sampled_from(list("aIi .,'\"`()n't!")), max_size=40))
def test_only_blanks_quotes_and_case_change(text):
    def bare(words: str) -> str:
        return "".join(words.replace("``", '"').replace("''", '"').casefold().split(" "))

    assert bare(natural(text)) == bare(text)


@pytest.mark.parametrize(
    "text", [" " * 100_000 + "a .", '" a' * 30_000, "`` a " * 20_000, "( " * 50_000, " ." * 50_000]
)
def test_a_long_run_of_marks_takes_no_time(text):
    begin = time.process_time()
    natural(text)
    assert time.process_time() - begin < 2
