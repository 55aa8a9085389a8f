"""Perturbations: human texts spoilt by rules, as negatives for a discriminator.

In the manner of UNION (Guan and Huang 2020), the self-supervised baseline of CTRLEval's section
4.3: sentences in another order, twice, of another text, or turned into their opposite. Dropping a
sentence is ours. UNION's own rates of each are not reproduced: kinds are drawn alike.

The units of a text are its lines where it has several (turns of a dialogue), else its sentences.
What stands between units stays where it is, so that white space does not give a negative away.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import regex

from levelfield.core.errors import UserError
from levelfield.metrics.text import segmenter
from levelfield.metrics.text.words import UNSPACED

Perturbation = Callable[[str, np.random.Generator], str | None]
"""A spoilt text; None where there is nothing to spoil in this way."""

LONGEST_REPEAT = 4
"""Words of the longest n-gram that is written twice."""
_LINE = re.compile(r"\S(?:[^\n]*\S)?")
_WORD = regex.compile(rf"(?V1)[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")


class Perturbed(NamedTuple):
    """A text and its perturbed twin.

    Attributes:
        negative: differs from the positive; None where no kind could be applied.
        kinds: what was applied, in order.
    """

    id: str
    positive: str
    negative: str | None
    kinds: tuple[str, ...]


def make_perturbed(
    documents: Iterable[tuple[str, str]], kinds: Sequence[str], *, seed: int, times: int = 1
) -> Iterator[Perturbed]:
    """A perturbed twin of every document, those that can't be perturbed included.

    A twin depends on the seed, the document, its place, and, for `substitute`, the document before
    it (of the first the one behind it).

    Args:
        documents: ids and texts; read as they are needed.
        kinds: as for `perturb`.
        times: at most so many perturbations of a text, from 1 on equally likely.

    Raises:
        UserError: there is no such kind, or a number is out of range.
    """
    _check(kinds, times)
    if seed < 0:
        raise UserError(f"seed {seed}: expected 0 or more")
    waiting = iter(documents)
    first = list(itertools.islice(waiting, 2))
    other = first[-1][1] if first else ""
    for index, (id, text) in enumerate(itertools.chain(first, waiting)):
        rng = np.random.default_rng([seed, index])
        negative, applied = perturb(text, rng, kinds, times=times, other=other)
        yield Perturbed(id, text, negative, applied)
        other = text


def perturb(
    text: str, rng: np.random.Generator, kinds: Sequence[str], *, times: int = 1, other: str = ""
) -> tuple[str | None, tuple[str, ...]]:
    """The text after 1 to `times` perturbations, and their kinds; None where none can be applied.

    Every kind is equally likely; one that can't be applied gives way to another. The result is
    never the text itself.

    Args:
        kinds: of `shuffle`, `drop`, `repeat`, `negate`, `substitute`.
        other: where `substitute` takes sentences from.

    Raises:
        UserError: there is no such kind, or `times` is below 1.
    """
    _check(kinds, times)
    known: Mapping[str, Perturbation] = {
        **KINDS,
        "substitute": functools.partial(substitute, other=other),
    }
    made, applied = text, []
    for _ in range(int(rng.integers(1, times + 1))):
        for kind in (kinds[i] for i in rng.permutation(len(kinds))):
            found = known[kind](made, rng)
            if found is not None and found not in (made, text):
                made = found
                applied.append(kind)
                break
    return made if applied else None, tuple(applied)


def _check(kinds: Sequence[str], times: int) -> None:
    known = (*KINDS, "substitute")
    wrong = [kind for kind in kinds if kind not in known]
    if wrong or not kinds:
        found = f"'{wrong[0]}'" if wrong else "none"
        raise UserError(f"kinds of perturbation: expected some of {', '.join(known)}, got {found}")
    if times < 1:
        raise UserError(f"times {times}: expected at least 1")


# -- whole units


def shuffle(text: str, rng: np.random.Generator) -> str | None:
    """Units in another order; None with fewer than two different ones."""
    spans = _units(text)
    units = [text[begin:end] for begin, end in spans]
    if len(set(units)) < 2:
        return None
    made = [units[i] for i in rng.permutation(len(units))]
    if made == units:
        i = int(rng.integers(len(units)))
        j = next(j for j, unit in enumerate(units) if unit != units[i])
        made[i], made[j] = units[j], units[i]
    return _replaced(text, spans, made)


def drop(text: str, rng: np.random.Generator) -> str | None:
    """Without one unit that others stand around; None with fewer than three.

    What is left without its first or last unit may be as good as before.
    """
    spans = _units(text)
    if len(spans) < 3:
        return None
    at = int(rng.integers(1, len(spans) - 1))
    return text[: spans[at][0]] + text[spans[at + 1][0] :]


def repeat(text: str, rng: np.random.Generator) -> str | None:
    """A unit, or 1 to 4 words of one, once more right behind itself; None of an empty text."""
    spans = _units(text)
    if not spans:
        return None
    at = int(rng.integers(len(spans)))
    begin, end = spans[at]
    if rng.random() < 0.5:
        near = max(0, min(at, len(spans) - 2))
        gap = text[spans[near][1] : spans[near + 1][0]] if len(spans) > 1 else " "
    else:
        words = [match.span() for match in _WORD.finditer(text, begin, end)]
        n = int(rng.integers(1, min(LONGEST_REPEAT, len(words)) + 1))
        first = int(rng.integers(len(words) - n + 1))
        near = max(0, min(first, len(words) - 2))
        gap = text[words[near][1] : words[near + 1][0]] if len(words) > 1 else " "
        begin, end = words[first][0], words[first + n - 1][1]
    return text[:end] + gap + text[begin:end] + text[end:]


def substitute(text: str, rng: np.random.Generator, *, other: str) -> str | None:
    """With one unit of another text in place of one of its own.

    None with fewer than two units (nothing would be left that it does not fit), and where the
    other text has nothing else to say.
    """
    spans = _units(text)
    if len(spans) < 2:
        return None
    at = int(rng.integers(len(spans)))
    units = [text[begin:end] for begin, end in spans]
    foreign = [other[begin:end] for begin, end in _units(other)]
    foreign = [unit for unit in foreign if unit not in units]
    if not foreign:
        return None
    units[at] = foreign[int(rng.integers(len(foreign)))]
    return _replaced(text, spans, units)


def _units(text: str) -> list[tuple[int, int]]:
    """Where the lines of a text are; of one line, its sentences."""
    lines = [match.span() for match in _LINE.finditer(text)]
    if len(lines) != 1:
        return lines
    spans, at = [], 0
    for sentence in segmenter.sentences(text):
        begin = text.index(sentence, at)
        at = begin + len(sentence)
        spans.append((begin, at))
    return spans


def _replaced(text: str, spans: Sequence[tuple[int, int]], units: Sequence[str]) -> str:
    """The text with other units in the places of its own."""
    made, at = "", 0
    for (begin, end), unit in zip(spans, units, strict=True):
        made += text[at:begin] + unit
        at = end
    return made + text[at:]


# -- negation


def negate(text: str, rng: np.random.Generator) -> str | None:
    """With one negation more or one less, all places equally likely; None where there is none.

    English only, by rules and without a parser. Taken out are `not`, `never`, `n't` and what is
    left of do-support (`didn't see` becomes `saw`). Put in is `not` behind forms of be, modal verbs
    and have before a participle, and do-support behind a pronoun that is a subject by its form
    (`she saw` becomes `she didn't see`): a verb behind a noun (`the dog barked`) is not found. A
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
    """A word in lower case, and where it stands; empty where there is none."""

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
    """The word so many steps away, if nothing but white space lies between."""
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


