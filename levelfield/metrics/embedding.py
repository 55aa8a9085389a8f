"""Texts compared with their source or their references by what a model makes of both."""

from __future__ import annotations

import abc
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.paths import user_path
from levelfield.core.undefined import (
    STATES_NOT_NUMBERS,
    UNREADABLE,
    Undefined,
    unreadable,
)
from levelfield.io.streams import read_text
from levelfield.metrics.sample_metric import (
    AgainstReferences,
    AgainstSource,
    ComparedTexts,
    PairComparison,
    PairValue,
)
from levelfield.metrics.wordvectors import label
from levelfield.models.contracts import TextStates, TokenEncoder
from levelfield.models.files import depth
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_MODEL, Resolved, resolve
from levelfield.models.tokens import AS_TEXT


@dataclass(frozen=True)
class ComparisonMetric(LoadingOptions, PairComparison, abc.ABC):
    """A metric that compares a text with its source or with the best of its references."""

    model: str = option(
        OFFLINE_MODEL,
        "Encoder: a hub name, a folder, or offline/minilm. Sentence models use their own pooling, "
        "others the mean of their last layer.",
    )

    @property
    def computation(self) -> Mapping[str, str]:
        """What the signature says of references, and of how the model is computed."""
        best = {"references": "best"} if self.against == "references" else {}
        return {**best, **super().computation}

    @property
    def _resolved(self) -> Resolved:
        return resolve(self.model, self.loading)


@dataclass(frozen=True)
class StateComparison(ComparisonMetric, abc.ABC):
    """A comparison of the states that an encoder gives the tokens of both texts."""

    model: str = option(
        OFFLINE_MODEL,
        "Encoder, encoder-decoder or classifier (only the encoder of the last two is used): a hub "
        "name, "
        "a folder, or offline/minilm.",
    )
    layer: int | None = option(
        None,
        "Layer whose states are compared; 0 is the embeddings.",
        least=0,
        otherwise="the layer that the authors of BERTScore recommend for the model, else the last",
    )
    idf: str = option(
        "none",
        "Weights of tokens: none, equal weights; or a file with one text per line, for idf(w) = "
        "log((N + 1) / (n_w + 1)), where n_w of its N texts have the token w.",
        metavar="FILE",
    )

    @abc.abstractmethod
    def _value(self, text: Weighted, other: Weighted) -> float | Undefined:
        """Returns the value of two texts."""

    def _choices(self) -> dict[str, object]:
        idf = self.idf if self.idf == "none" else label(self.idf)
        return {"model": self._resolved.label, "layer": self._layer, "idf": idf, **AS_TEXT}

    @functools.cached_property
    def _layer(self) -> int:
        if self.layer is not None:
            return self.layer
        name = self._resolved.name.rpartition("/")[2]
        if name in LAYERS:
            return LAYERS[name]
        return depth(self._resolved)

    def _compared(self, pairs: Sequence[ComparedTexts]) -> list[PairValue | Undefined]:
        model = load("states", self.model, self.loading, layer=self._layer)
        texts = [text for pair in pairs for text in (pair.text, pair.other)]
        states = model.of(texts)
        idf = None if self.idf == "none" else _document_frequencies(self.idf, model)
        compared: list[PairValue | Undefined] = []
        for pair, text, other in zip(pairs, states[::2], states[1::2], strict=True):
            if text.empty or other.empty:
                compared.append(no_token(pair, text=not text.empty))
                continue
            value = self._value(_weighted(text, model, idf), _weighted(other, model, idf))
            if isinstance(value, Undefined):
                compared.append(value)
            elif np.isnan(value):
                compared.append(Undefined(STATES_NOT_NUMBERS))
            else:
                compared.append(PairValue(value, text.cut or other.cut))
        return compared


class Weighted(NamedTuple):
    """The tokens of a text.

    Attributes:
        states: (tokens, d), each of unit length, special tokens included.
        weights: (tokens,) how much each counts; not normalised.
        special: (tokens,) which are special tokens around the text.
    """

    states: npt.NDArray[np.float32]
    weights: Floats
    special: npt.NDArray[np.bool_]


class Idf(NamedTuple):
    """In how many of some texts each token occurs."""

    texts: int
    counts: Mapping[int, int]

    def of(self, ids: Sequence[int]) -> Floats:
        """idf(w) = log((N + 1) / (n_w + 1)), n_w of N texts with the token w: (tokens,)."""
        n = np.array([self.counts.get(id, 0) for id in ids])
        idf: Floats = np.log((self.texts + 1) / (n + 1))
        return idf


