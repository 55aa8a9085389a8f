from __future__ import annotations

import csv
import io
import json
import re
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from levelfield_rating.address import Address
from levelfield_rating.export.documents import documents
from levelfield_rating.model import Item, RatingCriterion
from levelfield_rating.results.raters import counted
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import Event
from levelfield_rating.web.app import create_app
from plain_browser import enter
from rating_study import small_study
from simulated_raters import clipped, comment, direct_study, opened, rate, rater_of

SYSTEMS = {"owl": 80.0, "fox": 60.0, "elk": 35.0}
EVIL = "<script>document.title='taken'</script>"
PAGES = ("", "/links", "/texts", "/comments", "/reliability", "/results", "/export")
ACTIONS = (
    *("link", "links", "revoke", "reassign", "preview", "exclude", "include", "exclude-failed"),
    *("close", "reopen", "leave"),
)


@pytest.fixture
def store(tmp_path: Path) -> RatingStore:
    return opened(tmp_path, direct_study(SYSTEMS, sources=6))


@pytest.fixture
def desk(store: RatingStore) -> Iterator[TestClient]:
    """The organiser's browser."""
    with TestClient(create_app(store)) as browser:
        sign_in(browser, store)
        yield browser


def sign_in(browser: TestClient, store: RatingStore) -> None:
    answer = enter(browser, f"/organiser/enter/{store.organiser_secret()}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/organiser"


def csrf(browser: TestClient) -> str:
    match = re.search(r'name="csrf" value="(\w+)"', browser.get("/organiser").text)
    assert match is not None
    return match[1]


def act(browser: TestClient, action: str, **fields: object):
    data = {"csrf": csrf(browser), **{k: str(v) for k, v in fields.items()}}
    return browser.post(f"/organiser/do/{action}", data=data, follow_redirects=False)


def all_of(
    store: RatingStore, levels: tuple[int, ...] = (0, 5, -5, 10), *, bad: int = 3
) -> list[str]:
    """Lets everybody rate; later slots with a bias."""

    def rule_of(bias: int):
        def rule(item: Item, criterion: RatingCriterion) -> int:
            if item.control:
                return bad
            level = SYSTEMS[item.candidates[0].samples[0].split(":")[0]]
            return clipped(level + bias + hash_of(item.key + criterion.id) % 9)

        return rule

    return [rate(store, slot, rule_of(bias)) for slot, bias in enumerate(levels)]


def hash_of(word: str) -> int:
    return uuid.uuid5(uuid.NAMESPACE_OID, word).int


def test_looking_at_the_link_signs_nobody_in(store: RatingStore):
    with TestClient(create_app(store)) as browser:
        secret = store.organiser_secret()
        page = browser.get(f"/organiser/enter/{secret}")
        assert page.status_code == 200
        assert browser.app.state.web.organiser_cookie not in browser.cookies
        assert browser.get("/organiser").status_code == 401


def test_the_cookie_is_not_for_scripts(store: RatingStore):
    with TestClient(create_app(store)) as browser:
        link = f"/organiser/enter/{store.organiser_secret()}"
        cookie = enter(browser, link).headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie


@pytest.mark.parametrize("path", [*PAGES, "/export/all.zip", "/export/backup.sqlite"])
def test_no_page_opens_without_the_organisers_session(store: RatingStore, path: str):
    with TestClient(create_app(store)) as browser:
        assert browser.get(f"/organiser{path}").status_code == 401
        rater = store.exchange(store.new_link(0)) or ""
        browser.get("/")
        for name in (
            create_app(store).state.web.cookie,
            create_app(store).state.web.organiser_cookie,
        ):
            browser.cookies.set(name, rater)
        answer = browser.get(f"/organiser{path}")
        assert answer.status_code == 401
        assert "owl" not in answer.text


@pytest.mark.parametrize("action", ACTIONS)
def test_no_action_without_session_or_with_a_foreign_token(
    store: RatingStore, desk: TestClient, action: str
):
    fields = {"slot": "0", "rater": "r1", "reason": "because", "csrf": "0" * 64}
    before = len(list(store.log()))
    assert desk.post(f"/organiser/do/{action}", data=fields).status_code == 403
    assert desk.post(f"/organiser/do/{action}", data={**fields, "csrf": ""}).status_code == 403
    token = csrf(desk)
    foreign = {"Origin": "https://elsewhere.example"}
    form = {**fields, "csrf": token}
    assert desk.post(f"/organiser/do/{action}", data=form, headers=foreign).status_code == 403
    with TestClient(create_app(store)) as stranger:
        assert stranger.post(f"/organiser/do/{action}", data=form).status_code == 401
    assert len(list(store.log())) == before


def test_without_an_organiser_there_are_no_pages_of_one(store: RatingStore):
    with TestClient(create_app(store, organiser=False)) as browser:
        assert browser.get(f"/organiser/enter/{store.organiser_secret()}").status_code == 404
        assert browser.get("/organiser").status_code == 404


def test_a_wrong_secret_opens_nothing_and_guessing_is_slowed(store: RatingStore):
    with TestClient(create_app(store)) as browser:
        limit = browser.app.state.web.wrong_links
        limit.size, limit.a_second = 9, 0
        codes = [enter(browser, f"/organiser/enter/{n}").status_code for n in range(12)]
        assert codes[0] == 404
        assert codes[-1] == 429
        assert browser.app.state.web.organiser_cookie not in browser.cookies


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_empty_halfway_and_full_with_all_headers(
    store: RatingStore, desk: TestClient, path: str
):
    for step in range(3):
        if step == 1:
            rater_of(store, 0)
        if step == 2:
            for slot in (1, 2, 3):
                rate(store, slot, lambda _item, _criterion: 50)
        answer = desk.get(f"/organiser{path}")
        assert answer.status_code == 200
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "style=" not in answer.text
        assert "<script>" not in answer.text


@pytest.mark.thinned
@pytest.mark.parametrize("scale", ["likert", "pairwise", "ranking"])
@pytest.mark.parametrize("path", PAGES)
def test_pages_know_every_scale(tmp_path: Path, scale: str, path: str):
    frozen = small_study(scale=scale, items=6, practice=False, examples=False)
    store = opened(tmp_path, frozen)
    for slot in range(2):
        answers = iter(range(1000))

        def rule(_item: Item, _criterion: RatingCriterion, answers: Iterator[int] = answers):
            n = next(answers)
            return {"likert": 1 + n % 5, "pairwise": n % 3 - 1, "ranking": (1, 2, 3)}[scale]

        rate(store, slot, rule)
    with TestClient(create_app(store)) as browser:
        sign_in(browser, store)
        assert browser.get(f"/organiser{path}").status_code == 200


def test_the_overview_shows_how_far_everybody_is(store: RatingStore, desk: TestClient):
    rater = rater_of(store, 0)
    opaque = store.frozen.slots[0].items[0].opaque
    store.record(rater, [Event("u1", "rating", opaque, "content", 50, 1)])
    rate(store, 1, lambda _item, _criterion: 50)
    page = desk.get("/organiser").text
    assert "1 of 4 raters are done" in page
    assert "0 of 10" in page
    assert "10 of 10" in page
    assert "straight line?" in page
    assert "failed" in page
    assert "nobody has been asked yet" in page
    assert "just now" in page


def test_links_are_made_shown_once_revoked_and_reassigned(store: RatingStore, desk: TestClient):
    page = act(desk, "link", slot=2)
    assert page.status_code == 200
    (token,) = re.findall(r"http://127.0.0.1:8765/r/([\w-]+)", page.text)
    assert token not in desk.get("/organiser/links").text
    assert store.exchange(token) is not None
    assert act(desk, "revoke", slot=2).status_code == 200
    assert store.exchange(token) is None
    again = act(desk, "reassign", slot=2)
    (other,) = re.findall(r"http://127.0.0.1:8765/r/([\w-]+)", again.text)
    assert store.exchange(other) is not None
    assert [s.rater for s in store.raters()] == ["r1", "r2"]
    assert "r1" in store.excluded()


def test_links_of_all_slots_come_as_csv(store: RatingStore, desk: TestClient):
    rater_of(store, 1)  # opened: its link stays
    answer = act(desk, "links", **{"as": "csv"})
    assert answer.headers["content-disposition"] == 'attachment; filename="simulated-links.csv"'
    table = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert table[0] == ["slot", "link"]
    assert [row[0] for row in table[1:]] == [store.frozen.slots[n].name for n in (0, 2, 3)]
    tokens = [row[1].rpartition("/")[2] for row in table[1:]]
    assert all(store.exchange(token) for token in tokens)


def test_a_slot_that_does_not_exist_is_an_error(store: RatingStore, desk: TestClient):
    for slot in ("99", "-1", "x", "", "²", "1e3"):
        answer = act(desk, "link", slot=slot)
        assert answer.status_code == 422
        assert 'role="alert"' in answer.text
    assert store.raters() == []


def test_a_preview_is_what_a_rater_sees_and_no_data(store: RatingStore, desk: TestClient):
    assert act(desk, "preview", slot=1).headers["location"] == "/study"
    page = desk.get("/study")
    assert "Preview: nothing that you answer here counts." in page.text
    assert desk.get("/organiser").status_code == 200  # still the organiser
    assert store.raters() == []
    assert not [row for row in store.log() if row.kind in ("consent", "phase")]


def test_exclusion_needs_a_reason_is_logged_and_changes_results(
    store: RatingStore, desk: TestClient
):
    names = all_of(store)
    without = act(desk, "exclude", rater=names[0], reason="  ")
    assert without.status_code == 422
    assert not store.excluded()
    assert act(desk, "exclude", rater="nobody", reason="x").status_code == 422
    assert act(desk, "exclude", rater=names[0], reason="asleep").status_code == 303
    assert store.excluded() == {names[0]: "asleep"}
    assert [r.detail for r in store.log() if r.kind == "excluded"] == ["asleep"]
    results = desk.get("/organiser/results").text
    assert "3 raters count; 4 with those who were excluded" in results
    assert "asleep" in results
    assert "Mean with everybody" in results
    assert "Without 1 excluded rater." in desk.get("/organiser/reliability").text
    assert "With 1 excluded rater." in desk.get("/organiser/reliability?everyone=1").text
    assert act(desk, "include", rater=names[0], reason="was awake").status_code == 303
    assert not store.excluded()


def test_who_failed_can_be_excluded_at_once(store: RatingStore, desk: TestClient):
    names = [*all_of(store, (0, 0), bad=99), rate(store, 2, _honest)]
    assert "2 raters fail the negative samples" in desk.get("/organiser").text
    assert act(desk, "exclude-failed").status_code == 303
    assert store.excluded().keys() == set(names[:2])
    assert store.excluded()[names[0]] == "failed the negative sample"
    assert {s.rater for s in counted(store)} == {names[2]}


def test_no_answer_outlives_withdrawal_in_the_reason_of_an_exclusion(
    store: RatingStore, desk: TestClient
):
    names = all_of(store, bad=97)
    act(desk, "exclude-failed")
    for name in names:
        store.withdraw(name)
    exports = documents(store)
    logged = [json.loads(line) for line in exports["events.jsonl"].splitlines()]
    assert not any("97" in row["detail"] for row in logged if row["kind"] == "excluded")
    table = csv.DictReader(io.StringIO(exports["raters.csv"]))
    assert {row["excluded"] for row in table} == {"failed the negative sample"}


def _honest(item: Item, _criterion: RatingCriterion) -> int:
    return 1 if item.control else 70


def test_a_closed_study_takes_nothing_until_it_is_reopened(store: RatingStore, desk: TestClient):
    assert act(desk, "close", reason="").status_code == 422
    assert act(desk, "close", reason="enough").status_code == 303
    assert store.closed()
    assert "Closed" in desk.get("/organiser").text
    assert act(desk, "reopen", reason="one more").status_code == 303
    assert not store.closed()


def test_signing_out_ends_the_session_everywhere(store: RatingStore, desk: TestClient):
    with TestClient(create_app(store)) as other:
        sign_in(other, store)
        assert act(desk, "leave").status_code == 200
        assert other.get("/organiser").status_code == 401
        assert desk.get("/organiser").status_code == 401


def test_downloads_are_the_export_and_a_backup_that_opens(
    store: RatingStore, desk: TestClient, tmp_path: Path
):
    all_of(store)
    for name, text in documents(store).items():
        answer = desk.get(f"/organiser/export/{name}")
        assert answer.content.decode() == text
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    with zipfile.ZipFile(io.BytesIO(desk.get("/organiser/export/all.zip").content)) as whole:
        assert len(whole.namelist()) == len(documents(store))
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(desk.get("/organiser/export/backup.sqlite").content)
    again = RatingStore.open(copy)
    assert again.raters() == store.raters()
    assert desk.get("/organiser/export/..%2F..%2Fetc%2Fpasswd").status_code == 404
    assert desk.get("/organiser/export/none.txt").status_code == 404


def test_excluded_raters_are_in_a_download_only_if_asked_for(store: RatingStore, desk: TestClient):
    names = all_of(store)
    store.exclude(names[0], "asleep")
    assert f'"{names[0]}"' not in desk.get("/organiser/export/ratings.jsonl").text
    assert f'"{names[0]}"' in desk.get("/organiser/export/ratings.jsonl?everyone=1").text


@pytest.mark.thinned
@pytest.mark.parametrize("path", PAGES)
def test_scripts_in_names_texts_comments_and_reasons_are_shown_as_text(tmp_path: Path, path: str):
    frozen = direct_study({EVIL: 80.0, "fox": 60.0, "elk": 40.0}, sources=4, surveys=1)
    frozen = replace(
        frozen,
        title=EVIL,
        criteria=tuple(replace(c, title=EVIL, statement=EVIL) for c in frozen.criteria),
        slots=tuple(replace(slot, name=EVIL) for slot in frozen.slots),
    )
    store = opened(tmp_path, frozen)
    for slot in range(2):
        rate(store, slot, lambda item, _criterion: 1 + hash_of(item.key) % 99)
    store.exclude("r2", EVIL)
    rater = store.session(store.exchange(store.reassign(1)) or "") or ""
    store.consent(rater, "1")
    store.enter(rater, "instructions")
    store.enter(rater, "rating")
    comment(store, rater, 1, EVIL)
    with TestClient(create_app(store)) as browser:
        sign_in(browser, store)
        page = browser.get(f"/organiser{path}?everyone=1").text
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        made_link = act(browser, "link", slot=0).text
        assert "<script>" not in made_link


def test_texts_show_systems_and_which_sample_is_negative(desk: TestClient):
    page = desk.get("/organiser/texts").text
    assert "negative sample, other" in page
    assert "owl" in page
    assert "Number 0, as owl has it." in page


def test_links_carry_the_address_that_was_configured_whatever_requests_say(store: RatingStore):
    app = create_app(store, address=Address.of("https://example.org/letters"))
    with TestClient(app) as browser:
        forwarded = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
        secret = store.organiser_exchange(store.organiser_secret()) or ""
        browser.cookies.set(app.state.web.organiser_cookie, secret)
        match = re.search(
            r'name="csrf" value="(\w+)"', browser.get("/organiser", headers=forwarded).text
        )
        assert match is not None
        answer = browser.post(
            "/organiser/do/link", data={"csrf": match[1], "slot": "0"}, headers=forwarded
        )
        assert re.search(r"https://example\.org/letters/r/[\w-]{40,}", answer.text)
        assert "evil" not in answer.text


def test_records_of_samples_that_the_store_keeps_reach_no_rater(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=4, surveys=1)
    marked = {
        id: {**record, "system": f"HIDDEN{record['system']}", "extra": {"note": "HIDDEN"}}
        for id, record in frozen.samples.items()
    }
    store = opened(tmp_path, replace(frozen, samples=marked))
    token = store.new_link(0)
    with TestClient(create_app(store)) as browser:
        enter(browser, f"/r/{token}")
        pages = [browser.get("/study"), browser.get("/study/withdraw")]
        (state,) = store.raters()
        store.consent(state.rater, "1")
        store.enter(state.rater, "instructions")
        store.enter(state.rater, "rating")
        pages += [browser.get("/study"), browser.get("/api/state")]
        assert [page.status_code for page in pages] == [200] * 4
        assert "Number 0" in pages[-1].text
        for page in pages:
            everything = page.text + repr(page.headers)
            assert "HIDDEN" not in everything
            assert "owl:" not in everything
