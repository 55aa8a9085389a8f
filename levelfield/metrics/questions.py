"""Questions with the answers yes and no, put to an encoder-decoder model.

Zhong et al. 2022, "Towards a Unified Multi-Dimensional Evaluator for Text Generation" (UniEval),
section 3.1: the question and the text are the source, and

    P(yes) = p(yes | source) / (p(yes | source) + p(no | source)) = 1 / (1 + exp(z_no − z_yes)),

z the logits of the first tokens of the two words at the decoder's first step. Two words that begin
with the same token are compared as wholes: p(word) is then the product over its tokens and the end
token. In [0, 1]; higher is more of a yes, and above 0.5 yes is the likelier answer.
"""

from __future__ import annotations

import abc
import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_CONTEXT,
    ONE_TURN,
    PROBABILITIES_NOT_NUMBERS,
    UNREADABLE,
    Undefined,
    no_control,
    no_field,
)
from levelfield.core.wanted import wanted_name
from levelfield.io.toml import read_toml
from levelfield.metrics.sample_metric import SampleValue, in_groups, of_defined
from levelfield.metrics.seq2seq import Seq2SeqMetric
from levelfield.metrics.text import segmenter
from levelfield.models.contracts import EncoderDecoderModel, Gapped, Target

FIELDS = ("text", "prompt", "source", "context", "control.ATTRIBUTE")
"""Of a sample, what a template may name in angle brackets."""

_FIELD = re.compile(r"<([A-Za-z][\w.-]*)>")
_KNOWN = re.compile(r"text|prompt|source|context|control\.[\w-]+")
_BEGINNING = 10_000
"""Characters of a text that tell whether a model has any tokens for it."""


@dataclass(frozen=True)
class YesNoQuestion:
    """A question as a model reads it.

    Attributes:
        template: holds `<text>`, and any other of `FIELDS`.
        yes, no: the words that answer it.
    """

    name: str
    template: str
    yes: str = "Yes"
    no: str = "No"

    @property
    def fields(self) -> frozenset[str]:
        """What the template names."""
        return frozenset(_FIELD.findall(self.template))

    @property
    def digest(self) -> str:
        """Of all that could change an answer."""
        said = (self.template, self.yes, self.no)
        return hashlib.sha256(repr(said).encode()).hexdigest()[:8]

    def ask(self, values: Mapping[str, str]) -> str:
        """The template with the fields filled in."""
        return _FIELD.sub(lambda field: values[field[1]], self.template)


@functools.cache
def shipped() -> Mapping[str, YesNoQuestion]:
    """The questions that come with the package, by name."""
    file = resources.files("levelfield.metrics") / "questions.toml"
    return _parse(file.name, read_toml(file))


def load_question(name: str) -> YesNoQuestion:
    """A shipped question by its name, the only one of a TOML file, or one as `FILE.toml:NAME`.

    Raises:
        UserError: there is none, or the file has no questions; says what was expected.
    """
    file, mark, wanted = name.rpartition(":") if not name.endswith(".toml") else (name, "", "")
    if not file:
        if name in shipped():
            return shipped()[name]
        raise UserError(
            f"there is no question '{name}'; there are {', '.join(shipped())}, or give a TOML file "
            "of your own: question=FILE.toml"
        )
    data = read_toml(Path(file).expanduser(), file, kind="file of questions")
    found = _parse(file, data)
    if not mark and len(found) == 1:
        return next(iter(found.values()))
    if wanted not in found:
        raise UserError(
            f"{file}: which question? name one with question={file}:NAME; there are "
            f"{', '.join(found)}"
        )
    return found[wanted]


def _parse(name: str, data: Mapping[str, Any]) -> dict[str, YesNoQuestion]:
    tables = data.get("questions")
    if not isinstance(tables, dict) or not tables:
        raise UserError(f"{name}: expected at least one table [questions.NAME] with a template")
    return {key: _question(f"{name}: questions.{key}", key, table) for key, table in tables.items()}


def _question(where: str, name: str, table: object) -> YesNoQuestion:
    if not isinstance(table, dict) or not isinstance(table.get("template"), str):
        raise UserError(f'{where}: expected a template, e.g. template = "Is it clear? </s> <text>"')
    if unknown := sorted(set(table) - {"template", "yes", "no"}):
        raise UserError(f"{where}: there is no '{unknown[0]}'; there are template, yes, no")
    words = (table.get("yes", "Yes"), table.get("no", "No"))
    if not all(isinstance(word, str) and word.strip() for word in words) or words[0] == words[1]:
        raise UserError(f'{where}: expected two different words, e.g. yes = "Yes", no = "No"')
    made = YesNoQuestion(name, table["template"], *words)
    if wrong := sorted(field for field in made.fields if not _KNOWN.fullmatch(field)):
        known = " ".join(f"<{field}>" for field in FIELDS)
        raise UserError(f"{where}: there is no field <{wrong[0]}>; there are {known}")
    if "text" not in made.fields:
        raise UserError(f"{where}: expected <text> in the template, where the text goes")
    return made


