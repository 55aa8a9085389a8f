"""Fluency: how likely a causal language model finds a text.

A text's tokens t_1 … t_n have log p(S) = Σ_i log p(t_i | BOS, t_1 … t_{i−1}), in nats. BOS precedes
a text where the model's tokenizer puts it there, or the option `bos` does; without BOS the first
token is not scored, and n counts the others. No end token is scored. The signature names what
precedes texts: `bos:<s>`, or `bos:no`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.core.continuation import Reading, continuation
from levelfield.core.corpus import CorpusValue, OfScores
from levelfield.core.direction import Direction
from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import Level
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_TEXT_WITH_VALUE,
    ONE_TOKEN,
    PROBABILITIES_NOT_NUMBERS,
    PROMPT_TOO_LONG,
    UNREADABLE,
    Undefined,
    holds_gap_token,
)
from levelfield.metrics.sample_metric import ChoiceSignature, SampleMetric, SampleValue, map_defined
from levelfield.metrics.seq2seq import Seq2SeqMetric, unfit
from levelfield.metrics.unigram import SHIPPED, Unigrams
from levelfield.metrics.unigram import count as count_unigrams
from levelfield.metrics.unigram import load as load_unigrams
from levelfield.models.causal_tokens import BOS, Bos
from levelfield.models.contracts import (
    GAP_STYLES,
    CausalLikelihood,
    CausalModel,
    CausalVocabulary,
    Gapped,
    Target,
)
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_LM, Resolved, resolve


class Stretch(NamedTuple):
    """The scored tokens of a text: ids and log-probabilities, (tokens,) with at least one token."""

    ids: npt.NDArray[np.int64]
    log_p: Floats
    cut: bool


def perplexity(log_p: Floats) -> float:
    """Returns exp(−(1/n) Σ_i log p(t_i)) of n tokens; infinite where a token is impossible."""
    return _exp(-float(log_p.mean()))


def slor(log_p: Floats, log_p_u: Floats) -> float:
    """Returns (Σ_i log p(t_i) − Σ_i log p_u(t_i)) / n of n tokens; −∞ if a token is impossible."""
    log_p_S = log_p.sum()
    if np.isneginf(log_p_S):
        return -math.inf  # also where p_u is 0, too, and the difference is not a number
    return float((log_p_S - log_p_u.sum()) / len(log_p))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class _FluencyMetric(LoadingOptions, ChoiceSignature, abc.ABC):
    """Base of the metrics of fluency."""

    model: str = option(
        OFFLINE_LM,
        "Causal language model: a hub name, a folder, or offline/smollm2, which works without a "
        "network. Those of the study are openai-community/gpt2-xl and bigscience/bloom-1b7.",
    )
    text: Reading = option(
        "whole",
        "Score the whole text with its prompt, as the study does, or the continuation: what "
        "follows the prompt, given the prompt.",
    )
    _: KW_ONLY
    bos: Bos = option(
        "auto",
        f"{BOS} Without BOS the first token of a text is not scored. Perplexities of GPT-2 are "
        "mostly published with BOS: true.",
    )

    requires: ClassVar[frozenset[str]] = frozenset({"text"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "prompt"}))

    def _choices(self) -> Mapping[str, object]:
        label = resolve(self.model, self.loading).label
        return {"model": label, "bos": self._tokens().begin, "text": self.text}

    def _tokens(self) -> CausalVocabulary:
        return load("causal-tokens", self.model, self.loading, bos=self.bos)

    def _model(self) -> CausalModel:
        return load("causal", self.model, self.loading, bos=self.bos)

    def _stretches(self, samples: Sequence[Sample]) -> list[Stretch | Undefined]:
        """Returns the scored tokens of each sample."""

        def stretches(readable: list[Sample]) -> Iterable[Stretch | Undefined]:
            likelihoods = self._model().log_likelihood([sample.text for sample in readable])
            return map(self._stretch, readable, likelihoods)

        return map_defined((self._readable(sample) for sample in samples), stretches)

    def _readable(self, sample: Sample) -> Sample | Undefined:
        """Returns the sample, or the reason that rules a value out before the model reads it."""
        if self.text == "whole":
            return sample if sample.text.strip() else Undefined(EMPTY_TEXT)
        rest = continuation(sample)
        return rest if isinstance(rest, Undefined) else sample

    def _stretch(self, sample: Sample, likelihood: CausalLikelihood) -> Stretch | Undefined:
        ids, ends, log_p, cut, unscored = likelihood
        if not ids.size:
            return Undefined(ONE_TOKEN if unscored else UNREADABLE)
        if self.text == "continuation":
            if not ends.size:
                raise ModelError(
                    f"the tokenizer of model '{self.model}' does not say where in a text its "
                    "tokens are, which text=continuation needs; text=whole works"
                )
            after = ends > len(sample.prompt)
            if not after.any():
                if unscored > len(sample.prompt):
                    return Undefined(ONE_TOKEN)
                return Undefined(PROMPT_TOO_LONG if cut else UNREADABLE)
            ids, log_p = ids[after], log_p[after]
        if np.isnan(log_p).any():
            return Undefined(PROBABILITIES_NOT_NUMBERS)
        return Stretch(ids, log_p, cut)


@dataclass(frozen=True)
class _FluencySampleMetric(_FluencyMetric, SampleMetric, abc.ABC):
    """A fluency metric of single samples."""

    @abc.abstractmethod
    def _value(self, stretch: Stretch) -> float:
        """Returns the value of the scored tokens of a sample."""

    def _parts(self, stretch: Stretch) -> Sequence[tuple[str, float, float]]:  # noqa: ARG002
        """Returns the parts of the value."""
        return ()

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return map_defined(
            self._stretches(samples),
            lambda stretches: [
                SampleValue(self._value(s), self._parts(s), s.cut) for s in stretches
            ],
        )


@dataclass(frozen=True)
class Perplexity(_FluencySampleMetric):
    """Perplexity of each text: how little a language model expects it, a token at a time.

    PPL(S) = exp(−log p(S) / n), n the tokens of the text (Lorandi and Belz, "Level Playing Field",
    section 6.3, equations 1 and 2). At least 1, lower is better. The mean over samples is the mean
    of perplexities; `fluency.corpus-perplexity` is the perplexity of all texts together.

    Where BOS precedes the text, the first token is scored given it, else not at all; no end token
    is scored. If a text is longer than the model's limit, its beginning is scored, and it counts as
    truncated. The text is tokenised as a whole with text=continuation, too; a token belongs to the
    continuation if it ends after the prompt does, so one that begins in the prompt and goes on
    after it is scored.
    Probabilities are computed in float32 at least.

    It is infinite where a token is impossible.

    Undefined: `empty text`; no tokens; one token without BOS; with text=continuation `no prompt`,
    `prompt is not a prefix of the text`, `nothing after the prompt`, and a prompt longer than the
    model takes.
    """

    name: ClassVar[str] = "fluency.perplexity"
    direction: ClassVar[Direction] = "lower"

    def _value(self, stretch: Stretch) -> float:
        return perplexity(stretch.log_p)


@dataclass(frozen=True)
class SLOR(_FluencySampleMetric):
    """SLOR of each text: log-odds of a language model against word frequency alone, a token.

    SLOR(S) = (log p(S) − Σ_i log p_u(t_i)) / n, n the tokens of the text (Kann et al. 2018;
    Lorandi and Belz, "Level Playing Field", section 6.3, equations 3 and 4). In nats per token,
    higher is better: unlike perplexity it does not fall for a text only because its words are rare.

    BOS and long texts are treated as by `fluency.perplexity`. The study takes GPT-2's BOS for
    BLOOM, too; with unigram=bos it is the model's own here, whatever precedes the texts.

    It is −∞ where the model finds a token impossible, ∞ where only the unigrams do.

    Undefined: as for `fluency.perplexity`.
    """

    unigram: Literal["corpus", "bos"] = option(
        "corpus",
        "Unigram probability p_u: corpus, p_u(t) = (c_t + 1) / (N + V) from the counts c_t of "
        "tokens in a corpus of N tokens, V the vocabulary (Kann et al. 2018); bos, p(t | BOS) of "
        "the same model, as the study has it.",
    )
    corpus: str | tuple[str, ...] | Unigrams | None = option(
        None,
        "Texts that unigram=corpus counts: a file of texts, or counts that `levelfield train "
        "unigram` wrote; in Python also several files (a tuple), or counts.",
        expected="a file of texts",
        otherwise="shipped counts for the default model, the scored texts for others",
        metavar="FILE",
    )

    name: ClassVar[str] = "fluency.slor"
    direction: ClassVar[Direction] = "higher"

    def counting(self, texts: Iterable[str]) -> Self:
        """Returns the same metric with the unigrams of these texts, or itself if it has counts or
        needs none.

        Raises:
            UserError: the texts have no tokens.
        """
        if self.unigram == "bos" or self._corpus:
            return self
        return dataclasses.replace(self, corpus=count_unigrams(texts, self._tokens()))

    def _choices(self) -> Mapping[str, object]:
        choices = super()._choices()  # first: without the model no counts would help
        unigram = "bos" if self.unigram == "bos" else f"corpus@{self._counts.digest}"
        return {**choices, "unigram": unigram}

    @property
    def _corpus(self) -> str | tuple[str, ...] | Unigrams | None:
        """The corpus that the user names, or the shipped counts of this model."""
        return self.corpus or SHIPPED.get(self.model)

    @functools.cached_property
    def _counts(self) -> Unigrams:
        corpus = self._corpus
        if not corpus:
            raise UserError(
                f"{self.name} counts its unigrams in a corpus, but none is given; give one with "
                "--option corpus=FILE, or use --option unigram=bos"
            )
        tokens = self._tokens()
        if isinstance(corpus, Unigrams):
            corpus.check(tokens, f"{self.name}: corpus")
            return corpus
        files = (corpus,) if isinstance(corpus, str) else corpus
        return load_unigrams(files, tokens)

    @functools.cached_property
    def _log_p_u(self) -> Floats:
        return self._model().unigram_bos() if self.unigram == "bos" else self._counts.log_p()

    def _value(self, stretch: Stretch) -> float:
        return slor(stretch.log_p, self._log_p_u[stretch.ids])


class Likelihoods(NamedTuple):
    """What corpus perplexity needs of texts; those of two partitions are added.

    Attributes:
        nll: Σ −log p(t) over the tokens of all texts, in nats.
        tokens: N, how many those are.
        samples: how many texts, those without a value included.
        undefined: how many texts have no value.
        truncated: of how many the end was cut off.
    """

    nll: float
    tokens: int
    samples: int
    undefined: int
    truncated: int


@dataclass(frozen=True)
class _TextLikelihood(_FluencySampleMetric):
    """n, the number of tokens that are scored of each text; the part is Σ −log p(t) over them."""

    name: ClassVar[str] = "fluency.corpus-perplexity/texts"

    def _value(self, stretch: Stretch) -> float:
        return float(len(stretch.log_p))

    def _parts(self, stretch: Stretch) -> Sequence[tuple[str, float, float]]:
        return [("nll", float(-stretch.log_p.sum()), 1.0)]


@dataclass(frozen=True)
class CorpusPerplexity(OfScores, _FluencyMetric):
    """Perplexity of all texts of a group together: every token counts alike.

    PPL = exp(Σ NLL / Σ n), the sums over all texts of the group, so a long text weighs more than a
    short one; the mean of `fluency.perplexity` is another number. At least 1, lower is better.

    Texts that `fluency.perplexity` has no value for are left out. Undefined where none is left,
    and where the value is infinite.
    """

    name: ClassVar[str] = "fluency.corpus-perplexity"
    level: ClassVar[Level] = "corpus"
    direction: ClassVar[Direction] = "lower"

    @functools.cached_property
    def of_samples(self) -> _TextLikelihood:
        """Length and likelihood of each text."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _TextLikelihood(**options)

    def state_of(self, scores: Scores) -> Likelihoods:
        """Returns the sums over these samples."""
        return Likelihoods(
            nll=math.fsum(score for _, _, score, _ in scores.part_rows or ()),
            tokens=int(np.nansum(scores.values)),
            samples=len(scores),
            undefined=len(scores.undefined),
            truncated=len(scores.truncated),
        )

    def merge(self, a: Likelihoods, b: Likelihoods) -> Likelihoods:
        """Returns the sums of two partitions together."""
        return Likelihoods(*map(operator.add, a, b))

    def value(self, state: Likelihoods) -> CorpusValue:
        """Returns exp(Σ NLL / N)."""
        if not state.tokens:
            return CorpusValue(math.nan, NO_TEXT_WITH_VALUE)
        return CorpusValue(_exp(state.nll / state.tokens), truncated=state.truncated)


