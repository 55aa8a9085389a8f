"""Tables in tables: declared, read from TOML, and described by a JSON schema."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from levelfield.core.errors import UserError
from levelfield.core.options import Options, choices, json_schema, option, schema_document
from levelfield.io.toml import TomlTable


@dataclass(frozen=True, kw_only=True)
class Page(Options):
    name: str = option(help="Title of the page.", example='"Start"')
    words: float = option(10.0, "Words a minute.", above=0)
    tags: tuple[str, ...] = option((), "Tags.", fewest=1, example='["a"]')
    variables: Mapping[str, str] = option({}, "Variables.", blank=True)


@dataclass(frozen=True, kw_only=True)
class Book(Options):
    seeds: tuple[int, ...] = option(help="Seeds.", least=0, fewest=1, example="[1, 2]")
    cover: Page | None = option(None, "The cover.")
    pages: tuple[str | Page, ...] = option(help="Pages.", fewest=1, example="[[pages]]")
    notes: Mapping[str, Page] = option({}, "Pages by name.")
    folder: str = option("", "Folder.", key="out")


def read(text: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    problems: list[str] = []
    top = TomlTable(tomllib.loads(text), "", problems)
    found = top.values(Book, complete=True)
    pages = []
    for name in ("cover", "pages", "notes"):
        for table in top.inside(Book, name):
            pages.append(table.values(Page) | ({"by": table.name} if table.name else {}))
            table.finish()
    top.finish()
    return found, pages, problems


def test_tables_are_read_wherever_they_are_declared() -> None:
    found, pages, problems = read(
        'seeds = [1]\nout = "o"\npages = ["one", { name = "two", words = 3 }]\n'
        '[cover]\nname = "front"\nvariables = { A = "" }\n[notes.x]\nname = "n"\ntags = ["t"]'
    )
    assert problems == []
    assert found == {"seeds": (1,), "folder": "o"}
    assert pages == [
        {"name": "front", "variables": {"A": ""}},
        {"name": "one"},
        {"name": "two", "words": 3.0},
        {"name": "n", "tags": ("t",), "by": "x"},
    ]


def test_all_mistakes_are_noted_with_their_places() -> None:
    found, _, problems = read(
        'seeds = [1, -1]\npages = [3, { name = " ", words = 0, tags = [] }]\n'
        '[cover]\nname = 3\nvariables = { A = 1 }\n[notes.x]\nname = "n"\nword = 3'
    )
    assert found["seeds"] is None
    assert problems == [
        "seeds[2]: expected a whole number from 0 on; found -1",
        'cover: name: expected a string, such as "Start"; found 3',
        "cover: variables: A: expected a string; found 1",
        "pages[1]: expected a table, such as [[pages]]; found 3",
        'pages[2] " ": name: expected a string that is not empty, such as "Start"; found " "',
        'pages[2] " ": words: expected a number above 0; found 0',
        'pages[2] " ": tags: expected a list of strings, such as ["a"]; found an empty list',
        'notes.x: word: there is no such key; did you mean "words"?',
    ]


def test_what_is_required_and_what_is_no_table_is_noted() -> None:
    _, _, problems = read("cover = 3\nnotes = 4")
    assert problems == [
        "seeds: expected a list of whole numbers from 0 on, such as [1, 2]; there is none",
        "cover: expected a table; found 3",
        "pages: expected at least one table, such as [[pages]]; there is none",
        "notes: expected tables; found 4",
    ]


def test_an_unknown_key_lists_each_key_once() -> None:
    problems: list[str] = []
    table = TomlTable({"x": 1}, "", problems)
    table.take("name")
    table.take("name")
    table.finish()
    assert problems == ['x: there is no such key; there are "name"']


def test_a_number_beyond_all_floats_is_refused() -> None:
    _, _, problems = read(f'seeds = [1]\npages = [{{ name = "a", words = 1{"0" * 400} }}]')
    assert problems[0].startswith('pages[1] "a": words: expected a number above 0; found')


def test_a_list_with_too_few_items_is_refused_in_python_too() -> None:
    with pytest.raises(UserError, match="expected a list of strings"):
        Page(name="a", tags=())


def test_the_schema_describes_the_tables() -> None:
    document = schema_document(json_schema(Book), "A book")
    assert json.loads(json.dumps(document)) == document
    assert list(document["properties"]) == ["seeds", "cover", "pages", "notes", "out"]
    assert document["required"] == ["seeds", "pages"]
    assert document["properties"]["seeds"] == {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "minItems": 1,
        "description": "Seeds.",
    }
    page = document["properties"]["cover"]
    assert page["properties"]["words"]["exclusiveMinimum"] == 0
    assert page["properties"]["words"]["default"] == 10.0
    assert page["properties"]["name"]["pattern"] == r"\S"
    assert page["properties"]["variables"]["additionalProperties"] == {"type": "string"}
    assert page["additionalProperties"] is False
    pages = document["properties"]["pages"]["items"]["anyOf"]
    assert [kind["type"] for kind in pages] == ["string", "object"]
    notes = document["properties"]["notes"]["additionalProperties"]
    assert notes["required"] == ["name"]


def test_a_required_value_may_be_positional() -> None:
    @dataclass(frozen=True)
    class Program(Options):
        command: tuple[str, ...] = option(help="Words.", positional=True)
        retries: int = option(1, "Tries.", least=0)

    assert Program(("a",), 3).retries == 3
    assert choices(Program)["command"].required
