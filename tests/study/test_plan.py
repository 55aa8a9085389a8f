"""A study file: what it may say, and what is said of one that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.datasets.prompts import PROMPT_SETS
from levelfield.study.measure import metrics_of
from levelfield.study.observations import direction_by_name
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    ControlKind,
    FilesSource,
    MetricPlan,
    Plan,
)
from levelfield.study.plan_file import load_plan

DATASETS = '[datasets.openings]\nprompts = ["The lake", "The road"]'
CONTROLS = '[controls.sentiment]\nsentiment = ["positive", "negative"]'
SYSTEMS = '[[systems]]\nname = "gedi"\ncommand = ["gedi"]'
METRICS = '[[metrics]]\nname = "ctrleval"'


def load(
    folder: Path,
    *,
    top: str = 'name = "Openings"\nseeds = [1, 2]',
    datasets: str = DATASETS,
    controls: str = CONTROLS,
    systems: str = SYSTEMS,
    metrics: str = METRICS,
) -> Plan:
    file = folder / "study.toml"
    parts = (top, datasets, controls, systems, metrics)
    file.write_text("\n".join(parts), encoding="utf-8")
    return load_plan(file)


def problems(folder: Path, **parts: str) -> list[str]:
    """Returns the problems of a file, without the file's name."""
    with pytest.raises(InputError) as caught:
        load(folder, **parts)
    start = f"{folder / 'study.toml'}: "
    assert all(p.startswith(start) and "\n" not in p for p in caught.value.problems)
    return [problem.removeprefix(start) for problem in caught.value.problems]


def test_a_small_file_gives_the_whole_grid(tmp_path):
    plan = load(tmp_path)

    assert plan.name == "Openings"
    assert plan.out == tmp_path / "study.study"
    assert plan.seeds == (1, 2)
    (dataset,) = plan.datasets
    assert dataset.prompts == ("The lake", "The road")
    assert dataset.ids == ("0001", "0002")
    assert dataset.weight == 2.0
    assert plan.controls == (
        ControlKind("sentiment", ({"sentiment": "positive"}, {"sentiment": "negative"})),
    )
    (system,) = plan.systems
    assert system.source == CommandSource(("gedi",), timeout_s=3600.0, retries=1, environment={})
    assert system.controls == ("sentiment",)
    assert plan.metrics == (MetricPlan("ctrleval"),)
    assert len(plan.cells()) == 2


def test_every_key_has_its_place(tmp_path):
    plan = load(
        tmp_path,
        top='name = "N"\nseeds = [789]\nout = "results"',
        datasets='[datasets.d]\nprompts = ["", "a", "a"]\nids = ["x", "y", "z"]\nweight = 0.5',
        controls='[controls.s]\ntopic = ["World"]\n[controls.k]\nkeywords = [["a", "b"], ["c"]]',
        systems="""
            [[systems]]
            name = "one"
            command = ["python3", "one.py", ""]
            timeout_s = 60
            retries = 0
            environment = { MODEL = "small" }
            controls = ["s"]
            labels.topic = { World = ["Politics", "News"] }
            postprocess = ["strip-start:<|endoftext|>", "strip-label"]
            prompting = "few-shot"
            [[systems]]
            name = "two"
            files = "texts/{system}/{dataset}-{control}-{seed}.csv"
            map = { text = "output" }
            [[systems]]
            name = "three"
            callable = "my.systems:three"
            options = { temperature = 0.7, stop = ["."] }
        """,
        metrics='[[metrics]]\nname = "ctrleval"\n'
        'options = { batch_tokens = 512, allow_pickle = true, model = "./tiny" }',
    )

    assert plan.out == tmp_path / "results"
    assert plan.dataset("d").prompts == ("", "a", "a")
    assert plan.dataset("d").ids == ("x", "y", "z")
    assert plan.dataset("d").weight == 0.5
    assert plan.control("k").values == ({"keywords": ("a", "b")}, {"keywords": ("c",)})
    first, two, three = plan.systems
    assert first.source == CommandSource(
        ("python3", "one.py", ""), timeout_s=60.0, retries=0, environment={"MODEL": "small"}
    )
    assert first.controls == ("s",)
    assert first.labels == {"topic": {"World": ("Politics", "News")}}
    assert first.postprocess == ("strip-start:<|endoftext|>", "strip-label")
    assert first.prompting == "few-shot"
    pattern = "texts/{system}/{dataset}-{control}-{seed}.csv"
    assert two.source == FilesSource(pattern, None, {"text": "output"})
    assert two.controls == ("s", "k")
    options = {"temperature": 0.7, "stop": ["."]}
    assert three.source == CallableSource("my.systems:three", options=options)
    words = {"batch_tokens": "512", "allow_pickle": "true", "model": str(tmp_path / "tiny")}
    assert plan.metrics == (MetricPlan("ctrleval", words),)


