"""What an infiller learns from: a tokenizer, and windows of documents without one segment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from levelfield.core.arrays import Bools, Codes, VocabularyIds
from levelfield.core.errors import ModelError, UserError
from levelfield.models.contracts import FIM
from levelfield.models.tokens import padded
from levelfield.train.corpus import Corpus
from levelfield.train.infiller import Family

SEGMENT = 20
"""Tokens of the longest segment that is cut anywhere (Lu et al. 2024, section 4.1.1)."""
FEWEST_TOKENS = 4
"""Tokens of the shortest document that examples are drawn from."""


class InfillingExample(NamedTuple):
    """Vocabulary ids left of the gap, of the segment, and right of the gap."""

    left: VocabularyIds
    segment: VocabularyIds
    right: VocabularyIds


def draw(
    corpus: Corpus,
    among: Codes,
    rng: np.random.Generator,
    count: int,
    window: int,
    ends: Bools,
) -> list[InfillingExample]:
    """Returns examples from documents drawn in proportion to their length, with replacement."""
    sizes = np.diff(corpus.begins)[among]
    total = np.cumsum(sizes)
    if not total.size or sizes.max() < FEWEST_TOKENS:
        raise UserError(f"no document of the corpus has {FEWEST_TOKENS} tokens or more")
    examples: list[InfillingExample] = []
    while len(examples) < count:
        place = int(rng.integers(total[-1]))
        document = int(np.searchsorted(total, place, side="right"))
        begin, end = corpus.begins[among[document]], corpus.begins[among[document] + 1]
        if end - begin < FEWEST_TOKENS:
            continue
        length = min(int(end - begin), int(rng.integers(window // 4, window + 1)))
        first = int(begin + rng.integers(end - begin - length + 1))
        ids = corpus.ids[first : first + length]
        left, right = _segment(ids, ends, rng)
        examples.append(InfillingExample(ids[:left], ids[left:right], ids[right:]))
    return examples


def _segment(ids: VocabularyIds, ends: Bools, rng: np.random.Generator) -> tuple[int, int]:
    """Returns where a segment begins and ends; never the whole window."""
    n = len(ids)
    kind = rng.random()
    borders = [0, *(np.flatnonzero(ends[ids[:-1]]) + 1).tolist(), n]
    if kind < 0.4 and len(borders) > 2:
        sentences = len(borders) - 1
        many = min(int(rng.integers(1, 3)), sentences - 1)
        begin = int(rng.integers(sentences - many + 1))
        return borders[begin], borders[begin + many]
    if kind < 0.6:
        length = int(rng.integers(1, min(SEGMENT, n - 1) + 1))
        left = int(rng.integers(n - length + 1))
        return left, left + length
    place = int(rng.integers(1, n))
    return (place, n) if rng.random() < 0.5 else (0, place)


def sentence_ends(tokenizer: Any, vocabulary: int) -> Bools:
    """Returns whether each token ends a sentence or a turn, that is with `.`, `!`, `?` or a line
    break: (vocabulary,)."""
    many = min(vocabulary, len(tokenizer))
    ends = np.zeros(vocabulary, bool)
    texts = tokenizer.batch_decode([[id] for id in range(many)])
    ends[:many] = [text.endswith((".", "!", "?", "\n")) for text in texts]
    return ends


SENTINELS = tuple(f"<extra_id_{i}>" for i in range(10))
IGNORED = -100
"""The label of a token that is not learnt."""


@dataclass(frozen=True)
class Batch:
    """Padded ids, (rows, tokens) each; labels are `IGNORED` where nothing is learnt. A causal
    model has no source."""

    source: torch.Tensor | None
    inputs: torch.Tensor
    labels: torch.Tensor


class InfillingFormat:
    """How a family writes an example.

    Raises:
        ModelError: the tokenizer lacks the tokens of the format.
    """

    def __init__(self, tokenizer: Any, family: Family) -> None:
        self.family = family
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.end = tokenizer.eos_token_id
        names = SENTINELS[:1] if family == "t5" else FIM
        self.marks = [tokenizer.convert_tokens_to_ids(name) for name in names]
        vocabulary = tokenizer.get_vocab()
        missing = [name for name in names if name not in vocabulary]
        if missing or self.end is None:
            raise ModelError(
                f"the tokenizer has no {', '.join(missing) or 'end-of-text token'}, which "
                f"the format of {family} infillers needs"
            )

    def source(self, example: InfillingExample) -> list[int]:
        """Returns what an encoder reads; nothing for a causal model."""
        if self.family == "causal":
            return []
        return [*example.left.tolist(), *self.marks, *example.right.tolist(), self.end]

    def target(self, example: InfillingExample) -> tuple[list[int], int]:
        """Returns what is written, and how many of its first tokens are not learnt."""
        segment = [*example.segment.tolist(), self.end]
        if self.family == "t5":
            return [*self.marks, *segment], 1
        prefix, suffix, middle = self.marks
        left, right = example.left.tolist(), example.right.tolist()
        return [prefix, *left, suffix, *right, middle, *segment], 1

    def batch(self, examples: Sequence[InfillingExample], start: int | None) -> Batch:
        """Returns a batch padded on the right. `start` is the token a decoder begins with, None for
        causal."""
        targets = [self.target(example) for example in examples]
        full = padded([ids for ids, _ in targets], self.pad)
        labels = padded([ids for ids, _ in targets], IGNORED)
        for row, (_, first) in zip(labels, targets, strict=True):
            row[:first] = IGNORED
        if self.family == "causal":
            labels[np.isin(labels, self.marks)] = IGNORED
            return Batch(None, torch.from_numpy(full[:, :-1]), torch.from_numpy(labels[:, 1:]))
        source = torch.from_numpy(padded([self.source(e) for e in examples], self.pad))
        begin = np.full((len(full), 1), start, np.int64)
        inputs = np.concatenate([begin, full[:, :-1]], axis=1)
        return Batch(source, torch.from_numpy(inputs), torch.from_numpy(labels))


SAMPLE = 20_000_000
"""Characters of a corpus that a tokenizer is trained on."""
LONGEST = 20_000
"""Characters of a document among them."""


def train_tokenizer(texts: Iterable[str], vocabulary: int, *, marked: str = "$A </s>") -> Any:
    """Returns a subword tokenizer: words are split off at blanks, line breaks and punctuation, then
    byte-pair encoding with single bytes for characters that are rare, so that every text has
    tokens. Holds the markers of both families.

    Args:
        marked: a text `$A` as models read it.
    """
    from tokenizers import (
        Regex,
        Tokenizer,
        decoders,
        normalizers,
        pre_tokenizers,
        processors,
    )
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "</s>", *SENTINELS, *FIM]
    tokenizer = Tokenizer(BPE(byte_fallback=True))
    # blanks at the ends are dropped, as T5's own tokenizer does: beside a gap they carry nothing
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s*\n\s*"), " \n "),  # a line break is a word
            normalizers.Replace(Regex(r"[^\S\n]+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            pre_tokenizers.Split(Regex(r"(?!▁)[\p{P}\p{S}\d]"), "isolated"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(" \n ", "\n"),
            decoders.Strip(" ", 1, 0),
        ]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*special, *bytes_],
        limit_alphabet=200,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # only markers reserve entries of the vocabulary in the trainer; bytes are not markers
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [
        token for token in described["added_tokens"] if token["content"] not in bytes_
    ]
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=marked, special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        extra_special_tokens=[*SENTINELS, *FIM],
    )


def sample_of(texts: Iterable[str]) -> Iterator[str]:
    """Beginnings of documents, as many as a tokenizer is trained on."""
    characters = 0
    for text in texts:
        piece = text[:LONGEST]
        yield piece
        characters += len(piece)
        if characters >= SAMPLE:
            return
