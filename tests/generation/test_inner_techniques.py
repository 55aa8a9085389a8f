"""A technique inside a technique: in words, as a table, and as an instance, with equal texts."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation import CATPAW, PPLM, BestOfN, ClassifierFreeGuidance, Request
from levelfield.generation.contract import Decoding
from levelfield.generation.table import make_technique
from levelfield.study.ask.systems import technique_identity
from levelfield.study.plan import TechniqueSource
from levelfield.study.plan_file import load_plan
from stub_technique import Stub

REQUESTS = [Request("1", "The lake", {"sentiment": "positive"})]
SHORT = Decoding(max_new_tokens=4)
STUDY = """
name = "Inner"
seeds = [1]
metrics = ["diversity"]
datasets.openings.prompts = ["The lake"]
controls.sentiment.sentiment = ["positive"]

[[systems]]
name = "S"
technique = "NAME"
options = { OPTIONS }
"""


def best_of_n(inner: Any, words: str = "", **options: Any) -> BestOfN:
    return BestOfN(n=2, inner=inner, inner_options=words, metric_options="judges=vader", **options)


def cat_paw(inner: Any, words: str = "", **options: Any) -> CATPAW:
    return CATPAW(inner=inner, inner_options=words, model=cases.model(), bag=cases.bag(), **options)


def texts(technique: Any) -> list[str]:
    return [answer.text for answer in technique.generate(REQUESTS, decoding=SHORT)]


@pytest.mark.parametrize("outer", [best_of_n, cat_paw])
def test_words_a_table_and_an_instance_are_one_technique(outer: Any):
    model = cases.model()
    several = [
        outer("cfg", f"strength=3 against=opposite model={model}"),
        outer({"technique": "cfg", "strength": 3, "against": "opposite", "model": model}),
        outer(ClassifierFreeGuidance(strength=3.0, against="opposite", model=model)),
    ]
    assert len({technique.signature for technique in several}) == 1
    assert len({tuple(texts(technique)) for technique in several}) == 1
    assert pickle.loads(pickle.dumps(several[2])).signature == several[0].signature


def test_the_outer_technique_decides_on_the_base_and_the_strength_of_what_it_paces():
    guidance = ClassifierFreeGuidance(strength=3.0)
    assert cat_paw(guidance).signature == cat_paw("cfg", "strength=3").signature
    assert cat_paw(guidance, strength=7).signature == cat_paw("cfg", strength=7).signature
    assert cat_paw(PPLM(iterations=2)).signature == cat_paw("pplm", "iterations=2").signature


def test_an_instance_inside_best_of_n_has_its_own_base_and_batch():
    inner = make_technique("base", {"model": cases.model()})
    with pytest.raises(UserError, match="techniques that have their own do not accept"):
        best_of_n(inner, model="gpt2")
    with pytest.raises(UserError, match="techniques that have their own do not accept"):
        best_of_n(inner, batch=2)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: best_of_n("cgf"), "did you mean cfg?"),
        (lambda: best_of_n(5), "expected base, copy"),
        (lambda: best_of_n({"strength": 3}), 'inner: technique is ""; expected base, copy'),
        (lambda: best_of_n({"technique": "best-of-n"}), 'inner: technique is "best-of-n"'),
        (lambda: best_of_n({"technique": "cfg", "size": 3}), "there is no option 'size'"),
        (lambda: best_of_n({"technique": "cfg"}, "strength=3"), "inner_options: only"),
        (lambda: cat_paw("caa"), "expected cfg"),
        (lambda: cat_paw(make_technique("caa")), "caa does not act at the logits"),
        (lambda: cat_paw(Stub()), "stub does not act at the logits"),
    ],
)
def test_a_wrong_inner_technique_is_an_error(call: Any, complaint: str):
    with pytest.raises(UserError) as error:
        call()
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("name", "words", "table"),
    [
        (
            "best-of-n",
            'inner = "cfg", inner_options = "strength=3 model=MODEL"',
            'inner = { technique = "cfg", strength = 3, model = "MODEL" }',
        ),
        (
            "cat-paw",
            'inner = "cfg", inner_options = "strength=3", model = "MODEL"',
            'inner = { technique = "cfg", strength = 3 }, model = "MODEL"',
        ),
    ],
)
def test_a_study_file_has_a_table_for_an_inner_technique(
    name: str, words: str, table: str, tmp_path: Path
):
    identities = []
    for options in (words, table):
        text = STUDY.replace("NAME", name).replace("OPTIONS", options)
        (tmp_path / "study.toml").write_text(text.replace("MODEL", cases.model()), "utf-8")
        source = load_plan(tmp_path / "study.toml").systems[0].source
        assert isinstance(source, TechniqueSource)
        sent = json.loads(json.dumps(dict(source.options)))  # to the process that writes
        assert make_technique(name, sent).signature
        identities.append(technique_identity(source))
    assert identities[0] == identities[1]


def test_terms_of_a_combination_are_tables_of_a_study_file(tmp_path: Path):
    options = (
        'model = "MODEL", formula = "base + 2 * asked + cfg", '
        'terms = { asked = { text = "A {sentiment} text: ", temperature = 2.0 }, '
        'cfg = { technique = "cfg", attribute = "sentiment", strength = 3 } }'
    ).replace("MODEL", cases.model())
    text = STUDY.replace("NAME", "combination").replace("OPTIONS", options)
    (tmp_path / "study.toml").write_text(text, "utf-8")
    source = load_plan(tmp_path / "study.toml").systems[0].source
    assert isinstance(source, TechniqueSource)
    assert "A {sentiment} text: " in make_technique("combination", source.options).signature
