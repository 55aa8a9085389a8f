"""Texts as causal language models read them.

The BOS rule: every text is preceded by the tokenizer's BOS token, or by its EOS token where there
is none (GPT-2's `<|endoftext|>` is both), exactly once, whatever the tokenizer itself would put
there.

Signatures and lists of metrics ask for it, and importing those takes seconds.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from levelfield.core.arrays import Ints
from levelfield.core.errors import ModelError
from levelfield.io.json_input import read_json
from levelfield.models.contracts import CausalVocabulary
from levelfield.models.files import load_config, load_tokenizer
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve_causal


def digest(ids: Mapping[str, int]) -> str:
    """Names which token each id is.

    Args:
        ids: token -> id.
    """
    pairs = sorted((int(id), token) for token, id in ids.items())
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()[:12]


class ConvertedVocabulary:
    """A `CausalVocabulary` of the folder that `converted` makes.

    Attributes:
        bos: the token that precedes every text.
        vocabulary_size: how many tokens the model gives probabilities to.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.encode_special_tokens = True  # one that is written out is characters
        self.bos: str = read_json(folder / "tokenizer_config.json")["bos_token"]
        self.vocabulary_size = int(read_json(folder / "config.json")["vocab_size"])

    @functools.cached_property
    def digest(self) -> str:
        """Names which token each id is: what counts of ids are of."""
        return digest(self._tokenizer.get_vocab())

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of whole texts, without special tokens."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encoded]


WITHOUT_LIMIT = 2048
"""Tokens read of a text by a model whose configuration names no limit, as BLOOM's does not."""


class Tokenised(NamedTuple):
    """A text as a model reads it; attributes as in `CausalLikelihood`."""

    ids: Ints
    ends: Ints
    cut: bool


class CausalTokens:
    """The tokenizer of a causal model, which loads without the weights.

    No special token is put around a text, and a special token that is written out in a text
    (`</s>`) is read as the characters that it is.

    Args:
        first: the token that precedes every text, if not the tokenizer's own.

    Attributes:
        bos, bos_id: the token that precedes every text.
        vocabulary_size: how many tokens the model gives probabilities to.
        limit: how many tokens of a text are scored; what exceeds it is cut off its end.

    Raises:
        ModelError: the tokenizer has neither BOS nor EOS, or, here or when texts are read, a token
            that the model does not have.
    """

    def __init__(self, tokenizer: Any, config: Any, first: int | None = None) -> None:
        bos_id = tokenizer.bos_token_id if first is None else first
        if bos_id is None:
            bos_id = tokenizer.eos_token_id
        if bos_id is None:
            raise ModelError(
                "the model's tokenizer has neither a BOS nor an EOS token, so the first token of "
                "a text has no context to be scored on; set one in tokenizer_config.json"
            )
        self._tokenizer = tokenizer
        config = config.get_text_config()
        self.vocabulary_size = int(config.vocab_size)
        self.bos_id = int(bos_id)
        self._check_known(self.bos_id)
        self.bos: str = tokenizer.convert_ids_to_tokens(self.bos_id)
        limits = (getattr(config, n, None) for n in ("max_position_embeddings", "seq_length"))
        # XLNet's -1 is no limit
        self.limit = next((int(limit) for limit in limits if limit and limit > 0), WITHOUT_LIMIT)
        # `transformers` warns of texts longer than a model takes; they are cut and counted here
        tokenizer.model_max_length = int(1e30)

    @functools.cached_property
    def digest(self) -> str:
        """Names which token each id is: what counts of ids are of."""
        return digest(self._tokenizer.get_vocab())

    @property
    def end_id(self) -> int | None:
        """The id of the end-of-text token; None if there is none."""
        id = self._tokenizer.eos_token_id
        return None if id is None else int(id)

    def single(self, token: str) -> int | None:
        """Returns the id of an entry of the vocabulary; None if there is no such entry."""
        id = self._tokenizer.get_vocab().get(token)
        return None if id is None else int(id)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of whole texts."""
        return [list(ids) for ids in self._encode(texts)["input_ids"]] if texts else []

    def fit(self, texts: Sequence[str]) -> list[Tokenised]:
        """Returns texts cut to what the model takes."""
        if not texts:
            return []
        # no token of a usual vocabulary spans 64 characters: this cut never shows in what is kept
        near = [text[: 64 * self.limit] for text in texts]
        encoded = self._encode(near, return_offsets_mapping=self._tokenizer.is_fast)
        spans = encoded.get("offset_mapping") or [[]] * len(texts)
        return [
            Tokenised(
                np.array(ids[: self.limit], np.int64),
                np.array([end for _, end in of_text[: self.limit]], np.int64),
                len(ids) > self.limit or len(beginning) < len(text),
            )
            for ids, of_text, beginning, text in zip(
                encoded["input_ids"], spans, near, texts, strict=True
            )
        ]

    def _encode(self, texts: Sequence[str], **options: Any) -> Any:
        encoded = self._tokenizer(
            list(texts), add_special_tokens=False, split_special_tokens=True, **options
        )
        self._check_known(max(map(max, filter(None, encoded["input_ids"])), default=0))
        return encoded

    def _check_known(self, id: int) -> None:
        if id >= self.vocabulary_size:
            raise ModelError(
                f"the tokenizer's token {self._tokenizer.convert_ids_to_tokens(id)!r} has the id "
                f"{id}, and the model's configuration has {self.vocabulary_size} tokens; they do "
                "not belong to one model: use the tokenizer that the model was trained with"
            )


def load_causal_tokens(name: str, loading: Loading) -> CausalVocabulary:
    """Returns the tokenizer of the causal model of this name, without its weights in memory.

    Raises:
        ModelError: there is no such model, or it is not a causal one.
    """
    resolved = resolve_causal(name, loading)
    if resolved.gguf:
        return ConvertedVocabulary(resolved.path)
    return CausalTokens(load_tokenizer(resolved), load_config(resolved))
