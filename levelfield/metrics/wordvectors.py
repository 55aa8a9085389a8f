"""Word vectors from files of word2vec and GloVe, read word by word."""

from __future__ import annotations

import functools
import gzip
import hashlib
import mmap
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.paths import user_path
from levelfield.io.streams import copy_limited, open_bytes


class WordVectors:
    """The vectors of a file, each read when its word is looked up.

    The file is read once to locate its words, so millions of vectors need the memory of their
    words only. Formats: word2vec's text (its first line gives the numbers of words and dimensions),
    GloVe's (the same without that line), and word2vec's binary, named `*.bin`; each also as `*.gz`,
    which is unpacked into a temporary file. If a word occurs twice, the first vector counts.

    Raises:
        UserError: the file can't be read or has another format; the message says where.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._binary = path.name.removesuffix(".gz").endswith(".bin")
        self._data = self._mapped()
        end = self._data.find(b"\n")
        first = self._data[: end + 1].split()
        counted = len(first) == 2 and all(number.isdigit() for number in first)
        if not counted and (self._binary or len(first) < 3):
            self._wrong(1, "the numbers of words and dimensions, or a word and its numbers")
        self._dimension = int(first[1]) if counted else len(first) - 1
        entries = self._binary_entries if self._binary else self._text_entries
        self._places: dict[bytes, int] = {}
        words = 0
        for word, place in entries(end + 1 if counted else 0, 2 if counted else 1):
            self._places.setdefault(word, place)
            words += 1
        if counted and words < int(first[0]):
            raise UserError(
                f"vectors={self._path}: the file ends after {words:,} of {int(first[0]):,} words; "
                "it was cut short, or its first line is wrong"
            )

    def of(self, words: Sequence[str]) -> list[Floats | None]:
        """Returns the vector of each word, (d,); None for a word that the file does not have."""
        return [self._vector(word) for word in words]

    def _vector(self, word: str) -> Floats | None:
        place = self._places.get(word.encode())
        if place is None:
            return None
        if self._binary:
            return np.frombuffer(self._data, "<f4", self._dimension, place).astype(np.float64)
        numbers = self._data[place : self._end_of_line(place)].split()
        try:
            return np.array(numbers, dtype=np.bytes_).astype(np.float64)
        except ValueError as error:
            raise UserError(
                f"vectors={self._path}: what follows the word '{word}' is not {self._dimension} "
                "numbers"
            ) from error

    def _mapped(self) -> mmap.mmap:
        try:
            if self._path.suffix != ".gz":
                with open_bytes(self._path) as file:
                    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with gzip.open(self._path) as packed, tempfile.TemporaryFile() as unpacked:
                copy_limited(packed, unpacked)
                unpacked.flush()
                return mmap.mmap(unpacked.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, EOFError, ValueError) as error:  # ValueError: an empty file
            reason = getattr(error, "strerror", None) or str(error)
            raise UserError(
                f"vectors={self._path}: the file can't be read ({reason}); give word vectors in "
                "the format of word2vec or GloVe"
            ) from error

    def _binary_entries(self, start: int, _: int) -> Iterator[tuple[bytes, int]]:
        """Yields every word, and where its numbers begin."""
        size = 4 * self._dimension
        while (blank := self._data.find(b" ", start)) >= 0:
            if blank + 1 + size > len(self._data):
                raise UserError(f"vectors={self._path}: the file ends within a vector")
            yield self._data[start:blank].lstrip(b"\n"), blank + 1
            start = blank + 1 + size

    def _text_entries(self, start: int, number: int) -> Iterator[tuple[bytes, int]]:
        """Yields every word, and where its numbers begin. A word may hold blanks, as in GloVe."""
        while start < len(self._data):
            end = self._end_of_line(start)
            word, *numbers = self._data[start:end].rstrip().rsplit(b" ", self._dimension)
            if len(numbers) == self._dimension:
                yield word, start + len(word)
            elif word or numbers:  # some files end with an empty line
                self._wrong(number, f"a word and {self._dimension} numbers")
            start, number = end + 1, number + 1

    def _end_of_line(self, start: int) -> int:
        end = self._data.find(b"\n", start)
        return end if end >= 0 else len(self._data)

    def _wrong(self, line: int, expected: str) -> NoReturn:
        raise UserError(f"vectors={self._path}, line {line}: expected {expected}")


@functools.lru_cache(maxsize=2)
def word_vectors(file: str) -> WordVectors:
    """Returns the vectors of a file, gone through once a process."""
    return WordVectors(user_path(file))


@functools.lru_cache(maxsize=4)
def label(file: str) -> str:
    """Returns the name of a file in signatures: its name and checksum.

    Raises:
        UserError: it can't be read.
    """
    path = user_path(file)
    try:
        with open_bytes(path) as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{file}: the file can't be read ({error.strerror})") from error
    return f"{path.name}@{digest[:12]}"
