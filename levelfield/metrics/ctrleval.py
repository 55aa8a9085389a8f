"""CTRLEval: coherence, consistency and attribute relevance from ensembles of pattern evaluators.

Ke et al. 2022, "CTRLEval: An Unsupervised Reference-Free Metric for Evaluating Controlled Text
Generation", section 3. A value is S = Σ_j β_j s_j over pattern evaluators E_j = (f_j, g_j), with
s_j what a model says of g_j in the gap of f_j, and β_j weights that sum to 1 (equation 1).

Encoder-decoder models fill the gap: s_j is a log-probability, at most 0, higher is better.
Encoders compare embeddings: s_j is a cosine. Attribute relevance is a probability either way.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.aspects import Aspect, load_aspect, shipped
from levelfield.core.arrays import Floats
from levelfield.core.continuation import continuation
from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import Metric
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    LABEL_WITHOUT_TOKEN,
    NO_PROMPT,
    ONE_SENTENCE,
    UNREADABLE,
    Undefined,
    holds_gap_token,
    no_control,
    no_control_among,
    several_controls,
    unknown_wanted,
    unreadable,
)
from levelfield.metrics.sample_metric import SampleMetric, SampleValue, in_groups, of_defined
from levelfield.metrics.text import iwf as iwf_lists
from levelfield.metrics.text import segmenter
from levelfield.models.contracts import Gapped
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_MODEL, Resolved, resolve
from levelfield.models.scorers import (
    EmbeddingScorer,
    Evaluator,
    InfillingScorer,
    LabelEvaluator,
    Scorer,
    label_evaluators,
)

Combine = Literal["mean", "max", "min"]


class ScoredEvaluator(NamedTuple):
    """What an evaluator says of a sample: its score s_j, and the mass that β_j is proportional to.

    `cut` says whether the model saw less than all.
    """

    part: str
    s: float
    mass: float
    cut: bool


class LabelQuestion(NamedTuple):
    """A text with the label that its control wants, and the aspect that has it."""

    text: str
    aspect: Aspect
    label: str


@dataclass(frozen=True)
class _CTRLEvalMetric(LoadingOptions, SampleMetric, abc.ABC):
    """What all aspects of CTRLEval have in common."""

    model: str = OFFLINE_MODEL
    normalize: Literal["tokens", "none"] = "tokens"
    patterns: Literal["infilling", "ppl-gpt", "bartscore"] = "infilling"

    @property
    def _resolved(self) -> Resolved:
        return resolve(self.model, allow_pickle=self.allow_pickle)

    @property
    def _infills(self) -> bool:
        """Whether the model fills gaps; else it embeds."""
        found = self._resolved
        if found.kind not in ("encoder-decoder", "encoder"):
            raise ModelError(
                f"model '{self.model}' is a {found.kind} model; CTRLEval needs an encoder-decoder "
                "model that fills gaps (PEGASUS, T5, BART) or an encoder"
            )
        if found.kind == "encoder" and self.patterns != "infilling":
            raise UserError(f"patterns={self.patterns} needs an encoder-decoder model")
        return found.kind == "encoder-decoder"

    def _choices(self, own: Mapping[str, object]) -> dict[str, object]:
        infills = self._infills
        return {
            "model": self._resolved.label,
            "scorer": "infilling" if infills else "embedding",
            **({"patterns": self.patterns, "normalize": self.normalize} if infills else {}),
            **own,
            "dtype": self.dtype,
        }

    def _scorer(self) -> Scorer:
        if not self._infills:
            return _embedding_scorer(load("encoder", self.model, self.loading))
        model = load("infilling", self.model, self.loading)
        return _infilling_scorer(model, self.patterns, self.normalize)


@dataclass(frozen=True)
class _PatternMetric(_CTRLEvalMetric, abc.ABC):
    """An aspect whose evaluators score a stretch of the text, weighted by NISF (equation 5)."""

    weights: Literal["nisf", "mean", "max", "min"] = "nisf"
    iwf: str = "auto"

    _end: ClassVar[bool]

    @abc.abstractmethod
    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        """The pattern evaluators of a sample."""

    def _pattern_choices(self, own: Mapping[str, object]) -> dict[str, object]:
        nisf = self.weights == "nisf"
        source = iwf_lists.source_of(self.iwf, self._resolved.model_type) if nisf else ""
        return self._choices({"weights": self.weights, **({"iwf": source} if nisf else {}), **own})

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        scorer = self._scorer()

        def scored(evaluators: list[Evaluator]) -> Iterable[ScoredEvaluator]:
            s, cut = scorer.fit(evaluators, end=self._end)
            parts = [evaluator.part for evaluator in evaluators]
            return map(ScoredEvaluator, parts, s, self._masses(evaluators, scorer), cut)

        return of_defined(
            [self._evaluators(sample, scorer.gap_token) for sample in samples],
            lambda of_samples: map(self._ensemble, in_groups(of_samples, scored)),
        )

    def _masses(self, evaluators: Sequence[Evaluator], scorer: Scorer) -> Floats:
        """NISF of each evaluator's target before it is normalised: (evaluators,)."""
        if self.weights != "nisf":
            return np.ones(len(evaluators))
        source = iwf_lists.source_of(self.iwf, self._resolved.model_type)
        frequencies = _frequencies(self.iwf, source, scorer)
        return frequencies.isf([evaluator.g for evaluator in evaluators], scorer.token_ids)

    def _ensemble(self, scored: Sequence[ScoredEvaluator]) -> SampleValue | Undefined:
        for evaluator in scored:
            if np.isnan(evaluator.s):
                return Undefined(unreadable(evaluator.part))
        return ensemble(scored, None if self.weights == "nisf" else self.weights)