def _put_in(text: str, before: _Word, word: _Word, after: _Word, behind: _Word) -> Iterator[_Edit]:
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
        at = word.end - len(short) - 1
        if short in ("s", "re", "m"):
            yield _Edit(word.end, word.end, " not")
        elif short in ("ll", "ve"):
            yield _Edit(at, word.end, " won't" if short == "ll" else " haven't")
    elif word.low in _SUBJECTS and before.low not in _AUXILIARIES:
        supported = _do_support(word.low, after.low, behind.low)
        if supported:
            yield _Edit(after.begin, after.end, supported)


def _do_support(subject: str, verb: str, behind: str) -> str:
    """A finite verb with its negation; empty where the word can't be one."""
    if verb in _BE or verb in _MODALS or behind in _NEGATIONS:
        return ""
    if (verb in _HAVE and _participle(behind)) or (verb in _DO and _is_base(behind)):
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
    """The verbs that a word can be a form of."""
    from lemminflect import getAllLemmas

    found: tuple[str, ...] = getAllLemmas(word, upos="VERB").get("VERB", ()) if word else ()
    return found


@functools.lru_cache(maxsize=1 << 14)
def _forms(lemma: str, tag: str) -> tuple[str, ...]:
    from lemminflect import getInflection

    found: tuple[str, ...] = getInflection(lemma, tag=tag)
    return found


KINDS: Mapping[str, Perturbation] = {
    "shuffle": shuffle,
    "drop": drop,
    "repeat": repeat,
    "negate": negate,
}
"""The perturbations that need nothing but the text."""
