"""fastText's model files: whether one is whole, seen before fastText reads it.

fastText itself reads beyond the end of a file that was cut short: it never ends inside a word, and
takes what it lacks of a matrix for zeros.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_MAGIC = 793_712_314
_ARGUMENTS = struct.calcsize("<12id")
_CENTROIDS = 256


def check_whole(path: Path) -> None:
    """Checks that a model file ends where its sizes say.

    Raises:
        ValueError: it is no file of fastText, or was cut short, or goes on after its end.
        OSError: it can't be read.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            end = _end(_Walk(content))
        except (struct.error, OverflowError):
            end = len(content) + 1
        if end > len(content):
            raise ValueError(f"{path.name} was cut short; copy or train it again")
        if end < len(content):
            raise ValueError(f"{path.name} goes on after its end; copy or train it again")


class _Walk:
    """A place in a file, moved on by what is read there."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self.at = 0

    def numbers(self, format: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(f"<{format}", self._content, self.at)
        self.skip(struct.calcsize(f"<{format}"))
        return numbers

    def skip(self, size: int) -> None:
        if size < 0:
            raise struct.error("a negative size")
        self.at += size

    def word(self) -> None:
        end = self._content.find(b"\0", self.at)
        if end < 0:
            raise struct.error("a word without an end")
        self.at = end + 1


def _end(walk: _Walk) -> int:
    """Where a model's parts end: arguments, words, input matrix, output matrix."""
    magic, _ = walk.numbers("ii")
    if magic != _MAGIC:
        raise ValueError("it is no file of fastText")
    walk.skip(_ARGUMENTS)
    words, _, _, _, pruned = walk.numbers("iiiqq")
    for _ in range(words):
        walk.word()
        walk.skip(struct.calcsize("<qb"))
    walk.skip(max(pruned, 0) * struct.calcsize("<ii"))
    (is_quantized,) = walk.numbers("b")
    _matrix(walk, is_quantized=bool(is_quantized))
    (output_is_quantized,) = walk.numbers("b")
    _matrix(walk, is_quantized=bool(is_quantized and output_is_quantized))
    return walk.at


def _matrix(walk: _Walk, *, is_quantized: bool) -> None:
    if not is_quantized:
        rows, columns = walk.numbers("qq")
        walk.skip(rows * columns * struct.calcsize("<f"))
        return
    has_norms, rows, _, codes = walk.numbers("bqqi")
    walk.skip(codes)
    _quantizer(walk)
    if has_norms:
        walk.skip(rows)
        _quantizer(walk)


def _quantizer(walk: _Walk) -> None:
    dimension, *_ = walk.numbers("iiii")
    walk.skip(dimension * _CENTROIDS * struct.calcsize("<f"))
