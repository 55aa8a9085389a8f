"""P(text) from causal language models in CTranslate2."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from levelfield.core.arrays import Floats, Ints, Singles
from levelfield.models.causal import BatchedCausalModel
from levelfield.models.causal_tokens import CausalTokens
from levelfield.models.ctranslate2.opening import array

WHOLE_LOGITS = 2**23, 2**28
"""So many logits a batch has at most on a CPU, whose caches hold them (32 MiB in float32), and on a
GPU (1 GiB), unless one text has more."""


class CTranslate2CausalModel(BatchedCausalModel):
    """Causal checkpoints in CTranslate2.

    It reads no trees of tokens: what stands before several words or texts is read again for each,
    except for words of one token behind one place.

    Args:
        generator: the converted model, with ids as its vocabulary.
        tokenizer, config: of the checkpoint.
    """

    def __init__(
        self, generator: Any, tokenizer: Any, config: Any, *, batch_tokens: int | None = None
    ) -> None:
        tokens = CausalTokens(tokenizer, config)
        on_cpu = generator.device == "cpu"
        most = max(1, WHOLE_LOGITS[not on_cpu] // tokens.vocabulary_size)
        wished = batch_tokens or (2048 if on_cpu else 65536)
        super().__init__(tokens, batch_tokens=min(wished, most))
        self._generator = generator

    @functools.cached_property
    def _unigram_bos(self) -> Floats:
        log_p: Floats = self._log_p_of_all([[self._tokens.bos_id]])[0, 0].astype(np.float64)
        return log_p

    def unigram_bos(self) -> Floats:
        """log p(t | BOS) of every token: (vocabulary,), from one forward of BOS, done once."""
        return self._unigram_bos

    def _log_p_at(
        self, given: Sequence[Ints], at: Sequence[Ints], tokens: Sequence[Ints]
    ) -> list[Floats]:
        log_p = self._log_p_of_all([one.tolist() for one in given])
        return [
            np.minimum(log_p[row, places, ids].astype(np.float64), 0)
            for row, (places, ids) in enumerate(zip(at, tokens, strict=True))
        ]

    def _log_p_of_all(self, ids: Sequence[list[int]]) -> Singles:
        """log P of every token after every token: (rows, tokens, vocabulary)."""
        log_p = array(self._generator.forward_batch(ids, return_log_probs=True))
        return log_p[..., : self.vocabulary_size]
