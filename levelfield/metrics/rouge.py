"""ROUGE: the n-grams, or the longest common subsequence, that a text shares with another.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; in the thesis section 3.2.1.
"""

from __future__ import annotations

import abc
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.undefined import NO_TOKEN, Undefined, no_unit
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
from levelfield.text.words import stem, stemmer_label, treebank_label, treebank_words, words

Tokens = tuple[str, ...]
Value = Literal["f", "precision", "recall"]

_LATIN = re.compile(r"[a-z0-9]+")


class Overlap(NamedTuple):
    """What a text and a reference share.

    Attributes:
        m: units (n-grams, or words of the longest common subsequence) that match.
        text, reference: units of each.
    """

    m: int
    text: int
    reference: int

    def value(self, quantity: Value, beta: float | None) -> float | None:
        """Returns precision m/text, recall m/reference, or F; None for 0/0.

        F = (1 + β²) P R / (R + β² P) = (1 + β²) m / (text + β² reference), which is defined as long
        as either has a unit. β = P/R if `beta` is None.
        """
        if quantity == "precision":
            return self.m / self.text if self.text else None
        if quantity == "recall":
            return self.m / self.reference if self.reference else None
        if not (self.text or self.reference):
            return None
        if not self.m:
            return 0.0
        if beta is None:
            beta = self.reference / self.text
        return (1 + beta**2) * self.m / (self.text + beta**2 * self.reference)