def _weighted(text: TextStates, model: TokenEncoder, idf: Idf | None) -> Weighted:
    weights = idf.of(text.ids) if idf else np.where(model.weightless(text.ids), 0.0, 1.0)
    return Weighted(text.states, weights, text.special)


def no_token(pair: ComparedTexts, *, text: bool) -> Undefined:
    """Returns why a pair has no value if its text, or the text it is compared with, has no
    token."""
    return Undefined(unreadable(pair.part) if text else UNREADABLE)


@functools.lru_cache(maxsize=2)
def _document_frequencies(file: str, model: TokenEncoder) -> Idf:
    read = read_text(user_path(file), errors="replace")
    texts = [line for line in read.splitlines() if line.strip()]
    if not texts:
        raise UserError(f"idf={file}: the file has no text; give one with a text per line")
    return Idf(len(texts), Counter(id for ids in model.ids(texts) for id in set(ids)))


# fmt: off
LAYERS: Mapping[str, int] = {
    "minilm": 5,
    "bert-base-uncased": 9, "bert-large-uncased": 18, "bert-base-multilingual-cased": 9,
    "bert-base-chinese": 8, "bert-base-turkish-cased": 10,
    "roberta-base": 10, "roberta-large": 17, "roberta-large-mnli": 19,
    "xlm-roberta-base": 9, "xlm-roberta-large": 17,
    "distilroberta-base": 5, "distilbert-base-uncased": 5, "distilbert-base-multilingual-cased": 5,
    "albert-base-v2": 9, "albert-large-v2": 14, "albert-xlarge-v2": 13, "albert-xxlarge-v2": 8,
    "electra-base-discriminator": 9, "electra-large-discriminator": 14,
    "mpnet-base": 8, "scibert_scivocab_uncased": 8,
    "deberta-base": 9, "deberta-base-mnli": 9, "deberta-large": 16, "deberta-large-mnli": 18,
    "deberta-xlarge": 18, "deberta-xlarge-mnli": 40,
    "deberta-v3-small": 4, "deberta-v3-base": 9, "deberta-v3-large": 12,
    "bart-base": 6, "bart-large": 10, "bart-large-cnn": 10, "bart-large-mnli": 11,
    "t5-small": 6, "t5-base": 11, "t5-large": 23,
}
# fmt: on
"""Model (the last part of its name) -> the layer whose BERTScore agrees best with people's ratings
of translations into English (WMT16), as the authors' package has them. `offline/minilm` is not
among theirs: 5 is what they found for BERTs of six layers."""


@dataclass(frozen=True)
class _CosineMetric(ComparisonMetric, abc.ABC):
    """Base of both metrics."""

    def _choices(self) -> dict[str, object]:
        return {"model": self._resolved.label, **AS_TEXT}

    def _compared(self, pairs: Sequence[ComparedTexts]) -> list[PairValue | Undefined]:
        n = len(pairs)
        texts = [*(pair.text for pair in pairs), *(pair.other for pair in pairs)]
        embeddings, cut = load("encoder", self.model, self.loading).sentences(texts)
        text, other = embeddings[:n].astype(np.float64), embeddings[n:].astype(np.float64)
        cosines = (text * other).sum(axis=1)
        compared: list[PairValue | Undefined] = []
        for i, pair in enumerate(pairs):
            if np.isnan(cosines[i]):
                compared.append(no_token(pair, text=not np.isnan(text[i]).any()))
            else:
                compared.append(PairValue(float(cosines[i]), cut[i] or cut[n + i]))
        return compared


@dataclass(frozen=True)
class CosineSource(_CosineMetric, AgainstSource):
    """Cosine of the sentence embeddings of each text and its source.

    cosine = E(text) · E(source), both of unit length, as the model pools them. In [−1, 1], higher
    is better; 1 for a copy, whatever its style.

    Undefined: `empty text`; `empty source`; a text or a source that the model has no token for. If
    a text is too long, its beginning is read, and it counts as truncated.
    """

    name: ClassVar[str] = "cosine.source"


@dataclass(frozen=True)
class CosineReferences(_CosineMetric, AgainstReferences):
    """Cosine of the sentence embeddings of each text and the nearest of its references.

    cosine = max over references r of E(text) · E(r). In [−1, 1], higher is better.

    Undefined: `empty text`; `no references` (blank ones are left out, and so are those that the
    model has no token for); a text that it has no token for.
    """

    name: ClassVar[str] = "cosine.references"
