"""Tokenised sentences as people write them.

Sets of film reviews are lower case, with blanks around punctuation. A language model that learns
from them as they are learns that, too, and what it writes looks like them.
"""

from __future__ import annotations

import re

_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\. \. \.", "..."),
        (r" ([.,!?;:%)\]])", r"\1"),
        (r"([(\[$#]) ", r"\1"),
        (r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1"),
        (r"\b(ca|wo) ?(?=n't)", r"\1"),
        (r"(?:``|\"|'') ([^\"`']*?) (?:''|\")", r'"\1"'),
        (r"\bi\b(?=$|[ ,.!?;:']|'(?:m|d|ll|ve)\b)", "I"),
    )
)
_BEGIN = re.compile(r"(?:^|(?<=[^.][.!?] ))\W*\w")


def as_written(text: str) -> str:
    """A tokenised text without the blanks before punctuation, sentences beginning with capitals.

    >>> as_written("it 's dull , and i 'm not amused .")
    "It's dull, and I'm not amused."
    """
    text = " ".join(text.split())
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _BEGIN.sub(lambda match: match[0].upper(), text)
