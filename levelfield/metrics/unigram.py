"""How often tokens occur in a corpus: the unigram model of SLOR.

p_u(t) = (c_t + 1) / (N + V), with c_t the occurrences of token t, N those of all tokens and V the
size of the vocabulary (add-one smoothing, so that no token is impossible).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from levelfield.errors import UserError

TokenIds = Callable[[Sequence[str]], list[list[int]]]

HEADER = "# unigram counts, one a vocabulary id\n"
"""First line of a file of counts; what begins otherwise is a file of texts."""


@dataclass(frozen=True, eq=False)
class Unigrams:
    """Occurrences of the tokens of one model's vocabulary: (vocabulary,) int64."""

    counts: npt.NDArray[np.int64]

    def log_p(self) -> npt.NDArray[np.float64]:
        """log p_u(t) of every token: (vocabulary,), in nats."""
        p: npt.NDArray[np.float64] = (self.counts + 1) / (self.counts.sum() + len(self.counts))
        return np.log(p)

    @property
    def digest(self) -> str:
        """What signatures name the counts by: equal counts have equal digests."""
        return hashlib.sha256(self.counts.astype("<i8").tobytes()).hexdigest()[:12]


def count(
    texts: Iterable[str], vocabulary: int, token_ids: TokenIds, *, batch: int = 4096
) -> Unigrams:
    """The counts over texts; a text that occurs twice counts twice.

    Raises:
        UserError: there is no token in the texts.
    """
    counts = np.zeros(vocabulary, np.int64)
    pending: list[str] = []

    def add() -> None:
        for ids in token_ids(pending):
            np.add.at(counts, ids, 1)
        pending.clear()

    for text in texts:
        pending.append(text)
        if len(pending) == batch:
            add()
    add()
    if not counts.any():
        raise UserError("there is no token in the corpus")
    return Unigrams(counts)


def write(unigrams: Unigrams, file: TextIO) -> None:
    """Writes counts so that `load` knows them for what they are."""
    file.write(HEADER)
    file.writelines(f"{n}\n" for n in unigrams.counts.tolist())


def load(files: Sequence[str], vocabulary: int, token_ids: TokenIds) -> Unigrams:
    """The counts over files: of texts, as `levelfield.io.open_samples` reads them, or of counts, as
    `levelfield train unigram` writes them; several are added up.

    Raises:
        UserError: a file can't be read, has no token, or has counts of another vocabulary.
    """
    from levelfield.io import open_samples

    counted = [file for file in files if _holds_counts(file)]
    of_texts = [file for file in files if file not in counted]
    counts = np.zeros(vocabulary, np.int64)
    for file in counted:
        counts += _read(file, vocabulary)
    if of_texts:
        # systems number their texts alike, and here ids mean nothing
        texts = (sample.text for sample in open_samples(of_texts, ids="file"))
        counts += count(texts, vocabulary, token_ids).counts
    return Unigrams(counts)


def _holds_counts(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    try:
        with path.open("rb") as opened:
            return opened.read(len(HEADER)) == HEADER.encode()
    except OSError:
        return False  # whoever opens it as a file of texts says what is wrong with it


def _read(file: str, vocabulary: int) -> npt.NDArray[np.int64]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()[1:]
        counts = np.array([int(line) for line in lines], np.int64)
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"corpus={file}: expected one count a line: {error}") from error
    if len(counts) != vocabulary:
        raise UserError(
            f"corpus={file}: {len(counts)} counts for a vocabulary of {vocabulary}; they must be "
            "of this model's tokenizer (`levelfield train unigram` makes them)"
        )
    if (counts < 0).any():
        raise UserError(f"corpus={file}: expected counts that are not negative")
    return counts
