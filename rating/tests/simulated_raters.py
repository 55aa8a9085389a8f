"""Raters who answer by a rule, through the store, as pages would have them do."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from levelfield_rating.answers import Answer
from levelfield_rating.model import (
    Candidate,
    Frozen,
    Item,
    Placed,
    RatingCriterion,
    Slot,
    TextPart,
)
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import Event

Rule = Callable[[Item, RatingCriterion], Answer | None]
"""What a rater answers; None for not at all."""


def direct_study(
    systems: dict[str, float],
    *,
    sources: int = 20,
    surveys: int = 2,
    raters: int = 2,
    criteria: tuple[str, ...] = ("content", "style"),
    merged: int = 0,
) -> Frozen:
    """Returns a study of every source rewritten by every system, with a negative sample a survey.

    The last two systems have the same text for the first `merged` sources, and share one item.
    """
    items: dict[str, Item] = {}
    samples: dict[str, dict[str, object]] = {}
    names = list(systems)
    for n in range(sources):
        originals = (TextPart("Original", f"Original number {n}."),)
        groups = [[name] for name in names]
        if n < merged:
            groups = [[name] for name in names[:-2]] + [names[-2:]]
        for group in groups:
            text = f"Number {n}, as {group[0]} has it."
            ids = tuple(f"{name}:{n}" for name in group)
            for name, id in zip(group, ids, strict=True):
                samples[id] = {
                    "id": id,
                    "text": text,
                    "source": originals[0].text,
                    "system": name,
                    "control": {"formality": "formal"},
                    "extra": {"topic": f"topic {n % 3}"},
                }
            key = f"u{n:03}-{group[0]}"
            items[key] = Item(
                key,
                1 + n % surveys,
                originals,
                (Candidate(TextPart("Text", text), ids),),
                "Make it formal",
            )
    for survey in range(1, surveys + 1):
        bad = Candidate(TextPart("Text", "Something else."), ())
        originals = (TextPart("Original", f"Original number {survey - 1}."),)
        key = f"c{survey}"
        items[key] = Item(key, survey, originals, (bad,), "Make it formal", control="other")
    slots = tuple(
        Slot(
            f"survey {survey}, rater {rater + 1}",
            survey,
            tuple(
                Placed(item.key, f"o-{survey}-{rater}-{item.key}")
                for item in items.values()
                if item.survey == survey
            ),
        )
        for survey in range(1, surveys + 1)
        for rater in range(raters)
    )
    return Frozen(
        id="simulated",
        version=1,
        title="Simulated",
        language="en",
        design="direct",
        criteria=tuple(
            RatingCriterion(name, name.title(), f"On {name}.", "slider", "no", "yes")
            for name in criteria
        ),
        items=items,
        slots=slots,
        samples=samples,
    )


def opened(path: Path, frozen: Frozen) -> RatingStore:
    return RatingStore.create(path / "study.sqlite", frozen)


def rater_of(store: RatingStore, slot: int) -> str:
    """Returns the rater who opens the slot's link, at the rating."""
    session = store.exchange(store.new_link(slot))
    assert session is not None
    rater = store.session(session)
    assert rater is not None
    store.consent(rater, store.frozen.consent_version)
    store.enter(rater, "instructions")
    if store.frozen.examples:
        store.enter(rater, "examples")
    store.enter(rater, "rating")
    return rater


def rate(store: RatingStore, slot: int, rule: Rule, *, finish: bool = True) -> str:
    """Rates the whole slot of a person."""
    rater = rater_of(store, slot)
    say(store, rater, slot, rule)
    if finish:
        store.enter(rater, "review")
        store.enter(rater, "done")
    return rater


def say(store: RatingStore, rater: str, slot: int, rule: Rule) -> None:
    frozen = store.frozen
    clock = store.state(rater).clock
    events = []
    for placed in frozen.slots[slot].items:
        for criterion in frozen.criteria:
            value = rule(frozen.items[placed.item], criterion)
            if value is not None:
                clock += 1
                event = Event(
                    str(uuid.uuid4()), "rating", placed.opaque, criterion.id, value, clock
                )
                events.append(event)
    for start in range(0, len(events), 500):
        store.record(rater, events[start : start + 500])


def comment(store: RatingStore, rater: str, slot: int, text: str, *, problem: bool = False) -> None:
    """Comments on the first item."""
    opaque = store.frozen.slots[slot].items[0].opaque
    clock = store.state(rater).clock
    events = [Event(str(uuid.uuid4()), "comment", opaque, "", text, clock + 1)]
    if problem:
        events.append(Event(str(uuid.uuid4()), "problem", opaque, "", True, clock + 2))
    store.record(rater, events)


def clipped(x: float) -> int:
    """Returns a value within the ends of a slider."""
    return int(min(100, max(1, round(x))))


def without_samples(frozen: Frozen) -> Frozen:
    """Returns the study as a store of another origin might have it."""
    return replace(frozen, samples={})
