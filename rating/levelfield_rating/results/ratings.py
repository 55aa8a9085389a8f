"""Answers as ratings of samples."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from levelfield.core.sample import Sample
from levelfield.core.strings import natural
from levelfield.io import Rating, load_samples
from levelfield.io.fields import FIELDS
from levelfield_rating.answers import NEITHER, Answer, scale_ends
from levelfield_rating.model import Candidate, Frozen, Item, RatingCriterion
from levelfield_rating.store.records import RaterState


def scores(criterion: RatingCriterion, answer: Answer, candidates: int) -> tuple[float, ...]:
    """Returns a number for each candidate, larger is better.

    For sliders and Likert scales it is the answer; for pairs and rankings the share of the other
    candidates that rank below it, a tie counting one half. In a pair that is 1, 0.5 or 0.
    """
    if isinstance(answer, tuple):
        return tuple(
            sum(
                (mine < other) + 0.5 * (mine == other)
                for n, other in enumerate(answer)
                if n != place
            )
            / (candidates - 1)
            for place, mine in enumerate(answer)
        )
    if criterion.scale == "pairwise":
        if answer == NEITHER:
            return (0.5,) * candidates
        return tuple(float(n == answer) for n in range(candidates))
    return (float(answer),)


def score_ends(criterion: RatingCriterion) -> tuple[float, float]:
    """Returns the least and the greatest number that `scores` gives."""
    return (0.0, 1.0) if criterion.scale in ("pairwise", "ranking") else scale_ends(criterion)


def sample_ratings(frozen: Frozen, states: Iterable[RaterState]) -> list[Rating]:
    """Returns the ratings of every sample: those of its text, which several may share.

    In pairs a sample has the mean over the pairs that a rater saw it in. Negative samples, and
    real texts beside them, are left out.
    """
    values: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for state in states:
        for item, criterion, answer in answers_of(frozen, state):
            numbers = scores(criterion, answer, len(item.candidates))
            for candidate, value in zip(item.candidates, numbers, strict=True):
                for sample in candidate.samples:
                    values[sample, criterion.id, state.rater].append(value)
    order = {id: n for n, id in enumerate(sample_ids(frozen))}
    criteria = {criterion.id: n for n, criterion in enumerate(frozen.criteria)}
    ordered = sorted(values, key=lambda k: (order[k[0]], criteria[k[1]], natural(k[2])))
    return [Rating(*key, statistics.fmean(values[key])) for key in ordered]


def answers_of(
    frozen: Frozen, state: RaterState, *, controls: bool = False
) -> Iterator[tuple[Item, RatingCriterion, Answer]]:
    """Yields what a rater answered about real items, in the order of their slot.

    Args:
        controls: the answers about negative samples instead.
    """
    for place in frozen.placed(state.slot):
        if bool(frozen.items[place.item].control) != controls:
            continue
        answers = state.answers.get(place.item, {})
        for criterion in frozen.criteria:
            if criterion.id in answers:
                yield frozen.items[place.item], criterion, answers[criterion.id]


def sample_ids(frozen: Frozen) -> list[str]:
    """Returns every sample that is rated, in the order of the samples' files."""
    there = dict.fromkeys(id for id, _, _ in _rated(frozen))
    ordered = [id for id in frozen.samples if id in there]
    return ordered + [id for id in there if id not in frozen.samples]


def _rated(frozen: Frozen) -> Iterator[tuple[str, Item, Candidate]]:
    """Yields every sample that is rated, the item that shows it, and the text it stands for."""
    for item in frozen.items.values():
        if not item.control:
            for candidate in item.candidates:
                for id in candidate.samples:
                    yield id, item, candidate


def records(frozen: Frozen, ratings: Iterable[Rating]) -> list[dict[str, Any]]:
    """Returns the samples as they were given, with these ratings; earlier ones are left out.

    `survey` and `study_digest` are ours; what a sample has under these names, or in a field of its
    own that is named like one of `Sample`'s, is kept as `survey_of_sample`.
    """
    rated: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for id, criterion, rater, value in ratings:
        rated[id].setdefault(criterion, {})[rater] = plain_number(value)
    texts = {id: candidate.part.text for id, _, candidate in _rated(frozen)}
    surveys = {id: item.survey for id, item, _ in _rated(frozen)}
    records_of = []
    for id in sample_ids(frozen):
        record = {"id": id, **frozen.samples.get(id, {"text": texts[id]})}
        record.pop("ratings", None)
        facts = {"survey": surveys[id], "study_digest": frozen.digest}
        extra = {
            f"{name}_of_sample" if name in facts or name in FIELDS else name: value
            for name, value in record.pop("extra", {}).items()
        }
        records_of.append({**extra, **record, **facts, "ratings": rated.get(id, {})})
    return records_of


def plain_number(value: float) -> float:
    """Returns the number without a fraction that is 0."""
    return int(value) if value == int(value) else value


def samples(frozen: Frozen) -> dict[str, Sample]:
    """Returns the samples by id, as `ratings.jsonl` has them, ratings left out."""
    plain = records(frozen, ())
    return {sample.id: sample for sample in load_samples(plain)} if plain else {}
