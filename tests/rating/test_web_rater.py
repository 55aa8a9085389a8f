"""The rater over HTTP: plain forms, the API of the script, and what is refused."""

from __future__ import annotations

import html
import json
import re
import string
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rating_study import SCRIPT, SECRETS, SLIDERS, small_study

pytest.importorskip("fastapi")
pytest.importorskip("markdown_it")
pytest.importorskip("nh3")

from starlette.testclient import TestClient

from levelfield.rating.answers import standard_ranks
from levelfield.rating.model import Criterion
from levelfield.rating.store import Store, StoreUnavailable
from levelfield.rating.web.app import create_app
from levelfield.rating.web.markdown import rendered
from levelfield.rating.web.security import Buckets, csrf_token
from levelfield.rating.web.shown import SLIDER_STEPS, shown_answer, step_of, stored_answer
from levelfield.rating.web.strings import Strings, catalogue

PAIR = Criterion("style", "Style", "Which?", "pairwise")
RANKS = Criterion("style", "Style", "Order.", "ranking")


class Browser:
    """A rater without a script, who keeps every byte that comes."""

    def __init__(self, store, app, base=""):
        self.store = store
        self.client = TestClient(app, follow_redirects=False, raise_server_exceptions=False)
        self.base = base
        self.bytes = b""
        self.page = None

    def get(self, path, **kwargs):
        return self._keep(self.client.get(path, **kwargs))

    def post(self, path, fields=None, **kwargs):
        return self._keep(self.client.post(path, data=fields or {}, **kwargs))

    def _keep(self, response):
        self.bytes += f"{response.url} {response.headers}".encode() + response.content
        self.page = response
        return response

    def follow(self, response):
        while response.status_code == 303:
            response = self.get(response.headers["location"])
        return response

    def send(self, path, **fields):
        return self.follow(self.post(path, {"csrf": self.csrf, **fields}))

    @property
    def csrf(self):
        return csrf_token(next(iter(self.client.cookies.values())))

    @property
    def rater(self):
        return self.store.session(next(iter(self.client.cookies.values())))

    @property
    def state(self):
        return self.store.state(self.rater)

    @property
    def items(self):
        return self.store.frozen.slots[self.state.slot].items

    def open_link(self, slot=0):
        token = self.store.new_link(slot)
        self.get(f"/r/{token}")
        return self.follow(self.post(f"/r/{token}"))

    def to_rating(self, slot=0):
        self.open_link(slot)
        self.send("/study/welcome", agree="1")
        for phase in ("examples", "practice"):
            if self.state.phase != "rating" and getattr(self.store.frozen, phase):
                self.send("/study/enter", phase=phase)
        for task in self.store.frozen.practice:
            for tried in range(2):
                self.send(f"/study/practice/{task.opaque}", **{"try": str(tried)}, **self.bad())
        return self.send("/study/enter", phase="rating")

    def bad(self):
        """An answer to a practice item that does not pass."""
        scale = self.store.frozen.criteria[0].scale
        fields = {
            "slider": {"s.style": "0"},
            "likert": {"c.coherence": "1"},
            "pairwise": {"c.style": "-1"},
            "ranking": {"c.style.0": "1", "c.style.1": "2", "c.style.2": "3"},
        }
        return fields[scale]

    def api(self, events, token=None, **headers):
        return self._keep(
            self.client.post(
                "/api/events",
                content=json.dumps({"events": events}),
                headers={"X-CSRF-Token": token or self.csrf, **headers},
            )
        )


@pytest.fixture
def browser_of(tmp_path):
    stores = []

    def made(frozen=None, *, store=None, **options):
        store = store or Store.create(tmp_path / f"{len(stores)}.sqlite", frozen or small_study())
        stores.append(store)
        app = create_app(store, organiser=False, **options)
        return Browser(store, app)

    yield made
    for store in stores:
        store.close()


