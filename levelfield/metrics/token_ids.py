"""Texts as ids of tokens, for metrics that count them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from levelfield.core.arrays import Hashes
from levelfield.text.words import words

TokenIds = Callable[[Sequence[str]], list[Hashes]]


def tokenizer_label(name: str) -> str:
    """How signatures name a tokenizer.

    Raises:
        ModelError: there is no such model.
    """
    if name == "words":
        return "words-casefold"
    if name == "gpt2":
        from levelfield.models.published import GPT2_MERGES, GPT2_VOCABULARY

        return f"gpt2@{GPT2_VOCABULARY.sha256[:12]}+{GPT2_MERGES.sha256[:12]}"
    from levelfield.models.resolve import resolve

    return resolve(name).label


@functools.lru_cache(maxsize=4)
def token_ids(name: str) -> TokenIds:
    """The tokenizer of this name: an id of 64 bits for every token of every text.

    Args:
        name: `words`, case folded; `gpt2`, the published byte pairs of GPT-2; or the name or
            folder of a model, whose tokenizer is meant.

    Raises:
        FetchError, ModelError: the tokenizer can't be had.
    """
    if name == "words":
        return _word_ids
    return _gpt2() if name == "gpt2" else _of_model(name)


def _word_ids(texts: Sequence[str]) -> list[Hashes]:
    return [np.array([*map(_hash, words(text))], np.uint64) for text in texts]


@functools.lru_cache(maxsize=1 << 17)
def _hash(word: str) -> int:
    """The same in every process, unlike Python's own."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _gpt2() -> TokenIds:
    from tokenizers import Tokenizer, models, pre_tokenizers

    from levelfield.io.fetch import fetch
    from levelfield.models.published import GPT2_MERGES, GPT2_VOCABULARY

    bpe = models.BPE.from_file(str(fetch(GPT2_VOCABULARY)), str(fetch(GPT2_MERGES)))
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def ids(texts: Sequence[str]) -> list[Hashes]:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(one.ids, np.uint64) for one in encoded]

    return ids


def _of_model(name: str) -> TokenIds:
    from levelfield.models.files import load_tokenizer
    from levelfield.models.resolve import resolve
    from levelfield.models.tokens import Tokens

    tokens = Tokens(load_tokenizer(resolve(name)), marks=True)
    return lambda texts: [np.array(ids, np.uint64) for ids in tokens.ids(texts)]
