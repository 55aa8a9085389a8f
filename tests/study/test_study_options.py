"""Options of studies: the same values at every door, and a schema that agrees with the reader."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from studies import command, plan
from test_plan import CONTROLS, DATASETS, METRICS, SYSTEMS, load

from levelfield.cli import levelfield
from levelfield.core.errors import InputError, UserError
from levelfield.generation.contract import Decoding
from levelfield.io.toml import read_toml
from levelfield.study import load_study, schema
from levelfield.study.plan import CallableSource, CommandSource, FilesSource, TechniqueSource
from levelfield.study.plan_file import load_plan
from levelfield.study.settings import StudyMeasureOptions, StudyReportOptions, StudyRunOptions
from levelfield.study.verbs import Study

ROOT = Path(__file__).parents[2]

TYPED = [
    ("run", StudyRunOptions, "jobs", 0, "a whole number from 1 to 1,000"),
    ("run", StudyRunOptions, "jobs", 1001, "a whole number from 1 to 1,000"),
    ("run", StudyRunOptions, "workers", 0, "a whole number from 1 to 1,024"),
    ("run", StudyRunOptions, "time_limit", 0, "a number above 0, at most 100,000,000"),
    ("run", StudyRunOptions, "dtype", "float16", "float32 or bfloat16"),
    ("measure", StudyMeasureOptions, "batch_tokens", 0, "a whole number from 1 on"),
    ("measure", StudyMeasureOptions, "engine", "abacus", "auto or torch"),
    ("report", StudyReportOptions, "seed", -1, "a whole number from 0 to 4,294,967,295"),
    ("report", StudyReportOptions, "family", "study", "metric, run or fdr"),
]
"""Verb, options, option, a value outside, what is expected."""


@pytest.mark.parametrize(("verb", "cls", "name", "value", "expected"), TYPED)
def test_a_command_and_python_refuse_a_value_with_the_same_words(
    tmp_path: Path, verb: str, cls: Any, name: str, value: object, expected: str
) -> None:
    load(tmp_path)
    file = str(tmp_path / "study.toml")
    with pytest.raises(UserError, match=re.escape(f"{name}={value}: expected {expected}")):
        cls.of(**{name: value})
    with pytest.raises(UserError, match=re.escape(f"expected {expected}")):
        getattr(load_study(file), verb)(**{name: value})
    word = f"--{name.replace('_', '-')}"
    done = CliRunner().invoke(levelfield, ["study", verb, file, word, str(value)])
    assert done.exit_code != 0
    message = " ".join(done.output.replace("│", " ").split())
    assert f"expected {expected}" in message


def test_a_verb_takes_its_options_whole_or_by_name(tmp_path: Path) -> None:
    study = Study("A study", "study.toml", plan(tmp_path, command("well")))
    assert study.run(StudyRunOptions(jobs=2, scores=False)).asked_now == 1
    assert study.run(StudyRunOptions(jobs=2), scores=False).asked_now == 0
    with pytest.raises(UserError, match="there is no option 'job'; did you mean 'jobs'"):
        study.run(job=2)


WRITTEN: list[tuple[str, Callable[[], object], str, object, str]] = [
    *(
        (keys, cls, name, value, expected)
        for keys, cls in {
            'command = ["gedi"]': lambda **words: CommandSource(("gedi",), **words),
            'callable = "a:b"': lambda **words: CallableSource("a:b", **words),
            'technique = "base"': lambda **words: TechniqueSource("base", **words),
        }.items()
        for name, value, expected in [
            ("timeout_s", 0, "a number above 0"),
            ("timeout_s", "soon", "a number above 0"),
            ("retries", -1, "a whole number from 0 to 100"),
            ("retries", 101, "a whole number from 0 to 100"),
            ("retries", 1.5, "a whole number from 0 to 100"),
        ]
    ),
    ('files = "a.csv"', lambda **words: FilesSource("a.csv", **words), "format", "xls", "jsonl"),
    *(
        ('technique = "base"', Decoding, name, value, expected)
        for name, value, expected in [
            ("top_p", 2, "a number above 0 to 1"),
            ("temperature", 0, "a number above 0"),
            ("max_new_tokens", 0, "a whole number from 1 on"),
            ("greedy", 1, "true or false"),
        ]
    ),
]
"""Keys of a system, what Python calls, option, a value outside, what is expected."""


@pytest.mark.parametrize(("keys", "cls", "name", "value", "expected"), WRITTEN)
def test_a_file_its_schema_and_python_refuse_the_same_values(
    tmp_path: Path, keys: str, cls: Any, name: str, value: object, expected: str
) -> None:
    with pytest.raises(UserError, match=re.escape(f"{name}={value}: expected {expected[:8]}")):
        cls(**{name: value})
    field = f"decoding.{name}" if cls is Decoding else name
    system = f'[[systems]]\nname = "a"\n{keys}\n{field} = {json.dumps(value)}'
    with pytest.raises(InputError) as caught:
        load(tmp_path, systems=system)
    (problem,) = caught.value.problems
    place = f'systems[1] "a": {field.replace(".", ": ")}: expected {expected[:8]}'
    assert place in problem
    assert complaints(read_toml(tmp_path / "study.toml"))


# -- the schema


def complaints(document: dict[str, Any]) -> list[str]:
    """Returns the schema's complaints about a study file."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    return [error.json_path for error in validator.iter_errors(document)]