def rating(item, value, criterion="style", **more):
    return {
        "uuid": str(uuid.uuid4()),
        "kind": "rating",
        "item": item,
        "criterion": criterion,
        "value": value,
        "clock": 1,
        **more,
    }


def fields_for(frozen, texts):
    fields = {}
    for c in frozen.criteria:
        if c.scale == "slider":
            fields[f"s.{c.id}"] = "9"
        elif c.scale == "likert":
            fields[f"c.{c.id}"] = "2"
        elif c.scale == "pairwise":
            fields[f"c.{c.id}"] = "1"
        else:
            fields |= {f"c.{c.id}.{k}": str(1 + k // 2) for k in range(texts)}
    return fields


def rate_all(browser):
    frozen = browser.store.frozen
    for placed in browser.items:
        texts = len(frozen.items[placed.item].candidates)
        browser.send(f"/study/item/{placed.opaque}", **fields_for(frozen, texts))


# the whole way


@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_plain_forms_lead_from_the_link_to_the_code(browser_of, scale):
    browser = browser_of(small_study(scale=scale))
    browser.to_rating(slot=1)
    rate_all(browser)
    assert browser.state.phase == "review"
    page = browser.send("/study/enter", phase="done")
    code = browser.state.completion_code
    assert code
    assert code in page.text
    assert f'href="https://example.org/done?code={code}"' in page.text
    for placed in browser.items:
        answers = browser.state.answers[placed.item]
        order = placed.order
        for criterion in browser.store.frozen.criteria:
            shown = {
                "slider": 100,
                "likert": 2,
                "pairwise": order[1] if len(order) > 1 else None,
                "ranking": None,
            }[scale]
            if scale == "ranking":
                expected = {order[0]: 1, order[1]: 1, order[2]: 3}
                shown = tuple(expected[k] for k in range(3))
            assert answers[criterion.id] == shown


@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_no_byte_of_a_session_tells_a_system_a_sample_a_control_or_the_seed(browser_of, scale):
    browser = browser_of(small_study(scale=scale, items=5))
    browser.to_rating()
    browser.get("/api/state")
    browser.api([rating("nothing", 5)])
    browser.api([rating(browser.items[0].opaque, 1_000)])
    for placed in browser.items:
        browser.get(f"/study/item/{placed.opaque}")
    browser.get("/study/instructions")
    rate_all(browser)
    browser.send("/study/enter", phase="done")
    for name in ("rate.js", "rate.css", "icon.svg", "other"):
        browser.get(f"/static/{name}")
    browser.get("/organiser")
    browser.get("/study/withdraw")
    said = browser.bytes.lower()
    assert len(said) > 30_000
    rater = f"\\b{browser.rater}\\b".encode()
    assert not re.search(rater, said)
    forbidden = ["shuffled", "dropped", "not-lowest", "fail_rule", '"control"', '"samples"', "seq"]
    for name in (*SECRETS, *forbidden, browser.store.frozen.digest, "survey 1"):
        assert name.lower().encode() not in said, name


def test_a_control_looks_like_every_other_item(browser_of):
    browser = browser_of()
    browser.to_rating()
    document = browser.get("/api/state").json()
    controls = {p.opaque for p in browser.items if browser.store.frozen.items[p.item].control}
    assert len(controls) == 1
    assert len({tuple(item) for item in document["items"]}) == 1
    assert len({tuple(one) for one in document["current"].values()}) == 1


# texts


def test_texts_are_literal_in_their_language_and_direction(browser_of):
    browser = browser_of(small_study(items=6, control=False))
    browser.to_rating()
    pages = "".join(browser.get(f"/study/item/{p.opaque}").text for p in browser.items)
    assert "<script>document" not in pages
    assert "&lt;script&gt;document.title=" in pages
    assert re.search(r'<bdi dir="rtl" lang="ar">سوف', pages)
    document = browser.get("/api/state").json()
    assert SCRIPT in {item["texts"][0]["text"] for item in document["items"]}


def test_an_empty_text_is_said_to_be_none(browser_of):
    frozen = small_study()
    items = dict(frozen.items)
    first = items[frozen.slots[0].items[0].item]
    empty = replace(first.candidates[0], part=replace(first.candidates[0].part, text=" \n"))
    items[first.key] = replace(first, candidates=(empty,))
    browser = browser_of(replace(frozen, items=items))
    assert "(no text)" in browser.to_rating().text


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("<img src=x onerror=alert(1)>", "<img"),
        ("[a](javascript:alert(1))", 'href="javascript'),
        ("[a](data:text/html,x)", 'href="data'),
        ("![a](https://example.org/a.png)", "<img"),
        ("<a href='x' onclick='y'>a</a>", "<a "),
        ("`<b>`", "<b>"),
        ("&lt;script&gt;", "<script"),
    ],
)
def test_markdown_of_a_study_carries_nothing_that_runs(text, never):
    assert never not in rendered(text).lower()


