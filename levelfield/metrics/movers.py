"""What it costs to move the words of one text to those of another.

Word Mover's Distance (Kusner et al. 2015, "From Word Embeddings To Document Distances", section 3)
moves words, each with the one vector that it always has; the mover score (after Zhao et al. 2019,
"MoverScore", section 3) moves tokens, each with the state that an encoder gives it in its text.
Both are the least cost of a flow T ≥ 0 that carries the weights d of one text to the weights d′ of
the other:

    min_T Σ_ij T_ij c(i, j)   with   Σ_j T_ij = d_i,   Σ_i T_ij = d′_j,   c(i, j) = |x_i − x′_j|,

solved exactly by the network simplex of POT. c is a metric, so what both texts have of a word can
stay where it is: no flow is cheaper (by the triangle inequality), and only the rest is solved.
"""

from __future__ import annotations

import abc
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.direction import Direction
from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.paths import user_path
from levelfield.core.undefined import NO_VECTOR, NO_WEIGHT, NOT_SOLVED, Undefined, no_vector
from levelfield.io.streams import read_text
from levelfield.metrics.embedding import (
    ComparisonMetric,
    StateComparison,
    Weighted,
)
from levelfield.metrics.sample_metric import (
    AgainstReferences,
    AgainstSource,
    ComparedTexts,
    PairValue,
)
from levelfield.metrics.wordvectors import label, word_vectors
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_MODEL
from levelfield.text.words import words

Bag = Mapping[str, int]

MOST_STEPS = 10_000_000
"""Of the network simplex; two texts of 2,000 words need some hundred thousand."""


def transport(d: Floats, d_: Floats, cost: Floats) -> float:
    """Returns the least cost of a flow from the weights d (n,) to d′ (m,), both of sum s.

    `cost` is (n, m). NaN if the solver gives up.
    """
    if len(d) == 1 or len(d_) == 1:  # there is one flow only
        return float(d @ cost @ d_ / d.sum())
    # what `ot.emd2` calls, whose checks and duals take longer than texts of a sentence need
    from ot.lp.emd_wrap import check_result, emd_c

    d_ = d_ * (d.sum() / d_.sum())
    _, least, _, _, result = emd_c(d, d_, cost, MOST_STEPS, 1)
    return float("nan") if check_result(result) else float(least)


def distance(text: Bag, other: Bag, vectors: Mapping[str, Floats]) -> float:
    """Returns the Word Mover's Distance of two bags of words, all of which have vectors.

    d_i = (how often word i occurs) / (how many words the text has).
    """
    from scipy.spatial.distance import cdist

    n, m = sum(text.values()), sum(other.values())
    # in units of 1 / (n m), so that what is in both cancels without rounding
    surplus = {word: m * text.get(word, 0) - n * other.get(word, 0) for word in {**text, **other}}
    supply = [word for word, mass in surplus.items() if mass > 0]
    demand = [word for word, mass in surplus.items() if mass < 0]
    if not supply:
        return 0.0
    d = np.array([surplus[word] for word in supply], np.float64) / (n * m)
    d_ = np.array([-surplus[word] for word in demand], np.float64) / (n * m)
    cost = cdist([vectors[word] for word in supply], [vectors[word] for word in demand])
    return transport(d, d_, cost)


@dataclass(frozen=True)
class _WMD(ComparisonMetric, abc.ABC):
    """Base of both metrics."""

    model: str = option(
        OFFLINE_MODEL,
        "Model whose input embeddings are the vectors: a hub name, a folder, or offline/minilm.",
    )
    vectors: str = option(
        "input-embeddings",
        "Word vectors: input-embeddings, the mean of the model's input embeddings of the word's "
        "tokens; or, as in the paper, a file in the format of word2vec or GloVe: text, `.bin`, or "
        "either as `.gz`.",
        metavar="FILE",
    )
    lowercase: bool = option(
        True,
        "Fold case before vectors are looked up. Files that keep case (GoogleNews) need false.",
    )
    unit_length: bool = option(
        False,
        "Scale vectors to length 1 first, as gensim does by default; the paper does not.",
    )
    stop_words: str = option(
        "none",
        "Words to leave out: none, or a file of them, as they are after `lowercase`. The paper "
        "leaves out a list; gensim does not.",
        metavar="FILE",
    )

    direction: ClassVar[Direction] = "lower"

    def _choices(self) -> dict[str, object]:
        if self.vectors == "input-embeddings":
            vectors = f"{self.vectors}({self._resolved.label})"
        else:
            vectors = label(self.vectors)
        return {
            "vectors": vectors,
            "unit-length": self.unit_length,
            "words": "casefold" if self.lowercase else "cased",
            "stop-words": "none" if self.stop_words == "none" else label(self.stop_words),
        }

    def _compared(self, pairs: Sequence[ComparedTexts]) -> list[PairValue | Undefined]:
        stop = _stop_words(self.stop_words)
        bags = {
            text: Counter(w for w in words(text, fold=self.lowercase) if w not in stop)
            for pair in pairs
            for text in (pair.text, pair.other)
        }
        vectors = self._vectors(sorted({word for bag in bags.values() for word in bag}))
        for text, bag in bags.items():
            bags[text] = Counter({word: n for word, n in bag.items() if word in vectors})
        return [
            self._bag_distance(pair, bags[pair.text], bags[pair.other], vectors) for pair in pairs
        ]

    def _bag_distance(
        self, pair: ComparedTexts, text: Bag, other: Bag, vectors: Mapping[str, Floats]
    ) -> PairValue | Undefined:
        if not text or not other:
            return Undefined(NO_VECTOR if not text else no_vector(pair.part))
        cost = distance(text, other, vectors)
        return Undefined(NOT_SOLVED) if np.isnan(cost) else PairValue(cost, cut=False)

    def _vectors(self, vocabulary: Sequence[str]) -> dict[str, Floats]:
        """Returns the vectors of the words that have one."""
        vectors = _seen(self.vectors, self.model, self.loading.dtype, self.unit_length)
        if new := [word for word in vocabulary if word not in vectors]:
            from_model = self.vectors == "input-embeddings"
            source = (
                load("states", self.model, self.loading, layer=0).input_vectors
                if from_model
                else word_vectors(self.vectors).of
            )
            for word, vector in zip(new, source(new), strict=True):
                length = 1.0 if vector is None or not self.unit_length else np.linalg.norm(vector)
                vectors[word] = None if vector is None or not length else vector / length
        return {word: vector for word in vocabulary if (vector := vectors[word]) is not None}


