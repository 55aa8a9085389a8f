"""The language of a text, told by a detector that abstains where it is not certain."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from importlib.metadata import version

import regex

DETECTOR = "py3langid"
CERTAIN = 0.8
"""Probability below which a text has no language here."""
LETTERS = 20
"""Letters below which a text is not judged."""

_LETTER = regex.compile(r"\p{L}")
_DENSE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_PER_DENSE = 3  # a letter of these scripts is a syllable or a word

_VARIETIES = {"pcm": "en", "wuu": "zh", "yue": "zh", "ary": "ar", "arz": "ar", "nn": "no"}
"""Varieties that short texts of a language are mistaken for, and texts that its readers read."""

# fmt: off
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "ml": "Malayalam", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sl": "Slovene", "sv": "Swedish", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}
# fmt: on
"""ISO 639-1 code -> name, of frequent languages; others are named by their codes."""


def detects() -> bool:
    """Returns whether the detector is installed; does not import it."""
    return importlib.util.find_spec(DETECTOR) is not None


def detector_label() -> str:
    """Returns how signatures name the detector."""
    return f"{DETECTOR} {version(DETECTOR)}"


def language(text: str) -> str | None:
    """Returns the ISO 639 code of the language of a text.

    Returns:
        None for a text of fewer than 20 letters, of which one of Chinese, Japanese or Korean counts
        as three, and where no language has a probability of 0.8 or more.

    >>> language("Der See war ruhig, und wir schwammen vor dem Frühstück."), language("Ja!")
    ('de', None)
    """
    if len(_LETTER.findall(text)) + (_PER_DENSE - 1) * len(_DENSE.findall(text)) < LETTERS:
        return None
    p: dict[str, float] = {}
    for code, probability in _ranked()(text):
        code = _VARIETIES.get(code, code)
        p[code] = p.get(code, 0.0) + float(probability)
    best = max(p, key=p.__getitem__)
    # `zxx` is the detector's class of what is not language: numbers, markup
    return best if p[best] >= CERTAIN and best != "zxx" else None


@functools.cache
def _ranked() -> Callable[[str], list[tuple[str, float]]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    rank: Callable[[str], list[tuple[str, float]]]
    rank = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True).rank
    return rank