def test_markdown_keeps_what_words_need():
    html = rendered("# Head\n\n- **one**\n- [two](https://example.org)\n\n|a|b|\n|-|-|\n|1|2|")
    for tag in (
        "<h2>Head</h2>",
        "<strong>one</strong>",
        'href="https://example.org"',
        "<td>1</td>",
    ):
        assert tag in html


# links and sessions


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


# headers, origin, tokens


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
    monkeypatch.setattr(Store, "state", lambda *_: 1 / 0)
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


# answers


BAD = [0, 101, -1, True, False, 3.5, 3.0, "3", None, [], [3], {}, 10**30, "NaN"]


@pytest.mark.parametrize("scale", ["slider", "pairwise", "ranking"])
def test_what_is_no_answer_is_refused_and_changes_nothing(browser_of, scale):
    browser = browser_of(small_study(scale=scale))
    browser.to_rating()
    item = browser.items[0].opaque
    right = {"slider": 5, "pairwise": 1, "ranking": [1, 2, 2]}[scale]
    for value in [*BAD, -2, 3 if scale == "pairwise" else 101, [1, 1, 1, 1], [1, 2, True]]:
        if scale == "pairwise" and value in (0, -1) and type(value) is int:
            continue
        events = [rating(browser.items[1].opaque, right), rating(item, value)]
        assert browser.api(events).status_code == 422, value
    assert browser.state.answers == {}
    assert browser.api([rating(item, right)]).status_code == 200


def test_what_is_no_list_of_events_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    bodies = [b"", b"{", b"[NaN]", b'{"events": [NaN]}', b'"x"', b"[]", b"[1]", b"[[]]", b"\xff"]
    for body in (*bodies, b"[" * 100_000, json.dumps([{}] * 1_000).encode()):
        headers = {"X-CSRF-Token": browser.csrf}
        answer = browser.client.post("/api/events", content=body, headers=headers)
        assert answer.status_code == 422, body[:20]


def test_an_event_of_another_form_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    changes = [
        {"uuid": 5},
        {"uuid": ""},
        {"kind": "practice"},
        {"kind": "other"},
        {"kind": []},
        {"item": None},
        {"criterion": None},
        {"criterion": "none"},
        {"clock": "1"},
        {"clock": True},
        {"clock": 0},
        {"client_ms": -1},
        {"client_ms": 1.5},
        {"kind": "comment", "criterion": "", "value": "half of a pair \ud83d"},
        {"kind": "problem", "criterion": "", "value": 1},
    ]
    for change in changes:
        answer = browser.api([{**rating(browser.items[0].opaque, 5), **change}])
        assert answer.status_code == 422, change
    assert browser.state.answers == {}


def test_another_raters_item_is_not_there(browser_of):
    browser = browser_of(small_study(surveys=2))
    browser.to_rating()
    foreign = browser.store.frozen.slots[2].items[0].opaque
    for item in (foreign, "unknown", browser.items[0].item):
        assert browser.api([rating(item, 5)]).status_code == 404
        assert browser.get(f"/study/item/{item}").status_code == 404
        assert browser.post(f"/study/item/{item}", {"csrf": browser.csrf}).status_code == 404