class QuestionInput(NamedTuple):
    """What is asked about: one part of a sample's text with what else the question names.

    Attributes:
        part: the name under which the answer is reported.
        values: field -> text.
        context: the turns before the part, oldest first.
    """

    part: str
    values: Mapping[str, str]
    context: tuple[str, ...]

    def source(self, question: YesNoQuestion, dropped: int = 0) -> str:
        """The question about it, without the oldest turns of the context."""
        return question.ask({**self.values, "context": "\n".join(self.context[dropped:])})


@dataclass(frozen=True)
class _QuestionMetric(Seq2SeqMetric, abc.ABC):
    """What all questions have in common."""

    model: str = "MingZhong/unieval-dialog"
    over: Literal["text", "sentences", "turns"] = "text"
    language: str = "english"

    requires: ClassVar[frozenset[str]] = frozenset({"text"})

    def __post_init__(self) -> None:
        named = {field.partition(".")[0] for field in self._question.fields}
        if self.over == "turns":
            named.discard("context")  # it is the turns before, in the text itself
        object.__setattr__(self, "requires", frozenset(named))

    @property
    @abc.abstractmethod
    def _question(self) -> YesNoQuestion:
        """What is asked."""

    @functools.cached_property
    def signature(self) -> str:
        """Every choice that could change a value."""
        question = self._question
        segmented = {"segmenter": f"punkt-{self.language}"} if self.over == "sentences" else {}
        choices = {
            "model": self._resolved.label,
            "question": f"{question.name}@{question.digest}",
            "over": self.over,
            **segmented,
            "dtype": self.dtype,
        }
        return signature(self.name, choices)

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        from scipy.special import expit

        question, model = self._question, self._seq2seq()
        whole = _share_a_beginning(question, model)
        answers = [Target(question.yes, end=whole), Target(question.no, end=whole)]
        readable = model.token_ids([sample.text[:_BEGINNING] for sample in samples])
        inputs = [
            self._inputs(sample) if ids or not sample.text.strip() else Undefined(UNREADABLE)
            for sample, ids in zip(samples, readable, strict=True)
        ]

        def answers_of(flat: list[QuestionInput]) -> Iterable[tuple[str, float, bool]]:
            sources, dropped = _fitted(flat, question, model)
            likelihood = model.log_likelihood(
                # a source that is still too long loses its end: the question is kept
                [Gapped("", source, gap=False) for source in sources],
                [answers] * len(sources),
            )
            logits = [[w.sum() if whole else w[0] for w in words] for words in likelihood.log_p]
            with np.errstate(invalid="ignore"):  # both impossible: no number, which has a reason
                z = np.array([yes - no for yes, no in logits], np.float64)
            cut = np.logical_or(dropped, likelihood.source_cut)
            return zip((one.part for one in flat), expit(z), cut, strict=True)

        return of_defined(
            inputs, lambda of_samples: map(_mean_answer, in_groups(of_samples, answers_of))
        )

    def _inputs(self, sample: Sample) -> list[QuestionInput] | Undefined:
        """What is asked about of a sample: at least one part of it."""
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        named = self._question.fields
        values: dict[str, str] = {}
        for field in sorted(named - {"text", "context"}):
            value = _value(sample, field)
            if not value.strip():
                attribute = field.partition(".")[2]
                missing = no_control(attribute) if attribute else no_field(field)
                return Undefined(missing)
            values[field] = value
        if self.over == "turns":
            turns = tuple(line.strip() for line in sample.text.splitlines() if line.strip())
            first = 1 if "context" in named else 0  # nothing was said before the first turn
            if len(turns) <= first:
                return Undefined(ONE_TURN)
            return [
                QuestionInput(f"{n + 1}: {turns[n]}", {**values, "text": turns[n]}, turns[:n])
                for n in range(first, len(turns))
            ]
        context = tuple(turn for turn in sample.context if turn.strip())
        if "context" in named and not context:
            return Undefined(NO_CONTEXT)
        if self.over == "sentences":
            found = segmenter.sentences(sample.text, self.language)
            return [
                QuestionInput(f"{n}: {sentence}", {**values, "text": sentence}, context)
                for n, sentence in enumerate(found, 1)
            ]
        return [QuestionInput("text", {**values, "text": sample.text}, context)]


def _mean_answer(answers: Sequence[tuple[str, float, bool]]) -> SampleValue | Undefined:
    """The mean of P(yes) over the parts of a sample."""
    p = np.array([p_yes for _, p_yes, _ in answers])
    if np.isnan(p).any():
        return Undefined(PROBABILITIES_NOT_NUMBERS)
    values = zip(answers, p.tolist(), strict=True)
    rows = [(part, value, 1 / len(p)) for (part, *_), value in values]
    return SampleValue(float(p.mean()), rows, any(bool(cut) for *_, cut in answers))