@dataclass(frozen=True)
class ROUGE(Options, WordComparison, abc.ABC):
    """ROUGE of each text.

    With m the units that a text and its reference share: P = m / units of the text, R = m / units
    of the reference, F = (1 + β²) P R / (R + β² P). A unit is an n-gram (`rouge-1`, `rouge-2`; each
    matches as often as both have it) or a word of the longest common subsequence (`rouge-l`). Lin
    2004, sections 2 and 3; in the thesis section 3.2.1. 0 to 1. Equal to the package `rouge-score`,
    which reads only a to z and 0 to 9.

    Undefined: `empty text`; `empty source` or `no references`; a text, or all it is compared with,
    without a token of the tokenizer, which `rouge-score` gives as 0; one of which the tokenizer
    sees fewer than half of the words, such as a Russian one with a Latin name (`unread=scored`
    scores it, as `rouge-score` does); neither has an n-gram (two
    texts of one word have no 2-gram), or for precision or recall the one that it divides by.

    Variants: `rouge-1.0` counts as the package `rouge` does since 1.0: the words between white
    space, case and punctuation kept, full stops dropped; of n-grams and words each different one
    counts once; for `rouge-l` the union of the longest common subsequences of all pairs of
    sentences. `lai-2022` counts as that package did up to 0.3 on the words of NLTK 3.4, with
    β = P/R for `rouge-l`; with value=f it is equal to the columns released with the judgements of
    Lai et al. (2022). Neither of the two has a tokenizer or stemmer to choose.
    """

    value: Value = option("f", "Value to report: F, precision or recall.")
    beta: float | None = option(
        None,
        "Weight β of recall, which counts β times as much as precision.",
        least=0,
        otherwise="that of the variant: P/R for rouge-l with variant=lai-2022, else 1",
    )
    multiple: Literal["max", "jackknife", "mean"] = option(
        "max",
        "Rule for several references: max, the one of the highest F; jackknife, each left out in"
        " turn, the mean over the highest F of the rest (Lin 2004, section 2.1; one reference: "
        "its value); mean, the mean over all.",
    )
    tokenizer: Literal["rouge-score", "unicode"] = option(
        "rouge-score",
        "Words that are counted: rouge-score, runs of a to z and 0 to 9, in lower case; unicode, "
        "words of any script, case folded, without punctuation.",
    )
    stemmer: bool = option(False, "Stem words of more than three characters (Porter).")
    variant: Literal["rouge-score", "rouge-1.0", "lai-2022"] = option(
        "rouge-score",
        "Implementation to match: the package rouge-score, the package rouge since 1.0, or the "
        "column released by Lai et al. (2022).",
    )
    unread: Unread = UNREAD

    _unit: ClassVar[str]
    _beta_of_lai: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._once and (self.stemmer or self.tokenizer != "rouge-score"):
            raise UserError(
                f"{self.name}: variant={self.variant} has no tokenizer or stemmer to choose"
            )

    def _choices(self) -> Mapping[str, object]:
        return {
            "variant": self.variant,
            "tokenizer": self._tokenizer_label(),
            "stemmer": stemmer_label() if self.stemmer else "none",
            "value": self.value,
            "beta": "precision/recall" if self._beta is None else self._beta,
            "multiple": self.multiple,
            **unread_choice(self.unread),
        }

    def _tokenizer_label(self) -> str:
        if self.variant == "rouge-1.0":
            return "white-space"
        return treebank_label("3.4") if self.variant == "lai-2022" else self.tokenizer

    @property
    def _beta(self) -> float | None:
        if self.beta is not None:
            return self.beta
        return self._beta_of_lai if self.variant == "lai-2022" else 1.0

    @property
    def _once(self) -> bool:
        """Whether the sentences of a text are compared, and each different unit counts once."""
        return self.variant != "rouge-score"

    @abc.abstractmethod
    def _shared(self, text: Sequence[Tokens], reference: Sequence[Tokens]) -> Overlap:
        """Returns what the sentences of a text and of a reference share."""

    def _compare(self, text: str, references: Mapping[str, str]) -> SampleValue | Undefined:
        text_sentences = self._sentences(text)
        if not text_sentences:
            return Undefined(NO_TOKEN)
        all_of = {name: self._sentences(reference) for name, reference in references.items()}
        shared = {
            name: self._shared(text_sentences, sentences)
            for name, sentences in all_of.items()
            if sentences
        }
        return (
            self._several_references(shared)
            if shared
            else Undefined(no_unit("token", f"the {self.against}"))
        )

    def _several_references(self, shared: Mapping[str, Overlap]) -> SampleValue | Undefined:
        """Returns the value over several references; one whose value is 0/0 is left out."""
        defined = [
            (name, value, f)
            for name, overlap in shared.items()
            if (value := overlap.value(self.value, self._beta)) is not None
            and (f := overlap.value("f", self._beta)) is not None
        ]
        if not defined:
            sides = {"f": "either", "precision": "the text", "recall": f"the {self.against}"}
            return Undefined(no_unit(self._unit, sides[self.value]))
        weights = weights_of(np.array([f for *_, f in defined]), self.multiple)
        values = np.array([value for _, value, _ in defined])
        return weighted_sum([part for part, *_ in defined], values, weights, cut=False)

    def _tokens(self, text: str) -> Tokens:
        return _joined(self._sentences(text))

    def _sentences(self, text: str) -> Sequence[Tokens]:
        """Returns the sentences of a text, empty without a token; only variants of the package
        `rouge` split it."""
        if self.variant == "rouge-1.0":
            return split_at_full_stops(text.split())
        if self.variant == "lai-2022":
            return split_at_full_stops(treebank_words(text, "3.4"))
        if self.tokenizer == "rouge-score":
            tokens = _LATIN.findall(text.lower())
        else:
            tokens = [word for word in words(text) if any(map(str.isalnum, word))]
        if self.stemmer:
            tokens = [stem(word) if len(word) > 3 else word for word in tokens]
        return [tuple(tokens)] if tokens else []


class _ROUGEN(ROUGE):
    n: ClassVar[int]

    def _shared(self, text: Sequence[Tokens], reference: Sequence[Tokens]) -> Overlap:
        a, b = (Counter(ngrams(_joined(sentences), self.n)) for sentences in (text, reference))
        if self._once:
            a, b = Counter(set(a)), Counter(set(b))
        return Overlap((a & b).total(), a.total(), b.total())