def test_answers_come_at_their_time_only(browser_of):
    browser = browser_of()
    browser.open_link()
    item = browser.items[0].opaque
    assert browser.api([rating(item, 5)]).status_code == 409
    assert browser.send("/study/enter", phase="done").status_code == 409
    assert browser.send("/study/enter", phase="nothing").status_code == 422
    browser = browser_of()
    browser.to_rating(1)
    rate_all(browser)
    browser.send("/study/enter", phase="done")
    item = browser.items[0].opaque
    assert browser.api([rating(item, 5)]).status_code == 409
    assert browser.send(f"/study/item/{item}", **{"s.style": "1"}).status_code == 409
    assert browser.state.answers[browser.items[0].item]["style"] == 100


def test_the_same_event_twice_is_one_and_another_body_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    event = rating(browser.items[0].opaque, 5)
    first, second = browser.api([event]), browser.api([event])
    assert [r.json()["saved"][0]["duplicate"] for r in (first, second)] == [False, True]
    assert first.json()["saved"][0]["at"] == second.json()["saved"][0]["at"]
    assert browser.api([{**event, "value": 6}]).status_code == 409
    assert browser.state.answers[browser.items[0].item]["style"] == 5


def test_sending_a_form_twice_writes_once(browser_of):
    browser = browser_of()
    browser.to_rating()
    for _ in range(3):
        browser.send(f"/study/item/{browser.items[0].opaque}", **{"s.style": "3", "comment": "ok"})
    rows = [row for row in browser.store.log() if row.kind in ("rating", "comment")]
    assert [row.value for row in rows] == [34, "ok"]


def test_a_form_sent_twice_at_the_same_moment_is_one_try(browser_of, monkeypatch):
    browser = browser_of()
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    for phase in ("examples", "practice"):
        browser.send("/study/enter", phase=phase)
    both, record = threading.Barrier(2), Store.record

    def together(self, rater, events):
        both.wait(30)  # both requests have seen the same state
        return record(self, rater, events)

    monkeypatch.setattr(Store, "record", together)
    fields = {"csrf": browser.csrf, "try": "0", **browser.bad()}
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(browser.client.post, "/study/practice/pracA1", data=fields)
            for _ in range(2)
        ]
        assert [one.result().status_code for one in sent] == [303, 303]
    assert browser.state.practice == {"pracA1": (1, False)}


def test_a_form_says_only_what_was_changed_in_it(browser_of):
    """Two windows without a script: the older one takes nothing back that it never showed."""
    browser = browser_of()
    older = browser.to_rating().text
    first = browser.items[0]
    path = f"/study/item/{first.opaque}"
    newer = {"s.style": "7", "comment": "Odd.", "problem": "yes", "was": was(older)}
    browser.send(path, **newer, go="later")
    browser.send(path, **{"s.content": "2"}, comment="", was=was(older), go="later")
    state = browser.state
    assert state.answers[first.item] == {"style": SLIDER_STEPS[7], "content": SLIDER_STEPS[2]}
    assert state.comments == {first.item: "Odd."}
    assert state.problems == {first.item}
    now = was(browser.get(path).text)
    browser.send(path, **{"s.style": "7", "s.content": "3"}, comment="", was=now, go="later")
    state = browser.state
    assert state.answers[first.item] == {"style": SLIDER_STEPS[7], "content": SLIDER_STEPS[3]}
    assert (state.comments, state.problems) == ({}, frozenset())


@pytest.mark.parametrize(
    "said",
    ["", "[]", "{}", "null", '{"answers": {"style": Infinity}}', '{"answers": [1]}', "[" * 9999],
)
def test_what_a_form_says_of_before_is_not_trusted(browser_of, said):
    browser = browser_of()
    browser.to_rating()
    first = browser.items[0]
    browser.send(f"/study/item/{first.opaque}", **{"s.style": "7"}, was=said, go="later")
    assert browser.state.answers == {first.item: {"style": SLIDER_STEPS[7]}}


