"""Messages over a pipe: eight bytes for the length, then so many bytes."""

from __future__ import annotations

import struct
from typing import IO

_LENGTH = struct.Struct("<Q")


def send(pipe: IO[bytes] | None, message: bytes) -> None:
    """Writes a message.

    Raises:
        OSError: nobody reads any more.
    """
    assert pipe is not None
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def receive(pipe: IO[bytes] | None) -> bytes | None:
    """The next message; None at the end, also if that is in the middle of one."""
    assert pipe is not None
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None
