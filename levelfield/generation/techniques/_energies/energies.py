"""Energies: how far a distribution is from a control, as numbers with gradients.

Every energy is one number a row, in nats, and differentiable.
"""

from __future__ import annotations

import torch


def bag_energy(log_p: torch.Tensor, bag: torch.Tensor) -> torch.Tensor:
    """−log Σ_{w in bag} p(w): (rows,). Dathathri et al. (2020), "PPLM", section 4.2.

    Args:
        log_p: of the next token, (rows, vocabulary).
        bag: which tokens are in the bag of each row, (rows, vocabulary), bool; at least one.
    """
    return -log_p.masked_fill(~bag, -torch.inf).logsumexp(-1)


def label_energy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """−log softmax(logits)[label], a classifier's cross-entropy: (rows,).

    Args:
        logits: of the labels, (rows, labels).
        labels: the wanted label of each row, (rows,).
    """
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def kl_energy(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ q) = Σ_w p(w) (log p(w) − log q(w)): (rows,).

    Args:
        log_p, log_q: (rows, vocabulary).
    """
    # 0 · log 0 is 0, and its gradient too
    gap = torch.where(log_p.isneginf(), torch.zeros_like(log_p), log_p - log_q)
    return (log_p.exp() * gap).sum(-1)


def keyword_energy(
    log_p: torch.Tensor, gumbel: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """−mean_k Σ_t q_tk ℓ_tk with q = softmax_t(ℓ_tk + noise): each token k is wanted at one
    position, which position is open, and the likelier ones are the more so: (rows,).

    ℓ is log p, at least −20. Liu et al. (2023), "BOLT", section 3.

    Args:
        log_p: of the wanted tokens at each position, (rows, positions, n).
        gumbel: noise, (rows, positions, n).
        mask: which of the n tokens count, (rows, n); at least one of each row. All if not given.
    """
    log_p = log_p.clamp(min=-20.0)
    token_energies = -((log_p + gumbel).softmax(1) * log_p).sum(1)
    if mask is None:
        return token_energies.mean(-1)
    return (token_energies * mask).sum(-1) / mask.sum(-1)
