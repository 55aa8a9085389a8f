"""Models by name for the engine CTranslate2: each is converted once, then opened."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from levelfield.core.arrays import Floats, Ints, Singles
from levelfield.core.errors import ModelError
from levelfield.models.causal import BatchedCausalModel
from levelfield.models.causal_tokens import CausalTokens
from levelfield.models.contracts import PLAIN, GapStyle, InfillingModel, Target
from levelfield.models.converted import conversion
from levelfield.models.ctranslate2.conversion import (
    VERSION,
    array,
    check_convertible,
    check_device,
    convert,
    open_converted,
)
from levelfield.models.files import load_config, load_tokenizer
from levelfield.models.infilling import BatchedInfillingModel, ScoredTarget, load_gap_filler
from levelfield.models.loading import Loading
from levelfield.models.resolve import Kind, Resolved, resolve, resolve_causal
from levelfield.models.tokens import buckets

WHOLE_LOGITS = 2**23, 2**28
"""So many logits a batch has at most on a CPU, whose caches hold them (32 MiB in float32), and on a
GPU (1 GiB), unless one text has more."""


class CTranslate2CausalModel(BatchedCausalModel):
    """Causal checkpoints in CTranslate2.

    It reads no trees of tokens: what stands before several words or texts is read again for each,
    except for words of one token after one place.

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
        """Returns log p(t | BOS) of every token: (vocabulary,), from one forward of BOS, done
        once."""
        return self._unigram_bos

    def _log_p_at(
        self, inputs: Sequence[Ints], places: Sequence[Ints], tokens: Sequence[Ints]
    ) -> list[Floats]:
        log_p = self._log_p_of_all([row.tolist() for row in inputs])
        return [
            np.minimum(log_p[i, row_places, ids].astype(np.float64), 0)
            for i, (row_places, ids) in enumerate(zip(places, tokens, strict=True))
        ]

    def _log_p_of_all(self, ids: Sequence[list[int]]) -> Singles:
        """Returns log P of every token after every token: (rows, tokens, vocabulary)."""
        log_p = array(self._generator.forward_batch(ids, return_log_probs=True))
        return log_p[..., : self.vocabulary_size]