@dataclass(frozen=True)
class InfillingPerplexity(Seq2SeqMetric):
    """Perplexity of each text by an infilling model that sees nothing but a gap.

    PPL(S) = exp(−(1/n) Σ_i log p(t_i | t_1 … t_{i−1}, source)), the source being the gap token
    alone, n the tokens of the text and its end token (PPL-PEGASUS of Ke et al. 2022, CTRLEval,
    section 4.3). At least 1, lower is better.

    The paper says no more than "with a language model": that the source is only the gap is our
    reading, which is what its coherence asks of a text of one sentence. The 2.6 to 3.4 that its
    Figure 6 prints are small for perplexities and read like their logarithm: value=nll.

    Undefined: `empty text`; no tokens; a text that holds the gap token. It is infinite where a
    token is impossible. If a text is longer than the model's limit, its beginning is scored,
    without an end token, and it counts as truncated. Probabilities are computed in float32 at
    least.
    """

    model: str = option(
        "google/pegasus-large", "Model that fills gaps (PEGASUS, T5, BART): a hub name or a folder."
    )
    value: Literal["perplexity", "nll"] = option(
        "perplexity", "Value to report: the perplexity, or its logarithm (nll), in nats per token."
    )
    end: bool = option(True, "Score the end token, too.")

    name: ClassVar[str] = "fluency.infilling-perplexity"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    direction: ClassVar[Direction] = "lower"

    @property
    def _resolved(self) -> Resolved:
        resolved = super()._resolved
        if resolved.model_type not in GAP_STYLES:
            raise ModelError(
                f"model '{self.model}' is of the family {resolved.model_type}; {self.name} needs "
                f"one that fills gaps: {', '.join(GAP_STYLES)}"
            )
        return resolved

    def _choices(self) -> Mapping[str, object]:
        return {
            "model": self._resolved.label,
            "source": "gap",
            "value": self.value,
            "end": "scored" if self.end else "no",
        }

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        model = load("infilling", self.model, self.loading)

        def scored(targets: list[Target]) -> Iterable[SampleValue | Undefined]:
            likelihood = model.log_likelihood([Gapped("", "")], [targets])
            return map(self._value, likelihood.log_p[0], likelihood.target_cut[0])

        def target(text: str) -> Target | Undefined:
            if not text.strip():
                return Undefined(EMPTY_TEXT)
            if model.gap_token in text:
                return Undefined(holds_gap_token(model.gap_token))
            return Target(text, end=self.end)

        return map_defined((target(sample.text) for sample in samples), scored)

    def _value(self, log_p: Floats, cut: bool) -> SampleValue | Undefined:
        if reason := unfit(log_p):
            return Undefined(reason)
        nll = -float(log_p.mean())
        value = nll if self.value == "nll" else perplexity(log_p)
        return SampleValue(value, [("−log p of a token", nll, 1.0)], cut)
