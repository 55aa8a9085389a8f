"""Sentences of a text, by Punkt (Kiss and Strunk 2006)."""

from __future__ import annotations

import functools

import punkt

from levelfield.core.errors import UserError
from levelfield.core.options import option

LANGUAGES = (*punkt.available_languages(), "chinese", "japanese")

LANGUAGE = option(
    "english", "Language of the sentence segmenter (Punkt).", among=LANGUAGES, metavar="NAME"
)


def sentences(text: str, language: str = "english") -> tuple[str, ...]:
    """Returns the sentences of a text, white space around them dropped.

    The same decisions as NLTK's `sent_tokenize`, which the authors of CTRLEval use.

    >>> sentences("Dr. Lee left. We stayed!")
    ('Dr. Lee left.', 'We stayed!')

    Raises:
        UserError: Punkt does not know the language.
    """
    return tuple(text[begin:end] for begin, end in spans(text, language))


def spans(text: str, language: str = "english") -> tuple[tuple[int, int], ...]:
    """Returns where the sentences of a text begin and end, in characters.

    >>> spans("Dr. Lee left.  We stayed!")
    ((0, 13), (15, 25))

    Raises:
        UserError: Punkt does not know the language.
    """
    sentences = _tokenizer(language).span_tokenize(text)
    return tuple((begin, end) for begin, end in sentences if text[begin:end].strip())


@functools.cache
def _tokenizer(language: str) -> punkt.PunktSentenceTokenizer:
    if language not in LANGUAGES:
        raise UserError(f"language={language}: Punkt supports {', '.join(LANGUAGES)}")
    return punkt.tokenizer_for(language)
