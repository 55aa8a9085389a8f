"""The released judgements of formality transfer as a study of ours."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from levelfield.core.sample import Sample
from levelfield.datasets.loading import load
from levelfield.io import Rated, as_record
from levelfield_rating.model import (
    Candidate,
    Frozen,
    Item,
    Placed,
    RatingCriterion,
    Slot,
    TextPart,
)
from levelfield_rating.store.records import RaterState
from levelfield_reproductions.published_tables import read_paper
from levelfield_reproductions.recipes.thesis import SURVEYS, SYSTEMS

CRITERIA = ("content", "style", "fluency")


def judged() -> list[Sample]:
    return load("formality-judgements", part="ratings", here=True)


def study_of(judged: list[Sample]) -> Frozen:
    """Returns four surveys of two experts.

    Every output is an item of its own, since two equal ones have different ratings.
    """
    surveys = sorted({s.extra["survey"] for s in judged})
    items = {
        s.id: Item(
            key=s.id,
            survey=1 + surveys.index(s.extra["survey"]),
            given=(TextPart("Original", s.source),),
            candidates=(Candidate(TextPart("Transformed", s.text), (s.id,)),),
            direction=str(s.control["formality"]),
        )
        for s in judged
    }
    slots = [
        Slot(
            f"survey {name}, rater {rater}",
            n,
            tuple(Placed(i.key, f"{rater}-{i.key}") for i in items.values() if i.survey == n),
        )
        for n, name in enumerate(surveys, 1)
        for rater in (1, 2)
    ]
    return Frozen(
        id="formality",
        version=1,
        title="Formality",
        language="en",
        design="direct",
        criteria=tuple(RatingCriterion(c, c.title(), c, "slider", "no", "yes") for c in CRITERIA),
        items=items,
        slots=tuple(slots),
        samples={s.id: as_record(s) for s in judged},
        fail_rule="none",
    )


def exact_states(frozen: Frozen, judged: list[Sample]) -> list[RaterState]:
    """Returns the experts with answers to a tenth, which our slider does not have."""
    ratings = {s.id: s.ratings for s in judged}
    states = []
    for n, slot in enumerate(frozen.slots):
        rater = slot.name[-1]
        answers = {p.item: {c: ratings[p.item][c][rater] for c in CRITERIA} for p in slot.items}
        states.append(
            RaterState(n, f"r{n + 1}", "done", "1", answers, {}, frozenset(), {}, 1, None, None,
                       "", False)  # type: ignore[arg-type]
        )  # fmt: skip
    return states


def published(number: str) -> dict[tuple[str, str], float]:
    """Returns a table of the thesis, systems by their names in the files."""
    table = next(t for t in read_paper("thesis").tables if t.number == number)
    return {(SYSTEMS.get(n.row, n.row), n.column): float(n.printed) for n in table.numbers}


def survey_names(judged: list[Sample]) -> dict[str, str]:
    """Returns our number of a survey -> the thesis's name for it."""
    files = sorted({s.extra["survey"] for s in judged})
    return {str(1 + files.index(survey_files)): name for name, survey_files in SURVEYS.items()}


def pooled_pearson(rated: Rated) -> dict[str, float]:
    """Returns survey -> Pearson's r of its experts over all criteria in one column, as Table 10."""
    columns: defaultdict[str, defaultdict[str, dict[tuple[str, str], float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for r in rated.ratings:
        columns[str(rated.samples[r.id].extra["survey"])][r.rater][r.id, r.aspect] = r.value
    pooled = {}
    for survey, raters in columns.items():
        first, second = raters.values()
        x, y = zip(*((first[item], second[item]) for item in first), strict=True)
        pooled[survey] = float(np.corrcoef(x, y)[0, 1])
    return pooled
