"""Constrained beam search, against enumeration of all texts, and on a tiny model."""

from __future__ import annotations

import itertools
import random
import re
from types import SimpleNamespace
from typing import Any

import pytest
import tables
import torch

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.constrained_beam.technique import (
    BeamOptions,
    ConstrainedBeam,
    KeywordState,
    Need,
    _Beam,
    search_all,
    shared_out,
)
from levelfield.metrics.keywords import KeywordsAll
from levelfield.models.torch.language_model import LanguageModel
from levelfield.text.words import whole_word

PIECES = {1: " a", 2: " b", 3: "c", 4: "."}
END = 5
"""Token 0 is BOS."""


def small(seed: int) -> LanguageModel:
    """Bigrams over four pieces of words and an end."""

    def decode(ids: list[int], **_: Any) -> str:
        return "".join(PIECES.get(id, "") for id in ids)

    def ids(text: str) -> list[int]:
        ids = []
        while text:
            (id,) = [id for id, piece in PIECES.items() if text.startswith(piece)] or [0]
            if not id:
                return []  # no spelling without a blank
            ids.append(id)
            text = text[len(PIECES[id]) :]
        return ids

    tokens: Any = SimpleNamespace(
        bos_id=0,
        limit=100,
        vocabulary_size=tables.WORDS,
        ids=lambda texts: [[1] if text == "It" else ids(text) for text in texts],
    )
    log_p = tables.table(seed)
    log_p[:, 0] = -torch.inf  # a token without characters would make two spellings of a word
    model = tables.Bigrams(log_p.log_softmax(-1))
    return LanguageModel(model, SimpleNamespace(decode=decode), "small", tokens, frozenset({END}))


def log_p_of(ids: tuple[int, ...], log_p: torch.Tensor, penalty: float) -> float:
    """With the repetition penalty, written plainly."""
    total, before = 0.0, [0]
    for token in ids:
        logits = log_p[before[-1]].clone()
        for seen in set(before):
            logits[seen] *= penalty  # all are below 0
        total += float(logits.log_softmax(-1)[token])
        before.append(token)
    return total


def has_all(text: str, keywords: tuple[str, ...], order: str) -> bool:
    if order == "given":
        parts = [rf"(?<!\w){keyword}(?!\w)" for keyword in keywords]
        return re.search(".*?".join(parts), text) is not None
    return all(re.search(rf"(?<!\w){keyword}(?!\w)", text) for keyword in keywords)


@pytest.mark.thinned
@pytest.mark.parametrize("order", ["any", "given"])
@pytest.mark.parametrize(
    ("keywords", "gamma", "penalty"),
    [
        (("a", "b"), 1.0, 1.0),
        (("b", "a"), 0.0, 1.0),
        (("bc",), 1.0, 1.0),
        (("bc", "a"), 0.5, 1.3),
        (("a", "ac"), 1.0, 1.0),
        (("acc", "b"), 2.0, 1.0),
        ((), 1.0, 1.0),
    ],
)
def test_beams_wide_enough_find_the_best_of_all_texts_that_have_all_keywords(
    keywords, gamma, penalty, order
):
    budget = 5
    for seed in range(3):
        base = small(seed)
        log_p = base.model.log_p
        options = BeamOptions(beams=tables.WORDS**budget, length_penalty=gamma, no_repeat=0)
        decoding = Decoding(max_new_tokens=budget, repetition_penalty=penalty)
        state = KeywordState(base, [0], keywords, order)
        (answer,) = search_all(base, [[0]], [state], options, decoding, base.ends)
        inner = [*PIECES]
        every = [
            (*some, *end)
            for n in range(budget + 1)
            for some in itertools.product(inner, repeat=n)
            for end in ([(END,)] if n < budget else [()])
        ]
        scores = {
            ids: log_p_of(ids, log_p, penalty) / len(ids) ** gamma
            for ids in every
            if has_all(base.text(ids), keywords, order)
        }
        written = (*answer.ids, END)[: answer.steps]  # texts of the same bigrams are equally good
        assert scores[written] == pytest.approx(max(scores.values()), abs=1e-9)


def test_beams_are_shared_out_among_texts_that_need_equally_many_tokens():
    beams = [
        _Beam((n,), log_p, Need(need, frozenset()), 0)
        for n, (log_p, need) in enumerate([(-1, 2), (-2, 2), (-3, 2), (-9, 1), (-8, 0), (-7, 0)])
    ]
    assert [beam.log_p for beam in shared_out(beams, 4)] == [-7, -9, -1, -8]
    assert [beam.log_p for beam in shared_out(beams, 1)] == [-7]
    assert len(shared_out(beams, 10)) == 6


WORDS = ["it", "was", "the", "very", "old", "road", "and", "nobody", "court", "museum", "window"]
PHRASES = ["green road", "the old market", "Thomas O'Neill", "court-room", "火山", "C++"]
"""Of one token to the tiny model, and of many."""