@dataclass(frozen=True)
class CTRLEvalCoherence(_PatternMetric):
    """Coherence: how well each sentence of a text fits the others.

    S = Σ_j NISF(Y_j) · s(Y_j | Y with a gap in place of Y_j), over the sentences Y_j of the text
    (section 3.2.1, equations 2 to 8). Sentences are joined by one blank; the target's
    end-of-sequence token is scored.

    Undefined: `empty text`; `one sentence only`, unless `single="score"`, which scores the
    sentence against a source that is only the gap, as the published numbers have it (encoders
    can't: they have nothing to compare with).

    Options:
        model: hub name, folder, or `offline/minilm`.
        weights: `nisf`, or the ablations of Table 5: `mean`, `max`, `min` over evaluators.
        iwf: what NISF is computed from: `published` (BookCorpus, for PEGASUS), `wordfreq`,
            `wordfreq:de`, or a file of `levelfield train iwf`; `auto` takes `published` for
            PEGASUS and `wordfreq` for others.
        patterns: `infilling`, or the ablations of Table 5: `ppl-gpt`, `bartscore`.
        normalize: `tokens` divides log-probabilities by the number of target tokens (the authors'
            code), `none` does not (the paper's formula).
        single: what to do with one sentence: `undefined` or `score`.
        language: of the sentence segmenter (Punkt).
    """

    single: Literal["undefined", "score"] = "undefined"
    language: str = "english"

    name: ClassVar[str] = "ctrleval.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    _end: ClassVar[bool] = True

    @functools.cached_property
    def signature(self) -> str:
        own = {"single": self.single, "segmenter": f"punkt-{self.language}"}
        return signature(self.name, self._pattern_choices(own))

    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        sentences = segmenter.sentences(sample.text, self.language)
        if not sentences:
            return Undefined(EMPTY_TEXT)
        if gap_token and gap_token in sample.text:
            return Undefined(holds_gap_token(gap_token))
        if len(sentences) == 1 and (self.single == "undefined" or not self._infills):
            return Undefined(ONE_SENTENCE)
        evaluators = []
        for j, sentence in enumerate(sentences):
            left, right = " ".join(sentences[:j]), " ".join(sentences[j + 1 :])
            f = Gapped(f"{left} " if left else "", f" {right}" if right else "")
            evaluators.append(Evaluator(f"{j + 1}: {sentence}", f, sentence))
        return evaluators


