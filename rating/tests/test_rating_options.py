"""Options of rating studies: the same values at every door, and a schema that agrees."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from levelfield.cli import levelfield
from levelfield.core.errors import UserError
from levelfield.core.options import Options
from levelfield_rating import schema
from levelfield_rating.export.documents import export
from levelfield_rating.model import RatingCriterion
from levelfield_rating.plan.cards import ExampleCard, PracticeCard
from levelfield_rating.plan.file import (
    LastPage,
    NegativeControls,
    RatingStudyTable,
    read_study,
)
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.plan.questions import RatingDesign
from levelfield_rating.serving import change_link
from levelfield_rating.settings import ExportOptions, LinkOptions, Serving, StoreOptions
from levelfield_rating.store import RatingStore
from study_folder import CRITERIA, TOP, rewrites, write_study

ROOT = Path(__file__).parents[2]

ID = "up to 60 letters a to z, digits, - _ and ., such as "
WRITTEN: list[tuple[str, type[Options], str, object, str]] = [
    ("", RatingStudyTable, "id", "a b", ID),
    ("", RatingStudyTable, "version", 0, "a whole number from 1 on"),
    ("", RatingStudyTable, "language", "the Queen's", "the tag of a language, such as en or pt-BR"),
    ("", RatingStudyTable, "ids", "own", "given or file"),
    ("", RatingStudyTable, "show", ["text"], "source, prompt or context"),
    ("design", RatingDesign, "kind", "pairs", "direct, pairwise or ranking"),
    ("design", RatingDesign, "surveys", 0, "a whole number from 1 to 1,000"),
    ("design", RatingDesign, "raters", 1001, "a whole number from 1 to 1,000"),
    ("design", RatingDesign, "seed", -1, "a whole number from 0 to 4,294,967,295"),
    ("design", RatingDesign, "pairs", "with:", '"all" or "with:SYSTEM"'),
    ("[criteria]", RatingCriterion, "id", "../x", ID),
    ("[criteria]", RatingCriterion, "scale", "stars", "slider, likert, pairwise or ranking"),
    ("[criteria]", RatingCriterion, "points", 1, "a whole number from 2 to 11"),
    ("[criteria]", RatingCriterion, "points", 12, "a whole number from 2 to 11"),
    ("controls", NegativeControls, "negative", -1, "a whole number from 0 to 1,000"),
    ("controls", NegativeControls, "kind", "worse", "auto, shuffled, dropped or other"),
    ("controls", NegativeControls, "rule", "lowest", "not-lowest or none"),
    ("completion", LastPage, "url", "javascript:x", "an address that begins with https:// or"),
    ("completion", LastPage, "code", 7, "a string"),
    ("[examples]", ExampleCard, "language", "??", "the tag of a language"),
    ("[practice]", PracticeCard, "hint", 3, "a string"),
]
"""Table, its class, key, a value outside, what is expected."""

NEEDED: dict[type[Options], dict[str, Any]] = {
    RatingStudyTable: {
        "id": "a", "title": "T", "samples": ["a"],
        "criteria": (RatingCriterion("c", "C", "S"),),
    },
    RatingCriterion: {"id": "c", "title": "C", "statement": "S"},
}  # fmt: skip


def complaints(document: dict[str, Any]) -> list[str]:
    """Returns the schema's complaints about a study file."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    return [error.json_path for error in validator.iter_errors(document)]


@pytest.mark.parametrize(("table", "cls", "key", "value", "expected"), WRITTEN)
def test_a_file_its_schema_and_python_refuse_the_same_values(
    tmp_path: Path, table: str, cls: type[Options], key: str, value: object, expected: str
) -> None:
    with pytest.raises(UserError, match=f"{key}=.*expected {re.escape(expected)}"):
        cls.of(**NEEDED.get(cls, {}) | {key: value})
    line = f"{key} = {json.dumps(value)}"
    if key == "id":
        pattern, top, criteria = r"id = .*", TOP, CRITERIA
        where = "criteria" if table else "top"
        parts = {"top": top, "criteria": criteria}
        parts[where] = re.sub(pattern, line, parts[where])
        file = write_study(tmp_path, rewrites(2), **parts)
    elif table == "[criteria]":
        file = write_study(tmp_path, rewrites(2), criteria=f"{CRITERIA}\n{line}")
    else:
        text = 'text = "a"\n' if table.startswith("[") else ""
        text += "accept = { content = [1, 2] }\n" if table == "[practice]" else ""
        part = f"[{table}]\n{text}{line}" if table else line
        file = write_study(tmp_path, rewrites(2), part)
    _, problems = read_study(file)
    place = "".join(f"{step}: " for step in [re.sub(r"\[(\w+)\]", r"\1[1]", table)] if step)
    assert any(p.startswith(f"{place}{key}") and f"expected {expected}" in p for p in problems), (
        problems
    )
    assert complaints(tomllib.loads(file.read_text("utf-8")))


