"""What CTranslate2 gets wrong is mended or refused; what it does not have is refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny
import tiny_ctranslate2
from levelfield.core.errors import LevelfieldError, ModelError
from levelfield.models.contracts import Gapped, Target
from levelfield.models.load import load
from levelfield.models.loading import Loading

pytest.importorskip("ctranslate2")

TORCH, CT2 = Loading("cpu"), Loading("cpu", engine="ctranslate2")
SOURCE, TARGETS = [Gapped("The lake ", " froze.")], [[Target("slowly, and then", end=True)]]


def log_p(folder: Path, loading: Loading) -> Any:
    return load("infilling", str(folder), loading).log_likelihood(SOURCE, TARGETS).log_p[0][0]


def edit(folder: Path, **entries: Any) -> Path:
    """The folder with other entries in its configuration; None takes one out."""
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) | entries
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}), "utf-8")
    return folder


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.1 as published"])
def test_outputs_of_t5_are_scaled_where_the_checkpoint_scales_them(version, tmp_path):
    folder = tiny_ctranslate2.save_t5(tmp_path, tied=version == "1.0")
    if version == "1.1 as published":  # older versions of `transformers` wrote only this
        edit(folder, tie_word_embeddings=False, scale_decoder_outputs=None)
    np.testing.assert_allclose(log_p(folder, CT2), log_p(folder, TORCH), atol=1e-4, rtol=0)


def test_a_conversion_that_scales_wrongly_is_refused_with_both_numbers(tmp_path, monkeypatch):
    folder = tiny_ctranslate2.save_t5(tmp_path, tied=False)
    expected = log_p(folder, TORCH)
    tiny_ctranslate2.scale_as_the_converter_does(monkeypatch)
    with pytest.raises(
        ModelError, match="engine ctranslate2 does not compute what torch does"
    ) as e:
        log_p(folder, CT2)
    ours, by_torch = map(
        float, re.findall(r"nats (-[\d.]+), and (-[\d.]+) by torch", str(e.value))[0]
    )
    assert np.abs(expected - by_torch).min() < 1e-4
    assert abs(ours - by_torch) > 1e-4


@pytest.mark.parametrize("family", ["bart", "pegasus"])
def test_what_the_type_decides_is_not_read_of_the_configuration(family, tmp_path):
    folder = tiny.save(family, tmp_path)
    expected = log_p(folder, TORCH)
    for wrong in (None, family == "bart"):
        edit(folder, normalize_before=wrong, normalize_embedding=None)
        np.testing.assert_allclose(log_p(folder, CT2), expected, atol=1e-4, rtol=0)


def refused(folder: Path, kind: Any, loading: Loading = CT2) -> str:
    with pytest.raises(LevelfieldError) as error:
        load(kind, str(folder), loading)
    return str(error.value)


def test_types_that_are_not_converted_are_refused_with_those_that_are(tmp_path):
    options = {**tiny_ctranslate2.CAUSAL["qwen3"][1], "pad_token_id": 0}
    folder = tiny_ctranslate2.save_causal(tmp_path, "Gemma2Config", options)
    message = refused(folder, "causal")
    assert "of the type gemma2" in message
    assert "--engine torch" in message
    assert "gpt2" in message


def test_rotary_positions_that_come_out_wrong_are_refused(tmp_path):
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    options = {**tiny_ctranslate2.CAUSAL["llama"][1], "rope_parameters": rope}
    folder = tiny_ctranslate2.save_causal(tmp_path, "LlamaConfig", options)
    assert "rotary positions of the kind llama3" in refused(folder, "causal")


def test_windows_of_attention_are_refused(tmp_path):
    options = {**tiny_ctranslate2.CAUSAL["mistral"][1], "sliding_window": 8}
    folder = tiny_ctranslate2.save_causal(tmp_path, "MistralConfig", options)
    assert "attend to the last tokens only" in refused(folder, "causal")


def test_precisions_and_devices_that_it_does_not_have_are_refused(tiny_folders):
    folder = tiny_folders["t5"]
    assert "bfloat16" in refused(
        folder, "infilling", Loading("cpu", "bfloat16", engine="ctranslate2")
    )
    assert "'mps'" in refused(folder, "infilling", Loading("mps", engine="ctranslate2"))


def test_models_that_fill_no_gaps_are_refused(tmp_path):
    folder = edit(tiny.save("bart", tmp_path), model_type="mbart")
    assert "fills no gaps" in refused(folder, "infilling")


def test_tokens_that_the_model_does_not_have_are_no_unknown_ones(tmp_path):
    words = tiny.tokenizer("t5")
    tiny.model("t5", len(words)).save_pretrained(tmp_path)
    words.add_tokens(["froze"])
    words.save_pretrained(tmp_path)
    model = load("infilling", str(tmp_path), CT2)
    with pytest.raises(ModelError, match="not of one model"):
        model.log_likelihood(SOURCE, TARGETS)


def test_a_damaged_model_is_refused_by_its_name(tmp_path):
    folder = tiny.save("t5", tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"no weights")
    assert "damaged" in refused(folder, "infilling")
