"""Perplexity by infilling models against the formula, one text at a time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import tiny
from levelfield.core.errors import ModelError
from levelfield.core.sample import Sample
from levelfield.metrics.ctrleval import CTRLEvalCoherence
from levelfield.metrics.fluency import InfillingPerplexity
from levelfield.models.loading import Loading

GAP = {"pegasus": "<mask_1>", "t5": "<extra_id_0>", "bart": "<mask>"}
GIVEN = {"pegasus": [0], "t5": [0, 2], "bart": [2, 0]}
"""What the decoder reads before a target: its start token, and T5's sentinel, BART's `<s>`."""


def nll(folder: Path, family: str, text: str, *, end: bool) -> float:
    """Mean −log p over the tokens of a text whose source is the gap, and its end token."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    ids += [tokenizer.eos_token_id] * end
    prefix = GIVEN[family]
    with torch.no_grad():
        logits = model(
            input_ids=tokenizer(GAP[family], return_tensors="pt").input_ids,
            decoder_input_ids=torch.tensor([[*prefix, *ids[:-1]]]),
        ).logits[0, len(prefix) - 1 :]
    table = logits.double().log_softmax(-1)
    return -sum(table[place, id].item() for place, id in enumerate(ids)) / len(ids)


@pytest.fixture(params=tiny.FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.thinned
@pytest.mark.parametrize("end", [True, False])
def test_it_is_the_formula_of_the_plain_loop(family, tiny_folders, end):
    folder = tiny_folders[family]
    texts = [*tiny.texts()[:3], "a", "Ünïcödé 🙂", "日本語"]
    samples = [Sample(str(n), text) for n, text in enumerate(texts)]
    expected = [nll(folder, family, text, end=end) for text in texts]
    for batch_tokens in (None, 1, 200):
        options = {"model": str(folder), "end": end, "loading": Loading(batch_tokens=batch_tokens)}
        scores = InfillingPerplexity(**options).score(samples)
        np.testing.assert_allclose(np.log(scores.values), expected, atol=1e-5)
        nll_scores = InfillingPerplexity(**options, value="nll").score(samples)
        np.testing.assert_allclose(nll_scores.values, expected, atol=1e-5)
    assert scores.direction == "lower"


def test_of_one_sentence_it_is_what_coherence_asks(family, tiny_folders):
    samples = [Sample("a", "The lake froze early this year.")]
    model = str(tiny_folders[family])
    coherence = (
        CTRLEvalCoherence(model=model, single="score", weights="mean").score(samples).values[0]
    )
    value = InfillingPerplexity(model=model).score(samples).values[0]
    assert math.log(value) == pytest.approx(-coherence, abs=1e-6)


def test_what_has_no_value_has_a_reason(family, tiny_folders):
    gap = GAP[family]
    samples = [Sample("a", " \n"), Sample("b", f"It {gap} rained."), Sample("c", "It rained.")]
    metric = InfillingPerplexity(model=str(tiny_folders[family]))
    expected = {"a": "empty text", "b": f"the text holds the model's gap token {gap}"}
    assert metric.score(samples).undefined == expected
    assert metric.score(samples[:2]).undefined == expected


def test_a_text_that_is_too_long_is_scored_on_its_beginning_and_counted(tmp_path):
    folder = tiny.save("pegasus", tmp_path / "pegasus", positions=40)
    long = " ".join(tiny.texts()[:3])
    scores = InfillingPerplexity(model=str(folder)).score([Sample("a", long), Sample("b", "Rain.")])
    assert scores.truncated == {"a"}
    assert np.isfinite(scores.values).all()


def test_the_signature_names_what_could_change_a_value(tiny_folders):
    model = str(tiny_folders["t5"])
    choices = [{}, {"value": "nll"}, {"end": False}, {"loading": Loading(dtype="bfloat16")}]
    assert len(
        {InfillingPerplexity(model=model, **options).signature for options in choices}
    ) == len(choices)


def test_a_model_that_fills_no_gaps_is_refused(causal_folders):
    with pytest.raises(ModelError, match="was not trained to fill gaps"):
        InfillingPerplexity(model=str(causal_folders["gpt2"])).score([Sample("a", "b")])
