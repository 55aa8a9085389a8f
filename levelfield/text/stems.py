"""Stems of English words (Porter 1980, "An algorithm for suffix stripping"), as NLTK cuts them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import version


@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a word, in lower case.

    >>> stem("running"), stem("Babies")
    ('run', 'babi')
    """
    return _porter()(word)


def stemmer_label() -> str:
    """How signatures name the stemmer."""
    return f"porter (nltk {version('nltk')})"


@functools.cache
def _porter() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer

    of_word: Callable[[str], str] = PorterStemmer().stem
    return of_word
