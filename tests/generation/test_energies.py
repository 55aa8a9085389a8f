"""Energies against their formulas, and their gradients against finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from levelfield.generation.techniques._energies.energies import (
    bag_energy,
    keyword_energy,
    kl_energy,
    label_energy,
)

ROWS, TOKENS, WIDTH = 3, 4, 7
BAGS = torch.tensor(
    [[0, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1]], dtype=torch.bool
)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


Q = random(ROWS, WIDTH, seed=1).log_softmax(-1)
LABELS = torch.tensor([2, 0, 6])


def bags(logits: torch.Tensor) -> torch.Tensor:
    return bag_energy(logits.log_softmax(-1), BAGS)


def labels(logits: torch.Tensor) -> torch.Tensor:
    return label_energy(logits, LABELS)


def divergence(logits: torch.Tensor) -> torch.Tensor:
    return kl_energy(logits.log_softmax(-1), Q)


WORDS = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]])
"""Which of three tokens each row wants."""


def keywords(logits: torch.Tensor) -> torch.Tensor:
    """Of three tokens; some log-probabilities are below the least that counts."""
    log_p = (7 * logits).log_softmax(-1)[..., :3]
    return keyword_energy(log_p, random(ROWS, TOKENS, 3, seed=4), WORDS)


ENERGIES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "bag": (bags, (ROWS, WIDTH)),
    "label": (labels, (ROWS, WIDTH)),
    "kl": (divergence, (ROWS, WIDTH)),
    "keywords": (keywords, (ROWS, TOKENS, WIDTH)),
}
every = pytest.mark.parametrize("name", ENERGIES)


@every
def test_gradients_are_those_of_finite_differences(name):
    energy, shape = ENERGIES[name]
    x = random(*shape, seed=3).requires_grad_()
    (gradient,) = torch.autograd.grad(energy(x).sum(), x)
    assert gradient.abs().max() > 0.01
    step = 1e-6
    for at in range(x.numel()):
        change = torch.zeros(x.numel(), dtype=torch.float64)
        change[at] = step
        change = change.reshape(shape)
        with torch.no_grad():
            slope = (energy(x + change) - energy(x - change)).sum() / (2 * step)
        assert float(gradient.flatten()[at]) == pytest.approx(float(slope), abs=1e-8)


@every
def test_rows_do_not_mix(name):
    energy, shape = ENERGIES[name]
    x = random(*shape, seed=3).requires_grad_()
    values = energy(x)
    assert values.shape == (ROWS,)
    for row in range(ROWS):
        (gradient,) = torch.autograd.grad(values[row], x, retain_graph=True)
        others = [other for other in range(ROWS) if other != row]
        assert gradient[row].abs().max() > 0
        assert not gradient[others].any()


def test_a_bag_has_the_energy_of_its_mass():
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0]])
    bag = torch.tensor([[False, True, True, False, True]])
    assert float(bag_energy(p.log(), bag)) == pytest.approx(-math.log(0.5))
    whole = torch.ones_like(bag)
    assert float(bag_energy(p.log(), whole)) == pytest.approx(0.0, abs=1e-6)


def test_the_divergence_is_0_between_equals_and_right_between_others():
    p, q = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.25, 0.5, 0.25]])
    assert float(kl_energy(p.log(), p.log())) == 0
    assert float(kl_energy(p.log(), q.log())) == pytest.approx(0.5 * math.log(2))


def test_a_keyword_counts_where_it_is_likeliest_and_not_below_its_least():
    log_p = torch.full((1, 3, 2), -100.0)
    none = torch.zeros(1, 3, 2)
    assert float(keyword_energy(log_p, none)) == pytest.approx(20)
    log_p[0, 1, 0] = -0.5
    assert float(keyword_energy(log_p, none)) == pytest.approx((0.5 + 20) / 2, abs=1e-4)
    assert float(keyword_energy(log_p, none, torch.tensor([[1, 0]]))) == pytest.approx(
        0.5, abs=1e-4
    )
