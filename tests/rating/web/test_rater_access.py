"""Links, sessions, headers, origins and tokens of the rater's pages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_browser import Browser, rate_all, rating

from levelfield.rating.store import RatingStore
from levelfield.rating.web.security import Buckets, csrf_token


def test_looking_at_a_link_uses_nothing_up_and_opening_it_again_resumes(browser_of):
    browser = browser_of()
    token = browser.store.new_link(0)
    for _ in range(3):
        assert browser.get(f"/r/{token}").status_code == 200
        assert browser.client.head(f"/r/{token}").status_code == 200
    assert browser.store.links()[0].state == "made"
    browser.follow(browser.post(f"/r/{token}"))
    first = browser.rater
    browser.send("/study/welcome", agree="1")
    other = Browser(browser.store, browser.client.app)
    page = other.follow(other.post(f"/r/{token}"))
    assert other.rater == first
    assert "Instructions" in page.text


@pytest.mark.parametrize("token", ["x", "a" * 43, "../study", "ü", "x" * 3000, "%00"])
def test_a_link_that_is_none_opens_nothing(browser_of, token):
    browser = browser_of()
    assert browser.post(f"/r/{token}").status_code == 404
    assert not browser.client.cookies


def test_guessing_links_is_slowed_down(browser_of):
    browser = browser_of()
    token = browser.store.new_link(0)
    answers = [browser.post(f"/r/guess{k}").status_code for k in range(25)]
    assert answers[:20] == [404] * 20
    assert answers[20:] == [429] * 5
    assert browser.post(f"/r/{token}").status_code == 429


def test_a_revoked_link_ends_its_sessions(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0].opaque
    csrf, rater = browser.csrf, browser.rater
    browser.store.revoke(0)
    assert browser.get("/study").status_code == 401
    assert browser.api([rating(item, 5)], token=csrf).status_code == 401
    assert browser.store.state(rater).answers == {}


@pytest.mark.parametrize("path", ["/study", "/api/state", "/study/withdraw", "/study/item/x"])
def test_without_a_session_there_is_nothing_to_see(browser_of, path):
    assert browser_of().get(path).status_code == 401


def test_the_cookie_is_for_this_server_only(browser_of):
    browser = browser_of()
    answer = browser.post(f"/r/{browser.store.new_link(0)}")
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=lax" in said
    assert "secure" not in said
    assert answer.headers["location"] == "/study"


def test_the_cookie_is_secure_where_a_proxy_speaks_https(browser_of):
    forwarded = {"X-Forwarded-Proto": "https"}
    browser = browser_of(behind_proxy=True)
    answer = browser.post(f"/r/{browser.store.new_link(0)}", headers=forwarded)
    assert "secure" in answer.headers["set-cookie"].lower()
    browser = browser_of()
    answer = browser.post(f"/r/{browser.store.new_link(0)}", headers=forwarded)
    assert "secure" not in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("strips", [True, False])
def test_under_a_base_path_every_address_has_it(browser_of, strips):
    browser = browser_of(base_path="/people/rate/")
    inside = "" if strips else "/people/rate"
    token = browser.store.new_link(0)
    page = browser.get(f"{inside}/r/{token}")
    assert f'action="/people/rate/r/{token}"' in page.text
    answer = browser.post(f"{inside}/r/{token}")
    assert answer.headers["location"] == "/people/rate/study"
    assert "path=/people/rate;" in answer.headers["set-cookie"].lower()
    session = next(iter(answer.cookies.values()))
    cookies = {"Cookie": f"{browser.client.app.state.web.cookie}={session}"}
    page = browser.client.get(f"{inside}/study", headers=cookies)
    assert page.status_code == 200
    addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
    assert addresses
    assert all(address.startswith("/people/rate/") for address in addresses)
    assert browser.get(f"{inside}/static/rate.css").status_code == 200


def test_every_response_has_the_headers(browser_of, monkeypatch):
    browser = browser_of()
    browser.to_rating()
    responses = [
        browser.get("/study"),
        browser.get("/api/state"),
        browser.get("/static/rate.js"),
        browser.get("/static/none"),
        browser.get("/nowhere"),
        browser.api([]),
        browser.post("/study/enter", {}, headers={"Origin": "https://evil.example"}),
        browser.client.put("/study"),
    ]
    monkeypatch.setattr(RatingStore, "state", lambda *_: 1 / 0)
    responses.append(browser.get("/study"))
    assert [r.status_code for r in responses] == [303, 200, 200, 404, 404, 422, 403, 404, 500]
    for response in responses:
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cross-origin-opener-policy"] == "same-origin"
        kept = "static/rate.js" in str(response.url)
        assert ("no-store" in response.headers["cache-control"]) != kept


def test_pages_have_no_script_and_no_style_of_their_own(browser_of):
    browser = browser_of()
    browser.to_rating()
    rate_all(browser)
    browser.send("/study/enter", phase="done")
    said = browser.bytes.decode()
    assert not re.findall(r"<script(?![^>]* src=)[^>]*>(?!document)", said)
    assert not re.findall(r"<[a-z][^>]*\s(?:style|onclick|onload|onerror)=", said)
    assert "<style" not in said


WRITES = [
    ("/study/welcome", {"agree": "1"}),
    ("/study/enter", {"phase": "review"}),
    ("/study/withdraw", {}),
    ("/study/practice/pracA1", {"try": "0", "s.style": "9"}),
    ("/study/item/{item}", {"s.style": "9"}),
]


def test_a_write_needs_the_token_of_its_session(browser_of):
    browser = browser_of()
    browser.to_rating()
    before = browser.state
    item = browser.items[0].opaque
    for token in ("", "0" * 64, "ü", csrf_token("another session")):
        for path, fields in WRITES:
            answer = browser.post(path.format(item=item), {**fields, "csrf": token})
            assert answer.status_code == 403, (path, token)
    assert browser.api([rating(item, 5)], token="x").status_code == 403
    assert browser.state == before


def test_a_write_from_another_origin_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0].opaque
    own = [
        {},
        {"Origin": "http://testserver"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null"},
    ]
    foreign = [
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://testserver"},
        {"Origin": "http://testserver:81"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "X-Forwarded-Host": "evil.example"},
    ]
    for headers in foreign:
        assert browser.api([rating(item, 5)], **headers).status_code == 403, headers
    assert browser.state.answers == {}
    for headers in own:
        assert browser.api([rating(item, 5)], **headers).status_code == 200, headers


def test_behind_a_proxy_the_origin_is_what_the_browser_sees(browser_of):
    browser = browser_of(behind_proxy=True)
    browser.to_rating()
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "rate.example"}
    event = [rating(browser.items[0].opaque, 5)]
    assert browser.api(event, Origin="https://rate.example", **proxied).status_code == 200
    assert browser.api(event, Origin="http://rate.example", **proxied).status_code == 403


def test_a_session_that_asks_too_much_waits(browser_of):
    browser = browser_of()
    browser.open_link()
    browser.client.app.state.web.requests.size = 4
    answers = [browser.api([]).status_code for _ in range(8)]
    assert answers[:4] == [422] * 4
    assert 429 in answers


def test_a_body_that_is_too_large_is_not_read(browser_of):
    browser = browser_of()
    browser.to_rating()
    assert browser.post("/study/enter", {"csrf": "x" * 300_000}).status_code == 413


@given(st.lists(st.floats(0, 10), max_size=30))
def test_a_bucket_never_gives_more_than_it_has(waits):
    clock = [0.0]
    bucket = Buckets(3, 0.5, now=lambda: clock[0])
    given_out = 0
    for wait in waits:
        clock[0] += wait
        given_out += bucket.take("someone")
        assert bucket.take("someone else", 0)
    assert given_out <= 3 + 0.5 * clock[0] + 1e-9
    assert given_out >= min(len(waits), 3)


def test_storage_of_the_browser_belongs_to_one_rater(browser_of):
    browser = browser_of()
    names = []
    for slot in (0, 1):
        other = Browser(browser.store, browser.client.app)
        other.open_link(slot)
        names.append(other.get("/api/state").json()["storage"])
        other.open_link(slot)
        names.append(other.get("/api/state").json()["storage"])
    assert names[0] == names[1]
    assert names[2] == names[3]
    assert names[0] != names[2]
    browser.store.reassign(0)
    other = Browser(browser.store, browser.client.app)
    other.open_link(0)
    assert other.get("/api/state").json()["storage"] not in names
