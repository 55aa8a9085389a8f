from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from levelfield_rating.store import RatingStore, StoreError
from raters_of_store import START, STUDY, Now, begin, go_on, rating, refused


def test_a_link_opens_the_same_rater_again_and_again(store: RatingStore) -> None:
    token = store.new_link(2)
    first, second = store.exchange(token), store.exchange(token)
    assert first is not None
    assert second is not None
    assert first != second
    assert store.session(first) == store.session(second) == "r1"
    assert store.state("r1").slot == 2


def test_states_of_links_say_how_far_each_is(store: RatingStore, now: Now) -> None:
    store.new_link(0)
    now.at += timedelta(hours=1)
    store.exchange(store.new_link(1))
    store.new_link(2)
    store.revoke(2)
    states = store.links()
    assert [(link.slot, link.rater, link.state) for link in states] == [
        (0, "r1", "made"),
        (1, "r2", "used"),
        (2, "r3", "revoked"),
        (3, "", "none"),
    ]
    assert [link.when for link in states] == [START, now.at, now.at, None]


def test_a_new_link_ends_the_unused_one_but_not_the_used_one(store: RatingStore) -> None:
    unused = store.new_link(0)
    used = store.new_link(0)
    assert store.exchange(unused) is None
    session = store.exchange(used)
    third = store.new_link(0)
    assert store.exchange(used) is not None
    assert store.exchange(third) is not None
    assert session is not None
    assert store.session(session) == "r1"
    assert store.links()[0].state == "used"


def test_revoking_ends_links_and_sessions_and_a_new_link_resumes(store: RatingStore) -> None:
    token = store.new_link(0)
    session = store.exchange(token)
    assert session is not None
    rater = store.session(session)
    assert rater is not None
    go_on(store, rater, "rating")
    store.record(rater, [rating()])
    store.revoke(0)
    assert store.session(session) is None
    assert store.exchange(token) is None
    again = store.exchange(store.new_link(0))
    assert again is not None
    assert store.session(again) == rater
    assert store.state(rater).answers == {STUDY.slots[0].items[0].item: {"style": 50}}


def test_a_slot_given_to_another_keeps_the_ratings_under_the_old_name_and_out_of_results(
    store: RatingStore,
) -> None:
    old_token = store.new_link(0)
    session = store.exchange(old_token)
    assert session is not None
    go_on(store, "r1", "rating")
    store.record("r1", [rating()])
    token = store.reassign(0)
    assert store.session(session) is None
    assert store.exchange(old_token) is None
    new = store.exchange(token)
    assert new is not None
    assert store.session(new) == "r2"
    assert store.state("r2").answers == {}
    assert store.state("r2").slot == 0
    assert store.state("r1").replaced
    assert store.state("r1").answers[STUDY.slots[0].items[0].item] == {"style": 50}
    assert list(store.excluded()) == ["r1"]
    assert refused(lambda: store.record("r1", [rating("u2")])) == 403
    assert refused(lambda: store.enter("r1", "review")) == 403
    assert [state.rater for state in store.raters()] == ["r1", "r2"]
    store.include("r1", "they were good")
    assert store.excluded() == {}


@pytest.mark.parametrize("token", ["", "x", "é" * 43, "\ud800", "x" * 10_000, None, 7])
def test_an_invalid_token_opens_nothing(store: RatingStore, token: Any) -> None:
    store.new_link(0)
    assert store.exchange(token) is None
    assert store.session(token) is None
    assert not store.is_organiser(token)
    assert not store.organiser_session(token)
    assert store.organiser_exchange(token) is None


def test_secrets_of_one_kind_open_nothing_of_another(store: RatingStore) -> None:
    link = store.new_link(0)
    session = store.exchange(link)
    organiser = store.organiser_secret()
    organising = store.organiser_exchange(organiser)
    assert session is not None
    assert organising is not None
    for secret in (link, organiser, organising):
        assert store.session(secret) is None
    for secret in (session, organiser, organising):
        assert store.exchange(secret) is None
    for secret in (link, session, organising):
        assert not store.is_organiser(secret)
    for secret in (link, session, organiser):
        assert not store.organiser_session(secret)


def test_no_secret_is_in_the_file(store: RatingStore, path: Path) -> None:
    secrets = [store.new_link(0), store.preview(1), store.organiser_secret()]
    secrets += [store.exchange(secrets[0]) or "", store.organiser_exchange(secrets[2]) or ""]
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for secret in secrets:
        assert len(secret) == 43, "256 bits"
        assert secret.encode() not in content
    assert len(set(secrets)) == len(secrets)


def test_a_fresh_organiser_link_ends_the_one_before_but_not_sessions(store: RatingStore) -> None:
    first = store.organiser_secret()
    session = store.organiser_exchange(first)
    assert session is not None
    second = store.organiser_secret()
    assert not store.is_organiser(first)
    assert store.is_organiser(second)
    assert store.organiser_session(session)
    store.end_organiser_sessions()
    assert not store.organiser_session(session)
    assert store.is_organiser(second)


def test_the_key_of_the_server_survives_a_restart_and_differs_between_stores(
    store: RatingStore, path: Path, tmp_path: Path
) -> None:
    assert len(store.server_key) == 32
    assert RatingStore.open(path).server_key == store.server_key
    assert RatingStore.create(tmp_path / "other.sqlite", STUDY).server_key != store.server_key


@pytest.mark.parametrize("slot", [-1, len(STUDY.slots), 10**6])
def test_a_slot_that_is_not_there_is_the_organiser_s_mistake(store: RatingStore, slot: int) -> None:
    for action in (store.new_link, store.revoke, store.reassign, store.preview):
        with pytest.raises(StoreError, match="there is no slot"):
            action(slot)


def test_previews_are_in_nothing_that_is_counted(store: RatingStore) -> None:
    rater = store.session(store.preview(1))
    assert rater is not None
    go_on(store, rater, "done")
    state = store.state(rater)
    assert state.preview
    assert state.completion_code == "PREVIEW"
    assert store.raters() == []
    assert {link.state for link in store.links()} == {"none"}
    assert [row.kind for row in store.log()] == ["study"]
    assert begin(store, 1) == "r1"
