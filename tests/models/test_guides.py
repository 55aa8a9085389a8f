"""Guides are found by name, and what is wrong with one is said in one line, without its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.models import guides
from levelfield.models.guides import (
    SHIPPED,
    guide_for,
    guide_named,
    shipped_guides,
)
from levelfield.models.resolve import resolve

ABOUT = {
    "kind": "class-lm",
    "attribute": "sentiment",
    "labels": ["negative", "positive"],
    "base": "offline/smollm2",
    "revision": "0123456789abcdef",
    "scale": 2.5,
}


def save(folder: Path, **about) -> str:
    folder.mkdir(parents=True)
    (folder / "guide.json").write_text(json.dumps({**ABOUT, **about}))
    (folder / "guide.safetensors").write_bytes(b"weights")
    return str(folder)


@pytest.fixture(autouse=True)
def _new_names():
    guide_named.cache_clear()
    yield
    guide_named.cache_clear()


def test_a_folder_says_what_its_guide_is(tmp_path: Path):
    guide = guide_named(save(tmp_path / "mine"))
    assert (guide.name, guide.kind, guide.attribute) == ("mine", "class-lm", "sentiment")
    assert guide.labels == ("negative", "positive")
    assert guide.settings == {"scale": 2.5}
    assert guide.label == f"mine@{guide.checksum[:12]}"
    assert hash(guide) == hash(guide_named.__wrapped__(str(tmp_path / "mine")))


def test_the_checksum_follows_settings_and_weights_and_nothing_else(tmp_path: Path):
    folder = Path(save(tmp_path / "mine"))
    first = guide_named(str(folder)).checksum
    (folder / "README.md").write_text("a card")
    assert guide_named.__wrapped__(str(folder)).checksum == first
    (folder / "guide.safetensors").write_bytes(b"other weights")
    second = guide_named.__wrapped__(str(folder)).checksum
    (folder / "guide.json").write_text(json.dumps({**ABOUT, "scale": 3}))
    assert len({first, second, guide_named.__wrapped__(str(folder)).checksum}) == 3


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "guide.json").unlink(), "has no guide.json; expected a folder"),
        (lambda f: (f / "guide.json").write_text("{"), "guide.json can't be read: not JSON"),
        (lambda f: (f / "guide.json").write_text("[]"), "guide.json is not an object"),
        (lambda f: (f / "guide.safetensors").unlink(), "has no guide.safetensors"),
    ],
)
def test_a_damaged_folder_is_one_line(tmp_path: Path, damage, message: str):
    name = save(tmp_path / "mine")
    damage(tmp_path / "mine")
    with pytest.raises(ModelError, match=message) as caught:
        guide_named(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"kind": "judge"}, 'kind is "judge"; expected one of class-lm, future'),
        ({"attribute": ""}, "attribute is"),
        ({"labels": ["one"]}, "at least two different names"),
        ({"labels": ["one", "one"]}, "at least two different names"),
        ({"base": 3}, "base is 3; expected the name of a model"),
        ({"revision": None}, "expected the revision"),
        ({"scale": float("nan")}, "scale: expected finite numbers"),
        ({"bias": {"negative": [float("-inf")]}}, "bias: expected finite numbers"),
    ],
)
def test_what_guide_json_says_is_checked(tmp_path: Path, about, message: str):
    with pytest.raises(ModelError, match=message):
        guide_named(save(tmp_path / "mine", **about))


def test_no_such_guide_is_one_line(tmp_path: Path):
    with pytest.raises(ModelError, match="there is no guide folder"):
        guide_named(str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match="there is no guide 'offline/nothing'; "):
        guide_named("offline/nothing")


def test_several_names_serve_an_attribute_each(tmp_path: Path):
    first = save(tmp_path / "one")
    second = save(tmp_path / "two", attribute="topic", labels=["World", "Sports"])
    names = f"{first}, {second}"
    assert guide_for("sentiment", "class-lm", names).name == "one"
    assert guide_for("topic", "class-lm", names).name == "two"
    with pytest.raises(ModelError, match=r'no guide for "style" among one \(for sentiment\)'):
        guide_for("style", "class-lm", names)
    again = save(tmp_path / "three")
    with pytest.raises(UserError, match="guides one and three are both for sentiment"):
        guide_for("sentiment", "class-lm", f"{first},{again}")


def test_a_guide_of_another_kind_or_base_is_refused(tmp_path: Path):
    name = save(tmp_path / "one")
    with pytest.raises(ModelError, match="is of kind class-lm; expected future: make one with"):
        guide_for("sentiment", "future", name)
    base = tiny.save("gpt2", tmp_path / "base")
    with pytest.raises(
        ModelError, match="was made for the base offline/smollm2@0123456789ab, and the"
    ):
        guide_for("sentiment", "class-lm", name, str(base))
    mine = save(tmp_path / "two", base="base", revision=resolve(str(base)).revision)
    assert guide_for("sentiment", "class-lm", mine, str(base)).name == "two"


def test_what_ships_is_whole_and_small():
    for guide in shipped_guides():
        assert guide.name in SHIPPED
        assert guide.base == "offline/smollm2"
        assert "held-out" in (guide.path / "README.md").read_text(encoding="utf-8")
        assert sum(f.stat().st_size for f in guide.path.iterdir()) < 8e6


def test_a_shipped_guide_that_is_not_the_pinned_one_is_refused(monkeypatch):
    for name in SHIPPED:
        monkeypatch.setattr(guides, "SHIPPED", dict.fromkeys(SHIPPED, "0" * 64))
        with pytest.raises(ModelError, match=f"guide '{name}' is damaged"):
            guide_named.__wrapped__(name)