def test_each_of_several_paths_is_relative_to_the_study_file(tmp_path):
    guides = '[[systems]]\nname = "s"\ntechnique = "base"\noptions = { model = "%s" }'
    system = load(tmp_path, systems=guides % "./mine, ../yours,offline/minilm").systems[0]
    assert f"{tmp_path}/mine,{tmp_path.parent}/yours,offline/minilm" in str(system.source)


def test_several_attributes_give_all_combinations_in_order(tmp_path):
    controls = '[controls.m]\nsentiment = ["p", "n"]\ntopic = ["World", "Sports"]'
    assert load(tmp_path, controls=controls).control("m").values == (
        {"sentiment": "p", "topic": "World"},
        {"sentiment": "p", "topic": "Sports"},
        {"sentiment": "n", "topic": "World"},
        {"sentiment": "n", "topic": "Sports"},
    )


def test_metrics_may_be_a_list_of_names(tmp_path):
    top = 'name = "N"\nseeds = [1]\nmetrics = ["ctrleval.coherence", "ctrleval.consistency"]'
    plan = load(tmp_path, top=top, metrics="")
    assert [m.name for m in plan.metrics] == ["ctrleval.coherence", "ctrleval.consistency"]


def test_a_metric_may_be_a_class_in_a_file_beside_the_study_file(tmp_path):
    tmp_path.joinpath("mine.py").write_text(
        """
class Length:
    name, level, higher_is_better = "my.length", "sample", False
    requires = frozenset({"text"})
    signature = "my.length|v:1"

    def score(self, samples, **words): ...
"""
    )
    plan = load(tmp_path, metrics='[[metrics]]\nname = "mine.py:Length"')
    (metric,) = metrics_of(plan, {})
    assert metric.signature.startswith("my.length|v:1|file:mine.py|sha256:")
    assert direction_by_name("my.length") == "lower"
    plan = load(tmp_path, metrics='[[metrics]]\nname = "mine.py:Size"')
    with pytest.raises(UserError, match="has no such metric; there is"):
        metrics_of(plan, {})


def test_the_published_prompt_set_is_known_by_name(tmp_path):
    dataset = load(tmp_path, datasets='[datasets.pplm]\nset = "pplm"').dataset("pplm")
    assert dataset.prompts == PROMPT_SETS["pplm"]
    assert dataset.weight == 35.0


def test_a_text_file_has_one_prompt_a_line_and_blank_lines_are_none(tmp_path):
    tmp_path.joinpath("p.txt").write_text("The lake\n\nThe lake\r\n湖は\n", encoding="utf-8")
    dataset = load(tmp_path, datasets='[datasets.d]\nfile = "p.txt"').dataset("d")
    assert dataset.prompts == ("The lake", "The lake", "湖は")
    assert dataset.ids == ("0001", "0002", "0003")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.jsonl", '{"prompt": "The lake", "id": 7}\n{"prompt": "", "id": "b"}\n'),
        ("p.csv", "id,prompt\n7,The lake\nb,\n"),
        ("p.tsv", "prompt\tid\nThe lake\t7\n\tb\n"),
        ("p.json", '[{"id": "7", "prompt": "The lake"}, {"id": "b", "prompt": ""}]'),
    ],
)
def test_files_of_records_give_prompts_and_ids(tmp_path, name, content):
    tmp_path.joinpath(name).write_text(content, encoding="utf-8")
    dataset = load(tmp_path, datasets=f'[datasets.d]\nfile = "{name}"').dataset("d")
    assert dataset.prompts == ("The lake", "")
    assert dataset.ids == ("7", "b")


