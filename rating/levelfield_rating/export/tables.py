"""Rows of the tables of an export."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from levelfield.core.strings import natural
from levelfield_rating.model import Frozen
from levelfield_rating.results.negatives import verdict
from levelfield_rating.results.raters import progress, spreads
from levelfield_rating.results.ratings import records, sample_ratings, surveys_of
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import RaterState


def survey_of(frozen: Frozen, state: RaterState) -> int | None:
    """Returns the survey of a rater; None if the study has fewer slots now."""
    return frozen.slots[state.slot].survey if state.slot < len(frozen.slots) else None


def rater_rows(store: RatingStore) -> Iterator[Sequence[object]]:
    """Yields a row a rater, for spreadsheets: how far they are, how they used each scale."""
    frozen, left_out = store.frozen, store.excluded()
    names = [c.id for c in frozen.criteria]
    yield (
        *("rater", "survey", "slot", "state", "done", "items", "failed", "excluded", "code"),
        *(f"{name} {statistic}" for name in names for statistic in ("n", "mean", "sd", "same")),
    )
    for state in sorted(store.raters(), key=lambda s: natural(s.rater)):
        far, used = progress(frozen, state), spreads(frozen, state)
        judged = verdict(frozen, state)
        yield (
            state.rater,
            survey_of(frozen, state),
            state.slot + 1,
            state.phase,
            far.done,
            far.items,
            "" if judged.failed is None else judged.failed,
            left_out.get(state.rater, ""),
            state.completion_code,
            *(
                "" if isinstance(value, float) and math.isnan(value) else value
                for name in names
                for value in (used[name].n, used[name].mean, used[name].sd, used[name].same)
            ),
        )


def rating_rows(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[Sequence[object]]:
    of_sample = {record["id"]: record for record in records(frozen, ())}
    survey = surveys_of(frozen)
    yield ["id", "aspect", "rater", "value", "survey", "system", "source", "text", "study_digest"]
    for id, aspect, rater, value in sample_ratings(frozen, states):
        record = of_sample[id]
        yield (
            id,
            aspect,
            rater,
            int(value) if value == int(value) else value,
            survey[id],
            record.get("system", ""),
            record.get("source", ""),
            record["text"],
            frozen.digest,
        )
