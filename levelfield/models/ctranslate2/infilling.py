"""P(target | source) from encoder-decoder models in CTranslate2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.models.batching import buckets
from levelfield.models.contracts import Target
from levelfield.models.ctranslate2.opening import array
from levelfield.models.gaps import GapStyle
from levelfield.models.infilling import BatchedInfillingModel

WHOLE_LOGITS = 2**26
"""So many logits a batch has at most: 256 MiB in float32."""


class WantedTarget(NamedTuple):
    """A target of a source, and where its result goes.

    Attributes:
        source: its place among the sources.
        ids: what is scored of the target.
    """

    source: int
    ids: list[int]
    target: Target
    found: dict[Target, Floats]


class CTranslate2InfillingModel(BatchedInfillingModel):
    """PEGASUS, T5 and BART checkpoints in CTranslate2.

    It encodes a source again for each of its targets, except for targets of one token: those of a
    source are read from one pass, which has the logits of the whole vocabulary.

    Args:
        translator: the converted model, with ids as its vocabulary.
        tokenizer, config: of the checkpoint.
        batch_tokens: the most tokens of sources in a batch, padding included.
        style: how gaps are marked.
    """

    def __init__(
        self,
        translator: Any,
        tokenizer: Any,
        config: Any,
        *,
        style: GapStyle,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(tokenizer, config, style)
        self._translator = translator
        on_cpu = translator.device == "cpu"
        self._batch_tokens = batch_tokens or (4096 if on_cpu else 65536)
        self._most = max(1, WHOLE_LOGITS // self._vocabulary_size)

    def _score(
        self,
        sources: Sequence[list[int]],
        ids: Mapping[Target, list[int]],
        wanted: Sequence[dict[Target, Floats]],
    ) -> None:
        longer: list[WantedTarget] = []
        words: list[list[WantedTarget]] = []
        for at, found in enumerate(wanted):
            of_source: tuple[list[WantedTarget], list[WantedTarget]] = [], []
            for target in found:
                if ids[target]:
                    is_word = len(ids[target]) == 1 and not target.begin
                    of_source[is_word].append(WantedTarget(at, ids[target], target, found))
            several, short = of_source
            longer += several if len(short) > 1 else [*several, *short]
            words += [short] if len(short) > 1 else []
        for bucket in buckets([len(sources[of[0].source]) for of in words], self._batch_tokens):
            for begin in range(0, len(bucket), self._most):
                self._words([words[i] for i in bucket[begin : begin + self._most]], sources)
        for bucket in buckets([len(sources[pair.source]) for pair in longer], self._batch_tokens):
            mine = [longer[i] for i in bucket]
            lengths = [len(self._start) + len(pair.ids) for pair in mine]
            for batch in buckets(lengths, min(self._most, self._batch_tokens // 8)):
                self._targets([mine[i] for i in batch], sources)

    def _targets(self, pairs: Sequence[WantedTarget], sources: Sequence[list[int]]) -> None:
        """Scores targets, each with its source."""
        given = self._start[1:]  # the first of them CTranslate2 puts there
        results = self._translator.score_batch(
            [self._written(sources[pair.source]) for pair in pairs],
            [self._written([*given, *pair.ids]) for pair in pairs],
            max_input_length=0,
        )
        for pair, result in zip(pairs, results, strict=True):
            # of the end token, which CTranslate2 puts behind every target, nothing was asked: a
            # target that ends has its own
            begin = 0 if pair.target.begin else len(given)
            log_p = np.array(result.log_probs[begin : len(given) + len(pair.ids)], np.float64)
            pair.found[pair.target] = np.minimum(log_p, 0)

    def _words(self, words: Sequence[list[WantedTarget]], sources: Sequence[list[int]]) -> None:
        """Scores targets of one token, those of a source in one pass."""
        given = self._start[1:]
        results = self._translator.translate_batch(
            [self._written(sources[of[0].source]) for of in words],
            [self._written(given) for _ in words] if given else None,
            beam_size=1,
            max_decoding_length=len(given) + 1,
            min_decoding_length=0,
            max_input_length=0,
            return_logits_vocab=True,
        )
        for of_source, result in zip(words, results, strict=True):
            logits = array(result.logits[0][len(given)])[: self._vocabulary_size].astype(np.float64)
            shift = logits.max()
            norm = shift + np.log(np.exp(logits - shift).sum())
            for pair in of_source:
                pair.found[pair.target] = np.minimum(logits[pair.ids] - norm, 0)

    def _written(self, ids: Sequence[int]) -> list[str]:
        """Ids as the converted vocabulary writes them; CTranslate2 reads others as unknown."""
        if max(ids, default=0) >= self._vocabulary_size:
            raise ModelError(
                f"the tokenizer has a token with the id {max(ids)}, and the model's configuration "
                f"has {self._vocabulary_size} tokens; they are not of one model: take the "
                "tokenizer that the model was trained with"
            )
        return list(map(str, ids))