@dataclass(frozen=True)
class CTRLEvalConsistency(_PatternMetric):
    """Consistency: how well a text fits the prompt that it continues.

    S = NISF(Y∖X) · s(Y∖X | X, gap) + NISF(X) · s(X | gap, Y∖X), with X the prompt and Y∖X the
    text after it, as cut, its leading blank kept (section 3.2.2, equations 9 to 11). No
    end-of-sequence token is scored.

    Undefined: `empty text`; `no prompt`; `prompt is not a prefix of the text`; `nothing after the
    prompt`.

    Options: as for coherence, and
        match: `exact` demands that the text begin with the prompt character by character, `loose`
            lets white space and case differ.
    """

    match: Literal["exact", "loose"] = "exact"

    name: ClassVar[str] = "ctrleval.consistency"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt"})
    _end: ClassVar[bool] = False

    @functools.cached_property
    def signature(self) -> str:
        return signature(self.name, self._pattern_choices({"match": self.match}))

    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        prompt = sample.prompt
        rest = continuation(sample, match="words" if self.match == "loose" else "exact")
        blank = rest in (Undefined(EMPTY_TEXT), Undefined(NO_PROMPT))
        if gap_token and not blank and (gap_token in sample.text or gap_token in prompt):
            return Undefined(holds_gap_token(gap_token))
        if isinstance(rest, Undefined):
            return rest
        before = prompt if prompt[-1:].isspace() else f"{prompt} "
        after = rest if rest[:1].isspace() else f" {rest}"
        return [
            Evaluator("prompt → rest", Gapped(before, ""), rest),
            Evaluator("rest → prompt", Gapped("", after), prompt),
        ]


@dataclass(frozen=True)
class CTRLEvalAttributeRelevance(_CTRLEvalMetric):
    """Attribute relevance: how clearly a text has the wanted label.

    For every prompt and verbalizer s_j = P(v_j(a) | f_j) / Σ_a' P(v_j(a') | f_j), with a the wanted
    label, a' all labels of the attribute, and f_j the prompt put around the text with a gap where
    the label's word goes; S = Σ_j β_j s_j with β_j ∝ Σ_a' P(v_j(a') | f_j) (section 3.2.3,
    equations 12 to 17). P of a word of several tokens is the exponential of their mean
    log-probability (the authors' code); no end-of-sequence token is scored. With an encoder
    s = softmax over labels of cosine(E(text), E(prompt filled with the word)) / 0.05, all
    evaluators weighted equally. In [0, 1]; 1 / labels is chance.

    Undefined: `empty text`; the sample's control has no label for the attribute, or one that the
    aspect does not know.

    Options:
        attribute: `sentiment` (72 evaluators), `topic` (32), the TOML file of your own, or `auto`:
            whichever of the shipped ones the sample's control names.
        weights: `label-mass` (β as above; for encoders `mean`), or `mean`, `max`, `min`.
        model, patterns, normalize: as for coherence.
    """

    attribute: str = "auto"
    weights: Literal["label-mass", "mean", "max", "min"] = "label-mass"

    name: ClassVar[str] = "ctrleval.attribute-relevance"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})

    @functools.cached_property
    def signature(self) -> str:
        if self.attribute == "auto":
            named = "auto@" + "+".join(a.digest for a in shipped().values())
        else:
            aspect = load_aspect(self.attribute)
            named = f"{aspect.attribute}@{aspect.digest}"
        weights = self.weights if self._infills or self.weights != "label-mass" else "mean"
        return signature(self.name, self._choices({"attribute": named, "weights": weights}))

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        scorer = self._scorer()
        readable = scorer.token_ids([sample.text[:_BEGINNING] for sample in samples])
        questions = [
            self._question(sample, scorer.gap_token, readable=bool(ids))
            for sample, ids in zip(samples, readable, strict=True)
        ]
        return of_defined(questions, lambda defined: self._relevances(defined, scorer))

    def _relevances(
        self, questions: Sequence[LabelQuestion], scorer: Scorer
    ) -> Iterator[SampleValue | Undefined]:
        def logits(evaluators: list[LabelEvaluator]) -> Iterable[tuple[str, Floats, bool]]:
            of_words, cut = scorer.label_logits(evaluators)
            return zip((e.part for e in evaluators), of_words, cut, strict=True)

        evaluators = [label_evaluators(question.text, question.aspect) for question in questions]
        for question, scored in zip(questions, in_groups(evaluators, logits), strict=True):
            parts, of_words, cut = zip(*scored, strict=True)
            log_p = np.stack(of_words)  # (evaluators, labels)
            if np.isnan(log_p).any():
                yield Undefined(LABEL_WITHOUT_TOKEN)
                continue
            log_mass = np.logaddexp.reduce(log_p, axis=1)
            s = np.exp(log_p[:, question.aspect.labels.index(question.label)] - log_mass)
            mass = np.exp(log_mass - log_mass.max()) if self._infills else np.ones_like(s)
            how: Combine | None = None if self.weights == "label-mass" else self.weights
            yield ensemble(list(map(ScoredEvaluator, parts, s, mass, cut)), how)

    def _question(
        self, sample: Sample, gap_token: str | None, *, readable: bool
    ) -> LabelQuestion | Undefined:
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        if not readable:
            return Undefined(UNREADABLE)
        if gap_token and gap_token in sample.text:
            return Undefined(holds_gap_token(gap_token))
        if self.attribute == "auto":
            named = [attribute for attribute in shipped() if attribute in sample.control]
            if not named:
                return Undefined(no_control_among(shipped()))
            if len(named) > 1:
                return Undefined(several_controls(named))
            aspect = shipped()[named[0]]
        else:
            aspect = load_aspect(self.attribute)
        wanted = sample.control.get(aspect.attribute)
        if wanted is None or wanted in ("", ()):
            return Undefined(no_control(aspect.attribute))
        if isinstance(wanted, tuple) and len(wanted) == 1:
            (wanted,) = wanted
        label = aspect.label(wanted)
        if label is None:
            return Undefined(unknown_wanted(aspect.attribute, wanted))
        return LabelQuestion(sample.text, aspect, label)


