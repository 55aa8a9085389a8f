"""`levelfield train pooler`: the metric takes the pooler that it trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tiny
from levelfield.cli.train_files import pooler as command
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics.cdm import CDMMomentum
from levelfield.metrics.pooling import LinearPooler, resample


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("pair")
    return str(tiny.save("gpt2", root / "a", seed=0)), str(tiny.save("gpt2", root / "e", seed=1))


def rated(path: Path, models: tuple[str, str]) -> list[Sample]:
    """Texts whose rating is their summed momentum over their first half."""
    texts = tiny.texts()[:24]
    samples = [Sample(str(i), text) for i, text in enumerate(texts)]
    metric = CDMMomentum(*models, form="conditional")
    lines = []
    for sample, ((unit,)) in zip(samples, metric.momentum(samples), strict=True):
        rating = float(resample(unit.m, 4)[:2].sum())
        record = {"id": sample.id, "text": sample.text, "ratings": {"coherence": {"a": rating}}}
        lines.append(json.dumps(record))
    lines.append(json.dumps({"id": "x", "text": "Nobody rated this."}))
    lines.append(json.dumps({"id": "y", "text": " ", "ratings": {"coherence": {"a": 1}}}))
    path.write_text("\n".join(lines), encoding="utf-8")
    return samples


def trained(models: tuple[str, str], path: Path, *more: str) -> Any:
    words = [f"-oamateur={models[0]}", f"-oexpert={models[1]}"]
    return CliRunner().invoke(
        command, [str(path), "--aspect", "coherence", *words, "--length", "4", *more]
    )


def test_the_command_trains_a_pooler_that_the_metric_takes(models, tmp_path):
    samples = rated(tmp_path / "rated.jsonl", models)
    out = tmp_path / "pooler.json"
    done = trained(models, tmp_path / "rated.jsonl", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "24 ratings of coherence" in done.stderr
    assert "left out 2 (not rated: 1, empty text: 1)" in done.stderr
    metric = CDMMomentum(*models, form="conditional", pooling="classifier", pooler=str(out))
    m = [units[0].m for units in CDMMomentum(*models, form="conditional").momentum(samples)]
    values = metric.score(samples).values
    np.testing.assert_allclose(values, LinearPooler.load(str(out)).predict(m), atol=1e-9)
    ratings = [resample(one, 4)[:2].sum() for one in m]
    assert np.corrcoef(values, ratings)[0, 1] > 0.95
    assert f"pooler:{LinearPooler.load(str(out)).digest}" in metric.signature


def test_a_pooler_of_another_pair_is_refused(models, tmp_path):
    rated(tmp_path / "rated.jsonl", models)
    out = tmp_path / "pooler.json"
    trained(models, tmp_path / "rated.jsonl", "--out", str(out))
    swapped = CDMMomentum(
        models[1], models[0], form="conditional", pooling="classifier", pooler=str(out)
    )
    with pytest.raises(UserError, match="trained on other momentum"):
        _ = swapped.signature


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--aspect", "style"), "left out: not rated: 26"),
        (("-opooling=max",), "--option pooling: expected one of"),
        (("-otask=dialogue", "-oturns=mean"), "turns=mean"),
        (("-otask=poem",), "expected text, dialogue or commonsense"),
        (("--kind", "logistic"), "labels 0 and 1"),
    ],
)
def test_the_command_says_what_is_wrong(models, tmp_path, words, complaint):
    rated(tmp_path / "rated.jsonl", models)
    done = trained(models, tmp_path / "rated.jsonl", "--out", str(tmp_path / "p.json"), *words)
    assert isinstance(done.exception, UserError)
    assert complaint in str(done.exception)
    assert not (tmp_path / "p.json").exists()


def test_labels_make_a_logistic_pooler(models, tmp_path):
    path, out = tmp_path / "labels.jsonl", tmp_path / "p.json"
    lines = [
        json.dumps({"id": str(i), "text": text, "ratings": {"coherence": {"a": i % 2}}})
        for i, text in enumerate(tiny.texts()[:12])
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    done = trained(models, path, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert LinearPooler.load(str(out)).kind == "logistic"
