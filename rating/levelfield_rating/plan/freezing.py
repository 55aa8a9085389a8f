"""A study of the rating app, frozen: a study file and its samples as raters get them.

What a study file may say is documented in `docs/rating-study-file.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Sample
from levelfield.io import as_record, open_samples
from levelfield.io.guesses import map_words_in_toml
from levelfield.io.problems import Wrong, printable, shown
from levelfield.io.toml import suggestion
from levelfield_rating.allocate import deal, slots_of, with_survey
from levelfield_rating.model import Frozen
from levelfield_rating.negatives import Lacking, negatives_of
from levelfield_rating.plan.file import StudyFile, read_study
from levelfield_rating.plan.questions import blanks_of
from levelfield_rating.units import BalancedItem, Unit, questions_of, units_of, wanted

MOST_CANDIDATES = 12
"""Most texts in a ranking; people can't put more in order."""

_MOST_NAMED = 3


@dataclass(frozen=True)
class Draft:
    """A study before it is frozen.

    Attributes:
        study: what the file says, as far as it can be read.
        samples: all of them.
        units: those with something to judge.
        surveys: the items of each; without surveys if there are problems.
        bare: units that have nothing to compare, and are left out.
        problems: what stops the study, one line each.
    """

    study: StudyFile
    samples: tuple[Sample, ...] = ()
    units: tuple[Unit, ...] = ()
    surveys: tuple[tuple[BalancedItem, ...], ...] = ()
    bare: tuple[Unit, ...] = ()
    problems: tuple[str, ...] = field(default=())


def freeze(path: str | os.PathLike[str], *, earlier: Frozen | None = None) -> Frozen:
    """Returns the study of a file, with its samples, as it is rated.

    Args:
        earlier: what was frozen before. It is given back as it is if the study file, its samples
            and its words are still the same, so that the ids that raters' pages use stay.

    Raises:
        InputError: with everything that is wrong, one line each.

    >>> freeze("STUDY.toml").digest  # doctest: +SKIP
    """
    if earlier is not None and earlier.source_digest:
        study_file, problems = read_study(path)
        if not problems and source_digest(study_file) == earlier.source_digest:
            return earlier
    draft = draft_study(path)
    if draft.problems:
        raise InputError(draft.problems)
    study = draft.study
    slots = slots_of(draft.surveys, study.design.kind, study.design.raters, study.design.seed)
    return Frozen(
        id=study.id,
        version=study.version,
        title=study.title,
        language=study.language,
        design=study.design.kind,
        criteria=study.criteria,
        items={question.item.key: question.item for s in draft.surveys for question in s},
        slots=tuple(slots),
        words=study.words,
        consent_version=study.consent_version,
        contact=study.contact,
        duration=study.duration,
        examples=study.examples,
        practice=study.practice,
        fail_rule=study.controls.fail_rule,
        completion=study.completion.code,
        completion_url=study.completion.url,
        seed=study.design.seed,
        source_digest=source_digest(study),
        samples=_records(draft),
    )


def _records(draft: Draft) -> dict[str, Any]:
    """Returns the records of the samples that are rated, as JSON gives them back."""
    rated = {
        id
        for questions in draft.surveys
        for question in questions
        for candidate in question.item.candidates
        for id in candidate.samples
    }
    records = {s.id: as_record(s) for s in draft.samples if s.id in rated}
    plain: dict[str, Any] = json.loads(json.dumps(records))
    return plain


def source_digest(study: StudyFile) -> str:
    """Returns the sha256 of the study file and of all files that it names."""
    whole = hashlib.sha256()
    for file in (study.file, *study.samples, *study.texts):
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def draft_study(path: str | os.PathLike[str]) -> Draft:
    """Returns the study with its items, and everything that is wrong with it.

    Raises:
        UserError: there is no such file, or it is not TOML.
    """
    name = printable(os.fspath(path))
    study, problems = read_study(path)
    found_wrong = list(problems)
    samples = _samples(study, found_wrong) if study.samples else []
    tasks = _tasks_of(study, samples, found_wrong)
    units = units_of(samples, study.show, attribute=study.attribute, tasks=tasks)
    design, controls = study.design, study.controls
    questions = {
        unit.key: questions_of(unit, design.kind, pairs_with=design.system) for unit in units
    }
    full = [unit for unit in units if questions[unit.key]]
    bare = [unit for unit in units if not questions[unit.key]]
    _check_units(study, samples, full, found_wrong)
    surveys: list[tuple[BalancedItem, ...]] = []
    if not found_wrong:
        for number, survey_units in enumerate(deal(full, design.surveys, design.seed), 1):
            survey_questions = [q for unit in survey_units for q in questions[unit.key]]
            for negative in negatives_of(
                number,
                survey_units,
                units,
                design.kind,
                controls.negative,
                controls.kind,
                design.seed,
                Counter(question.item.direction for question in survey_questions),
            ):
                if isinstance(negative, Lacking):
                    found_wrong.append(f"controls: survey {negative.survey}: {negative.reason}")
                else:
                    survey_questions.append(negative)
            if controls.negative and len(survey_questions) < controls.negative + 2:
                found_wrong.append(
                    f"controls: survey {number} has too few items to place a negative sample "
                    "neither first nor last; use fewer surveys or controls"
                )
            surveys.append(tuple(with_survey(question, number) for question in survey_questions))
    lines = tuple(dict.fromkeys(f"{name}: {problem}" for problem in found_wrong))
    kept = () if lines else tuple(surveys)
    return Draft(study, tuple(samples), tuple(full), kept, tuple(bare), lines)