@dataclass(frozen=True)
class CTRLEval:
    """The three aspects of CTRLEval with one model.

    >>> from levelfield import load_samples
    >>> samples = load_samples(["It rained. We stayed in and read."])
    >>> scores = CTRLEval(aspects=("coherence",)).score(samples)
    >>> scores["coherence"].values.shape
    (1,)

    Args:
        model: hub name, folder, or `offline/minilm`.
        aspects: of coherence, consistency, attribute-relevance.
        options: any option of the aspects' classes; each aspect takes those it has.
    """

    model: str = OFFLINE_MODEL
    aspects: Sequence[str] = ("coherence", "consistency", "attribute-relevance")
    options: Mapping[str, object] | None = None

    def metrics(self) -> dict[str, Metric]:
        """The aspects as metrics of their own.

        Raises:
            UserError: an aspect or an option that does not exist.
        """
        known = {m.name.removeprefix("ctrleval."): m for m in ASPECTS}
        given = dict(self.options or {})
        if unknown := set(self.aspects) - set(known):
            raise UserError(f"no aspect {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        fields = {name: set(known[name].__dataclass_fields__) for name in self.aspects}
        if unknown := set(given) - set().union(*fields.values()):
            raise UserError(f"no option {', '.join(sorted(unknown))} in {', '.join(self.aspects)}")
        return {
            name: known[name](
                model=self.model,
                **{k: v for k, v in given.items() if k in fields[name]},  # type: ignore[arg-type]
            )
            for name in self.aspects
        }

    def score(
        self, samples: Sequence[Sample], *, progress: Progress = no_progress
    ) -> dict[str, Scores]:
        """Scores by aspect."""
        return {
            name: metric.score(samples, progress=progress)
            for name, metric in self.metrics().items()
        }


_BEGINNING = 10_000
"""Characters of a text that tell whether a model has any tokens for it."""

ASPECTS = (CTRLEvalCoherence, CTRLEvalConsistency, CTRLEvalAttributeRelevance)


def combine(s: Floats, mass: Floats, how: Combine | None) -> tuple[float, Floats]:
    """S = Σ_j β_j s_j and β: (evaluators,).

    β is `mass` normalised (the plain mean when all of it is zero), or by `how`: equal for `mean`,
    all on the largest or smallest s_j for `max` and `min`.
    """
    n = len(s)
    if how in ("max", "min"):
        beta = np.zeros(n)
        beta[s.argmax() if how == "max" else s.argmin()] = 1.0
    elif how == "mean" or mass.sum() == 0:
        beta = np.full(n, 1 / n)
    else:
        beta = mass / mass.sum()
    return float(beta @ s), beta


def ensemble(scored: Sequence[ScoredEvaluator], how: Combine | None) -> SampleValue:
    """The value of one sample from its evaluators, with what each contributes."""
    parts, s, mass, cut = zip(*scored, strict=True)
    value, beta = combine(np.array(s), np.array(mass), how)
    rows = list(zip(parts, np.array(s).tolist(), beta.tolist(), strict=True))
    return SampleValue(value, rows, any(map(bool, cut)))


# one scorer a model: frequencies and embeddings of prompts are remembered by it
_embedding_scorer = functools.lru_cache(maxsize=4)(EmbeddingScorer)
_infilling_scorer = functools.lru_cache(maxsize=4)(InfillingScorer)


@functools.lru_cache(maxsize=4)
def _frequencies(choice: str, source: str, scorer: Scorer) -> iwf_lists.InverseWordFrequency:
    return iwf_lists.read(choice, source, scorer.vocabulary_size, scorer.token_ids)
