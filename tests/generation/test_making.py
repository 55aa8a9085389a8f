"""Techniques are made from words, and what is wrong with a word is said in one line."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield.generation import techniques
from levelfield.generation.table import TECHNIQUES, make_technique, technique_class, technique_entry

pytest.importorskip("torch")


def test_every_technique_is_a_folder_with_class_entry_case_and_page():
    folders = [
        f for f in Path(techniques.__file__).parent.iterdir() if (f / "__init__.py").exists()
    ]
    names = {f.name.replace("_", "-"): f for f in folders if not f.name.startswith("_")}
    assert names.keys() == {name for name in TECHNIQUES if name != "stub"}
    for name, folder in names.items():
        files = {path.name for path in folder.iterdir()}
        assert {"technique.py", "entry.toml", "case.py"} <= files, name
        assert "page.md" in files or "page =" in (folder / "entry.toml").read_text("utf-8"), name


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_technique_of_the_table_is_made_without_options_and_bears_its_name(name: str) -> None:
    made = technique_class(name)
    needed = [
        p
        for p in inspect.signature(made).parameters.values()
        if p.default is inspect.Parameter.empty
    ]
    if needed:
        with pytest.raises(UserError, match=f"needs --option {needed[0].name}="):
            make_technique(name)
    else:
        assert make_technique(name).name == name


def test_words_become_values_of_the_types_of_the_options() -> None:
    made = make_technique("base", {"batch": "3", "allow_pickle": "true", "model": "gpt2"})
    assert made == make_technique("base", {"batch": 3, "allow_pickle": True, "model": "gpt2"})


def test_dashes_in_the_name_of_an_option_are_underscores() -> None:
    assert make_technique("base", {"allow-pickle": "true"}).loading.allow_pickle
    with pytest.raises(UserError, match="option allow_pickle is given twice"):
        make_technique("base", {"allow-pickle": "true", "allow_pickle": "true"})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bass", {}, "there is no technique 'bass'; did you mean base?"),
        ("zz", {}, "there is no technique 'zz'; `levelfield techniques` lists them"),
        ("base", {"batsh": "3"}, "base: there is no option 'batsh'; did you mean batch?"),
        (
            "base",
            {"batch": "3.5"},
            "base: option batch=3.5: expected a whole number from 1 on, or auto",
        ),
        ("base", {"dtype": "int8"}, "base: option dtype=int8: expected float32 or bfloat16"),
        (
            "base",
            {"batch": math.nan},
            "base: option batch=nan: expected a whole number from 1 on, or auto",
        ),
    ],
)
def test_a_word_that_is_wrong_is_named_with_what_there_is(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError) as error:
        make_technique(name, options)
    assert str(error.value) == message


def test_an_option_that_resembles_none_gets_the_list() -> None:
    with pytest.raises(UserError, match=r"there are .*model.*batch"):
        make_technique("base", {"qqq": "3"})


def test_an_entry_is_found_by_name() -> None:
    assert technique_entry("base").name == "base"
