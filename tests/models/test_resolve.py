"""Every way a model's name can be wrong has an answer that says what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from levelfield.core.errors import ModelError
from levelfield.models import resolve as module
from levelfield.models.loading import Loading
from levelfield.models.resolve import PINS, resolve


def folder(path: Path, config: dict[str, object], weights: str | None = "model.safetensors") -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if weights:
        (path / weights).write_bytes(b"")
    return str(path)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (
            {"is_encoder_decoder": True, "architectures": ["T5ForConditionalGeneration"]},
            "encoder-decoder",
        ),
        ({"architectures": ["GPT2LMHeadModel"]}, "causal"),
        ({"architectures": ["LlamaForCausalLM"]}, "causal"),
        ({"architectures": ["BertForSequenceClassification"]}, "classifier"),
        ({"architectures": ["BertModel"]}, "encoder"),
        ({"model_type": "bloom", "architectures": ["BloomModel"]}, "causal"),
        ({"model_type": "gpt2"}, "causal"),
        ({"model_type": "gpt2", "architectures": ["GPT2ForSequenceClassification"]}, "classifier"),
        ({"model_type": "bert"}, "encoder"),
        ({}, "encoder"),
    ],
)
def test_what_a_model_is_comes_from_its_configuration(tmp_path, config, kind):
    assert resolve(folder(tmp_path / "m", {"model_type": "x", **config})).kind == kind


def test_decoders_have_a_causal_head_and_no_masked_one():
    from transformers.models.auto import modeling_auto

    causal = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    masked = set(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    both_sides = set(modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
    assert causal - masked - both_sides >= module.DECODERS


def test_a_folder_is_identified_by_what_is_in_it(tmp_path, tiny_folders):
    same = tmp_path / "copy"
    shutil.copytree(tiny_folders["t5"], same)
    assert resolve(str(same)).revision == resolve(str(tiny_folders["t5"])).revision
    other = tmp_path / "other"
    shutil.copytree(tiny_folders["t5"], other)
    with (other / "tokenizer.json").open("a") as file:
        file.write(" ")
    assert resolve(str(other)).revision != resolve(str(same)).revision


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", "no model folder './nowhere'"),
        ("/nowhere/at/all", "no model folder"),
        ("~/nowhere-at-all", "no model folder"),
        ("~nobody-at-all/x", "no model folder"),
        ("offline/gpt5", "there are offline/minilm"),
        ("google/pegasus-large", "without a network, use offline/minilm"),
        ("google/pegasus-large", "hf download google/pegasus-large --revision refs/pr/10"),
        ("some/model@v1", "--revision v1"),
        ("bad name!", "neither a folder nor a model name"),
        ("a/b/c", "no model folder"),
        ("", "the name of the model is empty"),
        ("  ", "the name of the model is empty"),
    ],
)
def test_a_name_that_leads_nowhere_says_why_and_what_works(name, message, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError) as error:
        resolve(name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_configuration_or_weights_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"no config\.json"):
        resolve(str(tmp_path / "empty"))
    with pytest.raises(ModelError, match="no weights"):
        resolve(folder(tmp_path / "bare", {"model_type": "t5"}, weights=None))


def test_pickled_weights_are_refused_unless_allowed(tmp_path):
    name = folder(tmp_path / "m", {"model_type": "t5"}, weights="pytorch_model.bin")
    with pytest.raises(ModelError, match="--allow-pickle"):
        resolve(name)
    assert resolve(name, Loading(allow_pickle=True)).pickled


@pytest.mark.parametrize(
    "shard", ["../outside.bin", "weights.bin", "../outside.safetensors", "/tmp/a.safetensors", 7]
)
def test_an_index_names_safetensors_of_its_own_folder_only(tmp_path, shard):
    name = folder(tmp_path / "m", {"model_type": "t5"}, weights="decoy.safetensors")
    index = tmp_path / "m" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "decoy.safetensors", "b": shard}}))
    for loading in (Loading(), Loading(allow_pickle=True)):
        with pytest.raises(ModelError, match=r"names .* as a file of weights; expected \*\.safe"):
            resolve(name, loading)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {}}', '{"weight_map": 3}', "no"])
def test_an_index_that_names_no_files_is_refused_in_a_line(tmp_path, content):
    name = folder(tmp_path / "m", {"model_type": "t5"}, weights="decoy.safetensors")
    (tmp_path / "m" / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ModelError, match=r"^model 'm': model\.safetensors\.index\.json"):
        resolve(name)


def test_a_configuration_names_no_pickle_as_its_weights(tmp_path):
    config = {"model_type": "t5", "transformers_weights": "adapter_model.bin"}
    name = folder(tmp_path / "m", config, weights="decoy.safetensors")
    with pytest.raises(ModelError, match="transformers_weights: expected a file"):
        resolve(name)


def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ModelError, match="not the pinned file"):
        module._checked(tmp_path / "model.safetensors", module.OFFLINE_SHA256)


def test_pins_name_a_commit_or_carry_a_checksum():
    for pin in PINS.values():
        assert pin.sha256 or len(pin.revision) == 40
