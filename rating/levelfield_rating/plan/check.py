"""Checks of a study before anybody sees it: mistakes, oddities, and how much there is to rate."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from levelfield.core.documents import Document
from levelfield.core.sample import Sample
from levelfield.io.problems import listed, shown
from levelfield.text.mojibake import is_mojibake
from levelfield.text.words import words
from levelfield_rating.model import RatingCriterion
from levelfield_rating.plan.file import StudyFile
from levelfield_rating.plan.freezing import Draft, draft_study
from levelfield_rating.units import BalancedItem, Show, is_language, normal, systems_of

WORDS_A_MINUTE = 200
"""That a rater reads; slower than for pleasure."""

SECONDS_AN_ANSWER = 5
"""For one criterion of one item, after reading."""

LONG_TEXT = 500
"""Words of a text from which on it is called long."""

LONG_SITTING = 60
"""Minutes from which on a survey is called long."""

_MOST_NAMED = 3


@dataclass(frozen=True)
class SurveyCount(Document):
    """What every rater of a survey sees.

    Attributes:
        items: negative samples included.
        controls: negative samples.
        directions: direction -> items, negative samples included.
        words: to read.
        minutes: a rough guess: reading at 200 words a minute, 5 seconds an answer.
    """

    items: int
    controls: int
    directions: Mapping[str, int]
    words: int
    minutes: float

    _entries = "items controls directions words minutes=_minutes"

    @property
    def _minutes(self) -> float:
        return round(self.minutes, 1)


@dataclass(frozen=True)
class StudyCheck(Document):
    """What a study consists of, and what is wrong with it.

    Attributes:
        problems: what stops the study; empty if it can be served.
        warnings: what deserves a look.
        samples: in the files.
        units: sources, prompts or contexts with something to judge.
        texts: distinct ones, each counted once a unit.
        merged: samples that are shown by the equal text of another sample.
        systems: system -> samples.
        directions: direction -> units.
        raters: of each survey.
        surveys: what the raters of each see; empty if there are problems.
    """

    title: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    samples: int = 0
    units: int = 0
    texts: int = 0
    merged: int = 0
    systems: Mapping[str, int] = field(default_factory=dict)
    directions: Mapping[str, int] = field(default_factory=dict)
    raters: int = 0
    surveys: tuple[SurveyCount, ...] = ()

    _entries = (
        "ok title problems warnings samples units texts merged systems directions raters surveys"
    )

    @property
    def ok(self) -> bool:
        """Whether the study can be served."""
        return not self.problems


def check_study(path: str | os.PathLike[str]) -> StudyCheck:
    """Reads a study file and its samples, and says what there is and what is wrong.

    Raises:
        UserError: there is no such file, or it is not TOML.

    >>> check_study("STUDY.toml").ok  # doctest: +SKIP
    True
    """
    draft = draft_study(path)
    units = [*draft.units, *draft.bare]
    texts = sum(len(unit.outputs) for unit in units)
    return StudyCheck(
        title=draft.study.title,
        problems=draft.problems,
        warnings=tuple(_warnings(draft)),
        samples=len(draft.samples),
        units=len(draft.units),
        texts=texts,
        merged=len(draft.samples) - texts,
        systems=Counter(sample.system for sample in draft.samples),
        directions=Counter(unit.direction for unit in draft.units),
        raters=draft.study.design.raters,
        surveys=tuple(_count(questions, draft.study) for questions in draft.surveys),
    )


def _count(questions: Sequence[BalancedItem], study: StudyFile) -> SurveyCount:
    items = [question.item for question in questions]
    read = sum(
        len(words(part.text))
        for item in items
        for part in (*item.given, *(candidate.part for candidate in item.candidates))
    )
    answers = len(items) * len(study.criteria)
    return SurveyCount(
        items=len(items),
        controls=sum(bool(item.control) for item in items),
        directions=Counter(item.direction for item in items),
        words=read,
        minutes=read / WORDS_A_MINUTE + answers * SECONDS_AN_ANSWER / 60,
    )


def _warnings(draft: Draft) -> Iterator[str]:
    study = draft.study
    yield from _file_warnings(study)
    if draft.samples:
        yield from _sample_warnings(draft)
        yield from _text_warnings(draft.samples, study.show)
    for number, questions in enumerate(draft.surveys, 1):
        minutes = _count(questions, study).minutes
        if minutes > LONG_SITTING:
            yield (
                f"survey {number} takes a rater about {minutes:.0f} minutes; with more surveys "
                "each is shorter"
            )
        real = {normal(c.part.text) for q in questions for c in q.item.candidates if c.samples}
        again = [
            q.item.key
            for q in questions
            if q.item.control and normal(q.item.candidates[-1].part.text) in real
        ]
        if again:
            yield (
                f"survey {number}: the text of {len(again)} of its negative samples also appears "
                "elsewhere in it, since there is no other survey to take one from"
            )


def _file_warnings(study: StudyFile) -> Iterator[str]:
    if study.design.raters == 1:
        yield "one rater per survey: agreement can't be measured; set raters = 2 or more"
    for criterion in study.criteria:
        if _unlabelled(criterion):
            yield f"criterion {shown(criterion.id)} doesn't say what its ends mean: low, high"
    if not study.words.consent:
        yield "no consent: raters agree to nothing; state what is kept and why in [words]"
    if not study.words.instructions:
        yield "no instructions: raters see the criteria only; write some in [words]"
    if not study.contact:
        yield "no contact: raters can't ask anybody"
    directions = [direction for direction in study.tasks if direction]
    shown_ones = {example.direction for example in study.examples}
    if not study.examples:
        yield "no worked examples: raters begin without having seen one; write [[examples]]"
    elif lacking := [direction for direction in directions if direction not in shown_ones]:
        yield f"no worked example for {listed(lacking)}"
    if study.completion.url and "{code}" not in study.completion.url:
        yield "completion: url has no {code}, so the page that it leads to doesn't receive the code"
    default = Show()
    if not study.language.lower().startswith("en"):
        names = {
            name: getattr(study.show, name)
            for name in ("source", "prompt", "text")
            if name == "text" or name in study.show.fields
        }
        english = [word for name, word in names.items() if word == getattr(default, name)]
        if english:
            yield f"raters read {study.language}, but {listed(english)} above texts; set [names]"


def _unlabelled(criterion: RatingCriterion) -> bool:
    labelled = bool(criterion.low and criterion.high) or bool(criterion.labels)
    return criterion.scale in ("slider", "likert") and not labelled


def _sample_warnings(draft: Draft) -> Iterator[str]:
    study = draft.study
    if draft.bare:
        names = _some([unit.outputs[0].samples[0] for unit in draft.bare])
        yield (
            f"no two texts to compare for {_many(len(draft.bare), 'source, prompt or context')}, "
            f"which are left out: those of {names}"
        )
    units = [*draft.units, *draft.bare]
    directions = {unit.direction for unit in units}
    if unused := [d for d in study.tasks if d and d not in directions]:
        yield f"tasks: no sample wants {listed(unused)}"
    for name in study.show.fields:
        if lacking := [s.id for s in draft.samples if not getattr(s, name)]:
            yield f"show: {_some(lacking)} without {name}"
    have = Counter(
        system
        for unit in units
        for system in systems_of(column for output in unit.outputs for column in output.columns)
    )
    for system, n in have.items():
        if n < len(units) and len(have) > 1:
            yield (
                f"system {shown(system)} has a text for {n} of {len(units)} sources, prompts or "
                "contexts"
            )
    # within a unit all texts differ
    times = Counter(normal(output.part.text) for unit in units for output in unit.outputs)
    if repeated := [text for text, n in times.items() if text and n > 1]:
        yield (
            "the same text appears under several sources, prompts or contexts, and is judged once "
            f"under each: {listed(repeated, 3)}"
        )
    if odd := [s.id for s in draft.samples if not is_language(s.extra.get("language", "en"))]:
        yield f"language is not a tag such as en in {_some(odd)}; {study.language} is used"


_ODD: Mapping[str, Callable[[str], object]] = {
    "control characters": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search,
    "characters that turn the direction of writing": re.compile(
        "[\u202a-\u202e\u2066-\u2069]"
    ).search,
    "U+FFFD, which stands for what could not be decoded": re.compile("\ufffd").search,
    "invisible characters": re.compile("[\u00ad\u200b\u2060\ufeff]").search,
    "UTF-8 read as another encoding (such as Ã©)": is_mojibake,
    "what looks like markup, which raters see as plain text": re.compile(
        r"</?[A-Za-z][^<>]{0,200}>|&(?:[a-z]{2,8}|#\d{1,6});"
    ).search,
}
"""Oddities of texts that nobody meant -> what finds one."""


def _text_warnings(samples: Sequence[Sample], show: Show) -> Iterator[str]:
    if empty := [sample.id for sample in samples if not normal(sample.text)]:
        yield f"the text is empty in {_some(empty)}; raters see that there is none"
    if long := [sample.id for sample in samples if len(words(sample.text)) > LONG_TEXT]:
        yield f"the text has more than {LONG_TEXT} words in {_some(long)}"
    for oddity, finds in _ODD.items():
        ids = [s.id for s in samples if any(finds(text) for text in _seen(s, show))]
        if ids:
            yield f"{oddity} in {_some(ids)}"


def _seen(sample: Sample, show: Show) -> Iterator[str]:
    """Yields what raters see of a sample."""
    yield sample.text
    if "source" in show.fields:
        yield sample.source
    if "prompt" in show.fields:
        yield sample.prompt
    if "context" in show.fields:
        yield from sample.context


_PLURALS = {"source, prompt or context": "sources, prompts or contexts"}


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun if n == 1 else _PLURALS.get(noun, noun + 's')}"


def _some(ids: Sequence[str]) -> str:
    names = ", ".join(shown(id, 30) for id in ids[:_MOST_NAMED])
    return f"{_many(len(ids), 'sample')} ({names}{', …' * (len(ids) > _MOST_NAMED)})"
