"""The authors' checkpoint of MultiCTG becomes prefixes of the layers that it was trained with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.latent.latent import MultiCTG, PriorCTG
from levelfield.generation.techniques.latent.latents import latent_model
from levelfield.models.guides import guide_named
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.language_model import language_model
from levelfield_reproductions.convert import convert

LAYERS, HEADS, WIDTH, P, SIZE = 3, 2, 8, 4, 5
"""More layers than heads, as GPT-2 medium has."""
BOTH = {"sentiment": "negative", "topic": "Sports"}
TEXTS = {
    "sentiment": {"negative": ["it was sad", "a bad lake"], "positive": ["a fine old road"]},
    "topic": {"Sports": ["the game was won"], "World": ["a very old war", "the road to it"]},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("base")
    words = tiny.causal_tokenizer("gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(words),
        n_positions=64,
        n_embd=HEADS * WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> str:
    """A configuration and a tokenizer; the weights are the checkpoint's."""
    folder = tmp_path_factory.mktemp("bert")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted(
        {word for some in TEXTS.values() for of in some.values() for t in of for word in t.split()}
    )
    (folder / "vocab.txt").write_text("\n".join([*names, *words]) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(names) + len(words),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


class Published(nn.Module):
    """The tensors that the layout's description names."""

    def __init__(self, base: str, bert: str) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.encoder = transformers.BertModel.from_pretrained(bert)
        self.decoder = transformers.GPT2LMHeadModel.from_pretrained(base)
        self.trans1 = nn.Sequential(nn.Linear(12, SIZE), nn.Tanh(), nn.Dropout(0.1))
        self.trans2 = nn.Sequential(nn.Linear(SIZE, P * LAYERS * 2 * HEADS * WIDTH))
        self.latent_classify_head = nn.ModuleList([nn.Linear(SIZE, 2)])
        for parameter in self.trans2.parameters():
            parameter.data.normal_()
        self.eval()

    def latent(self, tokenizer, text: str) -> torch.Tensor:
        with torch.inference_mode():
            return self.trans1(self.encoder(**tokenizer(text, return_tensors="pt")).pooler_output)[
                0
            ]

    def cache(self, e: torch.Tensor):
        """Pairs of keys and values for as many layers as there are heads."""
        with torch.inference_mode():
            flat = self.trans2(e).view(LAYERS, 2, HEADS, P, WIDTH)
        pairs = [(flat[i, 0][None], flat[i, 1][None]) for i in range(HEADS)]
        return transformers.DynamicCache(ddp_cache_data=pairs)


@pytest.fixture
def published(tmp_path: Path, base: str, bert: str) -> Published:
    """In `published/pytorch_model.bin`, with its texts in two files."""
    model = Published(base, bert)
    (tmp_path / "published").mkdir()
    torch.save(model.state_dict(), tmp_path / "published" / "pytorch_model.bin")
    for attribute, of_labels in TEXTS.items():
        rows = [
            {"id": f"{label} {n}", "text": text, "control": {attribute: label}}
            for label, texts in of_labels.items()
            for n, text in enumerate(texts)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{attribute}.jsonl").write_text(lines)
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
    for attribute, of_labels in TEXTS.items():
        for label, texts in of_labels.items():
            expected = torch.stack([published.latent(tokenizer, text) for text in texts])
            found = learnt.latents[attribute, label]
            torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
    assert learnt.latents["sentiment", "negative"].std(0).max() > 0.01


@pytest.mark.parametrize("prompt", ["The lake", "I"])
def test_a_model_of_as_many_layers_as_heads_writes_behind_the_authors_prefix(
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
def test_an_empty_prompt_is_written_behind_bos(tmp_path: Path, base, bert):
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
    ("change", "why"),
    [
        (lambda w: w.pop("trans1.0.bias"), "lacks trans1.0.bias"),
        (lambda w: w.update({"trans3.0.bias": torch.zeros(2)}), "has trans3.0.bias, which the"),
        (
            lambda w: w.update({"inv_flow.module_list.0.w_perm": torch.zeros(2)}),
            r"checkpoint of PriorControl: it has a flow .* train latents and a flow",
        ),
        (lambda w: w["trans2.0.weight"].fill_(float("nan")), "not finite"),
    ],
)
def test_what_is_not_of_the_layout_is_named(tmp_path: Path, base, bert, published, change, why):
    weights = dict(published.state_dict())
    change(weights)
    torch.save(weights, tmp_path / "published" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=why):
        converted(tmp_path, base, bert)
    assert not (tmp_path / "guide").exists()


@pytest.mark.usefixtures("published")
def test_another_number_of_positions_is_refused(tmp_path: Path, base, bert):
    with pytest.raises(ModelError, match=r"trans2.0.weight is 384 × 5; expected 480 × any"):
        converted(tmp_path, base, bert, positions=5)
