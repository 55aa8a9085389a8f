"""Terms over class-conditional models, against sums written out over bigram tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from tables import BOS, WORDS, Bigrams, classes, log_p_of, padded, table

from levelfield.generation.contract import Decoding
from levelfield.generation.logits.classes import (
    ClassContrast,
    ClassPosterior,
    PosteriorFilter,
)
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.terms import BaseLM, Formula

WHOLE = Decoding(top_p=1.0)
BASE = table(0)
TWO = {"a": table(1), "b": table(2)}
THREE = {**TWO, "c": table(3)}
PROMPTS = [[1, 2, 3, 3], [], [4], [5, 1]]
LABELS = ["a", "b", "a", "b"]
WRITTEN = [[2, 2, 5], [1], [3, 4, 1], [5, 5]]
"""What is written behind each prompt; the second and the last text end before the others."""

Oracle = Callable[[Sequence[int], str], list[float]]
"""Text so far, wanted label -> score of each next token, up to a constant."""


def assert_follows(formula: Formula, oracle: Oracle, base: torch.Tensor = BASE, **options) -> None:
    """Four texts of several lengths in one batch, some of which end before the others."""
    ids, mask = padded(PROMPTS)
    controls = [{"label": label} for label in LABELS]
    steering = SteeringProcessor(formula, controls, mask=mask, **{"decoding": WHOLE, **options})
    live = list(range(len(PROMPTS)))
    for step in range(max(map(len, WRITTEN)) + 1):
        scores = steering(ids, base[ids[:, -1]])
        for row, text in enumerate(live):
            so_far = [*PROMPTS[text], *WRITTEN[text][:step]]
            expected = torch.tensor(oracle(so_far, LABELS[text]), dtype=torch.float64)
            torch.testing.assert_close(
                scores[row], expected.log_softmax(-1), atol=1e-12, rtol=0, equal_nan=False
            )
        going = [row for row, text in enumerate(live) if step < len(WRITTEN[text])]
        if not going:
            return
        live = [live[row] for row in going]
        steering.keep(torch.tensor(going))
        read = torch.tensor([[WRITTEN[text][step]] for text in live])
        ids = torch.cat([ids[going], read], dim=1)


def base_log_p(so_far: Sequence[int], token: int) -> float:
    return float(BASE[[BOS, *so_far][-1], token])


def posterior(tables, text, wanted, weight=lambda _: 1.0, bias=None):
    """log softmax_c of weight(tokens) · log P(text | c) + b_c, at the wanted class."""
    scores = {
        label: weight(len(text)) * log_p_of(log_p, text) + (bias or {}).get(label, 0.0)
        for label, log_p in tables.items()
    }
    return scores[wanted] - math.log(math.fsum(map(math.exp, scores.values())))


# -- GeDi


@pytest.mark.parametrize("tables", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("strength", [1.0, 30.0])
def test_the_posterior_is_bayes_rule_over_the_whole_text(tables, strength):
    formula = BaseLM() + strength * ClassPosterior(classes(tables), "sum")

    def oracle(so_far, wanted):
        return [
            base_log_p(so_far, v) + strength * posterior(tables, [*so_far, v], wanted)
            for v in range(WORDS)
        ]

    assert_follows(formula, oracle)


@pytest.mark.parametrize("tables", [TWO, THREE], ids=["two", "three"])
def test_the_mean_counts_the_prompt_and_the_candidate_and_no_code(tables):
    bias = {"a": 0.3, "b": -0.2, "c": 1.0}
    term = ClassPosterior(classes(tables), "mean", 1.7, tuple(bias[label] for label in tables))

    def oracle(so_far, wanted):
        return [
            base_log_p(so_far, v)
            + 4.0 * posterior(tables, [*so_far, v], wanted, lambda tokens: 1.7 / tokens, bias)
            for v in range(WORDS)
        ]

    assert_follows(BaseLM() + 4.0 * term, oracle)


def test_with_the_mixture_as_the_base_and_strength_1_the_class_model_writes():
    """p(x) = ½ P(x | a) + ½ P(x | b) times P(c | x) is P(x | c)."""
    formula = BaseLM() + 1.0 * ClassPosterior(classes(TWO), "sum")
    ids, mask = padded(PROMPTS)
    controls = [{"label": label} for label in LABELS]
    steering = SteeringProcessor(formula, controls, mask=mask, decoding=WHOLE)
    mixture = torch.tensor(
        [
            [
                math.log(sum(math.exp(log_p_of(of, [*prompt, v])) for of in TWO.values()))
                for v in range(WORDS)
            ]
            for prompt in PROMPTS
        ],
        dtype=torch.float64,
    )
    expected = torch.stack(
        [TWO[label][[BOS, *prompt][-1]] for prompt, label in zip(PROMPTS, LABELS, strict=True)]
    )
    torch.testing.assert_close(steering(ids, mixture), expected, atol=1e-12, rtol=0)


def filtered(so_far, wanted, strength, mass, target):
    """The authors' filter, token by token."""
    log_post = [posterior(TWO, [*so_far, v], wanted) for v in range(WORDS)]
    scores = [base_log_p(so_far, v) + strength * log_post[v] for v in range(WORDS)]
    total, below = math.fsum(map(math.exp, scores)), 0.0
    for v in sorted(range(WORDS), key=lambda v: log_post[v]):
        below += math.exp(scores[v]) / total
        if below < mass and log_post[v] < math.log(target):
            scores[v] = -math.inf
    return scores


