"""Items as a rater sees them: opaque ids, texts in the order of the slot, nothing else.

Everything that a page or the API says about an item goes through here, so that what is not a field
of `Shown` can't leak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levelfield_rating.answers import Answer, shown_answer, standard_ranks
from levelfield_rating.model import Frozen, Placed, RatingCriterion, TextPart
from levelfield_rating.store.records import RaterState


@dataclass(frozen=True)
class Shown:
    """An item on a page.

    Attributes:
        id: opaque.
        number: its place in the slot, from 1.
        texts: to judge, as ordered for this rater.
        answers: criterion -> answer, in terms of the order shown.
    """

    id: str
    number: int
    task: str
    given: tuple[TextPart, ...]
    texts: tuple[TextPart, ...]
    answers: Mapping[str, Answer]
    comment: str
    problem: bool

    def open(self, criteria: Sequence[RatingCriterion]) -> list[RatingCriterion]:
        """Returns the criteria that have no answer."""
        return [c for c in criteria if c.id not in self.answers]


def shown_items(study: Frozen, state: RaterState) -> list[Shown]:
    """Returns all items of a rater with what they have answered so far."""
    return [
        _shown(study, state, placed, number)
        for number, placed in enumerate(study.placed(state.slot), start=1)
    ]


def _shown(study: Frozen, state: RaterState, placed: Placed, number: int) -> Shown:
    item = study.items[placed.item]
    answers = state.answers.get(placed.item, {})
    return Shown(
        id=placed.opaque,
        number=number,
        task=item.task,
        given=item.given,
        texts=tuple(item.candidates[position].part for position in placed.order),
        answers={
            c.id: shown_answer(c, placed.order, answers[c.id])
            for c in study.criteria
            if c.id in answers
        },
        comment=state.comments.get(placed.item, ""),
        problem=placed.item in state.problems,
    )


def part_document(part: TextPart) -> dict[str, str]:
    """Returns a part for the script of a page."""
    return {"name": part.name, "text": part.text, "lang": part.language, "dir": part.direction}


def item_document(item: Shown) -> dict[str, Any]:
    """Returns an item for the script of a page."""
    return {
        "id": item.id,
        "task": item.task,
        "given": [part_document(part) for part in item.given],
        "texts": [part_document(part) for part in item.texts],
    }


def answer_document(item: Shown) -> dict[str, Any]:
    """Returns what is answered so far, for the script of a page."""
    return {
        "answers": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in item.answers.items()
        },
        "comment": item.comment,
        "problem": item.problem,
    }


SLIDER_STEPS = tuple(1 + 11 * step for step in range(10))
"""Values of the buttons that replace a slider: evenly spaced and symmetric, 1 to 100."""


def step_of(value: int) -> int:
    """Returns the button that is nearest to a slider's value."""
    return round((value - SLIDER_STEPS[0]) / 11)


def form_answer(
    criterion: RatingCriterion, fields: Mapping[str, str], texts: int, now: Answer | None = None
) -> Answer | None:
    """Returns what the fields of a plain form say about a criterion; None for nothing.

    The button of the slider's value `now` changes nothing. An incomplete ranking counts as nothing;
    equal places are ties.

    Raises:
        ValueError: it is not a number, or there is no such button.
    """
    if criterion.scale == "ranking":
        places = [fields.get(f"c.{criterion.id}.{k}", "") for k in range(texts)]
        return standard_ranks([int(place) for place in places]) if all(places) else None
    if button_answer := fields.get(f"c.{criterion.id}", ""):
        return int(button_answer)
    button = fields.get(f"s.{criterion.id}", "") if criterion.scale == "slider" else ""
    if not button:
        return None
    if button not in {str(step) for step in range(len(SLIDER_STEPS))}:
        raise ValueError(button)
    if isinstance(now, int) and step_of(now) == int(button):
        return now
    return SLIDER_STEPS[int(button)]