def random_requests(n: int) -> list[Request]:
    draw = random.Random(5)
    prompts = ["The lake", "", "Once upon a time there was a road", "So:\n", "It was ", "“"]
    return [
        Request(
            str(i),
            draw.choice(prompts),
            {"keywords": tuple(draw.sample(WORDS, draw.randint(1, 4)) + draw.sample(PHRASES, 1))},
        )
        for i in range(n)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_every_text_has_every_keyword_of_300_random_sets(family):
    technique = ConstrainedBeam(model=cases.model(family), beams=3, batch=50)
    keywords = [r for r in random_requests(300) if family == "gpt2" or not unknown(r)]
    asked = {request.id: request for request in keywords}
    decoding = Decoding(max_new_tokens=40)
    for answer in technique.generate(keywords, decoding=decoding):
        assert answer.tokens <= 40
        assert answer.text.startswith(asked[answer.id].prompt)
        # the continuation on its own, behind what it follows
        sample = Sample(answer.id, answer.continuation, control=answer.control)
        assert KeywordsAll().score([sample]).values.tolist() == [1.0], answer


def unknown(request: Request) -> bool:
    """Whether a keyword has characters that the tiny Llama does not know."""
    return any("火" in word or "+" in word for word in request.control["keywords"])


@pytest.mark.slow
def test_the_given_order_is_kept_where_it_is_asked_for():
    asked = random_requests(40)
    technique = ConstrainedBeam(model=cases.model(), beams=3, batch=40, order="given")
    for answer in technique.generate(asked, decoding=Decoding(max_new_tokens=40)):
        place = 0
        for keyword in answer.control["keywords"]:
            match = whole_word(keyword.casefold()).search(answer.continuation.casefold(), place)
            assert match, answer
            place = match.end()


def test_a_budget_of_just_as_many_tokens_is_enough_and_one_less_is_refused():
    technique = ConstrainedBeam(model=cases.model(), beams=2)
    asked = Request("1", "The lake", {"keywords": ("museum", "market")})
    need = sum(len(technique.base.ids(f" {word}")) for word in ("museum", "market"))
    assert need > 2
    (answer,) = technique.generate([asked], decoding=Decoding(max_new_tokens=need))
    assert sorted(answer.continuation.split()) == ["market", "museum"]
    with pytest.raises(UserError, match=rf"max_new_tokens is {need - 1}.*'1' needs {need}"):
        next(technique.generate([asked], decoding=Decoding(max_new_tokens=need - 1)))


def test_what_the_prompt_has_does_not_count():
    technique = ConstrainedBeam(model=cases.model(), beams=2)
    asked = Request("1", "The market", {"keywords": ("market",)})
    (answer,) = technique.generate([asked], decoding=Decoding(max_new_tokens=8))
    assert re.search(r"\bmarket\b", answer.continuation, re.I)


def test_a_keyword_at_the_beginning_has_no_blank_before_it():
    technique = ConstrainedBeam(model=cases.model(), beams=2)
    asked = Request("1", "", {"keywords": ("museum",)})
    ids = technique.base.ids("museum")
    assert ids != technique.base.ids(" museum")
    state = KeywordState(technique.base, [technique.base.bos_id], ("museum",), "any")
    assert ids[0] in state.need(()).next
    assert state.need(ids).tokens == 0
    assert state.need([*ids, *technique.base.ids("s")]).tokens > 0  # museums
    assert asked.prompt == ""


def test_a_row_a_beam_is_counted():
    """The prompt is one row, and every later step as many as there are beams."""
    technique = ConstrainedBeam(model=cases.model(), beams=5, length_penalty=2.0, no_repeat=0)
    asked = [Request(str(n), "The lake", {"keywords": ("it",)}) for n in range(2)]
    decoding = Decoding(max_new_tokens=7)
    for answer in technique.generate(asked, decoding=decoding):
        assert answer.tokens == 7
        assert answer.forward_passes == 1 + 6 * 5
        assert answer.backward_passes == 0


def test_no_tokens_repeat_except_those_of_keywords():
    def grams(ids: list[int]) -> list[tuple[int, ...]]:
        return list(itertools.pairwise(ids))

    make = lambda n: ConstrainedBeam(model=cases.model(), beams=2, no_repeat=n)  # noqa: E731
    asked = Request("1", "The lake", {"keywords": ("it",)})
    decoding = Decoding(max_new_tokens=60)
    base = make(2).base
    (free,) = make(0).generate([asked], decoding=decoding)
    (without,) = make(2).generate([asked], decoding=decoding)
    assert len(set(grams(base.ids(free.text)))) < len(grams(base.ids(free.text)))
    state = KeywordState(base, [0, *base.ids("The lake")], ("it",), "any")
    prompts, options = [[0, *base.ids("The lake")]], BeamOptions(beams=2, no_repeat=2)
    (answer,) = search_all(base, prompts, [state], options, decoding, base.ends)
    assert base.continuation([0, *base.ids("The lake")], answer.ids) == without.continuation
    row = [0, *base.ids("The lake"), *answer.ids]
    assert len(set(grams(row))) == len(grams(row))


def test_that_no_word_comes_again_is_refused():
    with pytest.raises(UserError, match="no_repeat=1: expected 0, or a whole number from 2 on"):
        ConstrainedBeam(no_repeat=1)


def test_other_attributes_and_words_that_are_none_are_refused():
    technique = ConstrainedBeam(model="no/such-model")
    both = {"keywords": ("it",), "sentiment": "positive"}
    assert "not sentiment" in technique.refusal(both)
    assert "contains no word" in technique.refusal({"keywords": (" ",)})
    assert technique.refusal({"keywords": "it"}) == ""
    with pytest.raises(UserError, match="no distribution"):
        technique.log_probs([], [])
