"""Studies of sources to rewrite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelfield.core.errors import InputError
from levelfield.io import load_samples
from levelfield.study import load_study
from levelfield.study.ask.requests import request_record, requests_of
from levelfield.study.plan_file import load_plan

STUDY = """
name = "Rewriting"
seeds = [1]
metrics = ["bleu.references", "style.degenerate"]
[datasets.letters]
{dataset}
[controls.formality]
formality = ["formal"]
[[systems]]
name = "rules"
technique = "{technique}"
[[systems]]
name = "own"
command = ["python3", "own.py"]
"""
OWN = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    assert asked["prompt"] == "" and "references" not in asked
    print(json.dumps({"id": asked["id"], "text": asked["source"].upper()}), flush=True)
"""


@pytest.fixture
def study(tmp_path):
    records = [
        {"id": "a", "source": "hi u", "references": ["Hello you."]},
        {"id": "b", "source": "i dont know", "references": ["I do not know.", "I cannot say."]},
    ]
    (tmp_path / "sources.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    (tmp_path / "own.py").write_text(OWN)

    def write(dataset: str = 'sources = "sources.jsonl"', technique: str = "rules") -> Path:
        file = tmp_path / "study.toml"
        file.write_text(STUDY.format(dataset=dataset, technique=technique))
        return file

    return write


@pytest.mark.slow
def test_techniques_and_commands_rewrite_the_sources_and_metrics_see_references(study):
    file = study()
    load_study(file).run()
    texts = {}
    for path in sorted(file.parent.rglob("texts.jsonl")):
        for sample in load_samples(path):
            texts[sample.system, sample.source] = (sample.text, sample.references)
    assert texts == {
        ("rules", "hi u"): ("Hello you.", ("Hello you.",)),
        ("rules", "i dont know"): ("I do not know.", ("I do not know.", "I cannot say.")),
        ("own", "hi u"): ("HI U", ("Hello you.",)),
        ("own", "i dont know"): ("I DONT KNOW", ("I do not know.", "I cannot say.")),
    }


def test_a_request_has_a_source_only_where_there_is_one(study):
    plan = load_plan(study())
    (key, *_) = plan.cells()
    records = [request_record(request) for request in requests_of(plan, key)]
    assert [(r["id"], r["prompt"], r["source"]) for r in records] == [
        ("a:formal", "", "hi u"),
        ("b:formal", "", "i dont know"),
    ]
    file = study('prompts = ["The lake"]', "base")
    with pytest.raises(InputError, match=r"'bleu.references' reads references"):
        load_plan(file)
    metrics = '["bleu.references", "style.degenerate"]'
    file.write_text(file.read_text().replace(metrics, '["diversity"]'))
    prompts = load_plan(file)
    assert "source" not in request_record(requests_of(prompts, next(iter(prompts.cells())))[0])


@pytest.mark.parametrize(
    ("dataset", "technique", "reason"),
    [
        ('prompts = ["a"]', "rules", "technique rules rewrites sources, and datasets.letters has"),
        ('sources = "sources.jsonl"', "base", "technique base continues prompts, and"),
        ('sources = "none.jsonl"', "rules", "none.jsonl"),
        ('sources = "sources.jsonl"\nset = "pplm"', "rules", "cannot be combined with sources"),
    ],
)
def test_what_does_not_go_together_is_refused_when_the_file_is_read(
    study, dataset, technique, reason
):
    with pytest.raises(InputError, match=reason):
        load_plan(study(dataset, technique))
