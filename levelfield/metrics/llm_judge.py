"""LLM judges in the manner of G-Eval: a model is shown a text and asked for a number.

Liu et al. 2023, "G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment"; a baseline of
"Contrastive Distribution Methods" (CDM), section 4.1.2 and appendix A.1, which has the prompt for
dialogues whose kind ours are.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError, UserError
from levelfield.core.limits import RETRIES
from levelfield.core.options import Options, group, option
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_MASS,
    QUESTION_TOO_LONG,
    UNRESOLVED,
    Undefined,
    holds_control_token,
    no_field,
    no_number,
)
from levelfield.metrics.llm_prompts import Template, read_template, shipped
from levelfield.metrics.sample_metric import (
    ChoiceSignature,
    SampleMetric,
    SampleValue,
    map_defined,
)
from levelfield.models.causal_tokens import BOS, WITHOUT, Bos, reads_bos
from levelfield.models.chat.client import ChatClient
from levelfield.models.chat.server import Asking, Server
from levelfield.models.contracts import ChatAnswer, ChatModel, ChoosingModel, Costs, Refusal
from levelfield.models.files import load_tokenizer
from levelfield.models.load import load
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM, Resolved, resolve

MASS = "mass on the scale"
UNPARSABLE = "unparsable answers"
UNRESOLVED_AT_MOST = 0.01
"""Of the mass on numbers; what is left out of that could move a value by 1 % of the scale."""

SAMPLES = 20
"""Number of answers drawn from a model without log-probabilities, as G-Eval does."""


@dataclass(frozen=True)
class _LLMJudge(Options, ChoiceSignature, SampleMetric):
    """Base of the aspects."""

    model: str = option(
        OFFLINE_LM,
        "Model: a hub name or a folder; with base_url, its name on the server. The default works "
        "without a network but judges badly (see llm-judge.coherence); a larger one that follows "
        "instructions is google/flan-t5-large.",
    )
    base_url: str = option(
        "",
        "Address of a server that speaks OpenAI's protocol, up to `/chat/completions`. No "
        "environment variable sets it: texts leave this machine only when the command says so.",
        otherwise="a model on this machine",
        metavar="URL",
    )
    task: Literal["text", "dialogue", "reply"] = option(
        "text",
        "Kind of texts: text; dialogue, all turns in `text`, one per line; reply, a turn after "
        "those in `context`.",
    )
    template: str = option(
        "",
        "TOML file with another question.",
        otherwise="that of the aspect and the task",
        metavar="FILE",
    )
    expectation: Literal["auto", "logprobs", "samples"] = option(
        "auto",
        "Probabilities of the numbers: logprobs, those of a server; samples, shares among drawn "
        "answers; auto, whichever the server supports, found by one short request.",
    )
    samples: int | None = option(
        None,
        "Number of answers per text.",
        least=1,
        most=1_000,
        otherwise="1 with log-probabilities, else 20",
    )
    temperature: float | None = option(
        None,
        "Temperature of a server's sampling.",
        least=0,
        otherwise="0 with log-probabilities, else 1",
    )
    seed: int | None = option(0, "Seed of a server's sampling; with none, no seed is sent.")
    max_tokens: int | None = option(
        16,
        "Maximum number of tokens of an answer; with none, no limit is sent. A model that thinks "
        "aloud needs "
        "more.",
        least=1,
        most=1_000_000,
    )
    top_logprobs: int = option(
        20, "Number of alternatives that a server is asked for at each token.", least=1, most=1_000
    )
    key_variable: str = option(
        "OPENAI_API_KEY",
        "Environment variable with the key of the server; the key is sent if it is set.",
        metavar="NAME",
    )
    concurrency: int = option(8, "Number of requests under way at once.", least=1, most=256)
    timeout: float = option(
        60.0,
        "Seconds that one request may take, its whole answer included.",
        above=0,
        most=86_400,
    )
    retries: int = option(
        5, "Number of times that a failed request is sent again.", least=0, most=RETRIES
    )
    bos: Bos = option(
        "auto", f"{BOS} For causal models on this machine that have no chat template."
    )
    loading: Loading = group(AS_USUAL, without=("batch_tokens", "engine"))

    requires: ClassVar[frozenset[str]] = frozenset({"text"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base_url:
            if self.model == OFFLINE_LM:
                raise UserError(
                    f"{self.name}: base_url={self.base_url}: name the server's model with --model"
                )
            _ = self._server
            if self.bos != "auto":
                raise UserError(
                    f"{self.name}: bos={str(self.bos).lower()} applies to models on this machine"
                )
        elif self.expectation == "samples":
            raise UserError(
                f"{self.name}: expectation=samples needs a server (base_url); the probabilities "
                "of a model on this machine are exact, and nothing is sampled"
            )
        object.__setattr__(self, "requires", self._template.requires)

    def _choices(self) -> Mapping[str, object]:
        """With `expectation=auto` a server is asked once, whether it gives log-probabilities, so
        that the signature says what is done."""
        template = self._template
        choices: dict[str, object] = {
            "template": template.label,
            "scale": f"{template.scale[0]}-{template.scale[-1]}",
        }
        if not self.base_url:
            model = resolve(self.model, self.loading)
            return {
                "model": model.label,
                **choices,
                **self._begin(model),
                "expectation": "exact",
                "dtype": self.loading.dtype,
            }
        drawn = self._expectation == "samples"
        return {
            "model": self.model,
            "server": self._server.host,
            **choices,
            "expectation": self._expectation,
            **({} if drawn else {"top": self.top_logprobs}),
            "samples": self._samples,
            "temperature": self._temperature,
            "max-tokens": "none" if self.max_tokens is None else self.max_tokens,
            "seed": "none" if self.seed is None else self.seed,
        }

    def _begin(self, model: Resolved) -> dict[str, str]:
        """Returns what signatures say of how prompts begin: nothing of BOS and of chat templates.

        Raises:
            UserError: `bos` has a value, and the model does not begin prompts with it.
        """
        if self.bos == "auto" and (model.kind != "causal" or reads_bos(model)):
            return {}  # without loading a tokenizer
        if model.kind != "causal" or load_tokenizer(model).chat_template:
            if self.bos != "auto":
                raise UserError(
                    f"{self.name}: bos={str(self.bos).lower()} applies to causal models without a "
                    f"chat template, and not to '{self.model}'"
                )
            return {}
        return {} if reads_bos(model, self.bos) else {"bos": WITHOUT}

    @property
    def costs(self) -> Costs | None:
        """What a server was asked so far by this process; None of a model on this machine."""
        return _client(self).costs if self.base_url else None

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        rate = self._ask_server if self.base_url else self._ask_model
        return map_defined((self._shown(sample) for sample in samples), rate)

    def _shown(self, sample: Sample) -> dict[str, str] | Undefined:
        """Returns the fields of a sample that the prompt shows."""
        blocks = self._template.blocks(sample)
        missing = [field for field, block in blocks.items() if not block.strip()]
        if "text" in missing:
            return Undefined(EMPTY_TEXT)
        return Undefined(no_field(missing[0])) if missing else blocks

    # -- a model on this machine

    def _ask_model(self, shown: Sequence[dict[str, str]]) -> list[SampleValue | Undefined]:
        """Returns E(s) under P(s) of every number s of the scale."""
        model = load("choices", self.model, self.loading, bos=self.bos)
        numbers = self._template.scale

        def expectations(fitted: list[tuple[str, bool]]) -> Iterable[SampleValue | Undefined]:
            log_p = model.log_p([prompt for prompt, _ in fitted], numbers)
            return (
                _expected(numbers, np.exp(row), cut)
                for row, (_, cut) in zip(log_p, fitted, strict=True)
            )

        return map_defined((self._fit(blocks, model) for blocks in shown), expectations)

    def _fit(self, blocks: dict[str, str], model: ChoosingModel) -> tuple[str, bool] | Undefined:
        """Returns the prompt, and whether the end of its longest block was cut to make it fit."""
        held = [t for t in model.control_tokens if any(t in block for block in blocks.values())]
        if held:
            return Undefined(holds_control_token(held[0]))
        longest = max(blocks, key=lambda field: len(blocks[field]))
        # no token of a usual vocabulary spans 64 characters
        near = {field: block[: 64 * model.limit] for field, block in blocks.items()}

        def prompt(characters: int) -> str:
            return self._template.prompt({**near, longest: near[longest][:characters]})

        least, most = 0, len(near[longest])
        if near == blocks and model.length(prompt(most)) <= model.limit:
            return prompt(most), False
        while least < most:
            middle = (least + most + 1) // 2
            if model.length(prompt(middle)) <= model.limit:
                least = middle
            else:
                most = middle - 1
        return (
            (prompt(least), True) if near[longest][:least].strip() else Undefined(QUESTION_TOO_LONG)
        )

    # -- a server

    def _ask_server(self, shown: Sequence[dict[str, str]]) -> list[SampleValue | Undefined]:
        """Returns E(s) under the answers, or the log-probabilities of their tokens."""
        answers = _client(self).answers(
            [self._template.prompt(blocks) for blocks in shown],
            n=self._samples,
            temperature=self._temperature,
            log_probabilities=self._expectation == "logprobs",
        )
        return [Undefined(a.reason) if isinstance(a, Refusal) else self._rated(a) for a in answers]

    def _rated(self, answers: Sequence[ChatAnswer]) -> SampleValue | Undefined:
        template = self._template
        p: defaultdict[int, float] = defaultdict(float)
        unresolved = 0.0
        parsed = [(answer, number) for answer in answers if (number := template.read(answer.text))]
        bad = len(answers) - len(parsed)
        _client(self).count(answers=len(answers), unparsable=bad)
        if not parsed:
            return Undefined(no_number(len(answers), template.scale[0], template.scale[-1]))
        for answer, number in parsed:
            if self._expectation == "samples":
                p[int(number["number"])] += 1.0
                continue
            masses = template.masses(answer.text, answer.steps) if answer.steps else None
            if masses is None:
                raise ModelError(
                    f"model '{self.model}' at {self.base_url} gives no log-probabilities of its "
                    "answer's tokens; use --option expectation=samples"
                )
            for s, p_s in masses.p.items():
                p[s] += p_s
            unresolved += masses.unresolved
        if unresolved > UNRESOLVED_AT_MOST * (unresolved + sum(p.values())):
            return Undefined(UNRESOLVED)
        mass = np.array([p[s] for s in template.scale]) / len(parsed)
        return _expected(template.scale, mass, False, (UNPARSABLE, float(bad), 0.0))

    # -- choices

    @functools.cached_property
    def _template(self) -> Template:
        if self.template:
            return read_template(self.template)
        return shipped()[self.task, self.name.rpartition(".")[2]]

    @property
    def _server(self) -> Server:
        return Server(
            self.base_url, self.key_variable, self.concurrency, self.timeout, self.retries
        )

    @functools.cached_property
    def _expectation(self) -> Literal["logprobs", "samples"]:
        if self.expectation != "auto":
            return self.expectation
        return "logprobs" if _client(self).gives_log_probabilities() else "samples"

    @property
    def _samples(self) -> int:
        default = SAMPLES if self._expectation == "samples" else 1
        return default if self.samples is None else self.samples

    @property
    def _temperature(self) -> float:
        default = 1.0 if self._expectation == "samples" else 0.0
        return default if self.temperature is None else self.temperature


@dataclass(frozen=True)
class LLMJudgeOverall(_LLMJudge):
    """LLM judge of overall quality: the number that a model gives a text, in expectation.

    V = Σ_s s P(s) / Σ_s P(s) over the whole numbers s of the template's scale, 1 to 10 in ours
    (Liu et al. 2023, section 2.3; CDM, section 4.1.2 and appendix A.1). P(s) is, for

    - a model on this machine (no `base_url`), exact: the probability of the answer s and nothing
      else, for every s. Encoder-decoder models end it with EOS; after the s of causal models
      anything may follow but a digit, so that 1 is not also 10.
    - a server that gives log-probabilities, that of the alternatives for the tokens of the number
      in the answer. One that may be the beginning of a longer number (1 of 10) is split by the
      next token's alternatives where the answer went that way; where it did not, and the list has
      no token for the longer number, it is left out, and the value is undefined if that is more
      than 1 % of what is left.
    - a server that gives none, the share of s among the answers that are numbers: V is their mean.

    An answer must be a number of the scale and nothing else, as `7`, `Score: 7` or `7/10`; others
    are counted, never guessed at. Parts: every s with its weight P(s) / Σ P; with weight 0 the
    `mass on the scale`, Σ_s P(s), and the `unparsable answers` of a server.

    Undefined: `empty text`; a field that the template shows is empty (`no prompt`); no answer is a
    number of the scale; the server refuses the text as too long or by its content filter; the
    text holds a control token of a model on this machine. Of a text that is too long for such a
    model the end is cut off, and it counts as truncated.
    """

    name: ClassVar[str] = "llm-judge.overall"


@dataclass(frozen=True)
class LLMJudgeCoherence(_LLMJudge):
    """LLM judge of coherence: whether the sentences, or turns, of a text belong together.

    The default model, offline/smollm2 with 135 million parameters, works without a network and
    judges badly: Pearson's r with people is 0.105 (95 % interval −0.02 to 0.22) on the 360 rated
    sentiment texts of CTRLEval. Name a larger model, or a server, for values to rely on.

    Undefined: as for `llm-judge.overall`, which says what the value is.
    """

    name: ClassVar[str] = "llm-judge.coherence"


@dataclass(frozen=True)
class LLMJudgeConsistency(_LLMJudge):
    """LLM judge of consistency: whether a text keeps to its prompt, or to what was said before.

    The default model judges badly: Pearson's r with people is −0.059 (95 % interval −0.20 to 0.07)
    on the 360 texts that `llm-judge.coherence` names.

    Of `task=text` the prompt is shown, of `dialogue` the text alone, of `reply` the context.

    Undefined: as for `llm-judge.overall`, which says what the value is.
    """

    name: ClassVar[str] = "llm-judge.consistency"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt"})


@dataclass(frozen=True)
class LLMJudgeRelevance(_LLMJudge):
    """LLM judge of relevance: whether a text has what its control asks for, or is to the point.

    The default model judges badly: Pearson's r with people is 0.085 (95 % interval −0.03 to 0.19)
    on the 360 texts that `llm-judge.coherence` names.

    Of `task=text` the control is shown, of `dialogue` the text alone, of `reply` the context.

    Undefined: as for `llm-judge.overall`, which says what the value is.
    """

    name: ClassVar[str] = "llm-judge.relevance"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})


@dataclass(frozen=True)
class LLMJudgeFluency(_LLMJudge):
    """LLM judge of fluency: whether a text is written as a careful native writer would.

    Undefined: as for `llm-judge.overall`, which says what the value is.
    """

    name: ClassVar[str] = "llm-judge.fluency"


@dataclass(frozen=True)
class LLMJudgeCommonsense(_LLMJudge):
    """LLM judge of common sense: whether what a text describes can be and usually is so.

    Undefined: as for `llm-judge.overall`, which says what the value is.
    """

    name: ClassVar[str] = "llm-judge.commonsense"


@functools.lru_cache(maxsize=16)
def _client(metric: _LLMJudge) -> ChatModel:
    """Returns a client for this metric alone, so that its costs are counted separately."""
    asking = Asking(metric.model, metric.seed, metric.max_tokens, metric.top_logprobs)
    return ChatClient(metric._server, asking)


def _expected(
    numbers: Sequence[int], p: Floats, cut: bool, *more: tuple[str, float, float]
) -> SampleValue | Undefined:
    """Σ_s s P(s) / Σ_s P(s), with P(s) normalised as the weights of the parts."""
    mass = p.sum()
    if not (np.isfinite(mass) and mass > 0):
        return Undefined(NO_MASS)
    weights = p / mass
    parts = [(str(s), float(s), float(w)) for s, w in zip(numbers, weights, strict=True) if w > 0]
    value = float(weights @ np.array(numbers, np.float64))
    return SampleValue(value, [*parts, (MASS, float(mass), 0.0), *more], cut)