# -- the schema


def shipped() -> dict[str, str]:
    """Returns the rating study files of the package, the examples and the documentation."""
    files = [
        ROOT / "rating/levelfield_rating/starter/STUDY.toml",
        ROOT / "examples/rating/STUDY.toml",
    ]
    page = (ROOT / "docs" / "rating-study-file.md").read_text("utf-8")
    parts = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    texts = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in files}
    return texts | {"rating-study-file.md": "".join(parts)}


SHIPPED = shipped()


@pytest.mark.parametrize("name", SHIPPED)
def test_study_files_that_are_shipped_keep_to_the_schema(name: str) -> None:
    assert complaints(tomllib.loads(SHIPPED[name])) == []


def test_the_schema_is_one_of_its_draft_and_the_command_prints_it() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    done = CliRunner().invoke(levelfield, ["rate", "schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == schema()


def test_every_key_has_a_description() -> None:
    tables = [schema()]
    keys = []
    while tables:
        table = tables.pop()
        for key, value in table["properties"].items():
            keys.append((key, value))
            tables += [t for t in (value, value.get("items", {})) if "properties" in t]
    assert len(keys) > 55
    assert [key for key, value in keys if not value.get("description")] == []


LIKERT = f'{CRITERIA}\nscale = "likert"'
PAIR = f'{CRITERIA}\nscale = "pairwise"'
PAIRS = '[design]\nkind = "pairwise"\n[[examples]]\n'
CARD = '[[practice]]\ntext = "a"\naccept ='
GOOD = [
    {"criteria": f'{LIKERT}\npoints = 2\nlabels = ["no", "yes"]'},
    {"below": '[words]\nwelcome = "Hi"\nconsent = { file = "STUDY.toml" }'},
    {"below": '[names]\ncontext = "Ann"'},
    {"below": '[names]\ncontext = ["Ann", "Bo"]'},
    {"below": f"{CARD} {{ content = [1, 30] }}"},
    {"below": "[tasks]\nformal = 'Do.'", "above": 'direction = "formality"'},
    {"above": "show = []"},
    {"below": f'{PAIRS}texts = ["a", "b"]', "criteria": PAIR},
]
BAD = [
    {"criteria": f"{CRITERIA}\npoints = 3"},
    {"criteria": f'{CRITERIA}\nlabels = ["a", "b"]'},
    {"criteria": ""},
    {"criteria": '[[criteria]]\nid = "a"\ntitle = "b"'},
    {"below": "[words]\nwelcome = 3"},
    {"below": '[words]\nconsent = { page = "STUDY.toml" }'},
    {"below": "[names]\ncontext = []"},
    {"below": '[names]\ntext = " "'},
    {"below": f"{CARD} {{ content = [1] }}"},
    {"below": f"{CARD} {{ content = true }}"},
    {"below": '[[examples]]\nsource = "a"'},
    {"below": '[[examples]]\ntext = "a"\ntexts = ["a", "b"]'},
    {"below": f"{PAIRS}texts = []", "criteria": PAIR},
    {"below": f'{PAIRS}texts = ["a"]', "criteria": PAIR},
    {"below": "[tasks]\nformal = 'Do.'"},
    {"below": "[tasks]\nformal = 'Do.'", "above": 'direction = "f"\ntask = "Go."'},
    {"below": '[design]\npairs = "all"'},
    {"below": "[design]\nrater = 2"},
    {"above": 'show = ["source", "source"]'},
    {"top": 'id = "a"\ntitle = "T"\nsamples = []'},
]


def study_of(folder: Path, parts: dict[str, str]) -> Path:
    """Returns a study file of these parts."""
    words = {key: parts[key] for key in ("top", "criteria") if key in parts}
    return write_study(
        folder, rewrites(2), parts.get("above", ""), parts.get("below", "[design]"), **words
    )


@pytest.mark.parametrize("parts", GOOD, ids=str)
def test_what_the_reader_accepts_the_schema_accepts(tmp_path: Path, parts: dict[str, str]) -> None:
    file = study_of(tmp_path, parts)
    assert read_study(file)[1] == ()
    assert complaints(tomllib.loads(file.read_text("utf-8"))) == []


@pytest.mark.parametrize("parts", BAD, ids=str)
def test_the_schema_and_the_reader_refuse_the_same(tmp_path: Path, parts: dict[str, str]) -> None:
    file = study_of(tmp_path, parts)
    assert read_study(file)[1]
    assert complaints(tomllib.loads(file.read_text("utf-8")))


# -- the command line

ADDRESS = "--url {}: expected an address such as https://example.org/ratings"
TYPED: list[tuple[list[str], type[Options], dict[str, Any], str]] = [
    (["serve", "--port", "-1"], Serving, {"port": -1}, "expected a whole number from 0 to 65,535"),
    (["serve", "--port", "65536"], Serving, {"port": 65536}, "expected a whole number from 0 to"),
    (["serve", "--url", "x"], Serving, {"url": "x"}, ADDRESS.format("x")),
    (["serve", "--url", "http://x/r"], Serving, {"url": "http://x/r"}, "put them elsewhere"),
    (
        ["serve", "--url", "http://x/../a"],
        Serving,
        {"url": "http://x/../a"},
        ADDRESS.format("http://x/../a"),
    ),
    (["links", "--url", "ftp://x"], LinkOptions, {"url": "ftp://x"}, ADDRESS.format("ftp://x")),
    (["links", "--slot", "0"], LinkOptions, {"slot": 0}, "expected a whole number from 1 on"),
    (["links", "--slot", "x"], LinkOptions, {"slot": "x"}, "expected a whole number from 1 on"),
    (["links", "--new"], LinkOptions, {"new": True}, "--new: give its --slot"),
    (
        ["links", "--slot", "1", "--new", "--revoke"],
        LinkOptions,
        {"slot": 1, "new": True, "revoke": True},
        "only one of --new, --revoke, --reassign",
    ),
]
"""Words, options, the same in Python, what is said of them."""


@pytest.mark.parametrize(("words", "cls", "values", "expected"), TYPED)
def test_a_command_and_python_refuse_a_value_with_the_same_words(
    tmp_path: Path, words: list[str], cls: type[Options], values: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UserError, match=re.escape(expected)):
        cls.of(**values)
    file = write_study(tmp_path, rewrites(2))
    done = CliRunner().invoke(levelfield, ["rate", words[0], str(file), *words[1:]])
    assert done.exit_code != 0
    message = f"{done.output} {done.exception}"
    assert expected in " ".join(message.replace("│", " ").split())
    assert not file.with_suffix(".sqlite").exists()


def test_functions_take_options_whole_or_by_name(tmp_path: Path) -> None:
    file = write_study(tmp_path, rewrites(4))
    path = StoreOptions().path(file)
    assert path == tmp_path / "STUDY.sqlite"
    assert StoreOptions(store="other.sqlite").path(file) == Path("other.sqlite")
    with contextlib.closing(RatingStore.create(path, freeze(file))) as store:
        link = change_link(store, slot=2, new=True)
        assert link is not None
        assert link.startswith("http://127.0.0.1:8765/r/")
        chosen = LinkOptions(slot=2, new=True)
        link = change_link(store, chosen, url="https://example.org/x/")
        assert link is not None
        assert link.startswith("https://example.org/x/r/")
        assert change_link(store, slot=2, revoke=True) is None
        assert [state.state for state in store.links()] == ["none", "revoked"]
        with pytest.raises(UserError, match="--slot 3: the study has 2 slots"):
            change_link(store, slot=3, new=True)
        with pytest.raises(UserError, match="there is no option 'slots'; did you mean 'slot'"):
            change_link(store, slots=1)
        whole = export(store, tmp_path / "a", ExportOptions(excluded=True))
        by_name = export(store, tmp_path / "b", excluded=True)
        assert [file.name for file in whole] == [file.name for file in by_name]