TARGET_LOGITS = 2**26
"""So many logits a batch has at most: 256 MiB in float32."""


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
        self._most = max(1, TARGET_LOGITS // self._vocabulary_size)

    def _score(
        self,
        sources: Sequence[list[int]],
        ids: Mapping[Target, list[int]],
        results: Sequence[dict[Target, Floats]],
    ) -> None:
        longer: list[ScoredTarget] = []
        words: list[list[ScoredTarget]] = []
        for source, log_p in enumerate(results):
            of_source: tuple[list[ScoredTarget], list[ScoredTarget]] = [], []
            for target in log_p:
                if ids[target]:
                    is_word = len(ids[target]) == 1 and not target.begin
                    of_source[is_word].append(ScoredTarget(source, ids[target], target, log_p))
            several, short = of_source
            longer += several if len(short) > 1 else [*several, *short]
            words += [short] if len(short) > 1 else []
        for bucket in buckets([len(sources[ws[0].source]) for ws in words], self._batch_tokens):
            for begin in range(0, len(bucket), self._most):
                self._words([words[i] for i in bucket[begin : begin + self._most]], sources)
        for bucket in buckets([len(sources[pair.source]) for pair in longer], self._batch_tokens):
            mine = [longer[i] for i in bucket]
            lengths = [len(self._start) + len(pair.ids) for pair in mine]
            for batch in buckets(lengths, min(self._most, self._batch_tokens // 8)):
                self._targets([mine[i] for i in batch], sources)

    def _targets(self, pairs: Sequence[ScoredTarget], sources: Sequence[list[int]]) -> None:
        """Scores targets, each with its source."""
        opening = self._start[1:]  # the first of them CTranslate2 puts there
        results = self._translator.score_batch(
            [self._written(sources[pair.source]) for pair in pairs],
            [self._written([*opening, *pair.ids]) for pair in pairs],
            max_input_length=0,
        )
        for pair, result in zip(pairs, results, strict=True):
            # the end token, which CTranslate2 puts after every target, is not scored here: a
            # target that ends has its own
            begin = 0 if pair.target.begin else len(opening)
            log_p = np.array(result.log_probs[begin : len(opening) + len(pair.ids)], np.float64)
            pair.results[pair.target] = np.minimum(log_p, 0)

    def _words(self, words: Sequence[list[ScoredTarget]], sources: Sequence[list[int]]) -> None:
        """Scores targets of one token, those of a source in one pass."""
        opening = self._start[1:]
        results = self._translator.translate_batch(
            [self._written(sources[targets[0].source]) for targets in words],
            [self._written(opening) for _ in words] if opening else None,
            beam_size=1,
            max_decoding_length=len(opening) + 1,
            min_decoding_length=0,
            max_input_length=0,
            return_logits_vocab=True,
        )
        for of_source, result in zip(words, results, strict=True):
            logits = array(result.logits[0][len(opening)]).astype(np.float64)
            logits = logits[: self._vocabulary_size]
            shift = logits.max()
            norm = shift + np.log(np.exp(logits - shift).sum())
            for pair in of_source:
                pair.results[pair.target] = np.minimum(logits[pair.ids] - norm, 0)

    def _written(self, ids: Sequence[int]) -> list[str]:
        """Returns ids as the converted vocabulary writes them; CTranslate2 reads others as
        unknown."""
        if max(ids, default=0) >= self._vocabulary_size:
            raise ModelError(
                f"the tokenizer has a token with the id {max(ids)}, and the model's configuration "
                f"has {self._vocabulary_size} tokens; they are not of one model: take the "
                "tokenizer that the model was trained with"
            )
        return list(map(str, ids))


def load_infilling(name: str, loading: Loading) -> InfillingModel:
    """Returns the model of this name that fills gaps: an encoder-decoder of a family whose gap
    format is known, or a causal model that was trained to fill in the middle.

    Raises:
        ModelError: there is no such model, it fills no gaps, or CTranslate2 can't compute it.
    """
    return load_gap_filler(name, loading, _encoder_decoder)


def load_encoder_decoder(name: str, loading: Loading) -> CTranslate2InfillingModel:
    """Returns the encoder-decoder model of this name for sources without gaps.

    Raises:
        ModelError: there is no such model, or CTranslate2 can't compute it.
    """
    return _encoder_decoder(resolve(name, loading), loading, PLAIN)


def load_causal(name: str, loading: Loading) -> CTranslate2CausalModel:
    """Returns the causal language model of this name.

    Raises:
        ModelError: there is no such model, or CTranslate2 can't compute it.
    """
    parts = _parts(resolve_causal(name, loading), "causal", loading)
    return CTranslate2CausalModel(*parts, batch_tokens=loading.batch_tokens)


def _encoder_decoder(
    resolved: Resolved, loading: Loading, style: GapStyle
) -> CTranslate2InfillingModel:
    parts = _parts(resolved, "encoder-decoder", loading)
    return CTranslate2InfillingModel(*parts, style=style, batch_tokens=loading.batch_tokens)


def _parts(resolved: Resolved, kind: Kind, loading: Loading) -> tuple[Any, Any, Any]:
    """Returns CTranslate2's object of a model, converted now if it is not yet, with the tokenizer
    and the configuration of the checkpoint."""
    import ctranslate2

    check_device(loading)
    check_convertible(resolved, kind)
    config, tokenizer = load_config(resolved), load_tokenizer(resolved)
    folder = conversion(
        resolved.name,
        resolved.revision,
        ("ctranslate2", ctranslate2.__version__, loading.dtype, str(VERSION)),
        lambda into: convert(resolved, loading.dtype, into),
    )
    opened = open_converted("Generator" if kind == "causal" else "Translator", folder, loading)
    return opened, tokenizer, config
