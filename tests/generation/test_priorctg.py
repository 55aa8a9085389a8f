"""PriorCTG: which Gaussian a latent is drawn from, and where the equation leads."""

from __future__ import annotations

import pytest
import torch

import technique_cases as cases
from levelfield.generation.techniques._latent.guidance import normal
from levelfield.generation.techniques._latent.latents import latent_model, scaled_extension
from levelfield.generation.techniques._latent.network import Flow, FlowShape
from levelfield.generation.techniques.priorctg.technique import PriorCTG, mixed, settled
from levelfield.models.guides import guide_named
from levelfield.models.torch.draws import stream

BOTH = {"sentiment": "negative", "topic": "Sports"}
LABELS = 5  # negative, positive, World, Sports, Sci/Tech


def made(**options) -> PriorCTG:
    return PriorCTG(
        model=cases.model(),
        guide=cases.latent_guide(cases.model()),
        **{"extension": 0.0, **options},
    )


def learnt(technique: PriorCTG):
    return latent_model(guide_named(technique.guide), technique.model)


def epsilons(technique: PriorCTG, control, n: int = 1) -> torch.Tensor:
    """What latents of requests are behind the flow: (n, d)."""
    e = [technique._latent(control, stream(0, str(i), technique.name)) for i in range(n)]
    with torch.inference_mode():
        return learnt(technique).flow(torch.stack(e))[0]


def test_without_spread_the_latent_is_that_of_the_mean():
    one = made(spread=0.0)
    flow = learnt(one).flow
    drawn = epsilons(one, {"topic": "Sports"}, 3)
    torch.testing.assert_close(drawn, flow.mean[3].expand(3, -1).double(), atol=1e-8, rtol=0)
    first, other = (one._latent(BOTH, stream(seed, "1", one.name)) for seed in (0, 1))
    assert torch.equal(first, other)


def test_of_one_label_latents_are_spread_as_its_gaussian():
    one = made(spread=0.6)
    flow, drawn = learnt(one).flow, epsilons(one, {"topic": "Sports"}, 2_000)
    z = (drawn - flow.mean[3]) / flow.sd[3]
    torch.testing.assert_close(z.mean(0), torch.zeros(4).double(), atol=0.06, rtol=0)
    torch.testing.assert_close(z.std(0), torch.full((4,), 0.6).double(), atol=0.05, rtol=0)


def test_one_hot_shares_are_the_label_alone():
    flow = learnt(made()).flow
    for label in range(LABELS):
        mean, sd = mixed(flow, torch.eye(LABELS, dtype=torch.float64)[label])
        torch.testing.assert_close(mean, flow.mean[label].double())
        torch.testing.assert_close(sd, flow.sd[label].double())


def test_several_labels_have_the_shares_of_their_weights():
    one = made(spread=0.0, weights="sentiment=3,toxicity=5")
    flow = learnt(one).flow
    expected = (3 * flow.mean[0] + flow.mean[3]) / 4
    torch.testing.assert_close(epsilons(one, BOTH)[0], expected.double(), atol=1e-8, rtol=0)
    _, sd = mixed(flow, one._shares(learnt(one), BOTH))
    variance = (0.75 * flow.sd[0]).square() + (0.25 * flow.sd[3]).square()
    torch.testing.assert_close(sd, variance.sqrt().double())


@pytest.mark.parametrize(
    ("extension", "control", "alpha"),
    [
        (0.0, {"topic": "Sports"}, [0, 0, 0, 1, 0]),
        (0.2, {"sentiment": "positive"}, [-0.2, 1.2, 0, 0, 0]),
        (0.3, {"topic": "Sports"}, [0, 0, -0.15, 1.3, -0.15]),
        (0.2, BOTH, [0.6, -0.1, -0.05, 0.6, -0.05]),
    ],
)
def test_an_extension_goes_past_the_label_away_from_the_others(extension, control, alpha):
    one = made(extension=extension)
    expected = torch.tensor(alpha, dtype=torch.float64)
    torch.testing.assert_close(one._alpha(learnt(one), control), expected)