@pytest.mark.parametrize(("mass", "target"), [(0.3, 0.8), (0.8, 0.8), (0.8, 0.3), (0.999, 1.0)])
def test_the_filter_is_the_authors(mass, target):
    leaves_out = PosteriorFilter(2.0, mass, target)
    term = ClassPosterior(classes(TWO), "sum", filter=leaves_out)
    scores = [
        filtered([*prompt, *written[:n]], label, 2.0, mass, target)
        for prompt, written, label in zip(PROMPTS, WRITTEN, LABELS, strict=True)
        for n in range(len(written) + 1)
    ]
    assert any(-math.inf in one for one in scores)
    assert all(max(one) > -math.inf for one in scores)
    assert_follows(
        BaseLM() + 2.0 * term, lambda so_far, label: filtered(so_far, label, 2.0, mass, target)
    )


# -- DExperts


def contrast(tables, strength):
    return BaseLM() + strength * ClassContrast(classes(tables))


@pytest.mark.parametrize("strength", [-1.0, 0.5, 3.2])
def test_of_two_classes_the_other_one_is_the_anti_expert(strength):
    def oracle(so_far, wanted):
        (other,) = TWO.keys() - {wanted}
        last = [BOS, *so_far][-1]
        return [
            base_log_p(so_far, v) + strength * float(TWO[wanted][last, v] - TWO[other][last, v])
            for v in range(WORDS)
        ]

    assert_follows(contrast(TWO, strength), oracle)


def test_of_three_classes_the_anti_expert_is_the_mixture_of_the_others_texts():
    def log_p_of_others(text, wanted):
        others = [log_p_of(of, text) for label, of in THREE.items() if label != wanted]
        return math.log(math.fsum(map(math.exp, others)) / len(others))

    def oracle(so_far, wanted):
        last = [BOS, *so_far][-1]
        return [
            base_log_p(so_far, v)
            + 1.5 * float(THREE[wanted][last, v])
            - 1.5 * (log_p_of_others([*so_far, v], wanted) - log_p_of_others(so_far, wanted))
            for v in range(WORDS)
        ]

    assert_follows(contrast(THREE, 1.5), oracle)


def test_a_known_reweighting_of_the_base_is_what_comes_out():
    """Expert = base · w / Z, anti-expert = base, strength 1: p ∝ base · w."""
    w = torch.linspace(0.1, 3.0, WORDS, dtype=torch.float64)
    expert = (BASE + w.log()).log_softmax(-1)
    of = {"a": expert, "b": BASE}

    def oracle(so_far, wanted):
        power = 1 if wanted == "a" else -1
        return [base_log_p(so_far, v) + power * math.log(w[v]) for v in range(WORDS)]

    assert_follows(contrast(of, 1.0), oracle)


@pytest.mark.parametrize("strength", [0.5, 3.2, 1e6])
def test_equal_experts_cancel_exactly(strength):
    ids, mask = padded(PROMPTS)
    controls = [{"label": label} for label in LABELS]
    formula = contrast({"a": TWO["a"], "b": TWO["a"]}, strength)
    steering = SteeringProcessor(formula, controls, mask=mask, decoding=WHOLE)
    expected = BASE[ids[:, -1]].log_softmax(-1).log_softmax(-1)
    torch.testing.assert_close(steering(ids, BASE[ids[:, -1]]), expected, atol=1e-15, rtol=0)


def test_no_strength_gives_a_token_that_the_base_leaves_out():
    ids, mask = padded(PROMPTS)
    controls = [{"label": label} for label in LABELS]
    decoding = Decoding(top_p=0.7)
    base = SteeringProcessor(None, controls, mask=mask, decoding=decoding)
    steering = SteeringProcessor(contrast(TWO, 100.0), controls, mask=mask, decoding=decoding)
    kept = base(ids, BASE[ids[:, -1]]).isfinite()
    assert not kept.all()
    assert torch.equal(steering(ids, BASE[ids[:, -1]]).isfinite(), kept)


# -- both


def test_every_class_reads_every_token_once():
    of = classes(THREE)
    formula = BaseLM() + 1.0 * ClassContrast(of) + 2.0 * ClassPosterior(of, "sum")
    ids, mask = padded(PROMPTS)
    steering = SteeringProcessor(
        formula, [{"label": label} for label in LABELS], mask=mask, decoding=WHOLE
    )
    for token in (1, 2, 3):
        steering(ids, BASE[ids[:, -1]])
        ids = torch.cat([ids, torch.full((len(ids), 1), token)], dim=1)
    for one in of.models:
        assert isinstance(one.model.model, Bigrams)
        assert one.model.model.columns == ids.shape[1] - 1
    assert steering.passes == 3 * 3
