from __future__ import annotations

import gc
import os
import subprocess
import sys
from datetime import datetime

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import load_samples, open_samples
from levelfield.io.hub import HubName

TEST = '{"text": "a", "label": 1, "refs": ["x"]}\n{"text": "b", "label": 0, "refs": []}\n'


def test_a_name_is_taken_apart():
    assert HubName.parse("hf:some/set?split=test&config=x&revision=abc&columns=text,label") == (
        HubName(
            word="hf:some/set?split=test&config=x&revision=abc&columns=text,label",
            name="some/set",
            split="test",
            config="x",
            revision="abc",
            columns=("text", "label"),
        )
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("hf:", "no name"),
        ("hf:?split=test", "no name"),
        ("hf:set?splt=test", "can't use splt=test"),
        ("hf:set?split=", "can't use split="),
        ("hf:./no such folder", "there is no folder"),
    ],
)
def test_a_name_that_can_not_be_is_refused_before_anything_is_read(name, problem):
    with pytest.raises(UserError, match=problem):
        open_samples([name])


def test_without_the_package_it_says_what_to_install(write, monkeypatch):
    write("set/test.jsonl", TEST)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match="install levelfield with the extra hf"):
        load_samples("hf:./set?split=test")


def problems_of(name, **options):
    with pytest.raises(InputError) as caught:
        open_samples([name], **options).check()
    return caught.value.problems


def test_a_folder_is_read_as_a_data_set(write):
    pytest.importorskip("datasets", reason="the extra levelfield[hf] is not installed")
    write("set/test.jsonl", TEST)
    write("set/train.jsonl", TEST)
    write("other/train.jsonl", TEST)
    samples = load_samples("hf:./set?split=test", mapping={"references": "refs"})
    assert [(s.id, s.text, s.references) for s in samples] == [
        ("set:1", "a", ("x",)),
        ("set:2", "b", ()),
    ]
    assert [s.extra for s in load_samples("hf:./other?columns=text")] == [{}, {}]
    for name, problem in {
        "hf:./set": r"choose a split: \?split=",
        "hf:./set?split=dev": "Bad split: dev",
        "hf:./set?split=test&columns=nothing": "nothing",
        "hf:./set?split=test&config=nothing": "nothing",
    }.items():
        with pytest.raises(UserError, match=problem) as caught:
            open_samples([name]).check()
        assert "\n" not in str(caught.value)
    (problem,) = problems_of("hf:./set?split=test&columns=label", mapping={"text": "x"})
    assert problem.startswith('hf:./set?split=test&columns=label: text: there is no "x"')
    (problem, _) = problems_of("hf:./set?split=test", mapping={"text": "label"})
    assert problem.startswith("hf:./set?split=test:row 1: text: expected a string, found the num")


def test_numbers_of_classes_become_their_names(monkeypatch):
    datasets = pytest.importorskip("datasets", reason="the extra levelfield[hf] is not installed")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    labelled = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1]}, features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: labelled.to_iterable_dataset())
    samples = load_samples("hf:set?split=test", mapping={"control.sentiment": "label"})
    assert [s.control for s in samples] == [{"sentiment": "pos"}, {}]


def test_the_hub_is_asked_once_for_rows_that_are_read_twice(monkeypatch):
    read = []

    def rows(_):
        for number in range(1, 4):
            read.append(number)
            yield (
                number,
                {"text": f"text {number}", "when": datetime(2026, 1, number), "raw": b"\0"},
            )

    monkeypatch.setattr("levelfield.io.hub.rows", rows)
    monkeypatch.setattr("levelfield.io.samples._BATCH", 1)
    source = open_samples(["hf:some/set?split=test"])
    assert next(iter(source)).text == "text 1"  # not all of them: the next time they are read anew
    read.clear()
    assert source.check().n == 3
    first, second = list(source), list(source)
    assert [sample.text for sample in first] == ["text 1", "text 2", "text 3"]
    assert first == second
    assert first[2].extra["raw"] == b"\0"
    assert read == [1, 2, 3]


def test_what_is_kept_of_the_hub_goes_away(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("levelfield.io.hub.rows", lambda _: iter([(1, {"text": "a"})]))
    source = open_samples(["hf:some/set"])
    source.check()
    assert any(tmp_path.rglob("*"))
    del source
    gc.collect()
    assert not any(tmp_path.rglob("*"))


def test_without_a_network_a_name_of_the_hub_is_one_clear_line(tmp_path):
    pytest.importorskip("datasets", reason="the extra levelfield[hf] is not installed")
    code = (
        "from levelfield.io import open_samples\n"
        "from levelfield.core.errors import InputError, UserError\n"
        "try:\n"
        "    open_samples(['hf:nobody/has-this?split=test']).check()\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("hf:nobody/has-this?split=test: can't be read: ")
    assert "without a network" in done.stdout
    assert done.stderr == ""
