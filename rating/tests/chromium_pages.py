"""A served study and the pages of headless Chromium that look at it."""

from __future__ import annotations

import json
import re

OFFLINE = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "503", "409")


class Place:
    """A study that is served, and browsers that look at it; troubles of any page fail the test."""

    def __init__(self, chromium, store, base, cookie, stack):
        self.chromium, self.store, self.base, self.stack = chromium, store, base, stack
        self.cookie = cookie
        self.troubles = []
        self.expected = ()

    def context(self, **options):
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        context = self.chromium.new_context(**options)
        context.set_default_timeout(60_000)
        self.stack.callback(context.close)
        return context

    def page(self, context=None, **options):
        page = (context or self.context(**options)).new_page()
        page.on("console", lambda message: self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        return page

    def link(self, slot=0):
        return f"{self.base}/r/{self.store.new_link(slot)}"

    def state(self, slot=0):
        mine = [r for r in self.store.raters() if r.slot == slot and not r.replaced]
        return mine[0]

    def items(self, slot=0):
        return self.store.frozen.slots[slot].items

    def answers(self, number, slot=0):
        return self.state(slot).answers.get(self.items(slot)[number].item, {})


def to_rating(place, page, slot=0):
    """Goes to the first text, as a rater who has read all before it; that way has its own tests."""
    store = place.store
    session = store.exchange(store.new_link(slot))
    rater = store.session(session)
    store.consent(rater, store.frozen.consent_version)
    for phase in ("instructions", "rating"):
        store.enter(rater, phase)
    cookie = {"name": place.cookie, "value": session, "url": place.base}
    page.context.add_cookies([{**cookie, "httpOnly": True, "sameSite": "Lax"}])
    page.goto(f"{place.base}/study")
    ready(page)


def ready(page):
    """Waits until the script has taken over, and has the items of the study."""
    page.wait_for_selector("#item[data-ready]")


def sliders(page):
    return page.locator("[role=slider]")


def click_slider(page, number, share):
    bar = sliders(page).nth(number)
    box = bar.locator(".reach").bounding_box()
    bar.click(position={"x": 12 + share * box["width"], "y": box["height"] / 2})


def answer_all(page, share=0.5):
    for number in range(sliders(page).count()):
        click_slider(page, number, share)


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def saved(page):
    expect(page.locator("#saved")).to_have_text(re.compile(r"^Saved \d\d:\d\d$"), timeout=60_000)


def value_of(page, criterion):
    return page.locator(f"input[name='c.{criterion}']")


def text_of(page, selector):
    return page.locator(selector).text_content().strip()


def violations(page, axe, **options):
    """Returns what axe finds on a page, which gets its script once."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.axe_script)
    options = json.dumps({"resultTypes": ["violations"], **options})
    return page.evaluate(f"axe.run(document, {options}).then(results => results.violations)")
