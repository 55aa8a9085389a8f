"""Links, sessions, headers, origins and tokens of the rater's pages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield_rating.address import Address
from levelfield_rating.store import RatingStore, access, events
from levelfield_rating.web.security import Buckets, csrf_token
from plain_browser import Browser, entry_token, rate_all, rating


def test_looking_at_a_link_uses_nothing_up_and_opening_it_again_resumes(browser_of):
    browser = browser_of()
    token = browser.store.new_link(0)
    for _ in range(3):
        assert browser.get(f"/r/{token}").status_code == 200
        assert browser.client.head(f"/r/{token}").status_code == 200
    assert browser.store.links()[0].state == "made"
    browser.follow(browser.enter(token))
    first = browser.rater
    browser.send("/study/welcome", agree="1")
    other = Browser(browser.store, browser.client.app)
    page = other.follow(other.enter(token))
    assert other.rater == first
    assert "Instructions" in page.text


@pytest.mark.parametrize("token", ["x", "a" * 43, "../study", "ü", "x" * 3000, "%00"])
def test_a_link_that_is_none_opens_nothing(browser_of, token):
    browser = browser_of()
    form = {"csrf": entry_token(browser.get("/r/some").text)}
    assert browser.post(f"/r/{token}", form).status_code == 404
    assert browser.client.app.state.web.cookie not in browser.client.cookies


def test_wrong_links_are_slowed_down_and_shut_no_right_one_out(browser_of):
    browser = browser_of()
    limit = browser.client.app.state.web.wrong_links
    limit.size, limit.a_second = 5, 0
    answers = [browser.enter(f"guess{k}") for k in range(8)]
    assert [answer.status_code for answer in answers] == [404] * 5 + [429] * 3
    assert "wait a minute" in answers[-1].text
    assert browser.enter(browser.store.new_link(0)).status_code == 303


OTHER_SITES = (
    {},  # a browser that says nothing
    {"Origin": "null"},
    {"Origin": "null", "Referer": "http://evil.example/page"},
    {"Referer": "http://evil.example/page"},
    {"Origin": "http://evil.example"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
)


@pytest.mark.parametrize("headers", OTHER_SITES)
@pytest.mark.parametrize("address", [Address(), Address.of("https://rate.example/x")])
def test_a_form_of_another_site_signs_nobody_in_as_somebody_else(browser_of, headers, address):
    browser = browser_of(address=address)
    link = f"/r/{browser.store.new_link(1)}"
    stranger = Browser(browser.store, browser.client.app)
    token = entry_token(stranger.get(link).text)  # what the other site can look up
    for visited in (False, True):
        if visited:
            browser.get(link)
        for form in ({}, {"csrf": token}, {"csrf": csrf_token("")}):
            answer = browser.post(link, form, headers=headers)
            assert answer.status_code == 403
            assert browser.client.app.state.web.cookie not in answer.cookies
    assert browser.store.links()[1].state == "made"


def test_the_page_of_a_link_works_in_two_tabs_and_again_after_going_back(browser_of):
    browser = browser_of()
    token = browser.store.new_link(0)
    first, second = (entry_token(browser.get(f"/r/{token}").text) for _ in range(2))
    for form in (first, second, first):
        assert browser.post(f"/r/{token}", {"csrf": form}).status_code == 303


@pytest.mark.parametrize("path", ["/r/{token}/", "/study/", "/organiser/"])
@pytest.mark.parametrize("host", ["evil.example", "[", "evil.example/api/"])
def test_no_path_leads_to_a_host_that_the_request_names(browser_of, path, host):
    browser = browser_of(address=Address.of("https://rate.example/x"))
    path = path.format(token=browser.store.new_link(0))
    for inside in ("", "/x"):
        answer = browser.client.get(inside + path, headers={"Host": host})
        assert answer.status_code == 404
        assert "location" not in answer.headers
        assert "evil" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "There is nothing here" in answer.text


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
    answer = browser.enter(browser.store.new_link(0))
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie
    assert answer.headers["location"] == "/study"


@pytest.mark.parametrize(
    ("url", "secure"), [("https://a.example", True), ("http://a.example", False)]
)
def test_cookies_are_secure_where_the_address_is_https(browser_of, url, secure):
    browser = browser_of(address=Address.of(url))
    browser.client.base_url = url
    page = browser.get(f"/r/{browser.store.new_link(0)}", headers={"X-Forwarded-Proto": "ftp"})
    answer = browser.enter(browser.store.new_link(0))
    for response in (page, answer):
        assert ("secure" in response.headers["set-cookie"].lower()) == secure


@pytest.mark.parametrize("strips", [True, False])
def test_under_a_base_path_every_address_has_it(browser_of, strips):
    browser = browser_of(address=Address.of("https://testserver/people/rate/"))
    browser.client.base_url = "https://testserver"
    inside = "" if strips else "/people/rate"
    token = browser.store.new_link(0)
    page = browser.get(f"{inside}/r/{token}")
    assert f'action="/people/rate/r/{token}"' in page.text
    entered = {
        "Cookie": page.headers["set-cookie"].partition(";")[0],
        "Origin": "https://testserver",
    }
    form = {"csrf": entry_token(page.text)}
    answer = browser.post(f"{inside}/r/{token}", form, headers=entered)
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
    assert browser.get(inside or "/").headers["location"] == "/people/rate/study"


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
    pages = browser.bytes.decode()
    assert not re.findall(r"<script(?![^>]* src=)[^>]*>(?!document)", pages)
    assert not re.findall(r"<[a-z][^>]*\s(?:style|onclick|onload|onerror)=", pages)
    assert "<style" not in pages


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
    same_origin = [
        {},
        {"Origin": "http://127.0.0.1:8765"},
        {"Origin": "http://localhost:8765", "Referer": "http://evil.example"},
        {"Referer": "http://[::1]:8765/study"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost:9000", "Sec-Fetch-Site": "same-origin"},  # through a tunnel
        {"Origin": "null"},
    ]
    foreign = [
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "none"},
        {"Origin": "https://127.0.0.1:8765"},
        {"Origin": "http://127.0.0.1:81"},
        {"Origin": "http://testserver", "Host": "testserver"},
        {"Referer": "http://evil.example/"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "X-Forwarded-Host": "evil.example"},
    ]
    for headers in foreign:
        assert browser.api([rating(item, 5)], **headers).status_code == 403, headers
    assert browser.state.answers == {}
    for headers in same_origin:
        assert browser.api([rating(item, 5)], **headers).status_code == 200, headers


def test_behind_a_proxy_the_origin_is_that_of_the_address(browser_of):
    browser = browser_of(address=Address.of("https://Rate.Example:443"))
    browser.client.base_url = "https://testserver"
    browser.to_rating()
    proxied = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example"}
    event = [rating(browser.items[0].opaque, 5)]
    assert browser.api(event, Origin="https://rate.example", **proxied).status_code == 200
    for origin in ("http://rate.example", "http://evil.example", "https://testserver"):
        assert browser.api(event, Origin=origin, **proxied).status_code == 403


def test_without_a_proxy_the_origin_is_as_browsers_write_it(browser_of):
    browser = browser_of(address=Address.local("MyLaptop", 80))
    browser.to_rating()
    event = [rating(browser.items[0].opaque, 5)]
    assert browser.api(event, Origin="http://mylaptop").status_code == 200


def test_a_rater_who_asks_too_much_waits_in_every_session(browser_of):
    browser = browser_of()
    token = browser.store.new_link(0)
    browser.enter(token)
    other = Browser(browser.store, browser.client.app)
    other.enter(token)
    writes = browser.client.app.state.web.writes
    writes.size, writes.a_second = 4, 0
    assert [browser.api([]).status_code for _ in range(4)] == [422] * 4
    answers = [browser.api([]), other.api([]), other.send("/study/welcome", agree="1")]
    assert [answer.status_code for answer in answers] == [429] * 3
    assert "wait a little" in answers[-1].text


def test_many_events_at_once_count_each(browser_of):
    browser = browser_of()
    browser.to_rating()
    writes = browser.client.app.state.web.writes
    writes.size, writes.a_second = 4, 0
    item = browser.items[0].opaque
    assert browser.api([rating(item, n) for n in range(1, 9)]).status_code == 200
    assert browser.api([rating(item, 9)]).status_code == 429


def test_over_the_caps_of_a_link_a_page_says_in_words_what_to_do(browser_of, monkeypatch):
    browser = browser_of()
    token = browser.store.new_link(0)
    monkeypatch.setattr(access, "SESSIONS_OF_LINK", 1)
    browser.to_rating()
    item = browser.items[0].opaque
    monkeypatch.setattr(events, "EVENTS_OF_ITEM", 1)
    assert browser.api([rating(item, 5)]).status_code == 200
    answer = browser.api([rating(item, 6)])
    assert (answer.status_code, answer.json()) == (429, {"error": "full"})
    page = browser.send(f"/study/item/{item}", **{"s.style": "7"})
    assert page.status_code == 429
    assert "more changes were made here than the study keeps" in page.text
    page = browser.enter(token)
    assert page.status_code == 404, "a newer link has ended it"
    token = browser.store.new_link(0)
    pages = [browser.enter(token) for _ in range(2)]
    assert [page.status_code for page in pages] == [303, 429]
    assert "ask whoever sent it to you for a new one" in pages[-1].text


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
