"""Chats become samples: the last answer of the assistant is the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelfield.core.errors import InputError
from levelfield.io import load_samples, open_samples
from levelfield.io.formats import FORMATS, format_at

CHAT = {
    "id": "c1",
    "system": "m1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who rows?"},
        {"role": "assistant", "content": "The ferryman."},
        {"role": "user", "content": [{"type": "text", "text": "And who steers?"}]},
        {"role": "assistant", "content": "Nobody."},
        {"role": "user", "content": "Thanks."},
    ],
}


@pytest.mark.parametrize("as_list", [False, True])
def test_the_last_answer_is_the_text_and_what_was_before_the_context(tmp_path: Path, as_list: bool):
    path = tmp_path / ("chats.json" if as_list else "chats.jsonl")
    path.write_text(json.dumps([CHAT, CHAT | {"id": "c2"}]) if as_list else json.dumps(CHAT) + "\n")
    assert format_at(path) is FORMATS["chat"]
    first = load_samples(path)[0]
    assert first.text == "Nobody."
    assert first.context == ("Who rows?", "The ferryman.", "And who steers?")
    assert (first.id, first.system) == ("c1", "m1")
    assert first.extra["instructions"] == "Be brief."


def test_chats_of_two_systems_are_paired_by_what_was_said_before(tmp_path: Path):
    from levelfield import compare

    for name, answer in (("a", "Nobody."), ("b", "Nobody knows.")):
        chats = [
            {
                "messages": [
                    {"role": "user", "content": f"Who steers boat {i}?"},
                    {"role": "assistant", "content": answer},
                ],
                "references": ["Nobody steers."],
            }
            for i in range(6)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(c) + "\n" for c in chats))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    ((_, c),) = compare(files, "rouge-1.references", cache=False)
    assert (c.a, c.b, c.inputs) == ("a", "b", 6)


def test_texts_that_have_messages_besides_are_read_as_ever(tmp_path: Path):
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({**CHAT, "text": "x"}))
    assert format_at(path) is FORMATS["jsonl"]
    assert load_samples(path)[0].text == "x"


def test_messages_can_be_mapped_as_ever(tmp_path: Path):
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps(CHAT))
    assert load_samples(path, mapping={"text": "messages.2.content"})[0].text == "The ferryman."
    path.write_text(json.dumps({"messages": CHAT["messages"][:2], "reply": "Nobody."}))
    assert format_at(path) is FORMATS["jsonl"]
    assert load_samples(path, mapping={"text": "reply"})[0].text == "Nobody."


def test_a_chat_longer_than_the_beginning_of_a_file_is_told(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    long = {"role": "user", "content": "x" * 2_000_000}
    path.write_text(json.dumps({"messages": [long, {"role": "assistant", "content": "short"}]}))
    assert load_samples(path)[0].text == "short"


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"messages": [{"role": "user", "content": "x"}]}, "no message of the assistant"),
        ({"messages": "x"}, "expected a list, found the string"),
        ({"messages": [{"content": "x"}]}, "message 1: expected an object with role and content"),
        ({}, "missing; a chat is a list of objects with role and content"),
    ],
)
def test_a_malformed_chat_is_named(tmp_path: Path, record: object, problem: str):
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps(CHAT) + "\n" + json.dumps(record) + "\n")
    with pytest.raises(InputError) as caught:
        open_samples([path]).check()
    assert caught.value.problems[0].startswith(f"{path}:2: messages: {problem}")
