"""Tokenised, lower-case text as people write it, for models that learnt from what people wrote."""

from __future__ import annotations

import re

# Runs of blanks are met at their first, so that a long one is walked once.
_CONTRACTION = re.compile(r"(?<! ) +(?=(?:n['’]t|['’](?:s|m|d|re|ve|ll))(?!\w))", re.IGNORECASE)
_BEFORE_MARK = re.compile(r"(?<! ) +(?=[.,;:!?%)\]}]+(?:\s|$|[\"'”’]))")
_AFTER_MARK = re.compile(r"(?<=[(\[{$]) +")
_QUOTED = re.compile(r'" ([^"]*) "')
_TOKENISED = re.compile(r"(?:^|(?<=[^ ])) +(?:[.,;:!?]+(?= |$)|n't\b|'s\b)")
_FIRST_PERSON = re.compile(r"\bi\b(?!\.\w)")
_FIRST_LETTER = re.compile(r"(?:^|(?<=[.!?] ))([\"'“‘(]?)([a-z])")


def natural(text: str) -> str:
    """Returns a text that was tokenised or lower-cased with its spacing and capitals restored.

    If a mark or contraction is a word of its own, marks are joined to their words. If the text has
    no capitals at all, sentences get one, and so does the word "I"; names stay lower-case. Any
    other text is returned unchanged.

    >>> natural("i do n't like it , but the lake ( in june ) is fine .")
    "I don't like it, but the lake (in june) is fine."
    >>> natural("The lake was cold.")
    'The lake was cold.'
    """
    if _TOKENISED.search(text):
        text = _CONTRACTION.sub("", text)
        text = _QUOTED.sub(r'"\1"', text.replace("``", '"').replace("''", '"'))
        text = _AFTER_MARK.sub("", _BEFORE_MARK.sub("", text))
    if text == text.lower():
        text = _FIRST_PERSON.sub("I", text)
        text = _FIRST_LETTER.sub(lambda match: match[1] + match[2].upper(), text)
    return text
