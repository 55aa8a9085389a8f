"""Future discriminators beside a base that writes: what a text so far will be when it is complete.

Yang and Klein 2021, "FUDGE: Controlled Text Generation With Future Discriminators", section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from levelfield.generation.guides import weights_on_base
from levelfield.models.guides import Guide
from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.torch.future import (
    FutureDiscriminator,
    FutureShape,
    KeysValues,
    text_rows,
)

KEPT = 8
"""How many of these a process keeps, those used last."""
CHUNK = 512
"""So many candidates a row are read at once."""


@dataclass(frozen=True, eq=False)
class FutureModel:
    """A guide of kind `future` with its weights.

    Attributes:
        guide: what was learnt.
        network: P(label | text so far), on the base's embeddings.
        bos_id: the token that precedes every text.
    """

    guide: Guide
    network: FutureDiscriminator
    bos_id: int

    def rows(self) -> FutureRows:
        """A state for one batch of texts."""
        return FutureRows(self.network, self.bos_id)


@functools.lru_cache(maxsize=KEPT)
def future_model(
    guide: Guide,
    model: str = OFFLINE_LM,
    loading: Loading = Loading(),  # noqa: B008
) -> FutureModel:
    """The discriminator of a guide on its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    with weights_on_base(guide, "future", model, loading) as (base, tensors):
        shape = FutureShape(**guide.settings["shape"])
        table = base.model.get_input_embeddings().weight
        network = FutureDiscriminator(table, len(guide.labels), shape)
        network.load_state_dict(tensors)
    network.requires_grad_(False).eval().to(base.device)
    return FutureModel(guide, network, base.bos_id)


class FutureRows:
    """A discriminator in the middle of a batch of texts; a text is read once.

    Candidates for the next token are one sequence, in which each sees the text and itself and all
    have the same position.

    Args:
        bos_id: stands before every text.
    """

    def __init__(self, model: FutureDiscriminator, bos_id: int) -> None:
        self._model, self._bos_id = model, bos_id
        self.passes = 0

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Begins texts anew, without BOS."""
        ids, real = text_rows(texts, self._bos_id)
        device = self._model.embeddings.device
        self._ids, self._real = ids.to(device), real.to(device)
        self._past: list[KeysValues] = []

    def read(self, tokens: torch.Tensor) -> None:
        """One more token a text: (rows,)."""
        self._ids = torch.cat([self._ids, tokens[:, None]], dim=1)
        self._real = torch.cat([self._real, self._real.new_ones(len(tokens), 1)], dim=1)

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these texts only, in this order."""
        self._ids, self._real = self._ids[rows], self._real[rows]
        self._past = [KeysValues(k[rows], v[rows]) for k, v in self._past]

    def scores(self, candidates: torch.Tensor) -> torch.Tensor:
        """log P(label | text, candidate): candidates (rows, n) → (rows, n, labels)."""
        logits = [self._pass(some) for some in torch.split(candidates, CHUNK, dim=1)]
        return torch.cat(logits, dim=1).log_softmax(-1)

    def _pass(self, candidates: torch.Tensor) -> torch.Tensor:
        """Reads what is new of the texts, and candidates behind them."""
        rows, n = candidates.shape
        seen = self._past[0].keys.shape[2] if self._past else 0
        text = self._ids.shape[1]
        new = text - seen
        places = self._real.cumsum(-1)
        mask = torch.zeros(rows, new + n, text + n, dtype=torch.bool, device=candidates.device)
        mask[:, :, :text] = self._real[:, None, :]
        mask[:, :new, seen:text] &= torch.ones_like(mask[0, :new, :new]).tril()
        mask[:, new:, text:] = torch.eye(n, dtype=torch.bool, device=candidates.device)
        logits, read = self._model.forward(
            torch.cat([self._ids[:, seen:], candidates], dim=1),
            torch.cat([places[:, seen:] - 1, places[:, -1:].expand(rows, n)], dim=1),
            mask,
            self._past,
        )
        self._past = [KeysValues(k[:, :, :text], v[:, :, :text]) for k, v in read]
        self.passes += 1
        return logits[:, new:]
