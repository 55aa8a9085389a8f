"""The line with which a chat model announces the text that it was asked for."""

from __future__ import annotations

import re

_PREFACE = re.compile(
    r"\s*(?:sure|certainly|of course|absolutely|okay|ok)\b[^\n]{0,200}:[ \t]*\n\s*", re.IGNORECASE
)


def without_preface(text: str) -> str:
    """The text without a first line that announces it; as it is if it has none.

    >>> without_preface("Sure! Here is a story:\\n\\nThe lake froze.")
    'The lake froze.'
    """
    preface = _PREFACE.match(text)
    return text[preface.end() :] if preface else text
