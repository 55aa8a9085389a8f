"""Negation by rules: an English text with one negation more or one less."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


def negate(text: str, rng: np.random.Generator) -> str | None:
    """Returns the text with one negation more or one fewer, all places equally likely; None if no
    place allows it.

    English only, by rules and without a parser. Taken out are `not`, `never`, `n't` and what is
    left of do-support (`didn't see` becomes `saw`). Put in is `not` after forms of be, modal verbs
    and have before a participle, and do-support after a pronoun that is a subject by its form
    (`she saw` becomes `she didn't see`): a verb after a noun (`the dog barked`) is not found. A
    noun that looks like a modal (`his will`) or a pronoun that is an object (`told you lies`) may
    mislead it, and `no`, `nobody` and prefixes (`unhappy`) stay as they are.
    """
    edits = list(_edits(text))
    if not edits:
        return None
    begin, end, new = edits[int(rng.integers(len(edits)))]
    rest = new + text[end:]
    if text[begin].isupper() and _starts_sentence(text, begin):
        rest = rest[:1].upper() + rest[1:]
    return text[:begin] + rest


class _Edit(NamedTuple):
    begin: int
    end: int
    new: str


class _Word(NamedTuple):
    """A word in lower case, and its place; empty if there is none."""

    low: str
    begin: int = -1
    end: int = -1


_NONE = _Word("")
_ENGLISH = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")
_DO = {"do": "VB", "does": "VBZ", "did": "VBD"}
_BE = ("am", "is", "are", "was", "were")
_MODALS = ("can", "could", "will", "would", "shall", "should", "may", "might", "must")
_HAVE = ("have", "has", "had")
_AUXILIARIES = {*_DO, *_BE, *_MODALS, *_HAVE}
_CONTRACTED = {"can": "can't", "will": "won't", "shall": "shan't"}
_FULL = {contracted: full for full, contracted in _CONTRACTED.items()} | {"cannot": "can"}
_UNCONTRACTED = {"am", "may"}
_NEGATIONS = {"not", "never"}
_THIRD = {"he", "she", "it"}
_SUBJECTS = {*_THIRD, "i", "you", "we", "they"}


def _edits(text: str) -> Iterator[_Edit]:
    matches = list(_ENGLISH.finditer(text))
    words = [_Word(m[0].lower().replace("’", "'"), *m.span()) for m in matches]
    for i, word in enumerate(words):
        before = _beside(text, words, i, -1)
        after = _beside(text, words, i, 1)
        yield from _taken_out(before, word, after)
        if after.low not in _NEGATIONS:
            yield from _put_in(text, before, word, after, _beside(text, words, i, 2))


def _beside(text: str, words: Sequence[_Word], i: int, steps: int) -> _Word:
    """Returns the word `steps` words away, if only white space separates the words between."""
    j = i + steps
    if not 0 <= j < len(words):
        return _NONE
    near = words[min(i, j) : max(i, j) + 1]
    if any(text[a.end : b.begin].strip() for a, b in itertools.pairwise(near)):
        return _NONE
    return words[j]


def _taken_out(before: _Word, word: _Word, after: _Word) -> Iterator[_Edit]:
    if word.low in _NEGATIONS and after.low != "only":
        if word.low == "not" and before.low in _DO and _is_base(after.low):
            yield _Edit(before.begin, after.end, _inflected(after.low, _DO[before.low]))
        elif after.low:
            yield _Edit(word.begin, after.begin, "")
        elif before.low:
            yield _Edit(before.end, word.end, "")
    elif word.low in _FULL or (word.low.endswith("n't") and word.low != "ain't"):
        full = _FULL.get(word.low, word.low.removesuffix("n't"))
        if full in _DO and _is_base(after.low):
            yield _Edit(word.begin, after.end, _inflected(after.low, _DO[full]))
        else:
            yield _Edit(word.begin, word.end, full)


def _put_in(
    text: str, before: _Word, word: _Word, after: _Word, following: _Word
) -> Iterator[_Edit]:
    perfect = word.low in _HAVE and _participle(after.low)
    if word.low in _BE or word.low in _MODALS or perfect:
        written = text[word.begin : word.end]
        if _starts_sentence(text, word.begin):  # a question
            if word.low not in _UNCONTRACTED:
                contracted = _CONTRACTED.get(word.low, f"{word.low}n't")
                yield _Edit(word.begin, word.end, contracted)
        elif written == word.low:  # else it is a name, such as May or Will
            not_ = "not" if word.low == "can" else " not"
            yield _Edit(word.end, word.end, not_)
        return
    subject, apostrophe, short = word.low.partition("'")
    if subject in _SUBJECTS | {"that", "there"} and apostrophe:
        place = word.end - len(short) - 1
        if short in ("s", "re", "m"):
            yield _Edit(word.end, word.end, " not")
        elif short in ("ll", "ve"):
            yield _Edit(place, word.end, " won't" if short == "ll" else " haven't")
    elif word.low in _SUBJECTS and before.low not in _AUXILIARIES:
        supported = _do_support(word.low, after.low, following.low)
        if supported:
            yield _Edit(after.begin, after.end, supported)


def _do_support(subject: str, verb: str, following: str) -> str:
    """Returns a finite verb with its negation; empty where the word can't be one."""
    if verb in _BE or verb in _MODALS or following in _NEGATIONS:
        return ""
    if (verb in _HAVE and _participle(following)) or (verb in _DO and _is_base(following)):
        return ""
    for lemma in _lemmas(verb):
        if subject in _THIRD and verb in _forms(lemma, "VBZ"):
            return f"doesn't {lemma}"
        if subject not in _THIRD and verb == lemma:
            return f"don't {lemma}"
        if verb in _forms(lemma, "VBD"):
            return f"didn't {lemma}"
    return ""


def _starts_sentence(text: str, begin: int) -> bool:
    before = text[max(0, begin - 9) : begin].rstrip(" \t\"'“‘(")
    return not before or before[-1] in ".!?\n"


def _is_base(word: str) -> bool:
    return word in _lemmas(word)


def _participle(word: str) -> bool:
    return any(word in _forms(lemma, "VBN") for lemma in _lemmas(word))


def _inflected(lemma: str, tag: str) -> str:
    return lemma if tag == "VB" else _forms(lemma, tag)[0]


@functools.lru_cache(maxsize=1 << 14)
def _lemmas(word: str) -> tuple[str, ...]:
    """Returns the verbs that a word can be a form of."""
    from lemminflect import getAllLemmas

    lemmas: tuple[str, ...] = getAllLemmas(word, upos="VERB").get("VERB", ()) if word else ()
    return lemmas


@functools.lru_cache(maxsize=1 << 14)
def _forms(lemma: str, tag: str) -> tuple[str, ...]:
    from lemminflect import getInflection

    forms: tuple[str, ...] = getInflection(lemma, tag=tag)
    return forms
