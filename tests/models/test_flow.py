"""The flow is invertible, knows its determinant, and its densities are those of Gaussians."""

from __future__ import annotations

import pytest
import torch

from levelfield.core.errors import UserError
from levelfield.generation.techniques._latent.network import LARGEST, Coupling, Flow, FlowShape


def flow(
    size: int, *, blocks: int = 8, labels: int = 3, seed: int = 0, actnorm: bool = False
) -> Flow:
    """Random weights, the last layers' too, so that it is far from linear."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        new = Flow(FlowShape(size, blocks, 16, actnorm), labels)
        for parameter in new.parameters():
            parameter.data.normal_(std=0.7 / parameter.shape[-1] ** 0.5)
    return new.requires_grad_(False)


@pytest.mark.parametrize("actnorm", [False, True])
@pytest.mark.parametrize("size", [2, 5, 64])
def test_the_inverse_undoes_the_flow(size, actnorm):
    network = flow(size, actnorm=actnorm).double()
    e = torch.randn(50, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    epsilon, _ = network(e)
    assert (epsilon - e).abs().max() > 0.5
    assert (network.inverse(epsilon) - e).abs().max() < 1e-7


def test_in_float32_the_inverse_is_exact_to_1e_5():
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network = Flow(FlowShape(64), 2)
        for parameter in network.parameters():
            parameter.data += 0.03 * torch.randn(parameter.shape)
    e = torch.randn(50, 64, generator=torch.Generator().manual_seed(6))
    with torch.inference_mode():
        epsilon, log_det = network(e)
        assert log_det.std() > 0.5
        assert (network.inverse(epsilon) - e).abs().max() < 1e-5


@pytest.mark.parametrize("actnorm", [False, True])
def test_the_log_determinant_is_that_of_the_jacobian(actnorm):
    network = flow(4, actnorm=actnorm).double()
    e = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    _, log_det = network(e)
    for row, value in zip(e, log_det, strict=True):
        J = torch.autograd.functional.jacobian(lambda x: network(x[None])[0][0], row)
        torch.testing.assert_close(torch.linalg.slogdet(J).logabsdet, value, atol=1e-6, rtol=0)
    assert log_det.std() > 0.1


def test_a_new_flow_is_a_rotation():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Flow(FlowShape(6, 3, 8), 2).requires_grad_(False)
    e = torch.randn(9, 6, generator=torch.Generator().manual_seed(3))
    epsilon, log_det = network(e)
    torch.testing.assert_close(epsilon.norm(dim=1), e.norm(dim=1))
    assert (log_det == 0).all()
    Q = network.blocks[0].rotation
    torch.testing.assert_close(Q @ Q.T, torch.eye(6).double(), atol=1e-14, rtol=0)


def test_what_a_block_multiplies_with_is_bounded():
    block = flow(4, blocks=1).blocks[0]
    assert isinstance(block, Coupling)
    s, _ = block._scale_shift(1e4 * torch.randn(20, 2))
    assert s.abs().max() <= LARGEST


def test_densities_are_those_of_diagonal_gaussians():
    network = flow(5)
    epsilon = torch.randn(7, 5, generator=torch.Generator().manual_seed(4))
    expected = (
        torch.distributions.Normal(network.mean, network.sd).log_prob(epsilon[:, None]).sum(-1)
    )
    torch.testing.assert_close(network.log_density(epsilon), expected)


@pytest.mark.parametrize("shape", [(1, 8, 8), (4, 0, 8), (4, 8, 0)])
def test_sizes_that_make_no_flow_are_refused(shape):
    with pytest.raises(UserError, match="expected at least 1 block"):
        FlowShape(*shape)
