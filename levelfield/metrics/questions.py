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
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import Options, option
from levelfield.core.paths import user_path
from levelfield.core.sample import Sample, wanted_name
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
from levelfield.io.toml import TomlTable, read_toml
from levelfield.metrics.sample_metric import SampleValue, in_groups, map_defined
from levelfield.metrics.scorers import have_tokens
from levelfield.metrics.seq2seq import Seq2SeqMetric
from levelfield.models.contracts import EncoderDecoderModel, Gapped, Target
from levelfield.text import segmenter

FIELDS = ("text", "prompt", "source", "context", "control.ATTRIBUTE")
"""Of a sample, what a template may name in angle brackets."""

_FIELD = re.compile(r"<([A-Za-z][\w.-]*)>")
_KNOWN = re.compile(r"text|prompt|source|context|control\.[\w-]+")


@dataclass(frozen=True)
class YesNoQuestion(Options):
    """A question as a model reads it."""

    name: str = option(help="Name of the question.", positional=True)
    template: str = option(
        help="Text that the model reads, with <text>, and with <prompt>, <source>, <context> or "
        "<control.ATTRIBUTE> where those go.",
        example='"Is it clear? </s> <text>"',
        positional=True,
    )
    yes: str = option("Yes", "Word that answers yes.")
    no: str = option("No", "Word that answers no.")

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the template names."""
        return frozenset(_FIELD.findall(self.template))

    @property
    def digest(self) -> str:
        """The digest of all that could change an answer."""
        choices = (self.template, self.yes, self.no)
        return hashlib.sha256(repr(choices).encode()).hexdigest()[:8]

    def ask(self, values: Mapping[str, str]) -> str:
        """Returns the template with the fields filled in."""
        return _FIELD.sub(lambda field: values[field[1]], self.template)


@functools.cache
def shipped() -> Mapping[str, YesNoQuestion]:
    """Returns the questions that come with the package, by name."""
    file = resources.files("levelfield.metrics") / "questions.toml"
    return _parse(file.name, read_toml(file))


def load_question(name: str) -> YesNoQuestion:
    """Returns a shipped question by name, the only one in a TOML file, or `FILE.toml:NAME`.

    Raises:
        UserError: there is none, or the file has no questions; says what was expected.
    """
    file, mark, chosen = name.rpartition(":") if not name.endswith(".toml") else (name, "", "")
    if not file:
        if name in shipped():
            return shipped()[name]
        raise UserError(
            f"there is no question '{name}'; there are {', '.join(shipped())}, or give a TOML file "
            "of your own: question=FILE.toml"
        )
    questions = _parse(file, read_toml(user_path(file), file, kind="file of questions"))
    if not mark and len(questions) == 1:
        return next(iter(questions.values()))
    if chosen not in questions:
        raise UserError(
            f"{file}: which question? name one with question={file}:NAME; there are "
            f"{', '.join(questions)}"
        )
    return questions[chosen]


def _parse(name: str, data: Mapping[str, Any]) -> dict[str, YesNoQuestion]:
    problems: list[str] = []
    questions: dict[str, YesNoQuestion] = {}
    top = TomlTable(data, name, problems)
    for key, table in top.tables("questions", "[questions.NAME] with a template"):
        values = table.values(YesNoQuestion, without=("name",), complete=True)
        table.finish()
        if values["template"]:
            questions[key] = YesNoQuestion(key, **values)
            _check(table, questions[key])
    if problems:
        raise UserError("\n".join(problems))
    return questions


def _check(table: TomlTable, question: YesNoQuestion) -> None:
    """Notes what a question can't ask."""
    if question.yes == question.no:
        table.wrong('expected two different words, such as yes = "Yes" and no = "No"')
    if wrong := sorted(field for field in question.fields if not _KNOWN.fullmatch(field)):
        names = " ".join(f"<{field}>" for field in FIELDS)
        table.wrong_field("template", f"there is no field <{wrong[0]}>; there are {names}")
    if "text" not in question.fields:
        table.wrong_field("template", "expected <text> in it, where the text goes")


class QuestionInput(NamedTuple):
    """One part of a sample's text, with what else the question about it names.

    Attributes:
        part: the name under which the answer is reported.
        values: field -> text.
        context: the turns before the part, oldest first.
    """

    part: str
    values: Mapping[str, str]
    context: tuple[str, ...]

    def source(self, question: YesNoQuestion, dropped: int = 0) -> str:
        """Returns the question about it, without the oldest turns of the context."""
        return question.ask({**self.values, "context": "\n".join(self.context[dropped:])})


