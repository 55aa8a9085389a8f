"""Judges by name."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from levelfield.core.errors import UserError
from levelfield.train.judge import recipes
from levelfield.train.labelled import apart


def test_there_is_a_recipe_for_every_set_and_architecture():
    names = recipes.names()
    assert len(names) == 16
    for name in names:
        assert recipes.spec_of(name).architecture == name.rpartition("-")[2]
    with pytest.raises(UserError, match="did you mean sentiment-textcnn"):
        recipes.spec_of("sentimental-textcnn")


@pytest.mark.slow
@pytest.mark.usefixtures("rated_data")
def test_what_may_ship_is_learnt_from_nothing_of_sst2():
    """Both sets come from the same reviews."""
    texts = recipes.texts_of("sentiment-nltk-linear")
    assert len(texts.test) == 1821
    assert apart(texts.train, texts.test.texts)[1] == 0
    assert all("CC BY 4.0" in source for source in texts.sources)
    assert texts.facts["Left out"].startswith("1,686 texts")


def test_the_figures_that_are_shown_are_those_of_recipes():
    file = resources.files("levelfield.train.judge") / "figures.toml"
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["measured"]
    assert {row["recipe"] for row in rows} <= set(recipes.names())
    assert len({row["recipe"] for row in rows}) == len(rows)
    assert all(row["recipe"].startswith("formality") == ("spearman" in row) for row in rows)
