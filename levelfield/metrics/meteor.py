"""METEOR: the words that a text shares with its source or its references, or nearly so."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.metrics.sample_metric import (
    UNREAD,
    AgainstReferences,
    AgainstSource,
    SampleValue,
    Unread,
    WordComparison,
    rule_weights,
    unread_choice,
    weighted_sum,
)
from levelfield.models.languages import ENGLISH
from levelfield.text.wordnet import WordNet, installed_wordnet
from levelfield.text.words import stem, stemmer_label, treebank_label, treebank_words

Variant = Literal["nltk", "lai-2022"]
Synonyms = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class METEOR(Options, WordComparison):
    """METEOR of each text.

    METEOR = (1 − γ (c/m)^β) · P R / (α P + (1 − α) R), m the words of the text that match a word of
    the reference, P = m / words of the text, R = m / words of the reference, c the number of runs
    of matches that are next to each other in both (Lavie and Agarwal 2007, "METEOR: An Automatic
    Metric for MT Evaluation with High Levels of Correlation with Human Judgments"; in the thesis
    section 3.2.1). Words match if they are equal in lower case, else by their stems (Porter), else
    as synonyms (WordNet), each word once; like NLTK and unlike the paper it does not look for the
    alignment with the fewest crossings. Of several references the one of the highest value counts.
    0 to 1 (`lai-2022` can go above).

    Undefined: `empty text`; `empty source` or `no references`; a text, or all it is compared with,
    of which fewer than half of the words are cut, as in Chinese (unless `unread=scored`). No match
    is 0.

    Variants: `nltk` is equal to NLTK's `meteor_score` of `word_tokenize`; it looks up in WordNet
    the stems that are left, so `child` and `baby` (stem `babi`) do not match. `lai-2022` counts as
    NLTK did up to 3.5, of words between white space: the words are looked up, those included that
    have matched by their stems, which so may count twice; it is equal to the column released with
    the judgements of Lai et al. (2022).
    """

    variant: Variant = option(
        "nltk",
        "Implementation to match: that of NLTK, or the column released by Lai et al. (2022).",
    )
    synonyms: Literal["auto", "wordnet", "none"] = option(
        "auto",
        "Source of synonyms: wordnet; none, for exact and stem matches only; auto, WordNet where "
        "it is installed (the signature names which).",
    )
    alpha: float = option(0.9, "Weight α of precision in P R / (α P + (1 − α) R).", least=0, most=1)
    beta: float = option(3.0, "Exponent β of the penalty γ (c/m)^β.", least=0)
    gamma: float = option(0.5, "Largest penalty γ, of matches without order.", least=0, most=1)
    unread: Unread = UNREAD

    languages: ClassVar[Mapping[str, frozenset[str]]] = {"its stemmer": ENGLISH}

    def _choices(self) -> Mapping[str, object]:
        wordnet = self._wordnet()
        return {
            "variant": self.variant,
            "tokenizer": treebank_label() if self.variant == "nltk" else "whitespace",
            "stemmer": stemmer_label(),
            "synonyms": wordnet.label if wordnet else "none",
            "alpha": self.alpha,
            "beta": self.beta,
            "gamma": self.gamma,
            **unread_choice(self.unread),
        }

    def _wordnet(self) -> WordNet | None:
        """Returns the source of synonyms.

        Raises:
            UserError: WordNet is asked for and not installed.
        """
        wordnet = None if self.synonyms == "none" else installed_wordnet()
        if self.synonyms == "wordnet" and not wordnet:
            raise UserError(
                f"{self.name}: synonyms=wordnet: WordNet is not installed; install Debian's "
                "wordnet-base or NLTK's corpus 'wordnet', or use synonyms=none"
            )
        return wordnet

    def _compare(self, text: str, references: Mapping[str, str]) -> SampleValue:
        words = self._tokens(text)
        values = np.array(
            [self._alignment_score(words, self._tokens(other)) for other in references.values()]
        )
        return weighted_sum([*references], values, rule_weights(values, "max"), cut=False)

    def _tokens(self, text: str) -> list[str]:
        cut = treebank_words(text) if self.variant == "nltk" else text.split()
        return [word.lower() for word in cut]

    def _alignment_score(self, words: Sequence[str], reference: Sequence[str]) -> float:
        wordnet = self._wordnet()
        synonyms = _synonyms(wordnet, repeat=self.variant == "lai-2022") if wordnet else _none
        matches = aligned(words, reference, self.variant, synonyms)
        m, c = len(matches), chunks(matches)
        if not m:
            return 0.0
        p, r = m / len(words), m / len(reference)
        f = p * r / (self.alpha * p + (1 - self.alpha) * r)
        penalty = self.gamma * math.pow(c / m, self.beta)
        return (1 - penalty) * f


class METEORSource(METEOR, AgainstSource):
    name: ClassVar[str] = "meteor.source"


class METEORReferences(METEOR, AgainstReferences):
    name: ClassVar[str] = "meteor.references"


class Match(NamedTuple):
    """The places of two words that match."""

    text: int
    reference: int


def aligned(
    words: Sequence[str], reference: Sequence[str], variant: Variant, synonyms: Synonyms
) -> list[Match]:
    """Returns the matches of a text's words with those of a reference, in the text's order."""
    left, right = dict(enumerate(words)), dict(enumerate(reference))
    exact = _matches(left, right, lambda word: (word,))
    left, right = _unmatched(left, right, exact)
    left_stems = {place: stem(word) for place, word in left.items()}
    right_stems = {place: stem(word) for place, word in right.items()}
    by_stem = _matches(left_stems, right_stems, lambda stem: (stem,))
    if variant == "nltk":
        left, right = _unmatched(left_stems, right_stems, by_stem)
    by_synonym = _matches(left, right, lambda word: {word, *synonyms(word)})
    return sorted(exact + by_stem + by_synonym, key=lambda match: match.text)


def chunks(matches: Sequence[Match]) -> int:
    """Returns the number of runs of matches that are adjacent on both sides."""
    starts = [
        match
        for before, match in itertools.pairwise(matches)
        if match != (before.text + 1, before.reference + 1)
    ]
    return len(starts) + bool(matches)


def _matches(
    left: dict[int, str], right: dict[int, str], equal: Callable[[str], Iterable[str]]
) -> list[Match]:
    """From the last word to the first, each with the last word on the right that is still free and
    among those that it equals."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in right.items():
        places[word].append(place)
    matches = []
    for place in reversed(left):
        free = [places[word] for word in equal(left[place]) if places.get(word)]
        if free:
            matches.append(Match(place, max(free, key=lambda positions: positions[-1]).pop()))
    return matches


def _unmatched(
    left: dict[int, str], right: dict[int, str], matches: Sequence[Match]
) -> tuple[dict[int, str], dict[int, str]]:
    text_places = {match.text for match in matches}
    reference_places = {match.reference for match in matches}
    return (
        {place: word for place, word in left.items() if place not in text_places},
        {place: word for place, word in right.items() if place not in reference_places},
    )


def _none(_: str) -> Iterable[str]:
    return ()


@functools.lru_cache(maxsize=4)
def _synonyms(wordnet: WordNet, *, repeat: bool) -> Synonyms:
    """Returns the lookup of synonyms with a cache: nothing else takes as long."""
    return functools.lru_cache(maxsize=1 << 16)(functools.partial(wordnet.synonyms, repeat=repeat))
