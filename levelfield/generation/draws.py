"""One token from a distribution, with random numbers that a seed and a key name."""

from __future__ import annotations

import numpy as np
import torch

from levelfield.core.arrays import Floats

Key = tuple[int, ...]
"""Tells the random numbers of one text from another's."""


def inverse_cdf(p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The first token whose cumulated probability exceeds u: (rows,).

    Args:
        p: (rows, vocabulary), each row above zero somewhere; need not sum to 1.
        u: (rows,) in [0, 1).
    """
    cdf = p.cumsum(-1)
    total = cdf[:, -1]
    # below the total even when the product is rounded up, so that a possible token exceeds it
    target = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cdf, target[:, None], right=True)[:, 0]


def most_likely(p: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """p without the tokens that `top_k` and `top_p` leave out; not normalised again."""
    if 0 < top_k < p.shape[-1]:
        p = p.masked_fill(p < p.topk(top_k, dim=-1).values[:, -1:], 0)
    if top_p < 1:
        ordered = p.sort(dim=-1, descending=True).values
        share = ordered / ordered.sum(-1, keepdim=True)
        stays = share.cumsum(-1) - share < top_p
        least = ordered.masked_fill(~stays, torch.inf).min(-1, keepdim=True).values
        p = p.masked_fill(p < least, 0)
    return p


def uniform(seed: int, key: Key, count: int) -> Floats:
    """The first numbers in [0, 1) of a stream that the seed and the key name."""
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    return np.random.Generator(np.random.Philox(sequence)).random(count)
