"""Straight-through tokens against their definition, written out in one-hot vectors."""

from __future__ import annotations

import pytest
import torch

from levelfield.generation.techniques.bolt.rollout import StraightThrough

ROWS, WIDTH, D = 3, 7, 4


def random(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def one_hot(scores: torch.Tensor) -> torch.Tensor:
    """onehot(argmax s) + softmax(s) − sg(softmax(s))."""
    p = scores.softmax(-1)
    return torch.nn.functional.one_hot(scores.argmax(-1), WIDTH) + p - p.detach()


def gradients(of: torch.Tensor, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weights = random(*of.shape, seed=9)
    return torch.autograd.grad((weights * of).sum(), inputs)


@pytest.fixture
def scores() -> torch.Tensor:
    scores = random(ROWS, WIDTH, seed=1)
    scores[1, 2] = -torch.inf
    return scores.requires_grad_()


def test_vectors_and_their_gradients_are_those_of_the_definition(scores):
    table = random(WIDTH, D, seed=2)
    looked_up, multiplied = StraightThrough(scores).vectors(table), one_hot(scores) @ table
    torch.testing.assert_close(looked_up, multiplied)
    (actual,), (expected,) = gradients(looked_up, scores), gradients(multiplied, scores)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(actual, expected)
    assert actual[1, 2] == 0


def test_likelihoods_and_their_gradients_are_those_of_the_definition(scores):
    logits = random(ROWS, WIDTH, seed=3).requires_grad_()
    short = StraightThrough(scores).log_likelihood(logits)
    long = (one_hot(scores) * logits.log_softmax(-1)).sum(-1)
    torch.testing.assert_close(short, long)
    for actual, expected in zip(
        gradients(short, scores, logits), gradients(long, scores, logits), strict=True
    ):
        assert expected.abs().max() > 0.01
        torch.testing.assert_close(actual, expected)


def test_log_probabilities_of_tokens_are_those_of_the_softmax(scores):
    tokens = torch.tensor([[0, 3], [6, 1], [2, 2]])
    actual = StraightThrough(scores).log_p(tokens)
    torch.testing.assert_close(actual, scores.log_softmax(-1).gather(1, tokens))
