"""Text that a terminal may have."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The text, control characters and changes of direction escaped, line breaks and tabs kept.

    >>> visible("\x1b[31mred\n")
    '\\x1b[31mred\n'
    """
    return _UNSEEN.sub(lambda match: repr(match[0])[1:-1], text)
