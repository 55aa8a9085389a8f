"""BLEU and chrF: the n-grams that a text shares with its source or its references.

Both are sacreBLEU's (Post 2018, "A Call for Clarity in Reporting BLEU Scores"): our numbers are
what it computes, of a text (`bleu`, `chrf`) and of a group of texts (`corpus-bleu`,
`corpus-chrf`). All values are 0 to 100, higher is better. A blank reference counts as none, here
as for all metrics against references.
"""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from levelfield.core.corpus import CorpusValue, OfGroups
from levelfield.core.direction import Direction
from levelfield.core.errors import UserError
from levelfield.core.metric import Level
from levelfield.core.options import Options, option
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    NO_REFERENCES,
    NO_TEXT_WITH_TOKEN,
    NO_TOKEN,
    Undefined,
    few_words,
    no_field,
    no_text_of,
    texts_without,
)
from levelfield.metrics.sample_metric import (
    UNREAD,
    Against,
    AgainstReferences,
    AgainstSource,
    ChoiceSignature,
    SampleValue,
    TextComparison,
    Unread,
    WordComparison,
    compared,
    unread_choice,
)
from levelfield.text.words import Rules, WordsSeen, treebank_label, treebank_words, words_seen

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

Tokenize = Literal["13a", "intl", "char", "zh", "none"]
"""sacreBLEU's tokenizers that need neither a download nor another program."""

_TOKENIZE = option(
    "13a",
    "Tokenizer of sacreBLEU that cuts texts into words: 13a as in mteval-v13a, intl by the "
    "classes of Unicode, char into characters, zh for Chinese, none at white space.",
)
_ORDER = 4
"""The longest n-grams of BLEU."""
_LOWERCASE = option(
    False, "Lower-case the text and what it is compared with before counting n-grams."
)


@dataclass(frozen=True)
class SentenceBLEU(Options, WordComparison):
    """BLEU of each text.

    BLEU = BP · exp((1/N) Σ_n log p_n), p_n the share of the text's n-grams that a reference has
    (each as often as one reference has it at most), n up to 4, and BP = min(1, exp(1 − r/c)), c
    and r the lengths of the text and of the reference nearest to it in length (Papineni et al.
    2002, section 2; in the thesis section 3.2.1). 0 to 100 in every variant.

    Undefined: `empty text`; `empty source` or `no references`; a text of which the tokenizer makes
    no token; a text, or all it is compared with, of which it cuts fewer than half of the words, as
    `13a` of Chinese or Thai (`unread=scored` scores it, as sacreBLEU does).

    Variants: `sacrebleu` leaves out an order of which the text has no n-gram (effective order), and
    gives the k-th order without a match p_n = 1/(2^k · n-grams) (smoothing exp). `nltk` is NLTK's
    `sentence_bleu` with smoothing method 1 (p_n = 0.1/n-grams) of `word_tokenize`. `lai-2022` is
    the same with the words of NLTK 3.4, as released with the judgements of Lai et al. (2022), there
    divided by 100. The last two have their own words and no tokenizer to choose.
    """

    best: ClassVar[float] = 100.0

    variant: Literal["sacrebleu", "nltk", "lai-2022"] = option(
        "sacrebleu",
        "Implementation to match: that of sacreBLEU, that of NLTK, or the column released by Lai "
        "et al. (2022).",
    )
    tokenize: Tokenize = _TOKENIZE
    lowercase: bool = _LOWERCASE
    unread: Unread = UNREAD

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant != "sacrebleu" and self.tokenize != "13a":
            raise UserError(f"{self.name}: variant={self.variant} has no tokenizer to choose")

    def _choices(self) -> Mapping[str, object]:
        if self.variant == "sacrebleu":
            choices = _bleu_choices(self.tokenize, self.lowercase) | {"effective-order": "yes"}
        else:
            choices = {
                "case": _case(self.lowercase),
                "tokenizer": treebank_label(self._rules),
                "smoothing": "method1",
            }
        return {"variant": self.variant, **choices, **unread_choice(self.unread)}

    @property
    def _rules(self) -> Rules:
        return "installed" if self.variant == "nltk" else "3.4"

    def _tokens(self, text: str) -> Sequence[str]:
        if self.variant == "sacrebleu":
            return _tokens(self.tokenize, text)
        return treebank_words(text.lower() if self.lowercase else text, self._rules)

    def _compare(self, text: str, references: Mapping[str, str]) -> SampleValue | Undefined:
        others = tuple(references.values())
        if self.variant == "sacrebleu":
            bleu = _bleu(self.tokenize, self.lowercase, effective_order=True)
            scored = bleu.sentence_score(text, others)
            if not scored.sys_len:
                return Undefined(NO_TOKEN)
            return SampleValue(min(scored.score, self.best), (), cut=False)
        reference_words = [self._tokens(reference) for reference in others]
        return SampleValue(100 * _nltk_bleu(self._tokens(text), reference_words), (), cut=False)