class _ROUGEL(ROUGE):
    _unit: ClassVar[str] = "word"
    _beta_of_lai: ClassVar[float | None] = None

    def _shared(self, text: Sequence[Tokens], reference: Sequence[Tokens]) -> Overlap:
        if self._once:
            union = {word for r in reference for t in text for word in lcs(r, t)}
            return Overlap(len(union), len(set(_joined(text))), len(set(_joined(reference))))
        a, b = _joined(text), _joined(reference)
        return Overlap(lcs_length(a, b), len(a), len(b))


class _ROUGE1(_ROUGEN):
    n: ClassVar[int] = 1
    _unit: ClassVar[str] = "word"


class _ROUGE2(_ROUGEN):
    n: ClassVar[int] = 2
    _unit: ClassVar[str] = "2-gram"


class ROUGE1Source(_ROUGE1, AgainstSource):
    name: ClassVar[str] = "rouge-1.source"


class ROUGE1References(_ROUGE1, AgainstReferences):
    name: ClassVar[str] = "rouge-1.references"


class ROUGE2Source(_ROUGE2, AgainstSource):
    name: ClassVar[str] = "rouge-2.source"


class ROUGE2References(_ROUGE2, AgainstReferences):
    name: ClassVar[str] = "rouge-2.references"


class ROUGELSource(_ROUGEL, AgainstSource):
    name: ClassVar[str] = "rouge-l.source"


class ROUGELReferences(_ROUGEL, AgainstReferences):
    name: ClassVar[str] = "rouge-l.references"


def weights_of(
    f: npt.NDArray[np.float64], multiple: Literal["max", "jackknife", "mean"]
) -> npt.NDArray[np.float64]:
    """Returns the weight of each reference, (references,) in sum 1, from the F of each.

    Leaving each of k references out in turn, the best is the highest of the rest k − 1 times, and
    the second best once, when the best is left out.
    """
    k = len(f)
    if multiple != "jackknife" or k == 1:
        return rule_weights(f, "mean" if multiple == "mean" else "max")
    weights = np.zeros(k)
    weights[np.argsort(-f, kind="stable")[:2]] = (k - 1) / k, 1 / k
    return weights


def ngrams(tokens: Tokens, n: int) -> list[Tokens]:
    """Returns every n tokens in a row."""
    return [tokens[i : i + n] for i in range(len(tokens) - n + 1)]


def lcs_length(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Returns the length of the longest common subsequence.

    Bit-parallel (Hyyrö 2004, "Bit-parallel LCS-length computation revisited"): bit i of `rows` is 0
    where the column of the table of dynamic programming goes up by 1 at a[i].
    """
    where: dict[Hashable, int] = {}
    for i, token in enumerate(a):
        where[token] = where.get(token, 0) | 1 << i
    every = (1 << len(a)) - 1
    rows = every
    for token in b:
        matching = rows & where.get(token, 0)
        rows = ((rows + matching) | (rows - matching)) & every
    return len(a) - rows.bit_count()


def lcs(a: Tokens, b: Tokens) -> list[str]:
    """Returns a longest common subsequence.

    Of several it is the one whose last words are the earliest in b.
    """
    number: dict[str, int] = {}
    ids_a, ids_b = (
        np.array([number.setdefault(token, len(number)) for token in sequence])
        for sequence in (a, b)
    )
    table = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i, token in enumerate(ids_a):
        longer = table[i, :-1] + (ids_b == token)
        table[i + 1, 1:] = np.maximum.accumulate(np.maximum(table[i, 1:], longer))
    subsequence: list[str] = []
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            subsequence.append(a[i])
        elif table[i - 1, j] > table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return subsequence[::-1]


def split_at_full_stops(tokens: Sequence[str]) -> list[Tokens]:
    """Returns the sentences of the package `rouge`: it splits at every full stop, also within a
    word, and drops it. White space between two of them is a sentence with an empty word."""
    pieces = " ".join(tokens).split(".")
    return [tuple(piece.split()) or ("",) for piece in pieces if piece]


def _joined(sentences: Sequence[Tokens]) -> Tokens:
    if len(sentences) == 1:
        return sentences[0]
    return tuple(token for sentence in sentences for token in sentence)