def was(page):
    """What a form says that it showed."""
    return html.unescape(re.search(r"name=\"was\" value='([^']*)'", page)[1])


def test_texts_are_not_handed_out_before_they_are_rated(browser_of):
    browser = browser_of()
    browser.open_link()
    early = browser.get("/api/state").json()
    assert early["phase"] == "welcome"
    assert "items" not in early
    browser = browser_of()
    browser.to_rating()
    assert len(browser.get("/api/state").json()["items"]) == len(browser.items)


def test_a_plain_form_leaves_alone_what_a_slider_says_more_exactly(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0]
    browser.api([rating(item.opaque, 57)])
    page = browser.get(f"/study/item/{item.opaque}").text
    checked = re.findall(r'name="s\.style" value="(\d)" checked', page)
    assert checked == ["5"]
    browser.send(f"/study/item/{item.opaque}", **{"s.style": "5", "go": "back"})
    assert browser.state.answers[item.item]["style"] == 57
    browser.send(f"/study/item/{item.opaque}", **{"s.style": "6", "go": "back"})
    assert browser.state.answers[item.item]["style"] == 67


def test_going_on_with_something_open_says_which_and_keeps_the_rest(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0]
    page = browser.send(f"/study/item/{item.opaque}", **{"s.style": "0", "problem": "yes"})
    assert page.status_code == 422
    assert "Not answered yet: Content, Fluency" in page.text
    assert "Saved " in page.text
    assert browser.state.answers[item.item] == {"style": 1}
    assert browser.state.problems == {item.item}
    page = browser.send(f"/study/item/{item.opaque}", go="later", problem="yes")
    assert "2 of 4" in page.text


def test_review_says_what_is_open_and_goes_there(browser_of):
    browser = browser_of()
    browser.to_rating()
    for placed in browser.items:
        page = browser.send(f"/study/item/{placed.opaque}", **{"s.style": "0", "go": "later"})
    assert "Text 3: Content, Fluency" in page.text
    page = browser.send("/study/enter", phase="done")
    assert page.status_code == 409
    assert "Something is still open" in page.text
    page = browser.send("/study/enter", phase="rating", item=browser.items[2].opaque)
    assert "3 of 4" in page.text


def test_a_comment_is_kept_as_written(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0]
    text = '=1+1\n<b>"quotes"</b> & ünïcode 🙂'
    browser.send(f"/study/item/{item.opaque}", comment=text.replace("\n", "\r\n"))
    assert browser.state.comments[item.item] == text
    page = browser.get(f"/study/item/{item.opaque}").text
    assert "<b>" not in page
    assert browser.send(f"/study/item/{item.opaque}", comment="x" * 4001).status_code == 422