@dataclass(frozen=True)
class _CHRF(Options):
    """The n-grams that chrF counts."""

    char_order: int = option(6, "Length of the longest character n-gram.", least=1, most=100)
    word_order: int = option(
        0, "Length of the longest word n-gram: 0 is chrF, 2 is chrF++.", least=0, most=100
    )
    beta: int = option(
        2, "Weight β of recall, which counts β times as much as precision.", least=1, most=100
    )

    def _choices(self) -> Mapping[str, object]:
        return {
            "case": "mixed",
            "char-order": self.char_order,
            "word-order": self.word_order,
            "beta": self.beta,
            "sacrebleu": version("sacrebleu"),
        }

    def _sacrebleu(self) -> CHRF:
        return _chrf(self.char_order, self.word_order, self.beta)


@dataclass(frozen=True)
class SentenceCHRF(_CHRF, TextComparison):
    """chrF of each text: the character n-grams, and if wanted the word n-grams, that it shares.

    chrF = (1 + β²) P R / (β² P + R), P and R the means over n of the shares of the text's and the
    reference's n-grams that match (Popović 2015, "chrF: character n-gram F-score for automatic MT
    evaluation"); white space does not count. Of several references the one of the highest value
    counts. 0 to 100. Equal to sacreBLEU's `sentence_chrf`, and divided by 100 to the column
    released with the judgements of Lai et al. (2022).

    Undefined: `empty text`; `empty source` or `no references`.
    """

    best: ClassVar[float] = 100.0

    def _compare(self, text: str, references: Mapping[str, str]) -> SampleValue:
        scored = self._sacrebleu().sentence_score(text, tuple(references.values()))
        return SampleValue(scored.score, (), cut=False)


class OverlapCounts(NamedTuple):
    """Statistics of a group.

    Attributes:
        sums: sacreBLEU's statistics, summed over the texts; empty without texts.
        texts: how many there are.
        without: how many of them have nothing to compare with.
        seen: how many words of the texts the tokenizer sees, and of what they are compared with.
    """

    sums: tuple[int, ...]
    texts: int
    without: int
    seen: tuple[WordsSeen, WordsSeen] = (WordsSeen(0, 0), WordsSeen(0, 0))


@dataclass(frozen=True)
class _OfCorpus(ChoiceSignature, OfGroups, abc.ABC):
    """A value of a group from statistics of its texts that are summed."""

    level: ClassVar[Level] = "corpus"
    direction: ClassVar[Direction] = "higher"
    requires: ClassVar[frozenset[str]]
    against: ClassVar[Against]

    @abc.abstractmethod
    def _sacrebleu(self) -> BLEU | CHRF:
        """Returns the metric of sacreBLEU."""

    @abc.abstractmethod
    def _text_lengths(self, sums: tuple[int, ...]) -> tuple[int, ...]:
        """Returns those of the sums that are lengths of the texts."""

    def state(self, samples: Sequence[Sample]) -> OverlapCounts:
        """Returns the statistics of these texts."""
        pairs = [(sample.text, compared(sample, self.against).values()) for sample in samples]
        usable = [(text, references) for text, references in pairs if references]
        metric = self._sacrebleu()
        rows = [
            metric._extract_corpus_statistics([text], [[reference] for reference in references])[0]
            for text, references in usable
        ]
        sums = tuple(map(sum, zip(*rows, strict=True)))
        others = [reference for _, references in usable for reference in references]
        seen = self._seen([text for text, _ in usable]), self._seen(others)
        return OverlapCounts(sums, len(pairs), len(pairs) - len(usable), seen)

    def _seen(self, texts: Iterable[str]) -> WordsSeen:  # noqa: ARG002
        """Returns how many words the tokenizer sees; none where characters are compared."""
        return WordsSeen(0, 0)

    def merge(self, a: OverlapCounts, b: OverlapCounts) -> OverlapCounts:
        """Returns the sums of two partitions."""
        sums = tuple(map(sum, itertools.zip_longest(a.sums, b.sums, fillvalue=0)))
        seen = a.seen[0] + b.seen[0], a.seen[1] + b.seen[1]
        return OverlapCounts(sums, a.texts + b.texts, a.without + b.without, seen)

    def value(self, state: OverlapCounts) -> CorpusValue:
        """Returns sacreBLEU's value of the sums."""
        if state.without:
            missing = no_field("source") if self.against == "source" else NO_REFERENCES
            reason = texts_without(state.without, state.texts, missing)
            return CorpusValue(float("nan"), reason)
        if not any(self._text_lengths(state.sums)):
            return CorpusValue(float("nan"), NO_TEXT_WITH_TOKEN)
        for where, seen in zip(("the texts", f"the {self.against}"), state.seen, strict=True):
            if not seen.most:
                return CorpusValue(float("nan"), few_words(where))
        if reason := self._too_short(state.sums):
            return CorpusValue(float("nan"), reason)
        # a list of its own: sacreBLEU may write into it
        score = self._sacrebleu()._compute_score_from_stats(list(state.sums)).score
        return CorpusValue(min(score, 100.0))

    def _too_short(self, sums: tuple[int, ...]) -> str:  # noqa: ARG002
        """Returns why the texts are too short for a value; empty if they are not."""
        return ""


