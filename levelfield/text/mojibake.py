"""Mojibake: UTF-8 that was read in another encoding, such as `cafÃ©`."""

from __future__ import annotations


def is_mojibake(text: str) -> bool:
    """Returns whether a text contains UTF-8 that was read in another encoding.

    >>> is_mojibake("cafÃ©"), is_mojibake("café")
    (True, False)
    """
    if text.isascii():
        return False
    import ftfy

    return ftfy.fix_encoding(text) != text