def test_an_extension_that_is_not_given_is_as_long_as_close_clouds_need():
    """The rule written down: where the mean is 14 standard deviations away from the others, none
    is needed; at half of that the same distance again, and at most three times the distance."""
    one = made(extension=None)
    flow, alpha = learnt(one).flow, one._alpha(learnt(one), {"topic": "Sports"})
    means, variances = flow.mean[2:].double(), flow.sd[2:].double().square()
    away = means[1] - (means[0] + means[2]) / 2
    total = sum(float(a) ** 2 / float(v) for a, v in zip(away, variances.mean(0), strict=True))
    x = min(3.0, max(0.0, 14.0 / total**0.5 - 1))
    assert x > 0
    expected = torch.tensor([0, 0, -x / 2, 1 + x, -x / 2], dtype=torch.float64)
    torch.testing.assert_close(alpha, expected)
    assert "|extension:scaled|" in one.signature
    assert "|extension:0|" in made().signature
    reaches = [scaled_extension(d, 14.0) for d in (0.0, 1.0, 4.0, 7.0, 14.0, 20.0)]
    assert reaches == [3.0, 3.0, 2.5, 1.0, 0.0, 0.0]


def test_shares_below_0_and_above_1_spread_no_more_than_the_label():
    flow = learnt(made()).flow
    _, sd = mixed(flow, torch.tensor([-0.2, 1.2, 0, 0, 0], dtype=torch.float64))
    torch.testing.assert_close(sd, flow.sd[1].double())


def gaussians(seed: int = 0) -> Flow:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        flow = Flow(FlowShape(6), 3)
        flow.mean.data.normal_()
        flow.log_sd.data.normal_(std=0.5)
    return flow.requires_grad_(False).double()


@pytest.mark.parametrize(
    ("steps", "atol"), [(1_000, 7e-5), pytest.param(4_000, 4e-6, marks=pytest.mark.slow)]
)
def test_the_closed_form_is_where_the_equation_ends(steps: int, atol: float):
    """Against small steps of Heun's method from t = 1 to 0, with gradients by autograd."""
    flow = gaussians()
    weights = torch.tensor([0.02, 0.0, 0.01], dtype=torch.float64)  # so that the start matters
    start = 3 * torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def slope(z: torch.Tensor, t: float) -> torch.Tensor:
        z = z.detach().requires_grad_()
        total = (weights * flow.log_density(z[None])[0]).sum()
        (gradient,) = torch.autograd.grad(total, z)
        return -0.5 * (0.1 + 19.9 * t) * gradient

    z, h = start, -1 / steps
    for step in range(steps):
        t = 1 + step * h
        k = slope(z, t)
        z = z + h / 2 * (k + slope(z + h * k, t + h))
    end = settled(start, flow, weights)
    torch.testing.assert_close(z, end, atol=atol, rtol=0)
    assert (end - start).abs().max() > 0.1


def test_the_equation_ends_where_densities_are_highest_together():
    flow, weights = gaussians(), torch.tensor([4.0, 0.0, 2.0], dtype=torch.float64)
    end = settled(torch.zeros(6, dtype=torch.float64), flow, weights).requires_grad_()
    (weights * flow.log_density(end[None])[0]).sum().backward()
    assert end.grad.abs().max() < 1e-3
    one = made(ode=True, spread=0.0)
    shares = one._shares(learnt(one), BOTH)
    mean, _ = mixed(learnt(one).flow, shares)
    expected = settled(mean, learnt(one).flow, shares)
    torch.testing.assert_close(epsilons(one, BOTH)[0], expected, atol=1e-8, rtol=0)
    assert (expected - mean).abs().max() > 1e-3


def test_random_numbers_are_normal_and_the_same_for_a_stream():
    numbers = normal(20_000, stream(1, "a", "x"))
    assert torch.equal(numbers, normal(20_000, stream(1, "a", "x")))
    assert not torch.equal(numbers[:9], normal(9, stream(1, "a")))
    assert numbers.mean().abs() < 0.03
    assert numbers.std().item() == pytest.approx(1, abs=0.02)
    within = (numbers.abs() < 1.96).double().mean().item()
    assert within == pytest.approx(0.95, abs=0.01)
