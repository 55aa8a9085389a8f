"""Techniques in a study file: what it may say, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_plan import CONTROLS, load, problems

from levelfield.generation.contract import Decoding
from levelfield.io.toml import read_toml
from levelfield.models.torch import language_model
from levelfield.study import schema
from levelfield.study.plan import TechniqueSource
from levelfield.study.plan_file import load_plan

pytest.importorskip("torch")

TOP = 'name = "Openings"\nseeds = [1]'
BASE = '[[systems]]\nname = "a"\ntechnique = "base"'
CFG = '[[systems]]\nname = "a"\ntechnique = "cfg"'
B = '[[systems]]\nname = "b"\ntechnique = "cfg"'


@pytest.fixture(autouse=True)
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model may be loaded while a file is read."""
    language_model.language_model.cache_clear()
    monkeypatch.setattr(language_model, "load_pretrained", lambda *_: pytest.fail("loads a model"))


def source(folder: Path, systems: str, *, top: str = TOP) -> TechniqueSource:
    (system, *_) = load(folder, systems=systems, top=top).systems
    assert isinstance(system.source, TechniqueSource)
    return system.source


def test_a_technique_needs_its_name_only(tmp_path: Path) -> None:
    technique = source(tmp_path, BASE)
    assert technique == TechniqueSource(
        "base", {"model": "offline/smollm2"}, Decoding(), timeout_s=3600.0, retries=1
    )
    assert technique.base == "offline/smollm2"


def test_seeds_of_techniques_draw_for_each_text_unless_the_file_says_otherwise(
    tmp_path: Path,
) -> None:
    program = '[[systems]]\nname = "own"\ncommand = ["own"]'
    for top, draws, expected in (
        ("", "", ("text", "run")),
        ('\ndraws = "run"', "", ("run", "run")),
        ("", '\ndraws = "text"', ("text", "text")),
        ('\ndraws = "text"', '\ndraws = "run"', ("text", "run")),
    ):
        plan = load(tmp_path, systems=f"{BASE}\n{program}{draws}", top=TOP + top)
        assert tuple(system.draws for system in plan.systems) == expected


def test_options_and_decoding_have_the_types_of_the_technique(tmp_path: Path) -> None:
    keys = """
        model = "gpt2"
        options = { strength = 3, batch = 4, allow_pickle = true, dtype = "bfloat16" }
        decoding = { max_new_tokens = 30, top_p = 1, greedy = true }
        timeout_s = 60
        retries = 2
        """
    technique = source(tmp_path, CFG + keys)
    assert technique.options == {
        "model": "gpt2",
        "strength": 3.0,
        "batch": 4,
        "allow_pickle": True,
        "dtype": "bfloat16",
    }
    assert technique.decoding == Decoding(max_new_tokens=30, top_p=1.0, greedy=True)
    assert (technique.timeout_s, technique.retries) == (60.0, 2)


def test_dashes_in_the_names_of_options_are_underscores(tmp_path: Path) -> None:
    technique = source(tmp_path, CFG + "\noptions = { allow-pickle = true }")
    assert technique.options == {"model": "offline/smollm2", "allow_pickle": True}
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(read_toml(tmp_path / "study.toml"), schema())


def test_base_and_decoding_at_the_top_are_those_of_all_systems_that_name_no_other(
    tmp_path: Path,
) -> None:
    top = f'{TOP}\nmodel = "./base"\ndecoding = {{ max_new_tokens = 30, top_k = 10 }}'
    other = 'model = "gpt2"\ndecoding = { top_k = 0 }'
    plan = load(tmp_path, top=top, systems=f"{BASE}\n{B}\n{other}")
    a, b = (system.source for system in plan.systems)
    assert isinstance(a, TechniqueSource)
    assert isinstance(b, TechniqueSource)
    assert a.options["model"] == str(tmp_path / "base")
    assert a.base == "base"
    assert b.base == "gpt2"
    assert a.decoding == Decoding(max_new_tokens=30, top_k=10)
    assert b.decoding == Decoding(max_new_tokens=30, top_k=0)
    assert plan.techniques == {"a": ("base", "base"), "b": ("cfg", "gpt2")}


