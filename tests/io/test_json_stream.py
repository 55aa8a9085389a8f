"""Parts of a JSON document are those that Python's own reader finds, however it is cut."""

from __future__ import annotations

import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.io.json_stream import JsonStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


class Drops(io.BytesIO):
    """Gives a few bytes at a time, whatever is asked for."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(3 if size else 0)


def stream(document: object, **words: object) -> JsonStream:
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return JsonStream(Drops(text.encode()), **words)


@given(VALUES, st.sampled_from([None, 1]))
def test_a_value_is_that_of_the_whole_document(value: object, indent: int | None):
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert stream(text).value() == json.loads(text)


@given(st.dictionaries(st.text(max_size=5), VALUES), st.sets(st.integers(0, 5)))
def test_members_that_are_left_alone_are_skipped(document: dict[str, object], read: set[int]):
    parts = stream(document)
    seen = {}
    for i, name in enumerate(parts.members()):
        seen[name] = parts.value() if i in read else None
    expected = {name: v if i in read else None for i, (name, v) in enumerate(document.items())}
    assert seen == expected
    assert parts.next == ""


@given(st.lists(VALUES))
def test_items_come_one_by_one_with_their_numbers(items: list[object]):
    parts = stream(items)
    assert [(n, parts.value()) for n in parts.items()] == list(enumerate(items, 1))


def test_a_look_at_what_comes_next_is_no_step():
    parts = stream('{ "a" :  [1] , "b": 2}')
    looks = [(name, parts.next) for name in parts.members()]
    assert looks == [("a", "["), ("b", "2")]


def test_numbers_that_json_has_none_of_are_read_as_python_writes_them():
    assert math.isnan(stream("NaN").value())
    assert stream("[-Infinity]").value() == [-math.inf]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a list, which begins with [ (at character 1)"),
        ("[1,", "the document ends where a value is expected (at character 4)"),
        ("[1, 2", "expected , or ] (at character 6)"),
        ("[1,]", "expected a value after the comma (at character 4)"),
        ("{}", "expected a list, which begins with [ (at character 1)"),
        ("[1 2]", "expected , or ] (at character 4)"),
        ("[nonsense]", "expecting value (at character 2)"),
        ("[" * 100_000, "lists or objects nested too deeply"),
    ],
)
def test_a_broken_document_says_where_it_breaks(text: str, problem: str):
    parts = JsonStream(io.BytesIO(text.encode()))
    with pytest.raises(ValueError, match="not JSON: ") as caught:
        [parts.value() for _ in parts.items()]
    assert problem in str(caught.value)


def test_what_is_not_utf8_is_named():
    with pytest.raises(ValueError, match="not UTF-8: byte 0xff"):
        JsonStream(io.BytesIO(b'["\xff"]')).value()


def test_a_part_longer_than_the_limit_is_refused_and_shorter_ones_are_not():
    document = [["x" * 50] * 2_000, ["y"]]
    parts = JsonStream(io.BytesIO(json.dumps(document).encode()), most=200_000)
    assert [parts.value() for _ in parts.items()] == document
    parts = JsonStream(io.BytesIO(json.dumps(document).encode()), most=50_000)
    with pytest.raises(ValueError, match="a part of more than 50,000 characters"):
        [parts.value() for _ in parts.items()]


def test_a_document_of_many_parts_is_not_held(tmp_path):
    import tracemalloc

    path = tmp_path / "long.json"
    with path.open("w") as file:
        file.write("[0")
        for _ in range(300):
            file.write(', "' + "z" * 100_000 + '"')
        file.write("]")
    with path.open("rb") as opened:
        parts = JsonStream(opened)
        tracemalloc.start()
        n = sum(1 for _ in parts.items() if parts.value() is not None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert n == 301
    assert peak < 3_000_000