def test_the_field_of_prompts_may_have_another_name(tmp_path):
    tmp_path.joinpath("p.jsonl").write_text('{"opening": "The lake"}\n', encoding="utf-8")
    datasets = '[datasets.d]\nfile = "p.jsonl"\nfield = "opening"'
    assert load(tmp_path, datasets=datasets).dataset("d").prompts == ("The lake",)


def test_thousands_of_prompts_get_ids_that_stay_when_the_set_grows(tmp_path):
    file = tmp_path / "p.txt"
    datasets = '[datasets.d]\nfile = "p.txt"'
    file.write_text("The lake\n" * 99, encoding="utf-8")
    few = load(tmp_path, datasets=datasets).dataset("d").ids
    file.write_text("The lake\n" * 12_000, encoding="utf-8")
    many = load(tmp_path, datasets=datasets).dataset("d").ids
    assert many[:99] == few
    assert len(set(many)) == 12_000


def test_all_mistakes_are_named_at_once(tmp_path):
    lines = problems(
        tmp_path,
        top='name = " "\nseeds = [1, -1, 1]\nmetric = ["ctrleval"]',
        datasets='[datasets.d]\nprompts = ["a"]\nwieght = 2\n[datasets.e]\nset = "pplmm"',
        controls='[controls.s]\nsentiment = ["positive", 3]',
        systems='[[systems]]\nname = "x"\ncommand = "x.py"\ntimeout_s = -3\n'
        'postprocess = ["strip-lable"]\n[[systems]]\nname = "x"\ncommand = ["x"]',
        metrics='[[metrics]]\nname = "ctrlevl"',
    )
    expected = [
        'name: expected a string that is not empty, such as "Openings"; found " "',
        "seeds[2]: expected a whole number from 0 on; found -1",
        "seeds: 1 is there 2 times; name it once",
        'datasets.d: wieght: there is no such key; did you mean "weight"?',
        'datasets.e: set: expected topic, sentiment or pplm; found "pplmm"; did you mean pplm?',
        "controls.s: sentiment[2]: expected a string, or a list of strings, none of them empty; "
        "found 3",
        'systems[1] "x": timeout_s: expected a number above 0; found -3',
        'systems[1] "x": command: expected a list of strings, such as ["python3", "gedi.py"]; '
        'found "x.py"',
        'systems[1] "x": postprocess[1]: there is no step "strip-lable"; did you mean strip-label?',
        'systems: 2 have the name "x"; names are unique',
        'metric: there is no such key; did you mean "metrics"?',
    ]
    assert [s for s in lines if "ctrlevl" not in s] == expected
    assert any(s.startswith('metrics[1] "ctrlevl": there is no metric') for s in lines)


@pytest.mark.parametrize(
    ("systems", "expected"),
    [("3", "systems: expected at least one table"), ("[3]", "systems[1]: expected a table")],
)
def test_systems_that_are_not_tables_are_refused(tmp_path, systems, expected):
    (only,) = problems(tmp_path, top=f'name = "N"\nseeds = [1]\nsystems = {systems}', systems="")
    assert only.startswith(expected)


