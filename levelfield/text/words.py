"""Words of a text, in any script."""

from __future__ import annotations

import functools
import unicodedata

import regex

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts that put no blanks between words, for a character class."""

TOKEN = regex.compile(rf"(?V1)[\w--[{UNSPACED}]]+|(?![\s\p{{Cc}}\p{{Cf}}])\X")
"""A word, or a punctuation mark; see `words`."""


def plain(text: str, *, fold: bool) -> str:
    """The text in one Unicode spelling (NFC), and in one case if `fold`."""
    return unicodedata.normalize("NFC", text.casefold() if fold else text)


def words(text: str, *, fold: bool = True) -> list[str]:
    """The words of a text and its punctuation marks, one by one.

    A word is a run of letters, digits and marks. Where a script puts no blanks between words
    (Chinese, Japanese, Thai, Lao, Khmer, Burmese), every character counts as one; so does an
    emoji with all that is joined to it.

    >>> words("Don't stop!"), words("火山 👍🏽")
    (['don', "'", 't', 'stop', '!'], ['火', '山', '👍🏽'])
    """
    found: list[str] = TOKEN.findall(plain(text, fold=fold))
    return found


@functools.lru_cache(maxsize=1 << 10)
def whole_word(spelling: str) -> regex.Pattern[str]:
    """Finds a word or phrase, as `plain` has it, that is no part of a longer word."""
    spaced = rf"[\w--[{UNSPACED}]]"
    before = rf"(?<!{spaced})" if regex.match(rf"(?V1){spaced}", spelling) else ""
    after = rf"(?!{spaced})" if regex.search(rf"(?V1){spaced}\Z", spelling) else r"(?!\p{M})"
    phrase = r"\s+".join(map(regex.escape, regex.split(r"\s+", spelling)))
    return regex.compile(f"(?V1){before}{phrase}{after}")