@given(st.permutations(range(4)), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_a_ranking_goes_to_the_store_and_back(order, numbers):
    ranks = standard_ranks(numbers)
    stored = stored_answer(RANKS, order, list(ranks))
    assert shown_answer(RANKS, order, stored) == ranks
    assert all(stored[position] == rank for rank, position in zip(ranks, order, strict=True))


@given(st.permutations(range(2)), st.sampled_from([-1, 0, 1]))
def test_a_choice_of_two_goes_to_the_store_and_back(order, value):
    assert shown_answer(PAIR, order, stored_answer(PAIR, order, value)) == value


def test_the_buttons_of_a_slider_are_even_and_mirrored():
    assert SLIDER_STEPS[0] == 1
    assert SLIDER_STEPS[-1] == 100
    assert all(a + b == 101 for a, b in zip(SLIDER_STEPS, reversed(SLIDER_STEPS), strict=True))
    assert [step_of(value) for value in SLIDER_STEPS] == list(range(10))
    nearest = [min(range(10), key=lambda k: abs(SLIDER_STEPS[k] - v)) for v in range(1, 101)]
    assert [step_of(value) for value in range(1, 101)] == nearest


def test_a_slider_says_no_number(browser_of):
    browser = browser_of()
    page = browser.to_rating().text
    fieldset = page[page.index("<fieldset") : page.index("</fieldset>")]
    visible = re.sub(r"<[^>]+>", "", fieldset.replace('aria-hidden="true">1<', "><"))
    assert not re.search(r"\d", visible)
    assert len(set(Strings("en").steps("bad", "good"))) == 10


# consent, practice, withdrawal, coming back


def test_nobody_goes_on_without_agreeing(browser_of):
    browser = browser_of()
    browser.open_link()
    page = browser.send("/study/welcome")
    assert page.status_code == 422
    assert "tick the box" in page.text
    assert browser.send("/study/welcome", agree="0").status_code == 422
    assert browser.state.phase == "welcome"
    assert browser.state.consent == ""
    browser.send("/study/welcome", agree="1")
    assert browser.state.consent == "1"


def test_practice_has_two_tries_and_then_goes_on(browser_of):
    browser = browser_of()
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    browser.send("/study/enter", phase="examples")
    browser.send("/study/enter", phase="practice")
    assert browser.send("/study/enter", phase="rating").status_code == 409
    nothing = browser.send("/study/practice/pracA1", **{"try": "0"})
    assert nothing.status_code == 422
    assert "Not answered yet: Style" in nothing.text
    page = browser.send("/study/practice/pracA1", **{"try": "0", "s.style": "0"})
    assert "try once more" in page.text
    assert "“shall”" in page.text
    page = browser.send("/study/practice/pracA1", **{"try": "0", "s.style": "0"})  # sent twice
    assert browser.state.practice["pracA1"] == (1, False)
    page = browser.send("/study/practice/pracA1", **{"try": "1", "s.style": "1"})
    assert "We would have answered otherwise" in page.text
    assert "“shall”" in page.text
    assert "1 of 4" in browser.send("/study/enter", phase="rating").text


@pytest.mark.parametrize("scale", ["slider", "ranking"])
def test_practice_that_nothing_is_checked_by_is_answered_once_and_explained(browser_of, scale):
    """A study file can't say which order is right."""
    study = small_study(scale=scale)
    (task,) = study.practice
    browser = browser_of(replace(study, practice=(replace(task, accept={}),)))
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    for phase in ("examples", "practice"):
        page = browser.send("/study/enter", phase=phase)
    assert page.text.count("<fieldset") == len(study.criteria)
    path = f"/study/practice/{task.opaque}"
    assert browser.send(path, **{"try": "0"}).status_code == 422
    answers = {
        "slider": {f"s.{c.id}": "3" for c in study.criteria},
        "ranking": {f"c.{c.id}.{n}": str(n + 1) for c in study.criteria for n in range(3)},
    }
    page = browser.send(path, **{"try": "0"}, **answers[scale]).text
    assert "look at “shall”" in page
    assert Strings("en")("practice_passed") not in page
    browser.send("/study/enter", phase="rating")
    assert browser.state.phase == "rating"


def test_a_practice_item_that_is_passed_is_praised(browser_of):
    browser = browser_of()
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    browser.send("/study/enter", phase="examples")
    browser.send("/study/enter", phase="practice")
    page = browser.send("/study/practice/pracA1", **{"try": "0", "c.style": "77"})
    assert "That fits" in page.text
    assert browser.state.practice["pracA1"] == (1, True)


@pytest.mark.parametrize(("examples", "practice"), [(False, False), (True, False), (False, True)])
def test_what_a_study_has_not_is_passed_over(browser_of, examples, practice):
    browser = browser_of(small_study(examples=examples, practice=practice))
    assert "1 of 4" in browser.to_rating().text


def test_who_withdraws_is_asked_first_and_then_forgotten(browser_of):
    browser = browser_of()
    browser.to_rating()
    rate_all(browser)
    assert "Withdraw and delete" in browser.get("/study/withdraw").text
    assert browser.state.phase == "review"
    page = browser.send("/study/withdraw")
    assert "You have withdrawn" in page.text
    assert browser.state.answers == {}
    assert "You have withdrawn" in browser.follow(browser.get("/study")).text
    assert browser.api([rating(browser.items[0].opaque, 5)]).status_code == 409


def test_every_page_of_a_rater_offers_withdrawal(browser_of):
    browser = browser_of()
    pages = [browser.open_link(), browser.send("/study/welcome", agree="1")]
    pages += [browser.send("/study/enter", phase="examples")]
    pages += [browser.send("/study/enter", phase="practice")]
    other = browser_of()
    pages += [other.to_rating(1), other.get("/study/instructions")]
    rate_all(other)
    pages += [other.get("/study"), other.send("/study/enter", phase="done")]
    for page in pages:
        assert 'href="/study/withdraw"' in page.text


def test_after_a_day_the_questions_are_shown_once_more(browser_of):
    late = [timedelta(0)]
    browser = browser_of(now=lambda: datetime.now(UTC) + late[0])
    browser.to_rating()
    assert browser.get("/study").status_code == 303
    late[0] = timedelta(hours=25)
    page = browser.get("/study")
    assert "Welcome back" in page.text
    for criterion in SLIDERS:
        assert criterion.statement in page.text
    assert f'href="/study/item/{browser.items[0].opaque}"' in page.text


# what goes wrong


def test_a_store_that_cant_be_written_to_says_not_saved(browser_of, monkeypatch):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0].opaque

    def full(*_):
        raise StoreUnavailable("database or disk is full")

    monkeypatch.setattr(Store, "record", full)
    assert browser.api([rating(item, 5)]).status_code == 503
    page = browser.send(f"/study/item/{item}", **{"s.style": "1"})
    assert page.status_code == 503
    assert "Not saved" in page.text
    assert "disk" not in page.text
    monkeypatch.undo()
    assert browser.state.answers == {}


