"""Discriminative CDM: how much likelier a text is to a large model of a family than to a small one.

Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution Methods", section 3.4.2.
With p_e the expert (large) and p_a the amateur (small), each token x_t of a text has the momentum
m_t = log p_e(x_t | …) − log p_a(x_t | …), in nats; the sequence of them is pooled into one value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.continuation import continuation
from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_CONTEXT,
    NO_KEYWORDS,
    ONE_SENTENCE,
    ONE_TURN,
    PROBABILITIES_NOT_NUMBERS,
    PROMPT_TOO_LONG,
    Undefined,
    reading_holds_gap_token,
    unreadable,
)
from levelfield.metrics.cdm.pairs import (
    TURN_MARK,
    CausalPair,
    ContrastPair,
    EncoderDecoderPair,
    Form,
    Reading,
    UnitMomentum,
    check_pair,
)
from levelfield.metrics.keywords import keywords_of
from levelfield.metrics.pooling import POOLINGS, LinearPooler
from levelfield.metrics.sample_metric import (
    ChoiceSignature,
    SampleMetric,
    SampleValue,
    map_defined,
    rule_weights,
)
from levelfield.models.causal_tokens import BOS, WITHOUT, Bos, reads_bos
from levelfield.models.contracts import InfillingModel
from levelfield.models.files import fills_in_the_middle
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_AMATEUR, OFFLINE_LM, Resolved, resolve
from levelfield.text import segmenter


@dataclass(frozen=True)
class CDMMomentum(LoadingOptions, ChoiceSignature, SampleMetric):
    r"""Momentum of each text: how much likelier its tokens are for a large model than a small one.

    m_t = log p_e(x_t | …) − log p_a(x_t | …) of each token, in nats, pooled into one value (Lu et
    al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution Methods", section 3.4.2 and
    4.1.1). Above 0 where the large model (expert, p_e) knows better than the small one (amateur,
    p_a) what comes. Higher is better if the larger model of the pair is the better one;
    values of different pairs can't be compared. No end-of-sequence token is scored.

    Undefined: `empty text`; `prompt is not a prefix of the text`; `nothing after the prompt`;
    `control has no keywords`; `no context` (turns=last); `one sentence only` and `one turn only`
    where form=infilling has nothing to show around it; a text that contains the models' gap
    token; nothing that the models have tokens for; what precedes the text is longer than the
    models' limit; log-probabilities that are not finite.

    The models are of one family, with one vocabulary: two encoder-decoders or two causal models.
    The default pair needs no network: SmolLM2 of 135 million parameters, and its first 2 layers of
    30. The pairs of the paper are amateur=google-t5/t5-small with expert=google-t5/t5-large,
    google-t5/t5-3b or google-t5/t5-11b, the last two its best. It found form=infilling, of models
    that were trained to fill gaps (T5, BART, PEGASUS, causal ones with fill-in-the-middle tokens),
    to agree better with people. Log-probabilities are computed in float32.

    The parts of a value are its tokens with their momentum: "12: lake" is the twelfth. Their
    weights are those of the pooling (`max` and `min`: all on one token); those of `sum` and
    `classifier`, which is not a weighted mean, are equal.
    """

    amateur: str = option(
        OFFLINE_AMATEUR, "Small model of the family (p_a): a hub name or a folder."
    )
    expert: str = option(OFFLINE_LM, "Large model of the family (p_e): a hub name or a folder.")
    task: Literal["text", "dialogue", "commonsense"] = option(
        "text",
        "Text to score, and what it is given: text, what follows the prompt, given the prompt "
        "(the whole text if a sample has none); dialogue, the turns of `context` and the text "
        "as the last one (without context the text is a whole dialogue, its turns divided by "
        "`</UTT>` or else by line ends); commonsense, the text given the wanted keywords, joined "
        "by blanks.",
    )
    form: Literal["auto", Form] = option(
        "auto",
        "Context that models read: infilling, each sentence or turn in a gap of the rest; "
        "conditional, what stands before it; auto, infilling for encoder-decoders and causal "
        "models with fill-in-the-middle tokens, else conditional (the signature names which).",
    )
    gap: bool = option(
        True,
        "End the source of encoder-decoders with the gap token if form=conditional: true for a "
        "model trained only on gaps, such as the original T5, false for one fine-tuned from "
        "sources "
        "to texts.",
    )
    pooling: Literal["mean", "sum", "max", "min", "classifier"] = option(
        "mean", "Pooling over tokens; classifier is the model that `pooler` names."
    )
    pooler: str | None = option(
        None, "File that `levelfield train pooler` wrote, for pooling=classifier.", metavar="FILE"
    )
    turns: Literal["whole", "mean", "last"] = option(
        "whole",
        "Turns of task=dialogue: whole, all tokens of all turns are one sequence; mean, each turn"
        " is pooled, and the mean taken over turns; last, only the last turn is scored, given the"
        " context.",
    )
    separator: str = option(
        r"\n",
        "Separator of the turns of task=dialogue as a model reads them; `\\n` is a line end.",
    )
    language: str = segmenter.LANGUAGE
    bos: Bos = option(
        "auto",
        f"{BOS} For causal models with form=conditional only; without BOS the first token of what "
        "they read has no momentum.",
    )

    name: ClassVar[str] = "cdm.momentum"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.pooling == "classifier") != bool(self.pooler):
            raise UserError(
                "pooling=classifier and pooler=FILE go together; `levelfield train pooler` makes "
                "the file"
            )
        if self.turns != "whole" and self.task != "dialogue":
            raise UserError(f"turns={self.turns} applies to task=dialogue, not to task={self.task}")
        if self.turns == "mean" and self.pooling == "classifier":
            raise UserError("a pooler works on whole sequences; turns=mean can't use one")
        more = (
            "control" if self.task == "commonsense" else "context" if self.turns == "last" else ""
        )
        if more:
            object.__setattr__(self, "requires", frozenset({"text", more}))
        optional = {"text": "prompt", "dialogue": "context"}.get(self.task)
        if optional:
            object.__setattr__(self, "reads", frozenset({optional}))

    @property
    def _kind(self) -> Literal["causal", "infilling", "encoder-decoder"]:
        """How both models are asked."""
        if self._resolved[0].kind == "causal" and self._form == "conditional":
            return "causal"
        return "infilling" if self.gap or self._form == "infilling" else "encoder-decoder"

    def _choices(self) -> Mapping[str, object]:
        pooler = {"pooler": self._pooler.digest} if self._pooler else {}
        return {**self._momentum_choices, "pooling": self.pooling, **pooler}

    @functools.cached_property
    def momentum_signature(self) -> str:
        """Every choice that could change the momentum of a text's tokens, whatever the pooling."""
        choices = {**self._momentum_choices, **self.computation}
        return signature(self.name, choices).rpartition("|v:")[0]

    def momentum(self, samples: Sequence[Sample]) -> list[list[UnitMomentum] | Undefined]:
        """Returns what is pooled of each sample: the momentum of its units, in order."""
        return map_defined(
            (self._reading(sample) for sample in samples),
            lambda readings: map(_checked, readings, self._pair.momentum(readings)),
        )

    @functools.cached_property
    def _resolved(self) -> tuple[Resolved, Resolved]:
        a = self._resolve("amateur", self.amateur)
        e = self._resolve("expert", self.expert)
        if a.kind != e.kind:
            raise ModelError(
                f"amateur '{a.name}' ({a.kind}) and expert '{e.name}' ({e.kind}) are not of the "
                "same kind; use two models of one family, --option amateur=NAME --option "
                "expert=NAME"
            )
        if a.kind not in ("encoder-decoder", "causal"):
            raise ModelError(
                f"amateur '{a.name}' and expert '{e.name}' are {a.kind} models; momentum needs "
                "two encoder-decoders or two causal models"
            )
        check_pair(a, e)
        return a, e

    def _resolve(self, role: str, name: str) -> Resolved:
        try:
            return resolve(name, self.loading)
        except ModelError as error:
            hint = (
                ""
                if name in (OFFLINE_AMATEUR, OFFLINE_LM)
                else f"; a pair that needs no network is --option amateur={OFFLINE_AMATEUR} "
                f"--option expert={OFFLINE_LM}"
            )
            raise ModelError(f"option {role}: {error}{hint}") from error

    @functools.cached_property
    def _form(self) -> Form:
        """The form; `auto` is what the models were trained for."""
        if self.form != "auto":
            return self.form
        a, _ = self._resolved
        fills = a.kind == "encoder-decoder" or fills_in_the_middle(a)
        return "infilling" if fills else "conditional"

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """What its segmenter reads, if it reads sentences."""
        by_sentence = self.task != "dialogue" and self._form == "infilling"
        return segmenter.languages_read(self.language) if by_sentence else {}

    @functools.cached_property
    def _momentum_choices(self) -> dict[str, object]:
        a, e = self._resolved
        choices: dict[str, object] = {}
        if a.kind == "encoder-decoder" and self._form == "conditional":
            choices["gap"] = self.gap
        if self._kind == "causal":
            begins = {reads_bos(model, self.bos) for model in (a, e)}
            if len(begins) > 1:
                raise ModelError(
                    f"the tokenizer of one of '{a.name}' and '{e.name}' puts BOS before a text, "
                    "and the other's does not; bos=true or bos=false says what both read"
                )
            choices |= {} if begins == {True} else {"bos": WITHOUT}
        elif self.bos != "auto":
            raise UserError(
                f"bos={str(self.bos).lower()} applies to causal models with form=conditional"
            )
        if self.task == "dialogue":
            choices |= {"turns": self.turns, "separator": self.separator.replace("\n", r"\n")}
        elif self._form == "infilling":
            choices["segmenter"] = segmenter.label(self.language)
        return {
            "amateur": a.label,
            "expert": e.label,
            "task": self.task,
            "form": self._form,
            **choices,
        }

    @property
    def _pair(self) -> ContrastPair:
        names, loading = (self.amateur, self.expert), self.loading
        if self._kind == "causal":
            return CausalPair(*(load("causal", name, loading, bos=self.bos) for name in names))
        a: InfillingModel
        e: InfillingModel
        if gap := self._kind == "infilling":
            try:
                a, e = (load("infilling", name, loading) for name in names)
            except ModelError as error:
                raise ModelError(f"form={self._form}: {error}") from error
        else:
            a, e = (load("encoder-decoder", name, loading) for name in names)
        return EncoderDecoderPair(a, e, self._form, gap=gap)

    @functools.cached_property
    def _pooler(self) -> LinearPooler | None:
        if self.pooler is None:
            return None
        pooler = LinearPooler.load(self.pooler)
        if pooler.momentum != self.momentum_signature:
            raise UserError(
                f"pooler={self.pooler} was trained on other momentum: {pooler.momentum}; this is "
                f"{self.momentum_signature}"
            )
        return pooler

    def _reading(self, sample: Sample) -> Reading | Undefined:
        """Returns what the models read of a sample, or why they can't."""
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        reading = self._dialogue(sample) if self.task == "dialogue" else self._stretch(sample)
        if isinstance(reading, Undefined):
            return reading
        if self._form == "infilling" and len(reading.units) == 1 and not reading.before:
            return Undefined(ONE_TURN if self.task == "dialogue" else ONE_SENTENCE)
        gap_token = self._pair.gap_token
        if gap_token and any(gap_token in part for part in (*reading.before, *reading.units)):
            return Undefined(reading_holds_gap_token(gap_token))
        return reading

    def _dialogue(self, sample: Sample) -> Reading | Undefined:
        if before := _without_blank(sample.context):
            turns = (*before, sample.text.strip())
        else:
            turns = _without_blank(
                sample.text.split(TURN_MARK if TURN_MARK in sample.text else "\n")
            )
        if not turns:
            return Undefined(EMPTY_TEXT)
        joiner = self.separator.replace(r"\n", "\n")
        if self.turns != "last":
            return Reading((), turns, joiner)
        return Reading(before, turns[-1:], joiner) if before else Undefined(NO_CONTEXT)

    def _stretch(self, sample: Sample) -> Reading | Undefined:
        if self.task == "commonsense":
            before, joiner = " ".join(keywords_of(sample.control)), " "
            if not before:
                return Undefined(NO_KEYWORDS)
            rest: str | Undefined = sample.text
        else:
            before, joiner = (sample.prompt if sample.prompt.strip() else ""), ""
            rest = continuation(sample, without_prompt="whole")
        if isinstance(rest, Undefined):
            return rest
        condition = (before,) if before else ()
        if self._form == "infilling":
            return Reading(condition, segmenter.sentences(rest.strip(), self.language), " ")
        return Reading(condition, (rest,), joiner)

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return map_defined(self.momentum(samples), lambda momenta: map(self._sample_value, momenta))

    def _sample_value(self, units: Sequence[UnitMomentum]) -> SampleValue:
        sequences = [u.m for u in units if u.m.size]
        if self.turns != "mean":
            sequences = [np.concatenate(sequences)]
        value = float(np.mean([self._pool(m) for m in sequences]))
        weights = np.concatenate([self._weights(m) for m in sequences]) / len(sequences)
        pieces = [piece for unit in units for piece in unit.pieces]
        m = np.concatenate(sequences)
        parts = [
            (f"{t}: {piece}", momentum, weight)
            for t, (piece, momentum, weight) in enumerate(
                zip(pieces, m.tolist(), weights.tolist(), strict=True), start=1
            )
        ]
        return SampleValue(value, parts, any(unit.cut for unit in units))

    def _pool(self, m: Floats) -> float:
        if self._pooler:
            return float(self._pooler.predict([m])[0])
        return POOLINGS[self.pooling](m)

    def _weights(self, m: Floats) -> Floats:
        """Returns the weight of each token in the pooling, where that is a weighted mean: (T,)."""
        return rule_weights(m, self.pooling if self.pooling in ("max", "min") else "mean")


def _without_blank(turns: Sequence[str]) -> tuple[str, ...]:
    return tuple(turn.strip() for turn in turns if turn.strip())


def _checked(reading: Reading, units: list[UnitMomentum]) -> list[UnitMomentum] | Undefined:
    """Returns the units if there is something to pool, else why not."""
    for text, unit in zip(reading.units, units, strict=True):
        if not unit.m.size and not unit.cut:
            return Undefined(unreadable(text.strip()[:60]))
    m = np.concatenate([unit.m for unit in units])
    if not m.size:
        return Undefined(PROMPT_TOO_LONG)
    return units if np.isfinite(m).all() else Undefined(PROBABILITIES_NOT_NUMBERS)


__all__ = ["CDMMomentum", "UnitMomentum"]
