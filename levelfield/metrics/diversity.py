"""Diversity of a corpus: how many of its n-grams are different.

An n-gram is n tokens in a row of one text; none crosses from a text to the next. All values are of
a group of texts, from a state that partitions can share: which n-grams there are, and how often.
"""

from __future__ import annotations

import abc
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Hashes, Ints
from levelfield.core.corpus import CorpusValue, OfGroups
from levelfield.core.direction import Direction
from levelfield.core.metric import Level
from levelfield.core.options import Options, option
from levelfield.core.partitions import partitions
from levelfield.core.sample import Sample
from levelfield.core.undefined import no_text_of, too_few_ngrams
from levelfield.metrics.sample_metric import ChoiceSignature
from levelfield.text.words import words

TokenIds = Callable[[Sequence[str]], list[Hashes]]


def tokenizer_label(name: str) -> str:
    """Returns the name of a tokenizer in signatures.

    Raises:
        ModelError: the model does not exist.
    """
    if name == "words":
        return "words-casefold"
    if name == "gpt2":
        from levelfield.models.files import GPT2_MERGES, GPT2_VOCABULARY

        return f"gpt2@{GPT2_VOCABULARY.sha256[:12]}+{GPT2_MERGES.sha256[:12]}"
    from levelfield.models.resolve import resolve

    return resolve(name).label


@functools.lru_cache(maxsize=4)
def token_ids(name: str) -> TokenIds:
    """Returns the tokenizer of this name: an id of 64 bits for every token of every text.

    Args:
        name: `words`, case folded; `gpt2`, the published byte pairs of GPT-2; or the name or
            folder of a model, whose tokenizer is meant.

    Raises:
        FetchError, ModelError: the tokenizer is not available.
    """
    if name == "words":
        return _word_ids
    return _gpt2() if name == "gpt2" else _model_token_ids(name)


def _word_ids(texts: Sequence[str]) -> list[Hashes]:
    return [np.array([*map(_hash, words(text))], np.uint64) for text in texts]


@functools.lru_cache(maxsize=1 << 17)
def _hash(word: str) -> int:
    """Returns a hash that is the same in every process, unlike Python's own."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _gpt2() -> TokenIds:
    from tokenizers import Tokenizer, models, pre_tokenizers

    from levelfield.io.fetch import fetch
    from levelfield.models.files import GPT2_MERGES, GPT2_VOCABULARY

    bpe = models.BPE.from_file(str(fetch(GPT2_VOCABULARY)), str(fetch(GPT2_MERGES)))
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def ids(texts: Sequence[str]) -> list[Hashes]:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.uint64) for encoding in encoded]

    return ids


def _model_token_ids(name: str) -> TokenIds:
    from levelfield.models.files import load_tokenizer
    from levelfield.models.resolve import resolve
    from levelfield.models.tokens import Tokens

    tokens = Tokens(load_tokenizer(resolve(name)), marks=True)
    return lambda texts: [np.array(ids, np.uint64) for ids in tokens.ids(texts)]


_BATCH = 1024
"""Texts tokenised at once."""


@dataclass(frozen=True, eq=False)
class NGrams:
    """The n-grams of some texts.

    Attributes:
        hashes: (distinct,) of 64 bits, ascending. That any two of a hundred million different
            n-grams share one has a probability below 1 in 3,000.
        counts: (distinct,) how often each occurs.
        tokens: of all texts together.
    """

    hashes: Hashes
    counts: Ints
    tokens: int

    @property
    def total(self) -> int:
        """How many n-grams there are, repeated ones included."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class _NGramDiversity(Options, ChoiceSignature, OfGroups, abc.ABC):
    """Base of the metrics of diversity."""

    tokenizer: str = option(
        "words",
        "Tokenizer: words (case folded, punctuation marks count), gpt2 (the published byte "
        "pairs), or that of a model, by its name or folder.",
    )

    level: ClassVar[Level] = "corpus"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    direction: ClassVar[Direction] = "higher"
    n: ClassVar[int]

    @abc.abstractmethod
    def value(self, state: NGrams) -> CorpusValue:
        """Returns the value of a group."""

    def state(self, samples: Sequence[Sample]) -> NGrams:
        """Returns the n-grams of these texts."""
        ids_of = token_ids(self.tokenizer)
        hashes, tokens = [np.empty(0, np.uint64)], 0
        for batch in partitions(samples, _BATCH):
            ids = ids_of([sample.text for sample in batch])
            hashes.append(ngram_hashes(ids, self.n))
            tokens += sum(map(len, ids))
        distinct, counts = np.unique(np.concatenate(hashes), return_counts=True)
        return NGrams(distinct, counts, tokens)

    def merge(self, a: NGrams, b: NGrams) -> NGrams:
        """Returns the n-grams of two partitions."""
        distinct, places = np.unique(np.concatenate([a.hashes, b.hashes]), return_inverse=True)
        counts = np.zeros(len(distinct), np.int64)
        np.add.at(counts, places, np.concatenate([a.counts, b.counts]))
        return NGrams(distinct, counts, a.tokens + b.tokens)


