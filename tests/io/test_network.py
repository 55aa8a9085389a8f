"""Without a network the hub is asked once, and neither retries nor warnings show."""

from __future__ import annotations

import logging
import time

import pytest

hub = pytest.importorskip("huggingface_hub")

from levelfield.core.errors import ModelError  # noqa: E402
from levelfield.io import http  # noqa: E402
from levelfield.models.resolve import resolve  # noqa: E402


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch):
    """Every request, none of which gets an answer."""
    urls: list[str] = []

    class Session:
        def head(self, url: str, **_: object):
            urls.append(url)
            raise ConnectionError("Name or service not known")

        def __getattr__(self, name: str):
            raise AssertionError(f"{name} was asked, though the hub does not answer")

    monkeypatch.setattr(hub, "get_session", Session)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(http, "_REMEMBERED_S", 1e9)  # no minute ends in the middle of a test
    http._answers.cache_clear()
    yield urls
    http._answers.cache_clear()


def test_models_that_are_not_here_are_said_to_be_so_after_one_request(asked, caplog):
    for name in ("some/model", f"other/model@{'a' * 40}"):
        with pytest.raises(ModelError, match=r"the hub can't be reached \(no network\)"):
            resolve(name)
    assert len(asked) == 1
    assert caplog.text == ""
    assert hub.constants.HF_HUB_OFFLINE is False


@pytest.mark.usefixtures("asked")
def test_switches_and_loggers_are_as_they_were_afterwards():
    level = logging.getLogger("huggingface_hub").level
    with http.asking_the_hub():
        assert hub.constants.HF_HUB_OFFLINE
    assert hub.constants.HF_HUB_OFFLINE is False
    assert logging.getLogger("huggingface_hub").level == level


def test_a_hub_that_answers_is_asked(asked, monkeypatch):
    class Session:
        def head(self, url: str, **_: object) -> None:
            asked.append(url)

    monkeypatch.setattr(hub, "get_session", Session)
    with http.asking_the_hub():
        assert not hub.constants.HF_HUB_OFFLINE
    assert asked == [hub.constants.ENDPOINT]


def test_no_request_is_made_where_the_user_wants_none(asked, monkeypatch):
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    assert not http.hub_answers()
    assert asked == []


def test_a_hub_that_drips_is_no_hub(monkeypatch):
    class Session:
        def head(self, *_: object, **__: object) -> None:
            time.sleep(60)

    monkeypatch.setattr(hub, "get_session", Session)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(http, "_PATIENCE_S", 0.05)
    http._answers.cache_clear()
    started = time.monotonic()
    assert not http.hub_answers()
    assert time.monotonic() - started < 20
    http._answers.cache_clear()
