"""Where the distributions of several labels meet: the search of MultiCTG.

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation", section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

ITERATIONS = 15
CANDIDATES = 1000
"""So many points are kept of each label's seeds, and so many of all."""
ROWS = 512
"""Distances of so many points are computed at once."""


def intersection_centres(
    clouds: Sequence[torch.Tensor],
    weights: Sequence[float],
    neighbours: int,
    n: int,
    *,
    iterations: int = ITERATIONS,
    candidates: int = CANDIDATES,
) -> torch.Tensor:
    """Points that are near the latents of every label at once, best first: (at most n, d), float64.

    N_a(q) is the mean of the K latents of label a that are nearest to q, and the score of q is
    −mean_a mean ‖q − x‖² over those latents. Every latent x of a label i is a seed
    q = (x + Σ_{j≠i} N_j(x)) / A; the best seeds of each label, and of those the best, go on. Then
    q ← Σ_a w_a N_a(q) / Σ_a w_a, several times, with the weights of these labels and no others. Of
    one label alone this climbs to where its latents are dense.

    Args:
        clouds: the latents of each label, (n_a, d).
        weights: w, one a label.
        neighbours: K; of a label with fewer latents, all.
        n: points that are returned.
        iterations, candidates: how often points move, and how many do.
    """
    X = [cloud.double() for cloud in clouds]
    seeds = []
    for i, x in enumerate(X):
        others = [_nearest(x, other, neighbours)[0] for j, other in enumerate(X) if j != i]
        q = (x + sum(others)) / len(X)
        seeds.append(_best(q, X, neighbours, candidates))
    q = _best(torch.cat(seeds), X, neighbours, candidates)
    total = sum(weights)
    for _ in range(iterations):
        means = [_nearest(q, x, neighbours)[0] for x in X]
        q = torch.stack([w / total * mean for w, mean in zip(weights, means, strict=True)]).sum(0)
    return _best(q, X, neighbours, n)


def _best(q: torch.Tensor, X: Sequence[torch.Tensor], k: int, n: int) -> torch.Tensor:
    """The n points of the highest score, best first; the first of equals first."""
    distance = torch.stack([_nearest(q, x, k)[1] for x in X]).mean(0)
    return q[distance.argsort(stable=True)[:n]]


def _nearest(q: torch.Tensor, X: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean of the k of X that are nearest to each q, (rows, d), and their mean squared distance,
    (rows,)."""
    k = min(k, len(X))
    means, distances = [], []
    for some in torch.split(q, ROWS):
        squared = torch.cdist(some, X, compute_mode="donot_use_mm_for_euclid_dist").square()
        near = squared.topk(k, dim=1, largest=False)
        share = torch.zeros_like(squared).scatter_(1, near.indices, 1 / k)
        means.append(share @ X)
        distances.append(near.values.mean(1))
    return torch.cat(means), torch.cat(distances)
