"""The authors' checkpoints of DisCup become the matrices that their encoders make."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from torch import nn

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.discup.network import matrices_of
from levelfield.generation.techniques.discup.technique import DisCup
from levelfield.models.guides import guide_named
from levelfield.models.torch.language_model import language_model
from levelfield_reproductions.convert import convert

WIDTH = 16
POSITIVE = {"sentiment": "positive"}


class Published(nn.Module):
    """An encoder with the authors' names, from the layout's description."""

    def __init__(self, m: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(m, width)
        both_ways = {"num_layers": 2, "bidirectional": True, "batch_first": True}
        self.lstm_head = nn.LSTM(width, width // 2, **both_ways)
        self.mlp_head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self) -> torch.Tensor:
        return self.mlp_head(self.lstm_head(self.embedding.weight[None])[0])[0].detach()


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    return str(tiny.save("gpt2", tmp_path_factory.mktemp("base")))


@pytest.fixture
def encoders(tmp_path: Path) -> dict[str, Published]:
    """Of 4 and of 3 positions, in a folder `published`."""
    (tmp_path / "published").mkdir()
    torch.manual_seed(0)
    encoders = {"negative": Published(4), "positive": Published(3)}
    for label, encoder in encoders.items():
        name = f"distill_tuning_{label}_temperature0.01_scope_50_epoch_6_f1_1.5_(5,5).ckpt"
        checkpoint = {
            "embedding": encoder.state_dict(),
            "ckpt_name": name,
            "args": argparse.Namespace(template=(5, 5), device="cuda", lr=1e-3),
        }
        torch.save(checkpoint, tmp_path / "published" / name)
    return encoders


def converted(tmp_path: Path, base: str, **options) -> DisCup:
    out = tmp_path / "guide"
    chosen = {"model": base, **options}
    convert("discup", tmp_path / "published", out, options=chosen, allow_pickle=True)
    return DisCup(model=base, guide=str(out))


def test_the_base_reads_what_the_encoders_make_and_no_bos(tmp_path: Path, base: str, encoders):
    technique = converted(tmp_path, base)
    lm = language_model(base)
    for label, encoder in encoders.items():
        request = Request("1", "The lake", {"sentiment": label})
        (log_p,) = technique.log_probs([request], [" was"])
        tokens = lm.ids(" was")
        ids = torch.tensor([[*lm.ids("The lake"), *tokens]])
        embeddings = torch.cat([encoder()[None], lm.model.get_input_embeddings()(ids)], dim=1)
        with torch.inference_mode():
            logits = lm.model(inputs_embeds=embeddings).logits[0, -len(tokens) - 1 : -1]
        expected = logits.double().log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)]
        assert log_p == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.usefixtures("encoders")
def test_texts_are_written_from_nothing_but_the_soft_prompt(tmp_path: Path, base: str):
    technique = converted(tmp_path, base)
    (answer,) = technique.generate(
        [Request("1", "", POSITIVE)], decoding=Decoding(max_new_tokens=4)
    )
    assert answer.tokens >= 1
    assert technique.input_of(Request("1", "", POSITIVE)) == ""


@pytest.mark.usefixtures("encoders")
def test_the_guide_says_what_it_is(tmp_path: Path, base: str):
    converted(tmp_path, base)
    guide = guide_named(str(tmp_path / "guide"))
    assert (guide.kind, guide.attribute, guide.labels) == (
        "soft-prompt",
        "sentiment",
        ("negative", "positive"),
    )
    card = (guide.path / "README.md").read_text(encoding="utf-8")
    assert "negative 4, positive 3" in card


@pytest.mark.usefixtures("encoders")
def test_pickles_are_read_with_leave_only(tmp_path: Path, base: str):
    with pytest.raises(ModelError, match="--allow-pickle"):
        convert("discup", tmp_path / "published", tmp_path / "guide", options={"model": base})


@pytest.mark.usefixtures("encoders")
def test_a_label_without_a_checkpoint_is_named(tmp_path: Path, base: str):
    with pytest.raises(ModelError, match="0 checkpoints with 'mixed'"):
        converted(tmp_path, base, labels="positive,mixed")
    for labels in (" , ", "positive,positive"):
        with pytest.raises(UserError, match="expected different names"):
            converted(tmp_path, base, labels=labels)
    assert not (tmp_path / "guide").exists()


def test_one_checkpoint_alone_is_a_guide_of_one_label(tmp_path: Path, base: str, encoders):
    """As the authors' folder against toxicity has it."""
    (other,) = (tmp_path / "published").glob("*negative*")
    other.unlink()
    technique = converted(tmp_path, base, labels="positive")
    guide = guide_named(technique.guide)
    assert guide.labels == ("positive",)
    (matrix,) = matrices_of(guide, base, technique.loading).values()
    torch.testing.assert_close(matrix, encoders["positive"](), atol=1e-5, rtol=0)
    short = Decoding(max_new_tokens=4)
    (answer,) = technique.generate([Request("1", "The lake", POSITIVE)], decoding=short)
    assert answer.tokens
    assert "there are positive" in technique.refusal({"sentiment": "negative"})


def test_tensors_of_another_layout_are_named(tmp_path: Path, base: str, encoders):
    path = next((tmp_path / "published").glob("*positive*"))
    weights = encoders["positive"].state_dict()
    for change, message in (
        ({"extra.weight": torch.zeros(2)}, "extra.weight"),
        ({"mlp_head.0.weight": torch.zeros(2, 2)}, "mlp_head.0.weight is 2 × 2"),
    ):
        torch.save({"embedding": {**weights, **change}}, path)
        with pytest.raises(ModelError, match=message):
            converted(tmp_path, base)
