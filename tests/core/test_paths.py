"""Paths with `~`, of users who exist and of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield.core.paths import existing_path, user_path

NOBODY = "~no-such-user-here/texts.jsonl"


def test_home_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/a b") == tmp_path / "a b"
    assert user_path("a~/~b") == Path("a~/~b")
    assert user_path("") == Path()


def test_a_home_of_nobody_is_the_users_mistake():
    with pytest.raises(UserError, match=r"no home folder for '~no-such-user-here'; write \./~no-"):
        user_path(NOBODY)


def test_no_home_is_the_users_mistake(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(UserError, match="there is no home folder for '~'"):
        user_path("~/texts.jsonl")


def test_names_of_nothing_are_no_paths(tmp_path: Path):
    assert existing_path(tmp_path) == tmp_path
    for name in (NOBODY, "", "a\0b", "a" * 5_000, tmp_path / "missing"):
        assert existing_path(name) is None
