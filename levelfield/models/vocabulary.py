"""The vocabulary of a converted model from its files alone, without PyTorch or `transformers`.

Signatures and lists of metrics ask for it, and importing those takes seconds.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from levelfield.io.json_input import read_json


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
        """Vocabulary ids of whole texts, without special tokens."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [one.ids for one in encoded]
