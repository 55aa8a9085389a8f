"""Strings that end a text, such as the mark of another turn."""

from __future__ import annotations

from collections.abc import Sequence


def until(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """What precedes the first of these strings, and which it is; all of the text without one.

    >>> until("It froze.\\nUser: And then?", ["\\nUser:", "\\nSystem:"])
    ('It froze.', '\\nUser:')
    """
    at, stop = min(((text.find(stop), stop) for stop in stops if stop in text), default=(None, ""))
    return text[:at], stop
