from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from levelfield_rating.store import Phase, RatingStore
from raters_of_store import START, STUDY, Now, begin, dump, go_on, rate_all, rating, refused, tries


def test_a_rater_comes_from_the_welcome_to_a_completion_code(store: RatingStore, now: Now) -> None:
    rater = begin(store, until="welcome")
    assert store.state(rater).phase == "welcome"
    assert store.state(rater).first_seen == START
    now.at += timedelta(minutes=20)
    go_on(store, rater, "done")
    state = store.state(rater)
    assert state.phase == "done"
    assert state.last_seen == now.at
    assert len(state.completion_code) == 12
    assert state.completion_code != store.state(begin(store, 1, until="done")).completion_code


def test_a_crowd_platform_s_code_is_the_same_for_all(path: Path) -> None:
    store = RatingStore.create(path, replace(STUDY, completion="C0FFEE"))
    codes = {store.state(begin(store, slot, until="done")).completion_code for slot in (0, 1)}
    assert codes == {"C0FFEE"}


def test_opening_the_link_again_does_not_count_as_doing_something(
    store: RatingStore, now: Now
) -> None:
    token = store.new_link(0)
    store.exchange(token)
    now.at += timedelta(days=2)
    store.exchange(token)
    assert store.state("r1").last_seen == START
    store.enter("r1", "welcome")
    assert store.state("r1").last_seen == now.at


ALLOWED = {
    "welcome": ("welcome", "instructions"),
    "instructions": ("instructions", "examples"),
    "examples": ("examples", "practice"),
    "practice": ("practice", "rating"),
    "rating": ("rating", "review"),
    "review": ("review", "rating", "done"),
    "done": ("done",),
}


@pytest.mark.parametrize("here", ALLOWED)
def test_there_is_no_way_from_phase_to_phase_but_the_ones_of_the_study(
    store: RatingStore, path: Path, here: Any
) -> None:
    rater = begin(store, until=here)
    if here == "welcome":
        store.consent(rater, "1")
    if here == "practice":
        store.record(rater, tries(store, "pracA1", good=True))
    if here == "review":
        rate_all(store, rater)
    before = dump(path)
    for there in (*get_args(Phase), "nowhere"):
        if there not in ALLOWED[here]:
            assert refused(lambda there=there: store.enter(rater, there)) == 409
    assert dump(path) == before
    for there in ALLOWED[here]:
        if here == "review":
            store.enter(rater, "review")
        assert store.enter(rater, there).phase == there  # type: ignore[arg-type]


def test_phases_of_which_the_study_has_nothing_are_passed_over(path: Path) -> None:
    store = RatingStore.create(path, replace(STUDY, examples=(), practice=()))
    rater = begin(store, until="instructions")
    assert store.enter(rater, "examples").phase == "rating"
    other = begin(store, 1, until="instructions")
    assert store.enter(other, "rating").phase == "rating"


def test_nobody_goes_on_without_agreeing_to_the_wording_of_today(store: RatingStore) -> None:
    rater = begin(store, until="welcome")
    assert refused(lambda: store.enter(rater, "instructions")) == 409
    assert refused(lambda: store.consent(rater, "0")) == 409
    assert store.state(rater).consent == ""
    store.consent(rater, "1")
    store.consent(rater, "1")
    assert store.state(rater).consent == "1"
    assert store.enter(rater, "instructions").phase == "instructions"
    assert [row.detail for row in store.log() if row.kind == "consent"] == ["1"]


def test_where_there_is_nothing_to_agree_to_nobody_needs_to(path: Path) -> None:
    words = replace(STUDY.words, consent=" \n")
    store = RatingStore.create(path, replace(STUDY, words=words))
    rater = begin(store, until="welcome")
    assert store.enter(rater, "instructions").phase == "instructions"


def test_practice_ends_when_it_is_passed_or_after_two_tries(store: RatingStore) -> None:
    rater = begin(store, until="practice")
    assert refused(lambda: store.enter(rater, "rating")) == 409
    store.record(rater, tries(store, "pracA1", good=False))
    assert store.state(rater).practice == {"pracA1": (1, False)}
    assert refused(lambda: store.enter(rater, "rating")) == 409
    store.record(rater, tries(store, "pracA1", good=False))
    assert store.state(rater).practice == {"pracA1": (2, False)}
    assert refused(lambda: store.record(rater, tries(store, "pracA1", good=True))) == 409
    assert store.enter(rater, "rating").phase == "rating"

    other = begin(store, 1, until="practice")
    store.record(other, tries(store, "pracA1", good=True))
    assert store.state(other).practice == {"pracA1": (1, True)}
    assert refused(lambda: store.record(other, tries(store, "pracA1", good=True))) == 409
    assert store.enter(other, "rating").phase == "rating"


def test_a_try_answers_all_that_the_practice_asks_once_and_nothing_else(path: Path) -> None:
    (practice,) = STUDY.practice
    practice = replace(practice, accept={"style": (60, 100), "content": (1, 50)})
    store = RatingStore.create(path, replace(STUDY, practice=(practice,)))
    rater = begin(store, until="practice")
    style, content = tries(store, "pracA1", good=True)
    for batch in (
        [style],
        [content],
        [style, content, replace(style, uuid="again")],
        [style, replace(content, criterion="grammar")],
        [style, replace(content, value=0)],
    ):
        assert refused(lambda batch=batch: store.record(rater, batch)) == 422
    assert store.state(rater).practice == {}
    store.record(rater, [content, style, replace(style, uuid="more", criterion="fluency")])
    assert store.state(rater).practice == {"pracA1": (1, True)}


def test_practice_sent_twice_is_one_try(store: RatingStore) -> None:
    rater = begin(store, until="practice")
    batch = tries(store, "pracA1", good=False)
    store.record(rater, batch)
    assert all(saved.duplicate for saved in store.record(rater, batch))
    assert store.state(rater).practice == {"pracA1": (1, False)}


def test_nobody_is_done_with_something_unrated(store: RatingStore) -> None:
    rater = begin(store, until="review")
    rate = [
        rating(f"u{n}", item=placed.opaque, criterion=criterion.id)
        for n, (placed, criterion) in enumerate(
            (placed, criterion)
            for placed in STUDY.slots[0].items
            for criterion in STUDY.criteria
        )
    ]  # fmt: skip
    store.record(rater, rate[:-1])
    before = store.state(rater)
    assert refused(lambda: store.enter(rater, "done")) == 409
    assert store.state(rater) == before
    store.record(rater, rate[-1:])
    assert store.enter(rater, "done").phase == "done"
