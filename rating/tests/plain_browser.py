"""A rater's browser without a script, on the app in this process."""

from __future__ import annotations

import html
import json
import re
import uuid

from starlette.testclient import TestClient

from levelfield_rating.web.security import csrf_token


def enter(client, link, **headers):
    """Opens a link, as the form of its page does."""
    token = entry_token(client.get(link).text)
    return client.post(link, data={"csrf": token}, headers=headers, follow_redirects=False)


def entry_token(page):
    return re.search(r'name="csrf" value="(\w+)"', page)[1]


class Browser:
    """A rater without a script, who keeps every byte that comes."""

    def __init__(self, store, app):
        self.store = store
        self.client = TestClient(app, follow_redirects=False, raise_server_exceptions=False)
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
    def session(self):
        return self.client.cookies[self.client.app.state.web.cookie]

    @property
    def csrf(self):
        return csrf_token(self.session)

    @property
    def rater(self):
        return self.store.session(self.session)

    @property
    def state(self):
        return self.store.state(self.rater)

    @property
    def items(self):
        return self.store.frozen.slots[self.state.slot].items

    def open_link(self, slot=0):
        return self.follow(self.enter(self.store.new_link(slot)))

    def enter(self, token, **headers):
        """Follows the button of a link's page."""
        return self._keep(enter(self.client, f"/r/{token}", **headers))

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
        """Sends an answer to a practice item that does not pass."""
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


def was(page):
    """Returns the value that a form showed."""
    return html.unescape(re.search(r"name=\"was\" value='([^']*)'", page)[1])