def shipped() -> Iterator[tuple[str, str]]:
    """Yields the study files of the examples and of the documentation."""
    for file in sorted((ROOT / "examples").rglob("*.toml")):
        if "[[systems]]" in (text := file.read_text("utf-8")) and "[datasets." in text:
            yield str(file.relative_to(ROOT)), text
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        for n, text in enumerate(blocks, 1):
            if "[[systems]]" in text and "[datasets." in text:
                yield f"{page.name} {n}", text


SHIPPED = dict(shipped())


def test_examples_and_documentation_have_study_files() -> None:
    assert {"examples/study/study.toml", "examples/techniques/study.toml"} <= SHIPPED.keys()
    assert any(name.startswith("study-file.md") for name in SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_study_files_that_are_shipped_keep_to_the_schema(name: str) -> None:
    assert complaints(tomllib.loads(SHIPPED[name])) == []


def test_the_schema_is_one_of_its_draft_and_the_command_prints_it() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    done = CliRunner().invoke(levelfield, ["study", "schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == schema()


def test_every_key_has_a_description() -> None:
    document = schema()
    tables = [
        document,
        document["properties"]["datasets"]["additionalProperties"],
        document["properties"]["systems"]["items"],
        document["properties"]["decoding"],
    ]
    keys = [(key, value) for table in tables for key, value in table["properties"].items()]
    assert len(keys) > 35
    assert [key for key, value in keys if not value.get("description")] == []


PARTS = {
    "datasets": DATASETS,
    "controls": CONTROLS,
    "systems": SYSTEMS,
    "metrics": METRICS,
    "top": 'name = "N"\nseeds = [1]',
}
GOOD = [
    {},
    {"systems": f"{SYSTEMS}\ntimeout_s = 60\nenvironment = {{ A = '' }}\nretries = 0"},
    {"datasets": '[datasets.d]\nset = "pplm"\nweight = 2'},
    {"datasets": '[datasets.d]\nprompts = ["", "a"]\nids = ["x", "y"]'},
    {"controls": '[controls.k]\nkeywords = [["a", "b"], "c"]'},
    {"systems": '[[systems]]\nname = "a"\ntechnique = "cfg"\noptions = { strength = "3" }'},
    {"systems": '[[systems]]\nname = "a"\ntechnique = "cfg"\noptions = { batch = 4 }'},
    {"metrics": "", "top": 'name = "N"\nseeds = [1]\nmetrics = ["ctrleval"]'},
    {"systems": f"{SYSTEMS}\nlabels.sentiment = {{ positive = ['p', 'q'], negative = 'n' }}"},
]
BAD = [
    {"top": "name = 3\nseeds = [1]"},
    {"top": 'name = " "\nseeds = [1]'},
    {"top": 'name = "N"\nseeds = []'},
    {"top": 'name = "N"\nseeds = [-1]'},
    {"top": 'name = "N"\nseeds = [1]\nseed = 3'},
    {"top": 'name = "N"\nseeds = [1]\ndecoding = { top_q = 1 }'},
    {"datasets": ""},
    {"datasets": "[datasets.d]\nweight = 1"},
    {"datasets": '[datasets.d]\nset = "pplm"\nprompts = ["a"]'},
    {"datasets": '[datasets.d]\nset = "pplmm"'},
    {"datasets": '[datasets.d]\nset = "pplm"\nids = ["a"]'},
    {"datasets": '[datasets.d]\nset = "pplm"\nweight = 0'},
    {"datasets": '[datasets.d]\nset = "pplm"\nwieght = 1'},
    {"controls": "[controls.c]\nsentiment = 3"},
    {"systems": '[[systems]]\ncommand = ["a"]'},
    {"systems": '[[systems]]\nname = "a"'},
    {"systems": '[[systems]]\nname = "a"\ncommand = "a.py"'},
    {"systems": '[[systems]]\nname = "a"\ncommand = ["a"]\nfiles = "a.csv"'},
    {"systems": '[[systems]]\nname = "a"\ncommand = ["a"]\nformat = "csv"'},
    {"systems": '[[systems]]\nname = "a"\nfiles = "a.csv"\nretries = 1'},
    {"systems": '[[systems]]\nname = "a"\ntechnique = "cfgg"'},
    {"systems": '[[systems]]\nname = "a"\ntechnique = "cfg"\noptions = { strenth = 3 }'},
    {"systems": '[[systems]]\nname = "a"\ntechnique = "cfg"\noptions = { strength = "x" }'},
    {"systems": '[[systems]]\nname = "a"\ntechnique = "cfg"\noptions = { strength = [] }'},
    {"systems": f"{SYSTEMS}\ntime = 1"},
    {"metrics": "[[metrics]]\nname = 3"},
    {"metrics": '[[metrics]]\nname = "ctrleval"\noptions = { model = [] }'},
]


@pytest.mark.parametrize("parts", GOOD, ids=str)
def test_what_the_reader_accepts_the_schema_accepts(tmp_path: Path, parts: dict[str, str]) -> None:
    load(tmp_path, **PARTS | parts)
    assert complaints(read_toml(tmp_path / "study.toml")) == []


@pytest.mark.parametrize("parts", BAD, ids=str)
def test_the_schema_and_the_reader_refuse_the_same(tmp_path: Path, parts: dict[str, str]) -> None:
    with pytest.raises(InputError):
        load(tmp_path, **PARTS | parts)
    assert complaints(read_toml(tmp_path / "study.toml"))


def test_a_line_for_editors_does_no_harm(tmp_path: Path) -> None:
    text = "\n".join(["#:schema ./study.schema.json", PARTS["top"], *list(PARTS.values())[:4]])
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    assert load_plan(tmp_path / "study.toml").name == "N"
