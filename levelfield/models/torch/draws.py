"""One token from a distribution, with random numbers that a seed and a key name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from levelfield.core.arrays import Floats

_FEW = 1024
"""So many most likely tokens are looked at first."""

Key = tuple[int, ...]
"""Tells the random numbers of one text from another's."""


def inverse_cdf(p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Returns the first token whose cumulated probability exceeds u: (rows,).

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
    """Returns p without the tokens that `top_k` and `top_p` leave out; not normalised again."""
    if 0 < top_k < p.shape[-1]:
        p = p.masked_fill(p < p.topk(top_k, dim=-1).values[:, -1:], 0)
    if top_p < 1:
        p = p.masked_fill(p < _least(p, p.sum(-1, keepdim=True), top_p), 0)
    return p


def _least(p: torch.Tensor, total: torch.Tensor, top_p: float, few: int = _FEW) -> torch.Tensor:
    """Returns the smallest of the largest probabilities that have `top_p` of the total: (rows, 1).

    Args:
        few: number of probabilities that are sorted first, since they nearly always suffice and a
            whole vocabulary is slow to sort; in rows where they do not, more are sorted.
    """
    ordered = p.topk(min(few, p.shape[-1]), dim=-1).values
    share = ordered / total
    reached = share.cumsum(-1)
    least = ordered.masked_fill(reached - share >= top_p, torch.inf).min(-1, keepdim=True).values
    lacking = reached[:, -1] < top_p
    if few < p.shape[-1] and lacking.any():
        least[lacking] = _least(p[lacking], total[lacking], top_p, 8 * few)
    return least


def uniform(seed: int, key: Key, count: int) -> Floats:
    """Returns the first numbers in [0, 1) of a stream that the seed and the key name."""
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    return np.random.Generator(np.random.Philox(sequence)).random(count)


class Exponentials:
    """Exponential noise of several texts, each with its own stream.

    The token with the largest p(t) / E_t, where the E_t are independent and exponential, is drawn
    from p. Whether a change of p in its last digits changes the token depends on the largest two
    only, not, as for `inverse_cdf`, on all tokens before it; so batches of another shape hardly
    ever draw another token.

    Args:
        seed: of the run.
        ids: of the texts; seed and id name a stream.
        width: the size of the vocabulary.
    """

    def __init__(self, seed: int, ids: Sequence[str], width: int) -> None:
        self._streams = [stream(seed, id) for id in ids]
        self._width = width

    def draw(self, log_p: torch.Tensor) -> torch.Tensor:
        """Returns the next token of each row: (rows,).

        Args:
            log_p: (rows, vocabulary), −∞ where a token is impossible; need not be normalised.
        """
        u = torch.empty(len(self._streams), self._width, dtype=torch.float64)
        for row, stream in zip(u, self._streams, strict=True):
            # a generator's uniform numbers are the same on every machine; its exponential ones
            # depend on the libraries that PyTorch is built with
            row.uniform_(generator=stream)
        u = u[:, : log_p.shape[1]]
        possible = log_p > -torch.inf
        if possible.all():
            return _raced(log_p, u).argmax(-1)
        # logarithms are slow, and few tokens are possible
        places = possible.nonzero(as_tuple=True)
        raced = torch.full_like(log_p, -torch.inf)
        raced[places] = _raced(log_p[places], u[tuple(place.to(u.device) for place in places)])
        return raced.argmax(-1)

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these texts only."""
        self._streams = [self._streams[row] for row in rows]


def _raced(log_p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Returns log(p / E) with E = −log u, which is above 0."""
    e = u.log().neg_().clamp_(min=torch.finfo(u.dtype).tiny)
    return log_p - e.log_().to(log_p)


def stream(seed: int, id: str, purpose: str = "") -> torch.Generator:
    """Returns the random numbers of one text, the same whatever else is written.

    Args:
        purpose: of numbers that are not for its tokens; each has a stream of its own.
    """
    key = f"{purpose} {seed} {id}" if purpose else f"{seed} {id}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def penalised(
    logits: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor, penalty: float
) -> torch.Tensor:
    """Returns logits with a repetition penalty θ: those of tokens that a row has are divided by θ
    where positive and multiplied by θ where negative (Keskar et al. 2019, section 4.1).

    Args:
        logits: (rows, vocabulary).
        ids: (rows, tokens), what each row has; ids beyond the vocabulary, those of soft prompts,
            are not tokens that could be repeated.
        mask: (rows, tokens), 0 for padding.
    """
    if penalty == 1:
        return logits
    width = logits.shape[1]
    counts = mask.to(logits.dtype).masked_fill(ids >= width, 0)
    present = torch.zeros_like(logits).scatter_add_(1, ids.clamp(max=width - 1), counts) > 0
    return torch.where(present, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def possible(log_p: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Returns which tokens `top_k` and `top_p` leave: (rows, vocabulary), bool."""
    return most_likely(log_p.softmax(-1), top_k, top_p) > 0
