"""The registry names every file once, and every part has files and a loader that exists."""

from __future__ import annotations

import importlib
import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from levelfield import datasets
from levelfield.core.errors import UserError
from levelfield.models.files import IWF_PEGASUS

SETS = [datasets.dataset(name) for name in datasets.names()]
EACH = pytest.mark.parametrize("data_set", SETS, ids=datasets.names())


@EACH
def test_every_file_has_a_hash_a_size_and_a_path_of_its_own(data_set):
    assert re.fullmatch(r"[0-9a-f]{40}", data_set.commit)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", data_set.repository)
    paths = [file.path for file in data_set.files]
    assert len(set(paths)) == len(paths) > 0
    for file in data_set.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.bytes > 0
        assert not {"..", "*", ""} & set(file.path.split("/"))
        assert file.url.endswith(f"/{data_set.repository}/{data_set.commit}/{file.path}")


@EACH
def test_every_pattern_of_a_part_is_of_a_file(data_set):
    for patterns in data_set.parts.values():
        for pattern in patterns:
            assert any(fnmatchcase(file.path, pattern) for file in data_set.files), pattern
    assert set(data_set.default) <= set(data_set.parts)


@EACH
def test_a_loader_that_is_named_exists(data_set):
    if data_set.loader:
        module, _, function = data_set.loader.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
    else:
        with pytest.raises(UserError, match="has no samples"):
            datasets.load(data_set.name)


def test_names_that_are_not_known_are_one_line_with_a_hint():
    with pytest.raises(UserError, match="did you mean ctrleval"):
        datasets.dataset("ctrl-eval")
    with pytest.raises(UserError, match="it has sentiment, topic"):
        datasets.load("ctrleval", part="subject")
    with pytest.raises(UserError, match="no file nowhere"):
        datasets.dataset("ctrleval").file("nowhere")
    with pytest.raises(UserError, match="there are topic, sentiment, pplm"):
        datasets.prompts("gpt")


def test_the_list_of_word_frequencies_is_that_of_the_registry():
    assert datasets.dataset("ctrleval").file("iwf_full.txt") == IWF_PEGASUS


def test_the_registry_and_the_list_of_what_was_collected_agree(rated_data: Path):
    listed = rated_data / "MANIFEST.json"
    if not listed.is_file():
        pytest.skip("no MANIFEST.json beside the data")
    manifest = json.loads(listed.read_text(encoding="utf-8"))
    assert set(manifest) <= set(datasets.names())
    for name, entry in manifest.items():
        data_set = datasets.dataset(name)
        assert (data_set.repository, data_set.commit) == (entry["repository"], entry["commit"])
        assert {f.path: (f.sha256, f.bytes) for f in data_set.files} == {
            path: (file["sha256"], file["bytes"]) for path, file in entry["files"].items()
        }


def test_offline_the_error_names_what_works_without_the_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    monkeypatch.setenv("LEVELFIELD_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(UserError) as caught:
        datasets.load("ctrleval", part="topic")
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path / "ctrleval/data/data_topic.txt") in message
    assert "--here" in message
    with pytest.raises(UserError, match=r"\(topic\) is on this machine"):
        datasets.load("ctrleval", part="topic", here=True)


def test_the_prompts_are_those_of_pplm():
    assert len(datasets.prompts("topic")) == 20
    assert len(datasets.prompts("sentiment")) == 15
    assert datasets.prompts("pplm") == datasets.prompts("topic") + datasets.prompts("sentiment")
    assert len(set(datasets.prompts("pplm"))) == 35
