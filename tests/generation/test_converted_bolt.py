"""The authors' discriminators of BOLT: what comes of their files computes what they compute."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

import technique_cases as cases
from contract_cases import CASES
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.bolt.discriminators import EncoderReader, encoder_model
from levelfield.generation.techniques.bolt.rollout import StraightThrough
from levelfield.generation.techniques.bolt.technique import BOLT
from levelfield.models.guides import guide_for, guide_named
from levelfield.models.torch.language_model import language_model
from levelfield_reproductions.convert import convert

WIDTH, TABLE = 16, 24
"""Of the states, and of the table of embeddings with a map behind it."""


@pytest.fixture
def original(tmp_path):
    """The authors' folder, and what its files compute of the ids of a text."""
    torch.manual_seed(5)
    about = {
        "vocab_size": 400,
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 66,
        "type_vocab_size": 1,
        "pad_token_id": 1,
    }
    model = RobertaForSequenceClassification(RobertaConfig(**about, initializer_range=0.5)).eval()
    table, change = torch.nn.Embedding(400, TABLE), torch.nn.Linear(TABLE, WIDTH)
    weights = dict(model.state_dict())
    weights["roberta.embeddings.word_embeddings.weight"] = table.weight.data
    weights["roberta.embeddings.transformation.weight"] = change.weight.data
    weights["roberta.embeddings.transformation.bias"] = change.bias.data
    weights["roberta.embeddings.position_ids"] = torch.arange(66)[None]
    folder = tmp_path / "replaced_vocab_roberta"
    folder.mkdir()
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps({**about, "model_type": "roberta"}))

    def logits(ids):
        with torch.no_grad():
            return model(inputs_embeds=change(table(torch.tensor([ids])))).logits[0]

    return folder, logits


def converted(folder, out, **options):
    options = {"model": cases.model(), **options}
    convert("bolt", folder, out, options=options, allow_pickle=True)
    return encoder_model(guide_named(str(out)), cases.model())


def test_the_map_is_in_the_table_and_padding_changes_nothing(original, tmp_path):
    folder, logits = original
    learnt = converted(folder, tmp_path / "guide")
    assert learnt.guide.labels == ("negative", "positive")
    texts = [[5, 7, 11, 3], [9], [1, 2]]
    found = learnt.logits([learnt.table[torch.tensor(ids)] for ids in texts])
    expected = torch.stack([logits(ids) for ids in texts])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert learnt.limit == 64


def test_the_energy_of_a_text_is_that_of_the_authors_files(original, tmp_path, monkeypatch):
    folder, logits = original
    converted(folder, tmp_path / "guide")
    technique = BOLT(model=cases.model(), guide=str(tmp_path / "guide"), iterations=3, fluency=0.0)
    asked = [
        Request("1", "The lake", {"sentiment": "positive"}),
        Request("2", "Once upon a time", {"sentiment": "negative"}),
        Request("3", "", {"sentiment": "negative"}),
    ]
    outcomes = []
    outcome_of = BOLT._outcome

    def recording(self, one, outcome):
        outcomes.append((one, outcome.best))
        return outcome_of(self, one, outcome)

    monkeypatch.setattr(BOLT, "_outcome", recording)
    list(technique.generate(asked, decoding=Decoding(max_new_tokens=6)))
    assert len(outcomes) == 3
    for one, best in outcomes:
        place = ("negative", "positive").index(one.request.control["sentiment"])
        log_p = logits([*one.ids[1:], *best.ids]).log_softmax(-1)  # without BOS
        assert best.energy == pytest.approx(-float(log_p[place]), abs=1e-4)


def test_gradients_reach_the_scores_as_through_one_hots(original, tmp_path):
    learnt = converted(original[0], tmp_path / "guide")
    scores = torch.randn(2, 3, 400, requires_grad=True)  # two texts of three tokens
    ids, mask = torch.tensor([[0, 5, 7], [0, 0, 9]]), torch.tensor([[1, 1, 1], [0, 1, 1]])
    rollout = SimpleNamespace(
        chosen=[StraightThrough(of) for of in scores.unbind(1)],
        prompts=SimpleNamespace(ids=ids, mask=mask, begins=torch.ones(2, dtype=torch.long)),
    )
    logits = EncoderReader(learnt).logits(rollout)
    (found,) = torch.autograd.grad(logits.log_softmax(-1)[:, 1].sum(), scores)
    p = scores.softmax(-1)
    chosen = torch.nn.functional.one_hot(scores.argmax(-1), 400) + p - p.detach()
    before = [learnt.table[[5, 7]], learnt.table[[9]]]
    texts = [torch.cat([b, o @ learnt.table]) for b, o in zip(before, chosen, strict=True)]
    by_hand = torch.cat([learnt.logits([text]) for text in texts])
    torch.testing.assert_close(logits, by_hand, atol=1e-5, rtol=0)
    (expected,) = torch.autograd.grad(by_hand.log_softmax(-1)[:, 1].sum(), scores)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)


def test_a_table_of_another_width_without_a_map_is_refused(original, tmp_path):
    folder, _ = original
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    for name in [name for name in weights if "transformation" in name]:
        del weights[name]
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="24 wide, the states 16"):
        converted(folder, tmp_path / "guide")


def test_other_vocabularies_and_techniques_are_refused(original, tmp_path):
    learnt = converted(original[0], tmp_path / "guide")
    assert language_model(cases.model()).tokens.digest == learnt.guide.settings["vocabulary"]
    with pytest.raises(ModelError, match="a different vocabulary"):
        encoder_model(learnt.guide, cases.model("llama"))
    refusal = CASES["fudge"].make(guide=str(tmp_path / "guide")).refusal
    assert "is of kind encoder; expected future" in refusal({"sentiment": "positive"})
    with pytest.raises(UserError, match="levelfield convert bolt"):
        guide_for("sentiment", "encoder")
