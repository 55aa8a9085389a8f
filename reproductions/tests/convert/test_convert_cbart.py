"""The authors' CBART as an editor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tiny
from levelfield.core.errors import ModelError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.cbart.network import EditingHead, editor
from levelfield.generation.techniques.cbart.technique import CBART
from levelfield_reproductions.convert import convert


def authors(folder: Path, labels: int = 3, **about):
    """Writes a folder as transformers 3 did. Returns BART and its head."""
    folder.mkdir()
    words = tiny.tokenizer("bart")
    body = tiny.model("bart", len(words))
    torch.manual_seed(1)
    head = EditingHead(body.config.d_model)
    if labels != 3:
        head.out_proj = torch.nn.Linear(body.config.d_model, labels)
    weights = {n: t.clone() for n, t in body.state_dict().items() if n != "lm_head.weight"}
    weights |= {f"classification_head.{n}": t for n, t in head.state_dict().items()}
    weights["label_weights"] = torch.zeros(labels)
    torch.save(weights, folder / "pytorch_model.bin")
    names = ("vocab_size", "d_model", "max_position_embeddings", "encoder_layers")
    names += ("encoder_attention_heads", "encoder_ffn_dim", "decoder_layers")
    names += ("decoder_attention_heads", "decoder_ffn_dim", "activation_function")
    names += ("pad_token_id", "bos_token_id", "eos_token_id")
    settings = {name: getattr(body.config, name) for name in names}
    settings |= {"model_type": "bart", "num_labels": labels, "encoder_loss_type": 0, **about}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    words.save_pretrained(folder)
    return body, head


def test_the_editor_computes_what_the_authors_files_compute(tmp_path):
    body, head = authors(tmp_path / "authors")
    out = tmp_path / "out"
    converted = convert("cbart", tmp_path / "authors", out, allow_pickle=True)
    assert "--model {out}" in converted.usage
    reader = editor(str(out))
    ids, mask = reader.padded([[0, 41, 52, 63, 2]])
    inputs = torch.tensor([[2, 0, 41, 52, 63]])
    with torch.inference_mode():
        states, actions = reader.network.encode(ids, mask)
        logits = reader.network.decode(states, mask, inputs, mask.bool())
        expected = body(input_ids=ids, decoder_input_ids=inputs)
        expected_actions = head(expected.encoder_last_hidden_state)
    torch.testing.assert_close(logits, expected.logits[0])
    torch.testing.assert_close(actions, expected_actions)
    request = Request("1", "The lake", {"keywords": ("court",)})
    decoding = Decoding(greedy=True, max_new_tokens=5)
    (answer,) = CBART(model=str(out)).generate([request], decoding=decoding)
    assert "court" in answer.text


def test_other_heads_and_models_are_refused(tmp_path):
    authors(tmp_path / "many", labels=6)
    with pytest.raises(ModelError, match="the head has 6 labels"):
        convert("cbart", tmp_path / "many", tmp_path / "out", allow_pickle=True)
    authors(tmp_path / "t5", model_type="t5")
    with pytest.raises(ModelError, match="expected bart"):
        convert("cbart", tmp_path / "t5", tmp_path / "out", allow_pickle=True)
    authors(tmp_path / "mbart", normalize_before=True)
    with pytest.raises(ModelError, match="normalize_before"):
        convert("cbart", tmp_path / "mbart", tmp_path / "out", allow_pickle=True)
    assert not (tmp_path / "out").exists()