def test_an_empty_file_lacks_one_of_each(tmp_path):
    lines = problems(tmp_path, top="", datasets="", controls="", systems="", metrics="")
    assert [s.partition(":")[0] for s in lines] == [
        "name",
        "seeds",
        "datasets",
        "controls",
        "systems",
        "metrics",
    ]
    assert all(s.endswith("there is none") for s in lines)


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        ("top", 'name = "N"\nseeds = 3', "seeds: expected a list of whole numbers"),
        ("top", 'name = "N"\nseeds = [true]', "seeds[1]: expected a whole number from 0 on"),
        ("top", 'name = "N"\nseeds = [1]\nout = "study.toml"', "out: "),
        ("datasets", "datasets = 3", "datasets: expected at least one table"),
        ("datasets", '[datasets.""]\nset = "pplm"', 'datasets."": the name is empty'),
        ("datasets", '[datasets." a"]\nset = "pplm"', "datasets. a: the name begins"),
        ("datasets", "[datasets.a]\nprompts = []", "datasets.a: prompts: expected a list"),
        ("datasets", "[datasets.a]\nprompts = [3]", "datasets.a: prompts[1]: expected a string"),
        ("datasets", "[datasets.a]\nweight = 1", "datasets.a: expected one of prompts, file, set"),
        ("datasets", '[datasets.a]\nset = "pplm"\nweight = nan', "datasets.a: weight: "),
        ("datasets", '[datasets.a]\nset = "pplm"\nweight = true', "datasets.a: weight: "),
        ("datasets", '[datasets.a]\nset = "pplm"\nids = ["a"]', "datasets.a: ids: goes with"),
        (
            "datasets",
            '[datasets.a]\nprompts = ["a", "b"]\nids = ["x"]',
            "datasets.a: ids: 1 ids for 2 prompts",
        ),
        (
            "datasets",
            '[datasets.a]\nprompts = ["a", "b"]\nids = ["x", "x"]',
            "datasets.a: ids: 'x' is there 2 times",
        ),
        ("datasets", '[datasets.a]\nfile = "no.txt"', 'datasets.a: file: "no.txt" can\'t be read'),
        ("datasets", '[datasets.a]\nfile = "no.doc"', "datasets.a: file: "),
        ("controls", "[controls.a]", "controls.a: expected an attribute"),
        ("controls", '[controls.a]\nsentiment = "x"', "controls.a: sentiment: expected a list"),
        ("controls", "[controls.a]\nkeywords = [[]]", "controls.a: keywords[1]: "),
        (
            "controls",
            '[controls.a]\nsentiment = ["p", "p"]',
            'controls.a: 2 of its values read "p"',
        ),
        (
            "controls",
            '[controls.a]\nsentiment = ["p"]\nout = "results"',
            "controls.a: out: belongs to the whole study; write it above the first [table]",
        ),
        (
            "systems",
            f"{SYSTEMS}\nseeds = [1]",
            'systems[1] "gedi": seeds: belongs to the whole study',
        ),
        (
            "controls",
            '[controls.a]\nkeywords = [["a", "b"], "a, b"]',
            'controls.a: 2 of its values read "a, b"',
        ),
        ("systems", '[[systems]]\ncommand = ["a"]', "systems[1]: name: expected a string"),
        (
            "systems",
            '[[systems]]\nname = "a"\ncommand = ["a"]\nfiles = "a.txt"',
            'systems[1] "a": expected one of command, files, callable, technique; found command, '
            "files",
        ),
        ("metrics", '[[metrics]]\nname = 3', "metrics[1]: name: expected a string"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tmp_path, part, text, expected):
    (only,) = problems(tmp_path, **{part: text})
    assert only.startswith(expected)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('command = [""]', "command[1]: expected a program"),
        (
            'command = ["a"]\nretries = -1',
            "retries: expected a whole number from 0 to 100; found -1",
        ),
        ('command = ["a"]\ntimeout_s = inf', "timeout_s: expected a number above 0; found inf"),
        ('command = ["a"]\nenvironment = { A = 1 }', "environment: A: expected a string"),
        ('command = ["a"]\nenvironment = { "A=" = "1" }', "environment: A=: not a name"),
        ('command = ["a"]\nformat = "csv"', "format: only a system with files has this"),
        (
            'files = "a.csv"\nretries = 1',
            "retries: only a system with command, callable or technique has",
        ),
        ('command = ["a"]\ncontrols = []', "controls: expected a list of strings"),
        ('command = ["a"]\ncontrols = ["s"]', 'controls[1]: there is no control "s"; there are'),
        ('command = ["a"]\ntime = 1', 'time: there is no such key; did you mean "timeout_s"?'),
        ('files = "{sed}.csv"', 'files: can\'t fill in "{sed}"'),
        ('files = "{}.csv"', 'files: can\'t fill in "{}"'),
        ('files = "{seed:04}.csv"', 'files: can\'t fill in "{seed}"'),
        ('files = "{seed.csv"', "files: expected '}' before end of string"),
        ('files = "{seed}"', 'files: "{seed}" doesn\'t say the format'),
        (
            'files = "{seed}"\nformat = "xls"',
            "format: expected jsonl, json, csv, tsv, parquet, text, ctrleval, inspect, ",
        ),
        ('files = "a.csv"\nmap = { txt = "o" }', "map: txt: mapping txt=o"),
        ('callable = "a b:c"', "callable: expected MODULE:NAME; found"),
        ('callable = "gedi"', "callable: expected MODULE:NAME or the name of an installed"),
        ('callable = "a:b"\noptions = { d = 2020-01-01 }', "options: d: expected what JSON can"),
        ('command = ["a"]\nlabels.mood = {}', "labels: mood: there is no such attribute"),
        (
            'command = ["a"]\nlabels.sentiment = { positiv = "p" }',
            'labels: sentiment: positiv: there is no such value; did you mean "positive"?',
        ),
        ('command = ["a"]\nlabels.sentiment = { positive = "" }', "labels: sentiment: positive: "),
        (
            'command = ["a"]\nlabels.sentiment = { positive = [], negative = [] }',
            'labels: leave nothing to request of "sentiment"',
        ),
        ('command = ["a"]\npostprocess = ["cut-at"]', "postprocess[1]: expected cut-at:MARK"),
    ],
)
def test_what_is_wrong_with_a_system_is_named(tmp_path, keys, expected):
    (only,) = problems(tmp_path, systems=f'[[systems]]\nname = "a"\n{keys}')
    assert only.startswith(f'systems[1] "a": {expected}')


