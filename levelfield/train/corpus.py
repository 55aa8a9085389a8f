"""A corpus: its documents as token ids, which infillers are trained on, and its tokens counted.

A document is a block of lines between empty lines, or each line where a file has no empty line;
lines of a document stay lines. Turns joined by `</UTT>`, as dialogue sets have them, become lines.
Every `HELD_OUT`-th document is held out for validation.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.arrays import Codes, Floats, Ints, VocabularyIds
from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.io.corpus import corpus_texts
from levelfield.metrics import iwf, unigram
from levelfield.models.load import load
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve
from levelfield.text import segmenter

TURN = "</UTT>"
HELD_OUT = 50
FEWEST = 2
"""Documents a corpus must have: one to train on and one to validate on."""


@dataclass(frozen=True)
class Corpus:
    """Token ids of all documents, one after the other.

    Attributes:
        ids: (tokens,) of the vocabulary.
        begins: (documents + 1,) where in `ids` each document begins, and the end of the last.
        digest: names the texts and the tokenizer.
    """

    ids: VocabularyIds
    begins: Ints
    digest: str

    def __len__(self) -> int:
        return len(self.begins) - 1

    def contents(self, parts: str) -> str:
        """Returns how many parts (`documents`) and tokens there are, in words."""
        return f"{len(self):,} {parts}, {len(self.ids):,} tokens"

    def split(self) -> tuple[Codes, Codes]:
        """Documents to train on, and those held out: every fiftieth, one at least."""
        held = np.arange(0, len(self), HELD_OUT)
        return np.setdiff1d(np.arange(len(self)), held), held


def documents(lines: Iterable[str]) -> Iterator[str]:
    """Blocks of lines between empty lines, if there is an empty line among the first 10,000;
    else every line is a document of its own."""
    lines = iter(lines)
    first = list(itertools.islice(lines, 10_000))
    lines = itertools.chain(first, lines)
    if any(not line.strip() for line in first):
        for is_text, block in itertools.groupby(lines, key=lambda line: bool(line.strip())):
            if is_text:
                yield _turned("\n".join(block))
    else:
        yield from (_turned(line) for line in lines if line.strip())


def corpus_documents(
    files: Iterable[str | Path], progress: Progress = no_progress
) -> Iterator[str]:
    """Yields the documents of all files, one file after the other; `progress` is called with
    bytes."""
    for file in files:
        yield from documents(corpus_texts([file], progress))


def _turned(text: str) -> str:
    turns = (turn.strip() for turn in text.split(TURN))
    return "\n".join(turn for turn in turns if turn) if TURN in text else text.strip()


def tokenise(texts: Iterable[str], tokenizer: Any, *, batch: int = 1024) -> Corpus:
    """Returns the ids of documents.

    Lines are tokenised one by one and joined by the tokenizer's ids of a line break (none, if it
    reads one as a blank): tokenizers can take time quadratic in the length of a text.

    Raises:
        UserError: the corpus has no text, or only one document.
    """
    digest = hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode())
    between = _line_break(tokenizer)
    parts: list[VocabularyIds] = []
    lengths: list[int] = []
    lines = (
        (number, line)
        for number, text in enumerate(texts)
        for line in text.split("\n")
        if line.strip()
    )
    document = -1
    while chunk := list(itertools.islice(lines, batch)):
        for (number, line), ids in zip(
            chunk, _ids(tokenizer, [line for _, line in chunk]), strict=True
        ):
            digest.update(hashlib.sha256(line.encode("utf-8", "surrogatepass")).digest())
            goes_on = number == document
            parts.append(np.array([*between, *ids] if goes_on else ids, np.int32))
            if goes_on:
                lengths[-1] += len(parts[-1])
            else:
                lengths.append(len(ids))
            document = number
    lengths = [length for length in lengths if length]
    _check(len(lengths))
    begins = np.concatenate([[0], np.cumsum(lengths)])
    return Corpus(np.concatenate(parts), begins, digest.hexdigest())


def digest_of_texts(texts: Iterable[str]) -> str:
    """Returns a digest of the documents of a corpus and their order.

    Raises:
        UserError: the corpus has no text, or only one document.
    """
    digest, count = hashlib.sha256(), 0
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        count += 1
    _check(count)
    return digest.hexdigest()


def _check(documents: int) -> None:
    if not documents:
        raise UserError("the corpus is empty: there is no text in it to train on")
    if documents < FEWEST:
        raise UserError(
            "the corpus is one document; at least two are needed, one to train on and one to "
            "validate on (documents are separated by empty lines, else every line is one)"
        )


def _line_break(tokenizer: Any) -> list[int]:
    """Returns the ids of a line break between two lines."""
    whole, first, second = _ids(tokenizer, ["a\nb", "a", "b"])
    if whole[: len(first)] != first:
        return []
    rest = whole[len(first) :]
    return rest[: len(rest) - len(second)] if rest[-len(second) :] == second else rest[:1]


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    encoded = tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def corpus_size(corpus: Sequence[str]) -> int:
    """Returns the number of bytes of all files, the total of the progress of counting.

    Raises:
        UserError: a file does not exist.
    """
    if missing := [name for name in corpus if not Path(name).is_file()]:
        raise UserError(f"no such corpus file: {', '.join(missing)}")
    return sum(Path(name).stat().st_size for name in corpus)


def count_iwf(
    corpus: Sequence[str],
    model: str,
    *,
    language: str = "english",
    loading: Loading = AS_USUAL,
    progress: Progress = no_progress,
) -> Floats:
    """Returns the inverse word frequencies of a model's tokens in the sentences of a corpus.

    Args:
        corpus: plain text (also .gz, .xz), or any other format that samples are read from.
        language: of the sentence segmenter (Punkt).

    Raises:
        UserError: a file can't be read, or the corpus has no sentences.
    """
    tokens = (
        load("infilling", model, loading)
        if resolve(model, loading).kind == "encoder-decoder"
        else load("encoder", model, loading)
    )
    sentences = (
        s for t in corpus_texts(corpus, progress) for s in segmenter.sentences(t, language)
    )
    return iwf.count(sentences, tokens.vocabulary_size, tokens.token_ids)


def count_unigrams(
    corpus: Sequence[str],
    model: str,
    *,
    loading: Loading = AS_USUAL,
    progress: Progress = no_progress,
) -> unigram.Unigrams:
    """Returns the counts of a causal model's tokens in the texts of a corpus.

    Raises:
        UserError: a file can't be read, or the corpus has no tokens.
    """
    tokens = load("causal-tokens", model, loading)
    return unigram.count(corpus_texts(corpus, progress), tokens)