def test_a_bug_is_a_plain_page(browser_of, monkeypatch):
    browser = browser_of()
    browser.open_link()

    def broken(*_):
        raise RuntimeError("SECRET of the code")

    monkeypatch.setattr(Store, "state", broken)
    for path in ("/study", "/api/state"):
        answer = browser.get(path)
        assert answer.status_code == 500
        assert "SECRET" not in answer.text
        assert "Traceback" not in answer.text


def test_a_closed_study_says_so_and_takes_nothing(browser_of):
    browser = browser_of()
    browser.to_rating()
    browser.store.close_study("enough")
    item = browser.items[0].opaque
    page = browser.send(f"/study/item/{item}", **{"s.style": "1"})
    assert page.status_code == 403
    assert "closed" in page.text
    assert browser.api([rating(item, 5)]).json() == {"error": "closed"}


def test_a_preview_looks_the_same_under_a_banner(browser_of):
    browser = browser_of()
    secret = browser.store.preview(0)
    browser.client.cookies.set(browser.client.app.state.web.cookie, secret)
    page = browser.get("/study")
    assert "nothing that you answer here counts" in page.text
    assert "Welcome" in page.text


# words


def test_the_german_catalogue_has_every_word_with_its_gaps():
    def gaps(text):
        return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)

    english, german = catalogue()["en"], catalogue()["de"]
    assert list(english) == list(german)
    assert all(gaps(english[name]) == gaps(german[name]) for name in english)
    same = {name for name in english if english[name] == german[name]}
    assert same <= {"text_n", "js_text_n", "review_item"}


def test_a_study_in_german_has_german_pages(browser_of):
    browser = browser_of(small_study(language="de-AT"))
    page = browser.to_rating().text
    assert '<html lang="de"' in page
    assert "1 von 4" in page
    assert "Zurück" in page


def test_a_language_that_is_not_there_is_english(browser_of):
    page = browser_of(small_study(language="xx")).open_link().text
    assert '<html lang="en"' in page
    assert 'lang="xx"' in page


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