@dataclass(frozen=True)
class Distinct(_NGramDiversity):
    """Distinct-n: the share of n-grams that are different from all others.

    distinct n-grams / n-grams, of a group of texts; in (0, 1] (Li et al. 2016, "A
    Diversity-Promoting Objective Function for Neural Conversation Models", section 5.1). It falls
    as a group grows: compare groups of equal size only, or take `diversity.hdd-n`.

    Undefined: the group has no n-gram.

    The values that Lorandi and Belz (2026, section 3.2) published are those of
    `tokenizer=gpt2 denominator=tokens floor=2`.
    """

    denominator: Literal["ngrams", "tokens"] = option(
        "ngrams",
        "Divide by the number of n-grams or of tokens; every text has n − 1 more tokens than "
        "n-grams, so that with tokens, texts which repeat nothing stay below 1.",
    )
    floor: int | None = option(
        None,
        "Number of decimals to which the value is truncated, not rounded.",
        least=0,
        most=15,
        otherwise="all of them",
    )

    def _choices(self) -> Mapping[str, object]:
        return {
            "tokenizer": tokenizer_label(self.tokenizer),
            "denominator": self.denominator,
            "floor": "none" if self.floor is None else self.floor,
        }

    def value(self, state: NGrams) -> CorpusValue:
        """Returns distinct n-grams / n-grams, or / tokens."""
        distinct, total = len(state.hashes), state.total
        if not total:
            return _no_ngram(self.n)
        divisor = total if self.denominator == "ngrams" else state.tokens
        if self.floor is None:
            return CorpusValue(distinct / divisor)
        return CorpusValue((distinct * 10**self.floor // divisor) / 10**self.floor)


@dataclass(frozen=True)
class HDD(_NGramDiversity):
    """HD-D: the share of different n-grams to expect among a fixed number of them.

    (1/m) Σ_t (1 − C(N − f_t, m) / C(N, m)), of a group of texts with N n-grams, f_t of which are of
    type t: the expected number of types among m n-grams drawn without replacement, over m; in
    (0, 1]. McCarthy and Jarvis 2007 ("vocd: A theoretical and empirical evaluation", Language
    Testing 24) have it for words and m = 42; n-grams and the larger m are ours. It hardly moves
    with the size of a group, since m stays the same.

    Undefined: the group has fewer than m n-grams.
    """

    draws: int = option(
        300,
        "Number m of n-grams to draw; values of different m can't be compared.",
        least=1,
    )

    def _choices(self) -> Mapping[str, object]:
        return {"tokenizer": tokenizer_label(self.tokenizer), "draws": self.draws}

    def value(self, state: NGrams) -> CorpusValue:
        """Returns the expected number of types among m n-grams / m."""
        if not state.total:
            return _no_ngram(self.n)
        if state.total < self.draws:
            return CorpusValue(float("nan"), too_few_ngrams(self.draws, self.n))
        return CorpusValue(expected_types(state.counts, self.draws) / self.draws)


def _no_ngram(n: int) -> CorpusValue:
    return CorpusValue(float("nan"), no_text_of(n))


def expected_types(counts: Ints, m: int) -> float:
    """Σ_t (1 − C(N − f_t, m) / C(N, m)): types to expect among m draws without replacement.

    Args:
        counts: (types,) f_t, how often each type occurs; N is their sum.
        m: draws, at most N.
    """
    N = int(counts.sum())
    left = (N - np.arange(m)).astype(np.float64)
    expected = 0.0
    for f, types in zip(*np.unique(counts, return_counts=True), strict=True):
        # C(N − f, m) / C(N, m) = Π_i (1 − f / (N − i)), i < m. Differences of log-gammas lose all
        # digits of a rare type in a large corpus; this product does not.
        with np.errstate(divide="ignore"):
            log_absent = np.log1p(-np.minimum(f / left, 1.0)).sum()
        expected += types * -np.expm1(log_absent)
    return float(expected)


def ngram_hashes(ids: Sequence[Hashes], n: int) -> Hashes:
    """Returns a hash of every n-gram of these texts, whose tokens are given as ids: (n-grams,)."""
    tokens = np.concatenate([np.empty(0, np.uint64), *ids])
    text = np.repeat(np.arange(len(ids)), [len(text_ids) for text_ids in ids])
    k = max(len(tokens) - n + 1, 0)
    hashes = _mixed(tokens[:k])
    for i in range(1, n):
        hashes = _mixed(hashes + tokens[i : i + k])
    within_one_text: npt.NDArray[np.bool_] = text[:k] == text[n - 1 : n - 1 + k]
    return hashes[within_one_text]


def _mixed(x: Hashes) -> Hashes:
    """Returns a permutation of 64-bit numbers that looks random: the finalizer of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Distinct1(Distinct):
    name: ClassVar[str] = "diversity.distinct-1"
    n: ClassVar[int] = 1


class Distinct2(Distinct):
    name: ClassVar[str] = "diversity.distinct-2"
    n: ClassVar[int] = 2


class Distinct3(Distinct):
    name: ClassVar[str] = "diversity.distinct-3"
    n: ClassVar[int] = 3


class HDD1(HDD):
    name: ClassVar[str] = "diversity.hdd-1"
    n: ClassVar[int] = 1


class HDD2(HDD):
    name: ClassVar[str] = "diversity.hdd-2"
    n: ClassVar[int] = 2


class HDD3(HDD):
    name: ClassVar[str] = "diversity.hdd-3"
    n: ClassVar[int] = 3
