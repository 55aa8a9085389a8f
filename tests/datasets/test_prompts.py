"""Prompt sets by name."""

from __future__ import annotations

import sys

import pytest

from levelfield import datasets
from levelfield.core.errors import UserError
from levelfield.datasets.lpf import texts_of
from levelfield.datasets.registry import dataset
from levelfield.io.fetch import local_copy


def test_the_prompts_of_sts_are_those_of_the_published_texts_by_number(tmp_path, monkeypatch):
    file = tmp_path / "processed.csv"
    rows = [
        "0,1,A dog runs.,positive,x",
        "1,1,A dog runs.,negative,y",
        "2,0,A cat sits.,positive,z",
    ]
    rows += ["3,2,A dog runs.,negative,w"]
    head = "id,original_id,prompt,control_attribute_value,text"
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    requests = []
    # The package has a function of the module's name.
    module = sys.modules["levelfield.datasets.prompts"]
    monkeypatch.setattr(module, "path_of", lambda *names: requests.append(names) or file)
    assert datasets.prompts("sts") == ("A cat sits.", "A dog runs.", "A dog runs.")
    ((name, path),) = requests
    assert path in {published.path for published in dataset(name).files}


def test_what_the_release_lacks_is_refused_with_where_it_is():
    with pytest.raises(UserError, match=r"'owt'.*5,000 neutral.*allenai/dexperts"):
        datasets.prompts("owt")
    with pytest.raises(UserError, match=r"'cloze'.*1,571 .*on request"):
        datasets.prompts("cloze")
    with pytest.raises(UserError, match="there are topic, sentiment, pplm, sts, owt, cloze"):
        datasets.prompts("news")


@pytest.mark.usefixtures("rated_data")
def test_there_are_625_prompts_of_sts_and_systems_agree_on_them():
    files = {
        file.path: local_copy(file)
        for file in dataset("lpf").part("sentiment")
        if "-sts_benchmark_test-" in file.path
    }
    present = {path: local for path, local in files.items() if local}
    if not any("/gedi-" in path for path in present):
        pytest.skip("texts of the LPF study on the STS prompts are not on this machine")
    prompts = datasets.prompts("sts")
    assert len(prompts) == 625
    for path, local in present.items():
        if "/bolt-" in path or "/dexperts-" in path:
            samples = texts_of(local)
            numbers = [int(sample.extra["original_id"]) for sample in samples]
            assert [prompts[n] for n in numbers] == [sample.prompt for sample in samples]
