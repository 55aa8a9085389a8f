"""GGUF files: metadata and tensors, as llama.cpp keeps a model in one file.

Read here and not by the package `gguf`, which takes seconds for a vocabulary of 50,000 tokens and
would be one more requirement. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from levelfield.core.arrays import Singles

Blocks = NDArray[Any]

_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_VERSION = 3
_ALIGNMENT = 32


class Tensor(NamedTuple):
    """Where a tensor lies in its file.

    Attributes:
        shape: rows first.
        coding: how its values are written: a key of `CODINGS`.
        offset: of its first byte from the start of the file.
    """

    shape: tuple[int, ...]
    coding: int
    offset: int


class Coding(NamedTuple):
    """How values are written: in blocks of so many, and what gives them back from blocks."""

    values: int
    block: np.dtype[Any]
    decode: Callable[[Blocks], Singles]


def _f32(blocks: Blocks) -> Singles:
    return blocks.astype(np.float32)


def _q4_1(blocks: Blocks) -> Singles:
    """scale · q + least, with 4 bits a q: the first half of a block in the low ones."""
    q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype(np.float32)
    scale, least = (blocks[name].astype(np.float32)[:, None] for name in ("scale", "least"))
    return scale * q + least


def _q8_0(blocks: Blocks) -> Singles:
    """scale · q, with 8 bits a q."""
    return blocks["scale"].astype(np.float32)[:, None] * blocks["q"].astype(np.float32)


CODINGS: Mapping[int, Coding] = {
    0: Coding(1, np.dtype("<f4"), _f32),
    3: Coding(32, np.dtype([("scale", "<f2"), ("least", "<f2"), ("q", "u1", 16)]), _q4_1),
    8: Coding(32, np.dtype([("scale", "<f2"), ("q", "i1", 32)]), _q8_0),
}
"""F32, Q4_1 and Q8_0, by their numbers in the format."""


@dataclass(frozen=True)
class Gguf:
    """A file whose head is read; its tensors are read one by one."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def values(self, name: str) -> Singles:
        """A tensor's values, exactly as its coding defines them, in float32.

        Raises:
            ValueError: the file ends before the tensor does.
        """
        shape, number, offset = self.tensors[name]
        coding = CODINGS[number]
        count = math.prod(shape) // coding.values
        blocks = np.fromfile(self.path, coding.block, count, offset=offset)
        if len(blocks) < count:
            raise ValueError(f"{self.path.name} ends in the middle of its tensor {name}")
        return coding.decode(blocks).reshape(shape)


def read_gguf(path: Path) -> Gguf:
    """The head of a GGUF file.

    Raises:
        ValueError: it is no such file, of another version, or has tensors of an unknown coding.
    """
    with path.open("rb") as file:
        head = _Head(file)
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path.name} is no GGUF file")
        if (version := head.number("I")) != _VERSION:
            raise ValueError(f"{path.name} is GGUF of version {version}; expected {_VERSION}")
        tensors, entries = head.number("Q"), head.number("Q")
        metadata = {head.string(): head.value(head.number("I")) for _ in range(entries)}
        table = {head.string(): head.tensor() for _ in range(tensors)}
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        start = -(-file.tell() // alignment) * alignment
    if unknown := {tensor.coding for tensor in table.values()} - CODINGS.keys():
        raise ValueError(f"{path.name} has tensors of the coding {min(unknown)}, which is unknown")
    moved = {name: t._replace(offset=start + t.offset) for name, t in table.items()}
    return Gguf(path, metadata, moved)


class _Head:
    """Reads the values at the head of a file, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def _bytes(self, count: int) -> bytes:
        found = self._file.read(count)
        if len(found) < count:
            raise ValueError("the file ends in the middle of its head")
        return found

    def number(self, format: str) -> Any:
        return struct.unpack(f"<{format}", self._bytes(struct.calcsize(f"<{format}")))[0]

    def string(self) -> str:
        return self._bytes(self.number("Q")).decode()

    def value(self, type: int) -> Any:
        if type == _STRING:
            return self.string()
        if type == _ARRAY:
            of, count = self.number("I"), self.number("Q")
            return [self.value(of) for _ in range(count)]
        if type not in _NUMBERS:
            raise ValueError(f"the file has a value of the type {type}, which is unknown")
        return self.number(_NUMBERS[type])

    def tensor(self) -> Tensor:
        # dimensions are written with the one that varies fastest first
        shape = tuple(self.number("Q") for _ in range(self.number("I")))[::-1]
        return Tensor(shape, self.number("I"), self.number("Q"))
