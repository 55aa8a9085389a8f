"""Sentences of a text, by Punkt (Kiss and Strunk 2006), and by full stops of other scripts."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

import punkt
import regex

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.text import languages

AUTO = "auto"
LANGUAGES = (*punkt.available_languages(), "chinese", "japanese", AUTO)

LANGUAGE = option(
    "english",
    "Language of the sentence segmenter (Punkt); auto is the language of each text.",
    among=LANGUAGES,
    metavar="NAME",
)

# fmt: off
CODES = {
    "chinese": "zh", "czech": "cs", "danish": "da", "dutch": "nl", "english": "en",
    "english_web": "en", "estonian": "et", "finnish": "fi", "french": "fr", "german": "de",
    "greek": "el", "italian": "it", "japanese": "ja", "malayalam": "ml", "norwegian": "no",
    "polish": "pl", "portuguese": "pt", "russian": "ru", "slovene": "sl", "spanish": "es",
    "swedish": "sv", "turkish": "tr",
}
# fmt: on
"""Language of the segmenter -> its ISO 639-1 code."""

_NAMES = {code: name for name, code in CODES.items() if name != "english_web"}

_OWN_STOP = regex.compile(r"[。！？｡।॥۔؟።᠃။។]+[\p{Pe}\p{Pf}\p{Pi}\"']*")
"""Marks that end a sentence wherever they occur, with the closing marks after them."""


def label(language: str) -> str:
    """Returns how signatures name the segmenter of a language.

    >>> label("english")
    'punkt-english'
    """
    return f"punkt-{language}" + (f", {languages.detector_label()}" if language == AUTO else "")


def languages_read(language: str) -> Mapping[str, frozenset[str]]:
    """Returns the language of a segmenter, as for `Metric.languages`; nothing for `auto`, which
    reads all."""
    return {f"language={language}": frozenset({CODES[language]})} if language in CODES else {}


def sentences(text: str, language: str = "english") -> tuple[str, ...]:
    """Returns the sentences of a text, white space around them dropped.

    The same decisions as NLTK's `sent_tokenize`, which the authors of CTRLEval use. With `auto`,
    those of the language of the text, of English where that is uncertain or has no rules; besides,
    a sentence ends at full stops that scripts have of their own, such as `。` and `।`.

    >>> sentences("Dr. Lee left. We stayed!")
    ('Dr. Lee left.', 'We stayed!')
    >>> sentences("湖面很平静。我们在早餐前游泳。水很冷。", "auto")
    ('湖面很平静。', '我们在早餐前游泳。', '水很冷。')

    Raises:
        UserError: Punkt does not know the language, or `auto` lacks its detector.
    """
    return tuple(text[begin:end] for begin, end in spans(text, language))


def spans(text: str, language: str = "english") -> tuple[tuple[int, int], ...]:
    """Returns where the sentences of a text begin and end, in characters.

    >>> spans("Dr. Lee left.  We stayed!")
    ((0, 13), (15, 25))

    Raises:
        UserError: as for `sentences`.
    """
    if language == AUTO:
        if not languages.detects():
            raise UserError(f"language=auto: install {languages.DETECTOR}, which detects languages")
        name = _NAMES.get(languages.language(text) or "en", "english")
        sentences = _cut(text, _tokenizer(name).span_tokenize(text))
    else:
        sentences = iter(_tokenizer(language).span_tokenize(text))
    return tuple((begin, end) for begin, end in sentences if text[begin:end].strip())


def _cut(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yields spans that end at the own full stops of scripts besides."""
    for begin, end in spans:
        for stop in _OWN_STOP.finditer(text, begin, end):
            yield begin, stop.end()
            begin = stop.end()
            while begin < end and text[begin].isspace():
                begin += 1
        yield begin, end


@functools.cache
def _tokenizer(language: str) -> punkt.PunktSentenceTokenizer:
    if language not in LANGUAGES:
        raise UserError(f"language={language}: Punkt supports {', '.join(LANGUAGES)}")
    return punkt.tokenizer_for(language)