def test_labels_of_words_that_go_together_are_refused(tmp_path):
    (only,) = problems(
        tmp_path,
        controls='[controls.k]\nkeywords = [["a", "b"]]',
        systems=f'{SYSTEMS}\nlabels.keywords = {{ a = "A" }}',
    )
    assert only.startswith('systems[1] "gedi": labels: keywords: its values are lists of words')


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ('[[metrics]]\nname = "nothing"', 'metrics[1] "nothing": there is no metric'),
        (
            '[[metrics]]\nname = "ctrleval.coherence"\noptions = { modle = "x" }',
            "metrics[1] \"ctrleval.coherence\": no option 'modle'",
        ),
        (
            '[[metrics]]\nname = "ctrleval.coherence"\noptions = { dtype = 3 }',
            'metrics[1] "ctrleval.coherence": ctrleval.coherence: option dtype=3: expected',
        ),
        (
            '[[metrics]]\nname = "ctrleval.coherence"\noptions = { model = [] }',
            'metrics[1] "ctrleval.coherence": options: model: expected a string, a number',
        ),
        (
            '[[metrics]]\nname = "ctrleval"\n[[metrics]]\nname = "ctrleval.coherence"',
            'metrics: "ctrleval.coherence" is there 2 times',
        ),
    ],
)  # fmt: skip
def test_metrics_are_checked_without_loading_models(tmp_path, metrics, expected):
    (only,) = problems(tmp_path, metrics=metrics)
    assert only.startswith(expected)


def test_problems_in_a_file_of_prompts_have_its_lines(tmp_path):
    lines = ['{"prompt": "a", "id": "x"}', '{"text": "a"}', "{", '{"prompt": 3}', "[]"]
    tmp_path.joinpath("p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    messages = problems(tmp_path, datasets='[datasets.d]\nfile = "p.jsonl"')
    places = [f"datasets.d: file: p.jsonl:{n}: " for n in (2, 3, 4, 5)]
    assert len(messages) == 4
    assert all(s.startswith(place) for s, place in zip(messages, places, strict=True))


def test_a_file_of_prompts_that_is_all_wrong_does_not_drown_the_rest(tmp_path):
    lines = [json.dumps({"text": "a"})] * 5_000
    tmp_path.joinpath("p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    messages = problems(tmp_path, datasets='[datasets.d]\nfile = "p.jsonl"\nweight = -1')
    assert len(messages) == 7
    assert messages[0].startswith("datasets.d: weight")
    assert messages[6] == "datasets.d: file: … and 4,995 more problems"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"prompt": "a", "id": "x"}\n{"prompt": "b", "id": "x"}', '2 prompts have the id "x"'),
        ('{"prompt": "a", "id": "x"}\n{"prompt": "b"}', "1 of 2 prompts have an id"),
        ("\n\n", '"p.jsonl" has no prompts'),
        ('{"prompt": "\\ud83d"}', "p.jsonl:1: prompt: a lone surrogate"),
    ],
)
def test_ids_in_a_file_of_prompts_are_unique_and_complete(tmp_path, content, expected):
    tmp_path.joinpath("p.jsonl").write_text(content, encoding="utf-8")
    (only,) = problems(tmp_path, datasets='[datasets.d]\nfile = "p.jsonl"')
    assert only.startswith(f"datasets.d: file: {expected}")