@functools.lru_cache(maxsize=2)
def _seen(*_: object) -> dict[str, Floats | None]:
    """Returns the words looked up so far under these options: texts share most words."""
    return {}


@functools.lru_cache(maxsize=2)
def _stop_words(file: str) -> frozenset[str]:
    if file == "none":
        return frozenset()
    try:
        return frozenset(read_text(user_path(file)).split())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"stop_words={file}: the file can't be read; give one in UTF-8 with words separated "
            "by white space, or none"
        ) from error


@dataclass(frozen=True)
class WMDSource(_WMD, AgainstSource):
    """Word Mover's Distance of each text and its source.

    WMD = min_T Σ_ij T_ij |v_i − v_j|, T the flow that carries the text's bag of words to the
    source's, each normalised to sum 1 (Kusner et al. 2015, section 3). At least 0, in the units of
    the vectors; lower is better, 0 for the same words in any order. Values with other vectors can't
    be compared. Words are runs of letters, digits and marks; punctuation marks count as words.

    Undefined: `empty text`; `empty source`; a text or a source no word of which has a vector.
    Words without a vector are left out; nothing is ever truncated.
    """

    name: ClassVar[str] = "wmd.source"


@dataclass(frozen=True)
class WMDReferences(_WMD, AgainstReferences):
    """Word Mover's Distance of each text and the nearest of its references.

    The minimum over references of the distance (Kusner et al. 2015, section 3). Lower is better.

    Undefined: `empty text`; `no references` (blank ones are left out, and so are those without a
    word that has a vector); a text no word of which has a vector.
    """

    name: ClassVar[str] = "wmd.references"


@dataclass(frozen=True)
class _Mover(StateComparison, abc.ABC):
    """Base of both metrics."""

    def _value(self, text: Weighted, other: Weighted) -> float | Undefined:
        from scipy.spatial.distance import cdist

        d, x = _without_special(text)
        d_, x_ = _without_special(other)
        if not d.sum() or not d_.sum():
            return Undefined(NO_WEIGHT)
        d, d_ = d / d.sum(), d_ / d_.sum()
        if x.shape == x_.shape and np.array_equal(x, x_) and np.array_equal(d, d_):
            return 1.0
        if np.isnan(x).any() or np.isnan(x_).any():
            return float("nan")
        least = transport(d, d_, cdist(x, x_))
        return Undefined(NOT_SOLVED) if np.isnan(least) else 1 - least


def _without_special(text: Weighted) -> tuple[Floats, Floats]:
    """Weights and states of the tokens that weigh something; special ones never do."""
    counts = ~text.special & (text.weights > 0)
    return text.weights[counts], text.states[counts].astype(np.float64)


@dataclass(frozen=True)
class MoverSource(_Mover, AgainstSource):
    """Mover score of each text against its source: 1 − the cost of moving its tokens there.

    1 − min_T Σ_ij T_ij |x_i − y_j|, x_i and y_j the token states after one layer, of unit length,
    special tokens left out, and weights that are uniform or idf, normalised to sum 1. In [−1, 1],
    higher is better; 1 for a copy. After Zhao et al. 2019, section 3, for single tokens; unlike
    there it is one layer, not the power means of five, and pieces of words and punctuation count.

    Undefined: `empty text`; `empty source`; a text or a source that the model has no token for, or
    in which every token has idf 0. If a text is longer than the model's limit, its beginning is
    read, and it counts as truncated.
    """

    name: ClassVar[str] = "mover.source"


@dataclass(frozen=True)
class MoverReferences(_Mover, AgainstReferences):
    """Mover score of each text against the best of its references.

    The maximum over references of 1 − the cost (Zhao et al. 2019, section 3). In [−1, 1], higher is
    better.

    Undefined: `empty text`; `no references` (blank ones are left out, and so are those that have no
    value); otherwise as for `mover.source`.
    """

    name: ClassVar[str] = "mover.references"