@dataclass(frozen=True)
class QuestionMetric(Seq2SeqMetric, abc.ABC):
    """Base of the questions."""

    model: str = option(
        "MingZhong/unieval-dialog",
        "Encoder-decoder model that answers such questions: a hub name or a folder.",
    )
    over: Literal["text", "sentences", "sum", "turns"] = option(
        "text",
        "Parts that are asked about: the whole text, once; its sentences, averaged; its "
        "sentences, added up (sum), so that the value is in [0, sentences]; or the turns of a "
        "dialogue, one per line, averaged, each with those before it as the context (the first "
        "only if the question names no context).",
    )
    language: str = segmenter.LANGUAGE

    requires: ClassVar[frozenset[str]] = frozenset({"text"})

    def __post_init__(self) -> None:
        super().__post_init__()
        named = {field.partition(".")[0] for field in self._question.fields}
        if self.over == "turns":
            named.discard("context")  # it is the turns before, in the text itself
        object.__setattr__(self, "requires", frozenset(named))

    @property
    @abc.abstractmethod
    def _question(self) -> YesNoQuestion:
        """The question."""

    def _choices(self) -> Mapping[str, object]:
        question = self._question
        segmented = {"segmenter": segmenter.label(self.language)} if self._by_sentence else {}
        return {
            "model": self._resolved.label,
            "question": f"{question.name}@{question.digest}",
            "over": self.over,
            **segmented,
        }

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        from scipy.special import expit

        question, model = self._question, self._seq2seq()
        whole = _share_a_beginning(question, model)
        answers = [Target(question.yes, end=whole), Target(question.no, end=whole)]
        readable = have_tokens((sample.text for sample in samples), model.token_ids)
        inputs = [
            self._inputs(sample) if is_read or not sample.text.strip() else Undefined(UNREADABLE)
            for sample, is_read in zip(samples, readable, strict=True)
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
            return zip((question_input.part for question_input in flat), expit(z), cut, strict=True)

        return map_defined(
            inputs, lambda questions: map(self._sample_value, in_groups(questions, answers_of))
        )

    def _sample_value(self, answers: Sequence[tuple[str, float, bool]]) -> SampleValue | Undefined:
        """Returns the mean of P(yes) over the parts of a sample; with over=sum the sum."""
        p = np.array([p_yes for _, p_yes, _ in answers])
        if np.isnan(p).any():
            return Undefined(PROBABILITIES_NOT_NUMBERS)
        values = zip(answers, p.tolist(), strict=True)
        rows = [(part, value, 1 / len(p)) for (part, *_), value in values]
        value = p.sum() if self.over == "sum" else p.mean()
        return SampleValue(float(value), rows, any(bool(cut) for *_, cut in answers))

    @property
    def _by_sentence(self) -> bool:
        return self.over in ("sentences", "sum")

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """What its segmenter reads, if it reads sentences."""
        return segmenter.languages_read(self.language) if self._by_sentence else {}

    def _inputs(self, sample: Sample) -> list[QuestionInput] | Undefined:
        """Returns the parts of a sample that the question is about, at least one."""
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        named = self._question.fields
        values: dict[str, str] = {}
        for field in sorted(named - {"text", "context"}):
            value = _value(sample, field)
            if not value.strip():
                attribute = field.partition(".")[2]
                return Undefined(no_control(attribute) if attribute else no_field(field))
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
        if self._by_sentence:
            return [
                QuestionInput(f"{n}: {sentence}", {**values, "text": sentence}, context)
                for n, sentence in enumerate(segmenter.sentences(sample.text, self.language), 1)
            ]
        return [QuestionInput("text", {**values, "text": sample.text}, context)]


def _value(sample: Sample, field: str) -> str:
    name, _, attribute = field.partition(".")
    if name != "control":
        return str(getattr(sample, name))
    return wanted_name(sample.control.get(attribute, ""))


def _share_a_beginning(question: YesNoQuestion, model: EncoderDecoderModel) -> bool:
    """Returns whether both answers begin with the same token."""
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
    """Returns the questions about these inputs, and whether turns of the context were dropped.

    Of a context that is too long the oldest turns are dropped, and never the last one.
    """
    sources = [question_input.source(question) for question_input in inputs]
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
class CustomQuestion(QuestionMetric):
    """P(yes) to a question of your own about each text.

    P(yes) = p(yes | source) / (p(yes | source) + p(no | source)) at the decoder's first step, the
    source being the question filled in from the sample (Zhong et al. 2022, UniEval, section 3.1).
    In [0, 1] except with over=sum, higher is better.

    Undefined: `empty text`; a field that the question names and the sample lacks (`no context`);
    a text without tokens; with over=turns `one turn only` where the question names the context.

    A source longer than the model's limit loses the oldest turns of its context, then its end; it
    counts as truncated.
    """

    question: str = option(
        help="Question: a TOML file, FILE.toml:NAME if it holds several, or the name of one "
        "that comes with the package (those of `questions.*`).",
        metavar="FILE",
    )

    name: ClassVar[str] = "question"

    @functools.cached_property
    def _question(self) -> YesNoQuestion:
        return load_question(self.question)


@dataclass(frozen=True)
class _ShippedQuestion(QuestionMetric, abc.ABC):
    """A question that comes with the package."""

    @functools.cached_property
    def _question(self) -> YesNoQuestion:
        return shipped()[self.name.removeprefix("questions.")]


@dataclass(frozen=True)
class QuestionsCoherence(_ShippedQuestion):
    """P(yes) to whether a response follows from the dialogue so far.

    P(yes): as for `question`. Undefined: as there. The wording is ours,
    in `questions.toml`, not the one that the default model was trained on.
    """

    name: ClassVar[str] = "questions.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "context"})


@dataclass(frozen=True)
class QuestionsEngagingness(_ShippedQuestion):
    """P(yes) to whether a response makes one want to go on talking.

    As `questions.coherence`. UniEval's authors ask this of each sentence and add up the answers, so
    that a long response can be above 1 (their published code; their other dimensions of dialogue
    are asked once): that is over=sum. The default asks once, and stays in [0, 1] whatever the
    length.

    Undefined: as for `question`.
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


@dataclass(frozen=True)
class QuestionsUnderstandability(_ShippedQuestion):
    """P(yes) to whether it is clear what a response means in its dialogue.

    As `questions.coherence`. Undefined: as for `question`.
    """

    name: ClassVar[str] = "questions.understandability"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "context"})