@dataclass(frozen=True)
class CorpusBLEU(Options, _OfCorpus):
    """BLEU of a group of texts.

    BLEU = BP · exp((1/4) Σ_n log p_n) with matches, n-grams and lengths summed over the group
    before they are divided (Papineni et al. 2002, section 2.2), so it is not the mean of `bleu`. 0
    to 100. Equal to sacreBLEU's `corpus_bleu`, also where texts have different numbers of
    references. An empty text counts, as one of length 0: it lowers the value through BP. Smoothing
    is exp, as sacreBLEU's default.

    Undefined: a text of the group has nothing to be compared with, and the reason says how many; no
    text of the group has a token, or four of them (sacreBLEU has 0); of the words of all texts, or
    of all they are compared with, the tokenizer cuts fewer than half (unless `unread=scored`).
    """

    tokenize: Tokenize = _TOKENIZE
    lowercase: bool = _LOWERCASE
    unread: Unread = UNREAD

    def _choices(self) -> Mapping[str, object]:
        choices = _bleu_choices(self.tokenize, self.lowercase)
        return {**choices, "without-4-grams": "undefined", **unread_choice(self.unread)}

    def _seen(self, texts: Iterable[str]) -> WordsSeen:
        if self.unread == "scored":
            return super()._seen(texts)
        counts = (words_seen(text, _tokens(self.tokenize, text)) for text in texts)
        return functools.reduce(WordsSeen.__add__, counts, WordsSeen(0, 0))

    def _too_short(self, sums: tuple[int, ...]) -> str:
        return "" if sums[-1] else no_text_of(_ORDER)

    def _sacrebleu(self) -> BLEU:
        return _bleu(self.tokenize, self.lowercase, effective_order=False)

    def _text_lengths(self, sums: tuple[int, ...]) -> tuple[int, ...]:
        return sums[:1]


@dataclass(frozen=True)
class CorpusCHRF(_CHRF, _OfCorpus):
    """chrF of a group of texts.

    chrF as for `chrf`, with matches and n-grams of each order summed over the group before they are
    divided; of several references a text's best one counts. 0 to 100. Equal to sacreBLEU's
    `corpus_chrf`. An empty text counts: what it should have said is missing from recall.

    Undefined: a text of the group has nothing to be compared with, and the reason says how many; no
    text of the group has a character.
    """

    def _text_lengths(self, sums: tuple[int, ...]) -> tuple[int, ...]:
        return sums[::3]


class BLEUSource(SentenceBLEU, AgainstSource):
    name: ClassVar[str] = "bleu.source"


class BLEUReferences(SentenceBLEU, AgainstReferences):
    name: ClassVar[str] = "bleu.references"


class CHRFSource(SentenceCHRF, AgainstSource):
    name: ClassVar[str] = "chrf.source"


class CHRFReferences(SentenceCHRF, AgainstReferences):
    name: ClassVar[str] = "chrf.references"


class CorpusBLEUSource(CorpusBLEU, AgainstSource):
    name: ClassVar[str] = "corpus-bleu.source"


class CorpusBLEUReferences(CorpusBLEU, AgainstReferences):
    name: ClassVar[str] = "corpus-bleu.references"


class CorpusCHRFSource(CorpusCHRF, AgainstSource):
    name: ClassVar[str] = "corpus-chrf.source"


class CorpusCHRFReferences(CorpusCHRF, AgainstReferences):
    name: ClassVar[str] = "corpus-chrf.references"


def _case(lowercase: bool) -> str:
    return "lower" if lowercase else "mixed"


def _bleu_choices(tokenize: Tokenize, lowercase: bool) -> dict[str, str]:
    return {
        "case": _case(lowercase),
        "tokenizer": tokenize,
        "smoothing": "exp",
        "sacrebleu": version("sacrebleu"),
    }


@functools.cache
def _bleu(tokenize: Tokenize, lowercase: bool, *, effective_order: bool) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    # force: says nothing about texts that look tokenised
    return BLEU(lowercase, force=True, tokenize=tokenize, effective_order=effective_order)


def _tokens(tokenize: Tokenize, text: str) -> list[str]:
    cut = _bleu(tokenize, lowercase=False, effective_order=True).tokenizer
    return str(cut(text.rstrip())).split()


@functools.cache
def _chrf(char_order: int, word_order: int, beta: int) -> CHRF:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(char_order, word_order, beta)


def _nltk_bleu(words: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    method1 = SmoothingFunction(epsilon=0.1).method1
    return float(sentence_bleu(references, words, smoothing_function=method1))
