"""Keyword coverage: whether a text holds the words it was asked to hold."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from levelfield.core.continuation import EMPTY_OUTPUT, READING, EmptyOutput, Reading, output
from levelfield.core.options import Options, option
from levelfield.core.packages import installed_label
from levelfield.core.sample import Control, Sample, wanted_values
from levelfield.core.undefined import NO_KEYWORDS, Undefined
from levelfield.metrics.sample_metric import ChoiceSignature, SampleMetric, SampleValue
from levelfield.models.languages import ENGLISH
from levelfield.text.words import (
    SOFT_HYPHEN,
    keyword_pattern,
    plain,
    standard,
    whole_word,
    words,
)

Found = Mapping[str, bool]
"""Keyword (or lemma) -> whether the text holds it; never empty."""

_PIPELINE = "en_core_web_sm"


@dataclass(frozen=True)
class _KeywordMetric(Options, ChoiceSignature, SampleMetric, abc.ABC):
    """Base of the metrics of keywords."""

    text: Reading = READING
    empty: EmptyOutput = EMPTY_OUTPUT

    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "prompt", "control"}))

    def _choices(self) -> Mapping[str, object]:
        return {**self._rules(), "text": self.text, "empty": self.empty}

    @abc.abstractmethod
    def _rules(self) -> Mapping[str, object]:
        """Returns the choices that say how a keyword is found."""

    @abc.abstractmethod
    def _found(self, text: str, keywords: Sequence[str]) -> Found:
        """Returns which of the keywords a text holds."""

    def _value(self, coverage: Found) -> float:
        return sum(coverage.values()) / len(coverage)

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        """Returns the values; each keyword is a part, with score 1 if it is in the text, else 0."""
        return [self._sample_value(sample) for sample in samples]

    def _sample_value(self, sample: Sample) -> SampleValue | Undefined:
        if not (keywords := keywords_of(sample.control)):
            return Undefined(NO_KEYWORDS)
        text = output(sample, self.text, empty=self.empty)
        if isinstance(text, Undefined):
            return text
        coverage = self._found(text, keywords)
        parts = [
            (keyword, float(is_held), 1 / len(coverage)) for keyword, is_held in coverage.items()
        ]
        return SampleValue(self._value(coverage), parts, cut=False)


def keywords_of(control: Control) -> tuple[str, ...]:
    """Returns the keywords that a control asks for, each once, without blank ones.

    >>> keywords_of({"keywords": ("court", "plea ", "court", "")})
    ('court', 'plea')
    """
    values = wanted_values(control.get("keywords", ()))
    seen = (keyword.strip() for keyword in values if words(standard(keyword, fold=False)))
    return tuple(dict.fromkeys(seen))


@dataclass(frozen=True)
class KeywordsCoverage(_KeywordMetric):
    """Keyword coverage: the share of the wanted keywords that a text holds.

    keywords found / keywords wanted; in [0, 1]. `keywords.any` is 1 if one of them is found,
    `keywords.all` if all are (the exact matches of Lorandi and Belz 2026, section 3.2).

    An empty output holds no keyword, so it is 0: a text that is blank, and with text=continuation
    one that ends with its prompt.

    Undefined: what the request lacks, `control has no keywords`, and with text=continuation `no
    prompt`; what can't be decided, with text=continuation `prompt is not a prefix of the text`;
    with empty=undefined also `empty text` and `nothing after the prompt`.

    Typographic variants are the same: `don’t` is found as `don't`, and `well‑known` as
    `well-known` (`levelfield.text.words.standard`). A soft hyphen is nothing, or a hyphen.

    The values that Lorandi and Belz published are those of `match=substring case=exact
    typography=exact`.
    """

    match: Literal["word", "substring", "lemma"] = option(
        "word",
        "Rule by which a keyword, which may be a phrase or contain punctuation, is found: word, "
        "with "
        "no letter or digit before or after it (in scripts that put no blanks between words, "
        'wherever it stands); substring, also within words, "plea" in "please"; lemma, if it '
        'shares a lemma with a word of the text, "courts" for "court" (English, LemmInflect; a '
        "phrase is found word by word).",
    )
    case: Literal["ignore", "exact"] = option(
        "ignore", "Ignore the difference between upper and lower case, or match it exactly."
    )
    typography: Literal["ignore", "exact"] = option(
        "ignore",
        "Ignore which quotation marks, apostrophes, hyphens, dashes, blanks, ligatures and wide "
        "letters the keyword and the text have, and zero-width characters; or match them exactly.",
    )

    name: ClassVar[str] = "keywords.coverage"

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """The lemmatizer, where it finds the keywords, and the language that it reads."""
        return {"match=lemma": ENGLISH} if self.match == "lemma" else {}

    def _rules(self) -> Mapping[str, object]:
        by = f"@{_lemminflect()}" if self.match == "lemma" else ""
        rules = {"match": self.match + by, "case": self.case}
        # values and signature of `exact` are those of before there was the option
        return rules if self.typography == "exact" else {**rules, "typography": self.typography}

    def _found(self, text: str, keywords: Sequence[str]) -> Found:
        fold, form = self.case == "ignore", plain if self.typography == "exact" else standard
        text = form(text, fold=fold)
        spelled = {keyword: form(keyword, fold=fold) for keyword in keywords}
        # with soft hyphens one character of the text may be nothing or a hyphen
        hyphens = form is standard and any(SOFT_HYPHEN in s for s in (text, *spelled.values()))
        if self.match == "lemma":
            return _found_by_lemmas(text, spelled, ("", "-") if hyphens else (SOFT_HYPHEN,))
        if hyphens:
            whole = self.match == "word"
            patterns = {k: keyword_pattern(s, whole=whole) for k, s in spelled.items()}
        elif self.match == "word":
            patterns = {k: whole_word(spelling) for k, spelling in spelled.items()}
        else:
            return {keyword: spelling in text for keyword, spelling in spelled.items()}
        return {k: pattern.search(text) is not None for k, pattern in patterns.items()}


class KeywordsAny(KeywordsCoverage):
    """Whether a text holds any of the wanted keywords: 1 or 0.

    Undefined, empty outputs: as for `keywords.coverage`.
    """

    name: ClassVar[str] = "keywords.any"

    def _value(self, coverage: Found) -> float:
        return float(any(coverage.values()))


class KeywordsAll(KeywordsCoverage):
    """Whether a text holds all of the wanted keywords: 1 or 0.

    Undefined, empty outputs: as for `keywords.coverage`.
    """

    name: ClassVar[str] = "keywords.all"

    def _value(self, coverage: Found) -> float:
        return float(all(coverage.values()))


@dataclass(frozen=True)
class _LemmaCoverage(_KeywordMetric, abc.ABC):
    """Base of the two published coverages of lemmas."""

    lemmas: Literal["lemminflect", "spacy"] = option(
        "lemminflect",
        "Source of lemmas: lemminflect, without context; spacy (its model en_core_web_sm, which "
        "picks one lemma from the context), as in the published values.",
    )

    languages: ClassVar[Mapping[str, frozenset[str]]] = {"its lemmas": ENGLISH}

    def _rules(self) -> Mapping[str, object]:
        return {"lemmas": _lemminflect() if self.lemmas == "lemminflect" else _spacy()}

    def _tokens(self, text: str) -> list[tuple[str, str | None]]:
        """Returns the words of a text, each with its lemma from spaCy, or None if lemmas are not
        used."""
        if self.lemmas == "spacy":
            return [(token.text, token.lemma_) for token in _pipeline()(text)]
        return [(word, None) for word in words(text, fold=False)]


class KeywordsCov(_LemmaCoverage):
    """Cov: the share of the wanted keywords that are lemmas of the text.

    |keywords ∩ lemmas(text)| / |keywords|; in [0, 1] (CommonGen, Lin et al. 2020; Table 12 of
    Lorandi and Belz 2026). The keywords are taken as written, so one that is not a lemma itself
    ("courts", "Linux" where the text says "linux") never matches, and typographic variants differ.
    To count what a reader would count, use `keywords.coverage` with match=lemma.

    With lemmas=lemminflect a word has all lemmas that it can have.

    Undefined, empty outputs: as for `keywords.coverage`.
    """

    name: ClassVar[str] = "keywords.cov"

    def _found(self, text: str, keywords: Sequence[str]) -> Found:
        tokens = self._tokens(text)
        lemmas = frozenset[str]().union(
            *(_lemmas(word) if lemma is None else {lemma} for word, lemma in tokens)
        )
        return {keyword: keyword in lemmas for keyword in keywords}


class KeywordsExtCov(_LemmaCoverage):
    """ExtCov: the share of the lemmas of all wanted keywords that are lemmas of the text.

    |L(keywords) ∩ L(text)| / |L(keywords)|, L the lemmas of all words together, lower-cased: the
    first that LemmInflect has for each part of speech, and with lemmas=spacy the one of spaCy; in
    [0, 1] (Carlsson et al. 2022, "Fine-Grained Controllable Text Generation Using Non-Residual
    Prompting"; Table 12 of Lorandi and Belz 2026). A keyword of several lemmas weighs more than
    one of one, and a text that holds every keyword in another form can stay below 1. Typographic
    variants differ. For one vote a keyword take `keywords.coverage` with match=lemma. Parts are
    lemmas, not keywords.

    Undefined, empty outputs: as for `keywords.coverage`.
    """

    name: ClassVar[str] = "keywords.ext-cov"

    def _rules(self) -> Mapping[str, object]:
        also = f"+{_lemminflect()}" if self.lemmas == "spacy" else ""
        return {"lemmas": f"{super()._rules()['lemmas']}{also}"}

    def _found(self, text: str, keywords: Sequence[str]) -> Found:
        text_lemmas = {
            variant for token in self._tokens(text.lower()) for variant in _first_lemmas(*token)
        }
        variants: set[str] = set()
        for keyword in map(str.lower, keywords):
            # of a phrase the published code takes the first word's lemma
            lemma = _pipeline()(keyword)[0].lemma_ if self.lemmas == "spacy" else None
            variants |= _first_lemmas(keyword, lemma)
        return {variant: variant in text_lemmas for variant in sorted(variants)}


def _found_by_lemmas(text: str, spelled: Mapping[str, str], hyphens: Sequence[str]) -> Found:
    """Returns which keywords share lemmas with a text, as they are matched: keyword -> spelling.

    Args:
        hyphens: what a soft hyphen may be; the first in every word, the others only where a keyword
            has a hyphen.
    """

    def readings(spelling: str) -> list[list[frozenset[str]]]:
        spellings = [spelling.replace(SOFT_HYPHEN, hyphen) for hyphen in hyphens]
        return [[_lemmas(word) for word in words(s, fold=False)] for s in spellings]

    text_readings = readings(text)
    return {
        keyword: any(
            _in_a_row(phrase, tokens)
            for phrase in readings(spelling)
            for tokens in (text_readings if {"-", SOFT_HYPHEN} & {*spelling} else text_readings[:1])
        )
        for keyword, spelling in spelled.items()
    }


def _in_a_row(phrase: Sequence[frozenset[str]], tokens: Sequence[frozenset[str]]) -> bool:
    """Returns whether adjacent tokens each share a lemma with the words of a phrase."""
    return any(
        all(lemmas & tokens[i + j] for j, lemmas in enumerate(phrase))
        for i in range(len(tokens) - len(phrase) + 1)
    )


@functools.lru_cache(maxsize=1 << 16)
def _lemmas(word: str) -> frozenset[str]:
    """Returns every lemma of a word; an unknown word is its own lemma, and is inflected as a
    noun."""
    from lemminflect import getAllLemmas, getAllLemmasOOV

    lemmas = getAllLemmas(word)
    by_class = lemmas or getAllLemmasOOV(word, "NOUN")
    return frozenset(lemma for forms in by_class.values() for lemma in forms) | (
        frozenset() if lemmas else {word}
    )


@functools.lru_cache(maxsize=1 << 16)
def _first_lemmas(word: str, lemma: str | None) -> frozenset[str]:
    """Returns the first lemma of a word for each part of speech, and the given one; else the
    word."""
    from lemminflect import getAllLemmas

    lemmas = {forms[0] for forms in getAllLemmas(word).values()}
    return frozenset(lemmas | ({lemma} if lemma is not None else set()) or {word})


def _lemminflect() -> str:
    return installed_label("lemminflect", "lemmas need LemmInflect: pip install lemminflect")


def _spacy() -> str:
    mend = (
        f"lemmas=spacy needs spaCy and its model {_PIPELINE}: pip install spacy, then "
        f"python -m spacy download {_PIPELINE}; lemmas=lemminflect needs neither"
    )
    return f"{installed_label('spacy', mend)}/{installed_label(_PIPELINE, mend)}"


@functools.cache
def _pipeline() -> Any:
    import spacy

    return spacy.load(_PIPELINE, disable=["parser", "ner"])
