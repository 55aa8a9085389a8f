from __future__ import annotations

import json

import pytest


def test_lines_are_objects_and_blank_lines_are_skipped(read):
    samples = read("out.jsonl", '\n  {"text": "a", "id": 5} \n\n \t\r\n{"text": "b"}\r\n\n')
    assert [(s.id, s.text) for s in samples] == [("5", "a"), ("out:5", "b")]


def test_only_newlines_end_a_line(read):
    text = "one\u2028two\u2029three\x85four\x0bfive\x0csix\x1cseven"
    (sample,) = read("out.ndjson", json.dumps({"text": text}, ensure_ascii=False))
    assert sample.text == text


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_byte_order_mark_is_no_part_of_the_text(read, name):
    record = '{"text": "a"}'
    content = f"[{record}]" if name == "a.json" else record
    assert read(name, b"\xef\xbb\xbf" + content.encode())[0].text == "a"


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt", "a.json"])
def test_a_file_of_wide_characters_is_named_as_such(problems, name, encoding):
    (found,) = problems(name, '{"text": "a"}\n{"text": "b"}\n'.encode(encoding))
    assert found.startswith(f"{name}: the file is {encoding}, expected UTF-8; convert it: iconv")


def test_every_bad_line_is_reported_with_its_number(problems):
    found = problems(
        "bad.jsonl",
        b"\n".join(
            [
                b'{"text": "good"}',
                b"{'text': 'quotes of another language'}",
                b'["a list"]',
                b'{"output": "no text"}',
                b'{"text": "caf\xe9"}',
                b'{"text": "zero\0"}',
                b'{"text": "\\ud83d half of a smile"}',
                b'{"text": "a"} and more',
                b'{"text": ' + b"[" * 100_000,
                b'{"seed": ' + b"9" * 5_000 + b"}",
                b'"only a string"',
                b'{"text": "cut off in the mid',
            ]
        ),
    )
    assert [p.partition(": ")[0] for p in found] == [f"bad.jsonl:{n}" for n in range(2, 13)]
    for problem, says in zip(
        found,
        [
            "not JSON: expecting property name enclosed in double quotes at column 2",
            "found a list",
            "--map text=output",
            "not UTF-8: byte 0xe9 at column 14; convert it: iconv",
            "NUL character at column 15",
            "text: a lone surrogate (\\ud83d) at character 1",
            "not JSON: more after the end of the value at column 14",
            "nested too deeply",
            "too many digits",
            'found the string "only a string"',
            "not JSON: unterminated string",
        ],
        strict=True,
    ):
        assert says in problem


def test_a_list_in_place_of_lines_and_lines_in_place_of_a_list_are_recognised(problems):
    assert "--format json" in problems("a.jsonl", '[\n{"text": "a"}\n]')[0]
    assert "--format jsonl" in problems("a.json", '{"text": "a"}\n{"text": "b"}')[0]


def test_a_json_file_is_a_list_of_objects(read):
    samples = read("out.json", '\n[ {"text": "a"}\n,\n{"text": "b", "seed": NaN}]\n')
    assert [(s.id, s.text, s.seed) for s in samples] == [("out:1", "a", None), ("out:2", "b", None)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('[{"text": "a"}, 3]', "a.json:item 2: expected an object"),
        ('[{"text": "a"},\n{"text" "b"}]', "a.json:item 2: not JSON: expecting ':' delimiter at l"),
        (
            '[{"text": "a"}',
            "a.json:item 1: not JSON: expected , or ] after the object at column 15",
        ),
        ('[{"text": "a"},]', "a.json:item 2: not JSON"),
        ('[{"text": "a"}] [', "a.json: there is more after the end of the list"),
        ("[", "a.json:item 1: not JSON"),
        ("3", 'a.json: expected a list of objects, which begins with [, found "3"'),
        (b'[{"text":\n"\xff"}]', "a.json: line 2: not UTF-8: byte 0xff at column 2"),
        ("[" * 100_000, "a.json:item 1: not JSON: lists or objects nested too deeply"),
        ("[]", "no samples in a.json"),
        (" \n", "no samples in a.json"),
    ],
)
def test_what_is_wrong_with_a_json_file_is_told(problems, content, problem):
    found = problems("a.json", content)
    assert found[-1].startswith(problem)


def test_a_text_file_has_one_text_a_line_and_an_empty_line_is_an_empty_text(read):
    samples = read("out.txt", 'a\tb "c"\r\n\n  d  \n')
    assert [(s.id, s.text) for s in samples] == [
        ("out:1", 'a\tb "c"'),
        ("out:2", ""),
        ("out:3", "  d  "),
    ]


def test_a_line_without_end_is_not_read_into_memory(problems, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.LINE_BYTES", 1_000)
    (found,) = problems("a.jsonl", b"\0" * 5_000)
    assert found.startswith("a.jsonl:1: a line of more than 1,000 bytes")


def test_a_line_of_too_many_values_is_refused_before_it_is_parsed(problems, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.RECORD_VALUES", 1_000)
    line = json.dumps({"text": "a", "more": [[]] * 1_100})
    (found,) = problems("a.jsonl", f'{{"text": "a"}}\n{line}')
    assert found.startswith("a.jsonl:2: more than 1,000 values in one record")


def test_an_item_of_too_many_values_is_refused_and_many_small_ones_are_not(
    read, problems, monkeypatch
):
    monkeypatch.setattr("levelfield.core.limits.RECORD_VALUES", 1_000)
    small = [{"id": i, "text": 'a "b", [c] {\\" d'} for i in range(900)]
    assert len(read("a.json", json.dumps(small))) == 900
    large = json.dumps([small[0], {"text": "a", "more": [[]] * 1_100}, small[1]])
    (found,) = problems("a.json", large)
    assert found.startswith("a.json:item 2: more than 1,000 values in one record")
    (found,) = problems("a.json", large[:-60])  # cut off within a string
    assert "more than 1,000 values" in found
