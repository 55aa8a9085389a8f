"""How often tokens occur in a corpus: the unigram model of SLOR.

p_u(t) = (c_t + 1) / (N + V), with c_t the occurrences of token t, N those of all tokens and V the
size of the vocabulary (add-one smoothing, so that no token is impossible).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UserError
from levelfield.io.streams import read_text
from levelfield.models.contracts import CausalVocabulary
from levelfield.models.resolve import OFFLINE_LM

HEADER = "# unigram counts, one a vocabulary id"
"""How a file of counts begins, `; tokenizer DIGEST` after it; what begins otherwise has texts."""
_TOKENIZER = "; tokenizer "

SHIPPED: Mapping[str, str] = {OFFLINE_LM: str(Path(__file__).parent / "counts" / "smollm2.txt")}
"""Model -> the counts of its tokens that come with the package (`counts/README.md`)."""


@dataclass(frozen=True, eq=False)
class Unigrams:
    """Occurrences of the tokens of one model's vocabulary.

    Attributes:
        counts: (vocabulary,) int64.
        tokenizer: the digest of the tokenizer that they were counted with.
    """

    counts: npt.NDArray[np.int64]
    tokenizer: str

    def log_p(self) -> npt.NDArray[np.float64]:
        """Returns log p_u(t) of every token: (vocabulary,), in nats."""
        p: npt.NDArray[np.float64] = (self.counts + 1) / (self.counts.sum() + len(self.counts))
        return np.log(p)

    @property
    def digest(self) -> str:
        """The name of the counts in signatures: equal counts have equal digests."""
        return hashlib.sha256(self.counts.astype("<i8").tobytes()).hexdigest()[:12]

    def check(self, tokens: CausalVocabulary, where: str) -> None:
        """Checks that the counts are of this tokenizer.

        Args:
            where: the source of the counts; begins the message.

        Raises:
            UserError: an id is another token there.
        """
        same = self.tokenizer == tokens.digest
        if same and len(self.counts) == tokens.vocabulary_size:
            return
        mismatch = (
            f"{len(self.counts)} counts for a vocabulary of {tokens.vocabulary_size}"
            if len(self.counts) != tokens.vocabulary_size
            else f"counts with tokenizer {self.tokenizer}, and this model's is {tokens.digest}"
        )
        raise UserError(
            f"{where}: {mismatch}; they must be for this model's tokenizer (`levelfield train "
            "unigram` makes them)"
        )


def count(texts: Iterable[str], tokens: CausalVocabulary, *, batch: int = 4096) -> Unigrams:
    """Returns the counts over texts; a text that occurs twice counts twice.

    Raises:
        UserError: the texts have no tokens.
    """
    counts = np.zeros(tokens.vocabulary_size, np.int64)
    texts = iter(texts)
    while batch_of_texts := list(itertools.islice(texts, batch)):
        for ids in tokens.ids(batch_of_texts):
            np.add.at(counts, ids, 1)
    if not counts.any():
        raise UserError("there is no token in the corpus")
    return Unigrams(counts, tokens.digest)


def write(unigrams: Unigrams, file: TextIO) -> None:
    """Writes counts so that `load` knows them for what they are."""
    file.write(f"{HEADER}{_TOKENIZER}{unigrams.tokenizer}\n")
    file.writelines(f"{n}\n" for n in unigrams.counts.tolist())


def load(files: Sequence[str], tokens: CausalVocabulary) -> Unigrams:
    """Returns the counts over files, added up.

    A file has texts, as `levelfield.io.corpus` reads them, or counts, as `levelfield train
    unigram` writes them.

    Raises:
        UserError: a file can't be read, has no token, or has counts of another tokenizer.
    """
    from levelfield.io.corpus import corpus_texts

    counted = [file for file in files if _holds_counts(file)]
    text_files = [file for file in files if file not in counted]
    counts = np.zeros(tokens.vocabulary_size, np.int64)
    for file in counted:
        counts += _read(file, tokens)
    if text_files:
        counts += count(corpus_texts(text_files), tokens).counts
    return Unigrams(counts, tokens.digest)


def _holds_counts(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    try:
        with path.open("rb") as opened:
            return opened.read(len(HEADER)) == HEADER.encode()
    except OSError:
        return False  # whoever opens it as a file of texts says what is wrong with it


def _read(file: str, tokens: CausalVocabulary) -> npt.NDArray[np.int64]:
    where = f"corpus={file}"
    try:
        header, *lines = read_text(Path(file)).splitlines()
        counts = np.array([int(line) for line in lines], np.int64)
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"{where}: expected one count per line: {error}") from error
    _, names_tokenizer, tokenizer = header.partition(_TOKENIZER)
    if not names_tokenizer:
        raise UserError(
            f"{where}: does not say which tokenizer it was counted with, like counts of older "
            "versions; make it again with `levelfield train unigram`"
        )
    Unigrams(counts, tokenizer).check(tokens, where)
    if (counts < 0).any():
        raise UserError(f"{where}: expected counts that are not negative")
    return counts
