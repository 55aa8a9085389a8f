"""The metric of each shipped question, and that of a question of your own."""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.metrics.questions.asking import QuestionMetric
from levelfield.metrics.questions.question import YesNoQuestion, load_question, shipped


@dataclass(frozen=True, kw_only=True)
class CustomQuestion(QuestionMetric):
    """P(yes) to a question of your own about each text.

    P(yes) = p(yes | source) / (p(yes | source) + p(no | source)) at the decoder's first step, the
    source being the question filled in from the sample (Zhong et al. 2022, UniEval, section 3.1).
    In [0, 1] except with over=sum, higher is better.

    Undefined: `empty text`; a field that the question names and the sample lacks (`no context`);
    a text without tokens; with over=turns `one turn only` where the question names the context.

    A source longer than the model takes loses the oldest turns of its context, then its end; it
    counts as truncated.
    """

    question: str = option(
        help="Question: a TOML file, FILE.toml:NAME where it holds several, or the name of one "
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
    requires: ClassVar[frozenset[str]] = frozenset({"text"})


@dataclass(frozen=True)
class QuestionsUnderstandability(_ShippedQuestion):
    """P(yes) to whether it is clear what a response means in its dialogue.

    As `questions.coherence`. Undefined: as for `question`.
    """

    name: ClassVar[str] = "questions.understandability"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "context"})
