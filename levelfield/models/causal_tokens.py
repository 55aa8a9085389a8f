"""Texts as causal language models read them, and the rule for how a text begins.

The rule (`Bos`): by default a text begins as the model's own tokenizer begins it, with BOS or with
nothing before it. `true` puts BOS before every text, or EOS where the tokenizer has no BOS token,
as lm-evaluation-harness does; `false` puts nothing there. `offline/smollm2` reads BOS by default,
as everything of it was measured, although its tokenizer puts none.

Nothing precedes the first token of a text without BOS, so that token is not scored. Where there is
nothing else to read, as of an empty prompt, a model reads BOS: it has to read something.

Signatures and lists of metrics ask for this module, and importing `transformers` takes seconds.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Ints
from levelfield.core.errors import ModelError
from levelfield.io.json_input import read_json
from levelfield.models.contracts import CausalVocabulary
from levelfield.models.files import load_config, load_tokenizer
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved, resolve_causal
from levelfield.models.tokens import put_around

Bos = Literal["auto"] | bool
"""Whether BOS precedes every text; `auto`: if the model's tokenizer puts it there."""

WITHOUT = "no"
"""How signatures name that nothing precedes a text."""


BOS = (
    "Put BOS before each text (true) or not (false); auto does what the model's tokenizer does, "
    "and puts BOS for offline/smollm2."
)
"""The help of that option."""


def rule(resolved: Resolved, bos: Bos) -> Bos:
    """Returns what `auto` means for a model as far as no tokenizer has to say it."""
    return True if bos == "auto" and resolved.has_embedded_lm else bos


@functools.lru_cache(maxsize=64)
def reads_bos(resolved: Resolved, bos: Bos = "auto") -> bool:
    """Returns whether BOS precedes every text that a causal model reads; loads no weights.

    Raises:
        ModelError: the tokenizer's files are damaged, or it puts several tokens before a text.
    """
    bos = rule(resolved, bos)
    return bool(own_bos(load_tokenizer(resolved))) if bos == "auto" else bos


def own_bos(tokenizer: Any) -> list[int]:
    """Returns the token that a tokenizer puts before a text by itself; nothing if it puts none.

    Raises:
        ModelError: it puts several there.
    """
    before, _ = put_around(tokenizer)
    if len(before) > 1:
        tokens = " ".join(map(str, tokenizer.convert_ids_to_tokens(before)))
        raise ModelError(
            f"the model's tokenizer puts several tokens before a text, {tokens}, which is not "
            "supported; bos=true or bos=false says how texts begin"
        )
    return before


def digest(ids: Mapping[str, int]) -> str:
    """Names which token each id is.

    Args:
        ids: token -> id.
    """
    pairs = sorted((int(id), token) for token, id in ids.items())
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()[:12]


class ConvertedVocabulary:
    """A `CausalVocabulary` of the folder that `converted` makes.

    Args:
        reads_bos: whether BOS precedes every text.

    Attributes:
        bos: the BOS token.
        begin: what precedes every text, as signatures name it.
        vocabulary_size: how many tokens the model gives probabilities to.
    """

    def __init__(self, folder: Path, reads_bos: bool = True) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.encode_special_tokens = True  # one that is written out is characters
        self.bos: str = read_json(folder / "tokenizer_config.json")["bos_token"]
        self.begin = self.bos if reads_bos else WITHOUT
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
        first: the token that counts as BOS, if not the tokenizer's own.
        bos: whether BOS precedes every text.

    Attributes:
        bos, bos_id: the BOS token, or EOS where the tokenizer has none.
        reads_bos: whether it precedes every text.
        vocabulary_size: how many tokens the model gives probabilities to.
        limit: how many tokens of a text are scored; what exceeds it is cut off its end.

    Raises:
        ModelError: the tokenizer has neither BOS nor EOS, or puts several tokens before a text, or,
            here or when texts are read, has a token that the model does not have.
    """

    def __init__(
        self, tokenizer: Any, config: Any, first: int | None = None, *, bos: Bos = "auto"
    ) -> None:
        self._tokenizer = tokenizer
        tokenizer_bos = own_bos(tokenizer) if bos == "auto" else []
        self.reads_bos = bool(tokenizer_bos) if bos == "auto" else bos
        ids = (first, *tokenizer_bos, tokenizer.bos_token_id, tokenizer.eos_token_id)
        bos_id = next((id for id in ids if id is not None), None)
        if bos_id is None:
            raise ModelError(
                "the model's tokenizer has neither a BOS nor an EOS token, so there is nothing to "
                "read before a text or in place of an empty one; set one in tokenizer_config.json"
            )
        config = config.get_text_config()
        self.vocabulary_size = int(config.vocab_size)
        self.bos_id = int(bos_id)
        self._check_known(self.bos_id)
        self.bos: str = tokenizer.convert_ids_to_tokens(self.bos_id)
        limits = (getattr(config, n, None) for n in ("max_position_embeddings", "seq_length"))
        # XLNet's -1 means without a limit
        self.limit = next((int(limit) for limit in limits if limit and limit > 0), WITHOUT_LIMIT)
        # `transformers` warns of texts longer than a model takes; they are cut and counted here
        tokenizer.model_max_length = int(1e30)

    @property
    def opening(self) -> list[int]:
        """The tokens before every text: BOS, or none."""
        return [self.bos_id] if self.reads_bos else []

    @property
    def unscored(self) -> int:
        """How many of a text's first tokens are not scored, since nothing precedes them: 0 or 1."""
        return 0 if self.reads_bos else 1

    @property
    def begin(self) -> str:
        """What precedes every text, as signatures name it."""
        return self.bos if self.reads_bos else WITHOUT

    def begun(self, ids: Sequence[int]) -> list[int]:
        """Returns what a model reads of a text: BOS if the rule puts it there, or if nothing else
        is to be read."""
        return [*self.opening, *ids] or [self.bos_id]

    def beginning(self, bos: bool) -> CausalTokens:
        """Returns the same tokenizer with BOS before every text, or without."""
        changed = copy.copy(self)
        changed.reads_bos = bos
        return changed

    @functools.cached_property
    def puts_bos(self) -> bool:
        """Whether the tokenizer puts a token before a text by itself."""
        return bool(put_around(self._tokenizer)[0])

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
        """Returns the id of an entry of the vocabulary; None if there is none."""
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
                np.array([end for _, end in text_spans[: self.limit]], np.int64),
                len(ids) > self.limit or len(beginning) < len(text),
            )
            for ids, text_spans, beginning, text in zip(
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


def load_causal_tokens(name: str, loading: Loading, *, bos: Bos = "auto") -> CausalVocabulary:
    """Returns the tokenizer of the causal model of this name, without its weights in memory.

    Args:
        bos: whether BOS precedes every text.

    Raises:
        ModelError: the model does not exist, or is not a causal one.
    """
    resolved = resolve_causal(name, loading)
    bos = rule(resolved, bos)
    if resolved.has_embedded_lm:
        return ConvertedVocabulary(resolved.path, reads_bos=bool(bos))
    return CausalTokens(load_tokenizer(resolved), load_config(resolved), bos=bos)
