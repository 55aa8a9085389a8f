"""Inverse word frequency: how much a token says about the sentence that holds it.

IWF(w) = log(1 + |C|) / f_w, with |C| the sentences of a corpus and f_w those that contain the
token w (CTRLEval, Ke et al. 2022, equation 7). A token that the corpus does not have gets 0, as
in the list that the authors published.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.paths import user_path
from levelfield.io.fetch import fetch
from levelfield.io.streams import read_bytes, read_text
from levelfield.models.files import IWF_PEGASUS

TokenIds = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True, eq=False)
class InverseWordFrequency:
    """IWF of the tokens of one model's vocabulary.

    Attributes:
        values: (vocabulary,) float64.
        fold_case: whether texts are lower-cased before they are looked up.
    """

    values: Floats
    fold_case: bool = False

    def isf(self, texts: Sequence[str], token_ids: TokenIds) -> Floats:
        """Returns the largest IWF of each text's tokens (equation 6): (texts,)."""
        ids = token_ids([text.lower() for text in texts] if self.fold_case else texts)
        return np.array(
            [self.values[text_ids].max() if text_ids else 0.0 for text_ids in ids], np.float64
        )


def source_of(choice: str, model_type: str) -> str:
    """Returns the spelling of a choice that signatures carry, with what `auto` stands for.

    `auto` is the published list for PEGASUS and `wordfreq` for every other model.
    """
    if choice == "auto":
        choice = "published" if model_type == "pegasus" else "wordfreq"
    if choice == "published":
        return "published@" + IWF_PEGASUS.sha256[:12]
    name, _, language = choice.partition(":")
    if name == "wordfreq":
        return f"wordfreq-{language or 'en'}"
    try:
        return "file@" + hashlib.sha256(read_bytes(user_path(choice))).hexdigest()[:12]
    except OSError as error:
        raise UserError(
            f"iwf={choice}: expected auto, published, wordfreq, wordfreq:LANGUAGE or a file with "
            f"one number per vocabulary id ({error.strerror})"
        ) from error


def read(choice: str, source: str, vocabulary: int, token_ids: TokenIds) -> InverseWordFrequency:
    """Returns the inverse word frequencies that a choice stands for.

    Args:
        choice: `auto`, `published`, `wordfreq[:LANGUAGE]`, or a file as `levelfield train iwf`
            writes it.
        source: what `source_of` makes of the choice.
        vocabulary: size of the model's vocabulary.
        token_ids: the model's tokenizer.

    Raises:
        UserError: the list is of another vocabulary or can't be read.
    """
    if source.startswith("wordfreq-"):
        return _from_wordfreq(source.removeprefix("wordfreq-"), vocabulary, token_ids)
    path = fetch(IWF_PEGASUS) if source.startswith("published@") else user_path(choice)
    try:
        lines = read_text(path).splitlines()
        values = np.array([float(line) for line in lines], np.float64)
    except (OSError, ValueError) as error:
        raise UserError(f"iwf={choice}: expected one number per line: {error}") from error
    if len(values) != vocabulary:
        raise UserError(
            f"iwf={choice}: {len(values)} numbers for a vocabulary of {vocabulary}; the list must "
            "be for this model's tokenizer (`levelfield train iwf` makes one, iwf=wordfreq works "
            "with any)"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise UserError(f"iwf={choice}: expected finite numbers that are not negative")
    return InverseWordFrequency(values)


@functools.lru_cache(maxsize=4)
def _words(language: str) -> tuple[tuple[str, ...], Floats]:
    import wordfreq

    languages = wordfreq.available_languages("small")
    if language not in languages:
        raise UserError(
            f"iwf=wordfreq:{language}: wordfreq supports {', '.join(sorted(languages))}"
        )
    table = wordfreq.get_frequency_dict(language, wordlist="small")
    return tuple(table), np.fromiter(table.values(), np.float64, len(table))


def _from_wordfreq(language: str, vocabulary: int, token_ids: TokenIds) -> InverseWordFrequency:
    """Returns 1 / p(w), p(w) the summed frequencies of the words that hold token w.

    `wordfreq` counts occurrences, not sentences; for all but the commonest tokens the sentences
    that hold w are proportional to them, and NISF does not change with the factor.
    """
    words, frequencies = _words(language)
    p = np.zeros(vocabulary)
    for ids, frequency in zip(token_ids(words), frequencies, strict=True):
        p[list(set(ids))] += frequency
    with np.errstate(divide="ignore"):
        return InverseWordFrequency(np.where(p > 0, 1 / p, 0.0), fold_case=True)


def count(
    sentences: Iterable[str], vocabulary: int, token_ids: TokenIds, *, batch: int = 4096
) -> Floats:
    """Returns IWF of every token of a vocabulary from the sentences of a corpus: (vocabulary,).

    Undefined (0) for tokens that no sentence contains.

    Raises:
        UserError: the corpus has no sentences.
    """
    holding = np.zeros(vocabulary, np.int64)
    total = 0
    sentences = iter(sentences)
    while batch_of_sentences := list(itertools.islice(sentences, batch)):
        total += len(batch_of_sentences)
        for ids in token_ids(batch_of_sentences):
            holding[list(set(ids))] += 1
    if not total:
        raise UserError("there is no sentence in the corpus")
    with np.errstate(divide="ignore"):
        return np.where(holding > 0, math.log(1 + total) / holding, 0.0)


def write(values: Floats, file: TextIO) -> None:
    """Writes a list so that `read` accepts it: one number a vocabulary id."""
    file.writelines(f"{value!r}\n" for value in values.tolist())
