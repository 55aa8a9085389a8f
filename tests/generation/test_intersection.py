"""The search for where clouds meet, against its formula and on shapes whose answer is known."""

from __future__ import annotations

import pytest
import torch

from levelfield.generation.techniques._latent import latents
from levelfield.generation.techniques._latent.latents import intersection_centres


def cloud(n: int, d: int = 3, *, seed: int = 0, shift: float = 0.0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)) + shift


def disc(x: float, n: int = 400, *, seed: int = 0) -> torch.Tensor:
    """Points spread evenly over a disc of radius 1 around (x, 0)."""
    random = torch.Generator().manual_seed(seed)
    radius, angle = torch.rand(n, generator=random).sqrt(), torch.rand(n, generator=random) * 6.2832
    return torch.stack([x + radius * angle.cos(), radius * angle.sin()], dim=1)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [2.0, 7.0], [3.0, 0.5]])
def test_with_all_neighbours_one_step_ends_at_the_weighted_mean(weights):
    clouds = [cloud(30, seed=1), cloud(30, seed=2, shift=2.0)]
    expected = sum(w * X.double().mean(0) for w, X in zip(weights, clouds, strict=True))
    expected = expected / sum(weights)
    for iterations in (1, 15):
        q = intersection_centres(clouds, weights, 30, 5, iterations=iterations)
        assert (q - expected).abs().max() < 1e-6


def test_the_centres_of_overlapping_discs_lie_in_the_overlap():
    discs = [disc(-0.7, seed=1), disc(0.7, seed=2)]
    q = intersection_centres(discs, [1.0, 1.0], 20, 10)
    assert len(q) == 10
    for x in (-0.7, 0.7):
        assert ((q - torch.tensor([x, 0.0])).norm(dim=1) < 1).all()


def test_a_weight_moves_the_centres_towards_its_label():
    discs = [disc(-1.5, seed=1), disc(1.5, seed=2)]
    middle, left = (
        intersection_centres(discs, weights, 50, 5)[:, 0].mean()
        for weights in ([1.0, 1.0], [5.0, 1.0])
    )
    assert left < middle - 0.3


def test_of_one_label_the_centres_are_where_its_latents_are_dense():
    dense = 0.1 * cloud(60, seed=3)
    sparse = cloud(40, seed=4, shift=6.0)
    q = intersection_centres([torch.cat([sparse, dense])], [1.0], 20, 5)
    assert (q.norm(dim=1) < 0.2).all()


def nearest(q: list[float], X: torch.Tensor, k: int) -> tuple[torch.Tensor, float]:
    squared = [(sum((a - b) ** 2 for a, b in zip(q, x.tolist(), strict=True)), x) for x in X]
    near = sorted(squared, key=lambda pair: pair[0])[:k]
    return torch.stack([x for _, x in near]).double().mean(0), sum(s for s, _ in near) / k


def test_the_search_is_that_of_the_paper_point_by_point():
    """Written plainly, one point after the other."""
    clouds, weights, k, kept = [cloud(9, seed=5), cloud(7, seed=6, shift=1.0)], [2.0, 1.0], 3, 6

    def score(q: torch.Tensor) -> float:
        return -sum(nearest(q.tolist(), X, k)[1] for X in clouds) / len(clouds)

    pool = []
    for i, X in enumerate(clouds):
        (other,) = (clouds[j] for j in range(2) if j != i)
        seeds = [(x.double() + nearest(x.tolist(), other, k)[0]) / 2 for x in X]
        pool += sorted(seeds, key=score, reverse=True)[:kept]
    points = sorted(pool, key=score, reverse=True)[:kept]
    for _ in range(2):
        points = [
            sum(w * nearest(q.tolist(), X, k)[0] for w, X in zip(weights, clouds, strict=True)) / 3
            for q in points
        ]
    expected = torch.stack(sorted(points, key=score, reverse=True)[:4])
    q = intersection_centres(clouds, weights, k, 4, iterations=2, candidates=kept)
    torch.testing.assert_close(q, expected, atol=1e-9, rtol=0)


def test_parts_of_the_points_change_nothing(monkeypatch: pytest.MonkeyPatch):
    clouds = [cloud(50, seed=7), cloud(40, seed=8, shift=0.5)]
    whole = intersection_centres(clouds, [1.0, 2.0], 10, 5)
    monkeypatch.setattr(latents, "ROWS", 7)
    torch.testing.assert_close(intersection_centres(clouds, [1.0, 2.0], 10, 5), whole)