def test_the_example_has_three_techniques_on_one_base() -> None:
    examples = Path(__file__).parents[2] / "examples" / "techniques"
    plan = load_plan(examples / "study.toml")
    assert [name for name, _ in plan.techniques.values()] == ["base", "dexperts", "gedi"]
    assert {base for _, base in plan.techniques.values()} == {"offline/smollm2"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('technique = "bass"', 'technique: there is no technique "bass"; did you mean "base"?'),
        ("technique = 3", "technique: expected a string"),
        (
            'technique = "base"\ncommand = ["x"]',
            "expected one of command, files, callable, technique; found command, technique",
        ),
        (
            'technique = "cfg"\noptions = { strenth = 3 }',
            "cfg: there is no option 'strenth'; did you mean strength?",
        ),
        (
            'technique = "cfg"\noptions = { strength = "x" }',
            "cfg: option strength=x: expected a number",
        ),
        ('technique = "cfg"\noptions = { strength = [] }', "options: strength: expected a string"),
        (
            'technique = "base"\noptions = { batch = 0 }',
            "base: option batch=0: expected a whole number from 1 on, or auto",
        ),
        (
            'technique = "base"\noptions = { allow-pickle = true, allow_pickle = true }',
            "options: option allow_pickle is given twice",
        ),
        ('technique = "base"\nguide = "./g"', "base: there is no option 'guide'"),
        (
            'technique = "base"\nmodel = "a"\noptions = { model = "b" }',
            "options: model: the system has its own model; leave out one of them",
        ),
        (
            'technique = "base"\ndecoding = { top_q = 1 }',
            'decoding: top_q: there is no such key; did you mean "top_p"?',
        ),
        (
            'technique = "base"\ndecoding = { top_p = 2 }',
            "decoding: top_p: expected a number above 0, at most 1; found 2",
        ),
        (
            'technique = "base"\ndecoding = { max_new_tokens = 0.5 }',
            "decoding: max_new_tokens: expected a whole number from 1 on; found 0.5",
        ),
        ('technique = "base"\nenvironment = {}', "environment: only a system with command has"),
        ('command = ["x"]\ndecoding = {}', "decoding: only a system with technique has this"),
        ('command = ["x"]\nguide = "g"', "guide: only a system with technique has this"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, keys: str, expected: str) -> None:
    (only,) = problems(tmp_path, systems=f'[[systems]]\nname = "a"\n{keys}')
    assert only.startswith(f'systems[1] "a": {expected}')


def test_all_mistakes_of_all_techniques_are_named_at_once(tmp_path: Path) -> None:
    lines = problems(
        tmp_path,
        top=f"{TOP}\ndecoding = {{ top_p = 2, top_k = -1 }}",
        systems=f"{BASE}\noptions = {{ batch = 1.5, btch = 1 }}\n"
        f"{B}\noptions = {{ against = 'x' }}\nmodel = ''",
    )
    assert len(lines) == 6


def test_base_and_decoding_without_a_technique_are_refused(tmp_path: Path) -> None:
    top = f'{TOP}\nmodel = "gpt2"\ndecoding = {{ top_k = 3 }}'
    lines = problems(tmp_path, top=top, systems='[[systems]]\nname = "a"\ncommand = ["x"]')
    assert [line.partition(":")[0] for line in lines] == ["model", "decoding"]


class TestRefusal:
    """Of a technique that knows the labels glad and sad, and no keywords."""

    @pytest.fixture(autouse=True)
    def _refuses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from levelfield.generation.technique import UncontrolledBase

        def refusal(_: object, control: dict[str, object]) -> str:
            if "keywords" in control:
                return "it has no keywords"
            return "" if control["sentiment"] in ("glad", "sad") else "no such label"

        monkeypatch.setattr(UncontrolledBase, "refusal", refusal)

    def test_refusals_of_a_technique_come_before_anything_is_loaded(self, tmp_path: Path) -> None:
        controls = f'{CONTROLS}\n[controls.k]\nkeywords = [["court", "culture"]]'
        sentiment, keywords = problems(tmp_path, controls=controls, systems=BASE)
        assert sentiment == (
            'systems[1] "a": technique base refuses "positive" (and 1 more) of "sentiment": no '
            "such label; or name the controls in which the system takes part: controls = [ … ]"
        )
        assert keywords.startswith(
            'systems[1] "a": technique base refuses "court, culture" of "k": it has no keywords'
        )

    def test_it_is_asked_in_the_words_of_the_system(self, tmp_path: Path) -> None:
        labels = 'labels.sentiment = { positive = ["glad", "happy"], negative = "sad" }'
        (only,) = problems(tmp_path, systems=f"{BASE}\n{labels}")
        assert 'refuses "positive" of "sentiment"' in only
        fine = 'labels.sentiment = { positive = "glad", negative = [] }'
        assert load(tmp_path, systems=f"{BASE}\n{fine}").systems

    def test_controls_that_it_takes_no_part_in_do_not_matter(self, tmp_path: Path) -> None:
        controls = '[controls.k]\nkeywords = [["court"]]\n[controls.s]\nsentiment = ["glad"]'
        plan = load(tmp_path, controls=controls, systems=f'{BASE}\ncontrols = ["s"]')
        assert plan.systems[0].controls == ("s",)