def _samples(study: StudyFile, problems: list[str]) -> list[Sample]:
    try:
        source = open_samples(study.samples, mapping=study.mapping, ids=study.ids)
        source.check()
        return list(source)
    except InputError as error:
        lines = str(error).split("\n")
        problems += [
            f"samples: {map_words_in_toml(line.replace(_CLI_IDS, _OUR_IDS))}" for line in lines
        ]
    except UserError as error:
        problems.append(f"samples: {error}")
    return []


_CLI_IDS, _OUR_IDS = "with --ids file", 'with ids = "file"'


def _tasks_of(study: StudyFile, samples: Sequence[Sample], problems: list[str]) -> dict[str, str]:
    """Returns the task of every sample in words, by id."""
    tasks = {}
    lacking: dict[str, list[str]] = {}
    unfilled: dict[str, list[str]] = {}
    without: list[str] = []
    for sample in samples:
        direction = wanted(sample, study.attribute) if study.attribute else ""
        if study.attribute and not direction:
            without.append(sample.id)
            continue
        template = study.tasks.get("", study.tasks.get(direction, ""))
        if not template and study.attribute and study.tasks:
            lacking.setdefault(direction, []).append(sample.id)
            continue
        try:
            blanks = blanks_of(template)
        except Wrong:
            continue  # reported where the tasks are read
        for name in blanks:
            if not wanted(sample, name):
                unfilled.setdefault(name, []).append(sample.id)
        tasks[sample.id] = template.format_map({name: wanted(sample, name) for name in blanks})
    if without:
        problems.append(
            f"direction: the control of {_some(without)} has no {shown(study.attribute)}"
        )
    for direction, ids in lacking.items():
        hint = suggestion(direction, study.tasks)
        problems.append(
            f"tasks: there is none for {shown(direction)}, wanted by {_some(ids)}; {hint}"
        )
    for name, ids in unfilled.items():
        where = "tasks" if "" not in study.tasks else "task"
        problems.append(f"{where}: the control of {_some(ids)} has no {shown(name)} to fill in")
    return tasks


def _some(ids: Sequence[str]) -> str:
    """Returns the names of the first samples, and the number of the others."""
    names = ", ".join(shown(id, 30) for id in ids[:_MOST_NAMED])
    more = f" and {len(ids) - _MOST_NAMED:,} more" if len(ids) > _MOST_NAMED else ""
    return f"sample {names}" if len(ids) == 1 else f"samples {names}{more}"


def _check_units(
    study: StudyFile,
    samples: Sequence[Sample],
    units: Sequence[Unit],
    problems: list[str],
) -> None:
    """Notes what makes the samples unfit for the study."""
    design = study.design
    if design.system and samples:
        systems = {sample.system for sample in samples if sample.system}
        if design.system not in systems:
            hint = suggestion(design.system, systems)
            problems.append(f"design: pairs: no sample is from {shown(design.system)}; {hint}")
            return
    if samples and not problems and not units:
        lacking = "two texts to compare" if design.kind != "direct" else "a text"
        problems.append(
            f"design: no source, prompt or context has {lacking} from different systems; "
            'with kind = "direct" texts are judged one by one'
        )
    elif units and len(units) < design.surveys:
        problems.append(
            f"design: surveys: {design.surveys} surveys, but only {len(units)} different sources, "
            "prompts or contexts to split among them; use fewer surveys"
        )
    if design.kind == "ranking":
        long = [unit for unit in units if len(unit.outputs) > MOST_CANDIDATES]
        if long:
            most = max(len(unit.outputs) for unit in long)
            problems.append(
                f"design: a ranking of {most} texts; more than {MOST_CANDIDATES} can't be put in "
                "order; compare pairs instead"
            )
