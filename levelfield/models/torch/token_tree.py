"""Trees of tokens as PyTorch models read them: one pass over all of a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from levelfield.models.batching import padded
from levelfield.models.causal import has_windows
from levelfield.models.token_tree import TokenTree


def attention(
    trees: Sequence[TokenTree], device: torch.device, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """What a model reads beside the ids of a batch of trees: each token attends to those on its
    way from the root, and its position is how many those are.

    The mask is added to the attention's logits: (trees, 1, nodes, nodes). Padding attends to
    itself, since a softmax over nothing is NaN.
    """
    longest = max(map(len, trees))
    sight = np.zeros((len(trees), 1, longest, longest), np.bool_)
    sight[:] = np.eye(longest, dtype=np.bool_)
    for row, tree in enumerate(trees):
        sight[row, 0, : len(tree), : len(tree)] = tree.sight()
    mask = torch.zeros(sight.shape, dtype=dtype, device=device)
    mask.masked_fill_(~torch.from_numpy(sight).to(device), torch.finfo(dtype).min)
    positions = torch.from_numpy(padded([tree.depths for tree in trees], 0))
    return {"attention_mask": mask, "position_ids": positions.to(device)}


def reads_trees(
    body: Callable[..., torch.Tensor], ids: torch.Tensor, config: Any, dtype: torch.dtype
) -> bool:
    """Whether the states of a tree are those of its paths.

    They are not where positions are told by the order of tokens alone (BLOOM's, XLNet's), nor in a
    recurrent model. A tree of a few tokens does not show layers that attend to a window only; the
    configuration does.

    Args:
        body: ids -> states or logits, (rows, tokens, d).
        ids: (1, tokens) that the model may read.
    """
    if has_windows(config):
        return False
    few = ids[0].tolist()
    tree = TokenTree(few[0])
    trunk = tree.walk(0, few[1:6])
    for at, begin in ((-1, 6), (-1, 9), (len(trunk) // 2, 12)):
        tree.walk(trunk[at], few[begin : begin + 3])
    tree.after, tree.scored = list(range(len(tree))), tree.ids
    with torch.inference_mode():
        try:
            found = body(
                torch.tensor([tree.ids], device=ids.device), **attention([tree], ids.device, dtype)
            )[0].float()
        except (TypeError, ValueError, RuntimeError, IndexError):
            return False
        for branch in tree.branches():
            ids_of_branch = torch.from_numpy(branch.ids)[None].to(ids.device)
            expected = body(ids_of_branch)[0, branch.after].float()
            change = (found[branch.which] - expected).norm(dim=-1) / expected.norm(dim=-1)
            if not (change <= max(1e-4, 4 * torch.finfo(dtype).eps)).all():
                return False
    return True
