"""The authors' checkpoint of MultiCTG becomes prefixes of the layers that it was trained with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from latent_checkpoints import HEADS, TEXTS, P, Published, save_base, save_bert, save_texts

from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques._latent.latents import latent_model
from levelfield.generation.techniques.multictg.technique import MultiCTG
from levelfield.generation.techniques.priorctg.technique import PriorCTG
from levelfield.models.guides import guide_named
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.language_model import language_model
from levelfield_reproductions.convert import convert

BOTH = {"sentiment": "negative", "topic": "Sports"}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> str:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def published(tmp_path: Path, base: str, bert: str) -> Published:
    """In `published/pytorch_model.bin`, with its texts in two files."""
    model = Published(base, bert)
    (tmp_path / "published").mkdir()
    torch.save(model.state_dict(), tmp_path / "published" / "pytorch_model.bin")
    save_texts(tmp_path)
    return model


def converted(tmp_path: Path, base: str, bert: str, **options) -> MultiCTG:
    data = f"{tmp_path / 'sentiment.jsonl'},{tmp_path / 'topic.jsonl'}"
    chosen = {"model": base, "encoder": bert, "data": data, "positions": P, **options}
    out = tmp_path / "guide"
    convert("multictg", tmp_path / "published", out, options=chosen, allow_pickle=True)
    return MultiCTG(model=base, guide=str(out), noise=0.0, extension=0.0)


def test_latents_are_those_of_the_authors_encoder(tmp_path: Path, base, bert, published):
    technique = converted(tmp_path, base, bert)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    learnt = latent_model(guide_named(technique.guide), base)
    for attribute, labelled in TEXTS.items():
        for label, texts in labelled.items():
            expected = torch.stack([published.latent(tokenizer, text) for text in texts])
            latents = learnt.latents[attribute, label]
            torch.testing.assert_close(latents, expected, atol=2e-3, rtol=0)
    assert learnt.latents["sentiment", "negative"].std(0).max() > 0.01


@pytest.mark.parametrize("prompt", ["The lake", "I"])
def test_a_model_of_as_many_layers_as_heads_writes_after_the_authors_prefix(
    tmp_path: Path, base, bert, published, prompt: str
):
    technique = converted(tmp_path, base, bert)
    assert guide_named(technique.guide).settings["layers"] == HEADS
    request = Request("1", prompt, BOTH)
    (log_p,) = technique.log_probs([request], [" was"])
    e = technique._latent(BOTH, torch.Generator()).float()
    lm = language_model(base)
    tokens = lm.ids(" was")
    shorter = transformers.GPT2LMHeadModel.from_pretrained(base).eval()
    shorter.transformer.h = shorter.transformer.h[:HEADS]
    shorter.config.n_layer = HEADS
    with torch.inference_mode():
        ids = torch.tensor([[*lm.ids(prompt), *tokens]])  # without BOS
        cache = published.cache(e)
        logits = shorter(input_ids=ids, **with_cache(cache)).logits[0, -len(tokens) - 1 : -1]
    expected = logits.double().log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)]
    assert log_p == pytest.approx(expected.numpy(), abs=0.02)  # float16 keys and values


@pytest.mark.usefixtures("published")
def test_an_empty_prompt_is_written_after_bos(tmp_path: Path, base, bert):
    technique = converted(tmp_path, base, bert)
    (answer,) = technique.generate([Request("1", "", BOTH)], decoding=Decoding(max_new_tokens=3))
    assert answer.tokens >= 1
    assert technique._prompted(Request("1", "", BOTH), 3).ids == [technique.base.bos_id]


@pytest.mark.usefixtures("published")
def test_it_has_no_flow_for_priorctg(tmp_path: Path, base, bert):
    guide = converted(tmp_path, base, bert).guide
    assert "has no flow" in PriorCTG(model=base, guide=guide).refusal(BOTH)


@pytest.mark.usefixtures("published")
def test_texts_have_to_be_given(tmp_path: Path, base, bert):
    with pytest.raises(UserError, match="latents of labelled texts: give them as -o data="):
        converted(tmp_path, base, bert, data="")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda w: w.pop("trans1.0.bias"), "lacks trans1.0.bias"),
        (lambda w: w.update({"trans3.0.bias": torch.zeros(2)}), "has trans3.0.bias, which the"),
        (
            lambda w: w.update({"inv_flow.module_list.0.w_perm": torch.zeros(2)}),
            r"checkpoint of PriorControl, .* convert it with the layout priorctg",
        ),
        (lambda w: w["trans2.0.weight"].fill_(float("nan")), "not finite"),
    ],
)
def test_what_is_not_of_the_layout_is_named(tmp_path: Path, base, bert, published, change, reason):
    weights = dict(published.state_dict())
    change(weights)
    torch.save(weights, tmp_path / "published" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=reason):
        converted(tmp_path, base, bert)
    assert not (tmp_path / "guide").exists()


@pytest.mark.usefixtures("published")
def test_another_number_of_positions_is_refused(tmp_path: Path, base, bert):
    with pytest.raises(ModelError, match=r"trans2.0.weight is 384 × 5; expected 480 × any"):
        converted(tmp_path, base, bert, positions=5)