def _value(sample: Sample, field: str) -> str:
    name, _, attribute = field.partition(".")
    if name != "control":
        return str(getattr(sample, name))
    return wanted_name(sample.control.get(attribute, ""))


def _share_a_beginning(question: YesNoQuestion, model: EncoderDecoderModel) -> bool:
    """Whether both answers begin with the same token."""
    yes, no = model.token_ids([question.yes, question.no])
    if not yes or not no or yes == no:
        raise ModelError(
            f"question '{question.name}': the model can't tell its answers {question.yes} and "
            f"{question.no} apart; choose other words with yes = and no ="
        )
    return yes[0] == no[0]


def _fitted(
    inputs: Sequence[QuestionInput], question: YesNoQuestion, model: EncoderDecoderModel
) -> tuple[list[str], list[bool]]:
    """The questions about these inputs; of a context that is too long the oldest turns are dropped,
    and all but the last of them at most. And of which inputs some were."""
    sources = [one.source(question) for one in inputs]
    dropped = [0] * len(inputs)
    if "context" in question.fields:
        for i, ids in enumerate(model.token_ids(sources)):
            excess = len(ids) - model.source_limit
            turns = inputs[i].context
            while excess > 0 and dropped[i] < len(turns) - 1:
                oldest = turns[dropped[i] : -1]
                costs = np.cumsum([len(turn) for turn in model.token_ids(oldest)])
                # as many as seem to do, and one after the other where the seams cost a token more
                dropped[i] += min(int(np.searchsorted(costs, excess)) + 1, len(oldest))
                sources[i] = inputs[i].source(question, dropped[i])
                excess = len(model.token_ids([sources[i]])[0]) - model.source_limit
    return sources, [n > 0 for n in dropped]


@dataclass(frozen=True, kw_only=True)
class CustomQuestion(_QuestionMetric):
    """P(yes) to a question of your own about each text.

    P(yes) = p(yes | source) / (p(yes | source) + p(no | source)) at the decoder's first step, the
    source being the question filled in from the sample (Zhong et al. 2022, UniEval, section 3.1).
    In [0, 1], higher is better.

    Undefined: `empty text`; a field that the question names and the sample lacks (`no context`);
    a text without tokens; with over=turns `one turn only` where the question names the context.

    A source longer than the model takes loses the oldest turns of its context, then its end; it
    counts as truncated.

    Options:
        question: a TOML file, `FILE.toml:NAME` where it holds several, or one of those that
            `questions.*` are.
        over: `text`: asked once of the whole text. `sentences`: of each sentence, and averaged.
            `turns`: the text is a dialogue with a turn a line, and each turn is asked about with
            those before it as the context, and averaged; the first only if the question names no
            context.
        language: of the sentence segmenter (Punkt).
        model: an encoder-decoder model that answers such questions. dtype: of the weights.
    """

    question: str

    name: ClassVar[str] = "question"

    @functools.cached_property
    def _question(self) -> YesNoQuestion:
        return load_question(self.question)


@dataclass(frozen=True)
class _ShippedQuestion(_QuestionMetric, abc.ABC):
    """A question that comes with the package."""

    @functools.cached_property
    def _question(self) -> YesNoQuestion:
        return shipped()[self.name.removeprefix("questions.")]


@dataclass(frozen=True)
class QuestionsCoherence(_ShippedQuestion):
    """P(yes) to whether a response follows from the dialogue so far.

    P(yes), and the options: as for `question`. Undefined: as there. The wording is ours,
    in `questions.toml`, not the one that the default model was trained on.
    """

    name: ClassVar[str] = "questions.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "context"})


@dataclass(frozen=True)
class QuestionsEngagingness(_ShippedQuestion):
    """P(yes) to whether a response makes one want to go on talking.

    As `questions.coherence`. Undefined: as for `question`.
    """

    name: ClassVar[str] = "questions.engagingness"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "context"})


@dataclass(frozen=True)
class QuestionsGroundedness(_ShippedQuestion):
    """P(yes) to whether a response rests on given facts, which are the sample's source.

    As `questions.coherence`. Undefined: as for `question`.
    """

    name: ClassVar[str] = "questions.groundedness"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source"})


@dataclass(frozen=True)
class QuestionsNaturalness(_ShippedQuestion):
    """P(yes) to whether a person could have said a response.

    As `questions.coherence`. Undefined: as for `question`.
    """

    name: ClassVar[str] = "questions.naturalness"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})


@dataclass(frozen=True)
class QuestionsUnderstandability(_ShippedQuestion):
    """P(yes) to whether it is clear what a response means in its dialogue.

    As `questions.coherence`. Undefined: as for `question`.
    """

    name: ClassVar[str] = "questions.understandability"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "context"})
