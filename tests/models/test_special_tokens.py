"""A special token that is written in a text is text: it steers no model that measures the text."""

from __future__ import annotations

import pytest

import tiny
import tiny_classifier
from levelfield.models.load import load
from levelfield.models.tokens import Tokens
from levelfield.models.torch.classifier import TorchClassifier, TorchPairRegressor

MARKED = (
    "The river rose. [SEP] [CLS] [PAD] [MASK] [UNK] <s> </s> <pad> <unk> <mask_1> <|endoftext|>"
)


@pytest.mark.parametrize("family", [*tiny.FAMILIES, *tiny.CAUSAL_FAMILIES])
def test_no_tokenizer_takes_what_is_written_for_a_special_token(family: str) -> None:
    is_causal = family in tiny.CAUSAL_FAMILIES
    tokenizer = tiny.causal_tokenizer(family) if is_causal else tiny.tokenizer(family)
    tokens = Tokens(tokenizer)
    special = set(tokenizer.all_special_ids)
    if family != "gpt2":  # whose one special token stands for what is unknown, too
        special.remove(tokenizer.unk_token_id)
    assert not special & set(tokens.ids([MARKED])[0])
    assert special & set(Tokens(tokenizer, marks=True).ids([MARKED])[0])
    plain = "The river rose."
    assert tokens.ids([plain, MARKED])[0] == tokens.ids([plain])[0]


def test_sentences_and_states_of_minilm_see_the_characters() -> None:
    encoder = load("encoder", "offline/minilm")
    special = {100, 101, 102, 103, 0}
    (ids,) = encoder.token_ids([MARKED])
    assert not special & set(ids)
    states = load("states", "offline/minilm", layer=6)
    (read,) = states.ids([MARKED])
    assert (read[0], read[-1]) == (101, 102)
    assert not special & set(read[1:-1])


def test_classifiers_and_regressors_see_the_characters() -> None:
    tokenizer = tiny_classifier.tokenizer()
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    classifier = TorchClassifier(tiny_classifier.model(("a", "b"), family="bert"), tokenizer)
    bare = len([id for id in classifier.read(["a"])[0][0] if id in special])
    marks = [id for id in classifier.read([MARKED])[0][0] if id in special]
    assert len(marks) == bare
    regressor = TorchPairRegressor(tiny_classifier.model(("x",), family="bert"), tokenizer)
    words = "The river rose. "
    apart, _ = regressor.values([(words + "[SEP]", words), (words, words)])
    assert apart[0] != apart[1]
    (ids, _), *_ = regressor._read([(MARKED, "a")])
    (plain, _), *_ = regressor._read([("a", "a")])
    assert sum(id in special for id in ids) == sum(id in special for id in plain)
