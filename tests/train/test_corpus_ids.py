"""What an infiller's corpus is made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.train.corpus import documents, tokenise
from levelfield.train.infiller.examples import sentence_ends, train_tokenizer

TEXT = [
    "The kettle sang on the stove. Nobody heard it!\nThe cat slept on.",
    "Two boats left the harbour in fog. Only one came back, at noon.",
    "Was it late? It was. The last tram had gone, and so had the rain.",
] * 5


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXT, 400)


def test_empty_lines_part_documents_and_without_them_each_line_is_one():
    assert list(documents(["a", "b", "", " ", "c"])) == ["a\nb", "c"]
    assert list(documents(["a", "b", "c"])) == ["a", "b", "c"]
    assert list(documents([])) == []


def test_turns_become_lines():
    assert list(documents(["Hi there. </UTT> Hello!</UTT>", "Yes."])) == [
        "Hi there.\nHello!",
        "Yes.",
    ]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_line_by_line_gives_the_ids_of_the_whole(tokenizer, lines):
    text = "\n".join(["First.", *(" ".join(line.split()) for line in lines)])
    while "\n\n" in text:
        text = text.replace("\n\n", "\n")
    text = text.rstrip("\n")
    whole = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    corpus = tokenise([text, "A second document."], tokenizer)
    assert corpus.ids[: corpus.begins[1]].tolist() == whole


@given(st.text(max_size=40))
def test_no_text_is_unknown_to_a_new_tokenizer(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert None not in ids
    if any(not c.isspace() for c in text):
        assert ids


def test_text_comes_back_from_its_ids(tokenizer):
    text = "It sang 🙂.\nNobody in Köln heard: 12 boats!"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_markers_written_out_in_a_text_are_text(tokenizer):
    corpus = tokenise(["A <extra_id_0> and a </s> here.", "More."], tokenizer)
    special = tokenizer.convert_tokens_to_ids(["<extra_id_0>", "</s>"])
    assert not np.isin(corpus.ids, special).any()


def test_a_corpus_without_text_or_with_one_document_is_refused(tokenizer):
    with pytest.raises(UserError, match="empty"):
        tokenise([], tokenizer)
    with pytest.raises(UserError, match="empty"):
        tokenise(["", " \n "], tokenizer)
    with pytest.raises(UserError, match="one document"):
        tokenise(["Only this."], tokenizer)


def test_held_out_documents_are_not_trained_on(tokenizer):
    corpus = tokenise([f"Line {i}." for i in range(120)], tokenizer)
    train, held = corpus.split()
    assert len(held) == 3
    assert set(train) | set(held) == set(range(120))
    assert not set(train) & set(held)


def test_other_texts_and_other_tokenizers_have_other_digests(tokenizer):
    digest = tokenise(["A b.", "C d."], tokenizer).digest
    assert digest == tokenise(["A b.", "C d."], tokenizer).digest
    assert digest != tokenise(["A b.", "C e."], tokenizer).digest
    assert digest != tokenise(["A b.", "C d."], train_tokenizer(TEXT[:2], 350)).digest


def test_sentence_ends_are_tokens_that_end_a_sentence_or_a_line(tokenizer):
    ends = sentence_ends(tokenizer, len(tokenizer) + 5)
    assert len(ends) == len(tokenizer) + 5
    ids = tokenizer("Nobody heard it!\nThe cat slept.", add_special_tokens=False)["input_ids"]
    marked = [tokenizer.decode([id]).strip(" ") for id in ids if ends[id]]
    assert marked == ["!", "\n", "."]
