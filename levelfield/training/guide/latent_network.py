"""What a guide of kind `latent` learns: an encoder, a decoder into prefixes, and a head."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch.nn import functional as F

from levelfield.generation.language_model import LanguageModel
from levelfield.generation.rows import prefix_cache
from levelfield.models.batching import padded
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.latent import (
    LatentEncoder,
    PrefixDecoder,
    PrefixShape,
    cache_shape,
    keys_and_values,
)
from levelfield.training.guide.settings import LatentSettings
from levelfield.training.loop import seeded

LEAST = 1e-3
"""Vectors count as this far from their mean at least; those of one text only are no distance."""


class LearntLatent(torch.nn.Module):
    """An encoder of vectors, a decoder into prefixes of a base, and a head for the labels.

    Prefixes begin as what the base keeps of P BOS tokens, so that it writes as behind the end of
    another text.

    Args:
        base: its weights stay as they are.
        vectors: of all texts, (texts, width).
        labels: of all attributes.
    """

    def __init__(
        self,
        base: LanguageModel,
        vectors: torch.Tensor,
        labels: int,
        settings: LatentSettings,
        seed: int,
    ) -> None:
        super().__init__()
        base.model.requires_grad_(False)
        shape = PrefixShape(
            settings.size, settings.positions, *cache_shape(base.model), settings.rank
        )
        begin = torch.tensor([[base.bos_id] * settings.positions], device=base.device)
        with seeded(seed):
            mean = vectors.mean(0).cpu()
            spread = float((vectors.cpu() - mean).norm(dim=1).mean())
            self.encoder = LatentEncoder(mean, max(spread, LEAST), settings.size)
            self.decoder = PrefixDecoder(shape, keys_and_values(base.model, begin)[0].cpu())
            self.head = torch.nn.Linear(settings.size, labels)
        self.to(base.device)
        self._bos, self._cache = base.bos_id, functools.partial(prefix_cache, base.model)
        few = torch.tensor([[base.bos_id] * 2], device=base.device)
        self._body, self._logits, _ = body_and_head(base.model, few)

    def nats(self, e: torch.Tensor, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """−log P(text | prefix of e), the sum over the tokens of each text: (rows,)."""
        return self.nats_behind(self.decoder(e), texts)

    def nats_behind(
        self, prefix: torch.Tensor | None, texts: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """−log P(text | prefix): (rows,); None for no prefix."""
        longest = max(map(len, texts))
        rows = padded([[self._bos, *text[:-1]] for text in texts], self._bos)
        ids = torch.from_numpy(rows).to(self.head.weight.device)
        states = self._body(ids, past_key_values=self._cache(prefix))
        at = [i * longest + t for i, text in enumerate(texts) for t in range(len(text))]
        row = [i for i, text in enumerate(texts) for _ in text]
        tokens = [token for text in texts for token in text]
        where = torch.tensor(at, device=ids.device)
        logits = self._logits(states.flatten(0, 1)[where], slice(None)).float()
        nats = F.cross_entropy(logits, torch.tensor(tokens, device=ids.device), reduction="none")
        sums = torch.zeros(len(texts), device=ids.device)
        return sums.index_add(0, torch.tensor(row, device=ids.device), nats)
