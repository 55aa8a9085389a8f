"""log-softmax over a vocabulary at the few tokens that are scored."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

Head = Callable[[torch.Tensor, slice], torch.Tensor]
"""States (n, d) and a part of the vocabulary -> logits (n, part), which are the caller's to
change."""


class Block(NamedTuple):
    """Numbers of states and of vocabulary tokens whose logits are computed at a time."""

    states: int
    width: int

    @classmethod
    def on(cls, device: torch.device) -> Block:
        """Returns the block for a device; on a CPU one that stays in its caches."""
        return cls(1024, 2048) if device.type == "cpu" else cls(2048, 65536)


def token_log_p(
    head: Head,
    states: torch.Tensor,
    states_of_tokens: torch.Tensor,
    tokens: torch.Tensor,
    *,
    vocabulary: int,
    block: Block,
) -> torch.Tensor:
    """Returns log p(token | state) = logit of the token − log Σ exp(logits of the vocabulary).

    In float32 or better whatever the states are.

    Args:
        head: gives the logits.
        states: (n, d).
        states_of_tokens: (m,) the state that each token comes after.
        tokens: (m,) of the vocabulary.

    Returns:
        (m,) float64, in nats.
    """
    log_p = torch.empty(len(tokens), dtype=torch.float64, device=states.device)
    for begin in range(0, len(states), block.states):
        mine = ((states_of_tokens >= begin) & (states_of_tokens < begin + block.states)).nonzero()[
            :, 0
        ]
        block_states = states[begin : begin + block.states]
        width = max(block.width, block.states * block.width // len(block_states))
        log_p[mine] = _block_log_p(
            head, block_states, states_of_tokens[mine] - begin, tokens[mine], vocabulary, width
        )
    return log_p


def _block_log_p(
    head: Head,
    states: torch.Tensor,
    states_of_tokens: torch.Tensor,
    tokens: torch.Tensor,
    vocabulary: int,
    width: int,
) -> torch.Tensor:
    """Returns `token_log_p` of one block of states.

    The vocabulary goes by in blocks. The norm of the blocks before is what the exponentials of a
    block are shifted by, so that no block but the first needs a pass for its largest logit: they
    overflow only where a logit exceeds all of that by 88, and then that pass is made.
    """
    token_logits = torch.empty(len(tokens), dtype=torch.float64, device=states.device)
    norm = torch.full((len(states),), -torch.inf, dtype=torch.float64, device=states.device)
    for begin in range(0, vocabulary, width):
        logits = head(states, slice(begin, begin + width)).float()
        column = tokens - begin
        here = (column >= 0) & (column < logits.shape[-1])
        token_logits[here] = logits[states_of_tokens[here], column[here]].double()
        if not begin:
            norm = logits.logsumexp(-1).double()
            continue
        shift = norm.float()
        more = logits.sub_(shift[:, None]).exp_().sum(-1).double()
        grown = (norm - shift).exp_().add_(more).log_().add_(shift)
        if not grown.isfinite().all():
            logits = head(states, slice(begin, begin + width)).float()
            grown = torch.logaddexp(norm, logits.logsumexp(-1).double())
        norm = grown
    return (token_logits - norm[states_of_tokens]).clamp_(
        max=0
    )  # rounding of the norm may leave a log P above 0