@pytest.mark.parametrize("name", ["a/b", "🎉 party", "..", "Sci/Tech: “new”", "नमस्ते"])
def test_unusual_names_are_names(tmp_path, name):
    plan = load(
        tmp_path,
        datasets=f'[datasets."{name}"]\nset = "pplm"',
        controls=f'[controls."{name}"]\n"{name}" = ["{name}"]',
        systems=f'[[systems]]\nname = "{name}"\ncommand = ["a"]\n'
        f'labels."{name}" = {{ "{name}" = "x" }}',
    )
    key = plan.cells()[0]
    assert key[:3] == (name, name, name)
    assert len(key.folder.parts) == 5
    assert ".." not in key.folder.parts


@pytest.mark.parametrize("name", ["x" * 300, "🎉" * 30])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, name):
    (only,) = problems(tmp_path, systems=f'[[systems]]\nname = "{name}"\ncommand = ["a"]')
    assert only.endswith("the name is too long for a folder; shorten it")


def test_a_missing_file_or_invalid_toml_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no\.toml: can't be read: No such file"):
        load_plan(tmp_path / "no.toml")
    with pytest.raises(UserError, match="can't be read: Is a directory"):
        load_plan(tmp_path)
    file = tmp_path / "study.toml"
    file.write_text("name = 1 2", encoding="utf-8")
    with pytest.raises(UserError, match=r"study.toml: not a TOML file: .*line 1"):
        load_plan(file)
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(UserError, match="not a TOML file"):
        load_plan(file)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    load(tmp_path)
    file = tmp_path / "study.toml"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load_plan(file).name == "Openings"


def test_a_product_of_control_values_is_counted_before_it_is_made(tmp_path):
    values = [f"v{n}" for n in range(40)]
    controls = "[controls.all]\n" + "".join(f"a{n} = {json.dumps(values)}\n" for n in range(6))

    assert problems(tmp_path, controls=controls) == [
        "controls.all: 40 × 40 × 40 × 40 × 40 × 40 = 4,096,000,000 combinations of its values; at "
        "most 1,000,000 are allowed; leave out values, or split it into several kinds of control"
    ]


def test_a_study_of_too_many_requests_names_the_product(tmp_path):
    seeds = f'name = "N"\nseeds = {list(range(6_000))}'
    datasets = f"[datasets.d]\nprompts = {json.dumps([str(n) for n in range(1_000)])}"

    assert problems(tmp_path, top=seeds, datasets=datasets) == [
        "12,000,000 requests (systems × seeds × prompts × values: 1 × 6,000 × 1,000 × 2 = "
        "12,000,000), at most 10,000,000 are allowed; split the study"
    ]


def test_a_cell_of_too_many_requests_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.CELL_REQUESTS", 3)

    assert problems(tmp_path) == [
        "datasets.openings with controls.sentiment: 2 × 2 = 4 requests (prompts × values) in each "
        "cell, at most 3 are allowed; leave out prompts or values"
    ]


def test_retries_without_bounds_are_refused(tmp_path):
    (problem,) = problems(tmp_path, systems=SYSTEMS + "\nretries = 1_000_000_000")
    assert problem.endswith("retries: expected a whole number from 0 to 100; found 1000000000")


def test_a_file_of_too_many_prompts_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.CELL_REQUESTS", 3)
    (tmp_path / "prompts.txt").write_text("a\nb\nc\n\ud7ffd\n", encoding="utf-8")
    lines = problems(tmp_path, datasets='[datasets.d]\nfile = "prompts.txt"')
    assert lines[0] == 'datasets.d: file: "prompts.txt" has more than 3 prompts'
