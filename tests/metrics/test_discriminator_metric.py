"""`discriminator.score` against the model called by hand, for one text at a time."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import tiny
import tiny_classifier
from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import fields_read
from levelfield.core.sample import Sample
from levelfield.metrics.discriminator import DiscriminatorScore
from levelfield.models.loading import Loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("models") / "discriminator"
    return tiny_classifier.save(where, ("negative", "positive"), family="bert", positions=40)


def log_odds(folder: Path, text: str) -> float:
    """log P(positive) − log P(negative)."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"][:39]
    with torch.no_grad():
        logits = model(torch.tensor([[*ids, 3] if len(ids) == 39 else [ids]]).view(1, -1)).logits[0]
    return float(logits[1] - logits[0])


def texts(n: int) -> list[str]:
    """Short enough for the model, and of different lengths."""
    return [" ".join(text.split()[: 2 + i]) for i, text in enumerate(tiny.texts()[:n])]


def single_value(folder: Path, sample: Sample, **options: str) -> float:
    return DiscriminatorScore(model=str(folder), value="logit", **options).score([sample]).values[0]


@pytest.mark.parametrize("batch_tokens", [None, 1])
def test_the_value_is_the_probability_of_the_positive_label_or_its_log_odds(folder, batch_tokens):
    samples = [Sample(str(i), text) for i, text in enumerate(texts(8))]
    z = np.array([log_odds(folder, sample.text) for sample in samples])
    assert np.ptp(z) > 0.1
    options = {"model": str(folder), "loading": Loading(batch_tokens=batch_tokens)}
    p = DiscriminatorScore(**options).score(samples)
    assert p.values == pytest.approx(1 / (1 + np.exp(-z)), abs=1e-5)
    assert p.direction == "higher"
    logit = DiscriminatorScore(**options, value="logit").score(samples)
    assert logit.values == pytest.approx(z, rel=1e-5, abs=1e-4)  # float32
    assert p.signature != logit.signature


def test_the_labels_may_be_in_either_order(folder, tmp_path):
    turned = shutil.copytree(folder, tmp_path / "turned")
    config = json.loads((turned / "config.json").read_text())
    config |= {"id2label": {"0": "positive", "1": "negative"}}
    config |= {"label2id": {"positive": 0, "negative": 1}}
    (turned / "config.json").write_text(json.dumps(config))
    sample = Sample("a", "It rained.")
    assert single_value(turned, sample) == pytest.approx(-single_value(folder, sample), abs=1e-5)


@pytest.mark.parametrize(
    ("options", "text", "prompt", "reason"),
    [
        ({}, "", "", "empty text"),
        ({}, " \n\t", "", "empty text"),
        ({"task": "dialogue"}, " ", "", "empty text"),
        ({"task": "dialogue"}, "</UTT> ", "", "empty text"),
        ({"text": "continuation"}, "", "", "empty text"),
        ({"text": "continuation"}, "It rained.", "", "no prompt"),
        ({"text": "continuation"}, "It rained.", "it", "prompt is not a prefix of the text"),
        ({"text": "continuation"}, "It ", "It", "nothing after the prompt"),
    ],
)
def test_what_has_no_value_has_a_reason(folder, options, text, prompt, reason):
    samples = [Sample("a", text, prompt=prompt), Sample("b", "It rained.", prompt="It")]
    scores = DiscriminatorScore(model=str(folder), **options).score(samples)
    assert scores.undefined == {"a": reason}
    assert 0 < scores.values[1] < 1


@pytest.mark.parametrize("text", ["🙂", "word", "是的", "It  rained \n again"])
def test_short_texts_and_other_scripts_have_a_value(folder, text):
    assert np.isfinite(single_value(folder, Sample("a", text)))


def test_a_continuation_is_read_without_its_prompt(folder):
    rest = single_value(folder, Sample("a", "rained all week."))
    sample = Sample("a", "It rained all week.", prompt="It")
    assert single_value(folder, sample, text="continuation") == pytest.approx(rest, abs=1e-6)
    assert single_value(folder, sample) != pytest.approx(rest, abs=1e-6)


def test_a_dialogue_is_its_context_and_its_text_a_turn_a_line(tmp_path):
    folder = tiny_classifier.save(tmp_path / "m", ("negative", "positive"), family="bert")
    turns = Sample("a", " No. ", context=("Did you swim?", " ", "I did.</UTT>Was it cold?"))
    whole = Sample("a", "Did you swim?\nI did.\nWas it cold?\nNo.")
    expected = single_value(folder, whole)
    assert single_value(folder, turns, task="dialogue") == pytest.approx(expected, abs=1e-6)
    assert single_value(folder, whole, task="dialogue") == pytest.approx(expected, abs=1e-6)
    marked = Sample("a", "Did you swim?</UTT> I did. </UTT>Was it cold?</UTT>No.")
    assert single_value(folder, marked, task="dialogue") == pytest.approx(expected, abs=1e-6)
    assert single_value(folder, turns) == pytest.approx(
        single_value(folder, Sample("a", "No.")), abs=1e-6
    )
    assert fields_read(DiscriminatorScore(task="dialogue")) == {"text", "context"}


def test_a_text_that_is_cut_is_counted_and_read_from_the_side_that_training_kept(folder, tmp_path):
    long = " ".join(tiny.texts()[:3])
    end = shutil.copytree(folder, tmp_path / "end")
    AutoTokenizer.from_pretrained(end, truncation_side="left").save_pretrained(end)
    for model, other in ((folder, f"{long} and more"), (end, f"And more {long}")):
        samples = [Sample("a", long), Sample("b", other), Sample("c", "It rained.")]
        scores = DiscriminatorScore(model=str(model), value="logit").score(samples)
        assert scores.truncated == {"a", "b"}
        assert scores.values[0] == pytest.approx(scores.values[1], abs=1e-6)
    assert single_value(folder, Sample("a", long)) != pytest.approx(
        single_value(end, Sample("a", long)), abs=1e-6
    )
    assert single_value(folder, Sample("a", long)) == pytest.approx(
        log_odds(folder, long), abs=1e-4
    )


@pytest.mark.parametrize("model", ["", " "])
def test_without_a_model_it_says_how_to_make_one(model):
    with pytest.raises(UserError, match="levelfield train discriminator") as raised:
        DiscriminatorScore(model=model).score([Sample("a", "It rained.")])
    assert "\n" not in str(raised.value)


def test_models_that_are_not_discriminators_are_refused(tmp_path, causal_folders):
    stars = tiny_classifier.save(tmp_path / "stars", ("1 star", "5 stars"))
    for wrong, complaint in (
        (stars, "not a discriminator: its labels are 1 star, 5 stars"),
        (causal_folders["gpt2"], "is a causal model"),
    ):
        with pytest.raises(ModelError, match=complaint):
            DiscriminatorScore(model=str(wrong)).score([Sample("a", "It rained.")])
    with pytest.raises(UserError, match="continues no prompt"):
        DiscriminatorScore(text="continuation", task="dialogue")


def test_a_metric_can_be_sent_elsewhere_and_knows_nothing_of_pytorch_before_it_scores(folder):
    metric = DiscriminatorScore(model=str(folder))
    sample = Sample("a", "It rained.")
    sent = pickle.loads(pickle.dumps(metric))
    assert sent.score([sample]).values == metric.score([sample]).values
    code = "import sys, levelfield.metrics.discriminator; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
