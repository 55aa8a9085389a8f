"""DisCup: the base behind embeddings that are no tokens of its vocabulary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

import technique_cases as cases
import tiny
import tiny_soft_prompt
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.technique import UncontrolledBase
from levelfield.generation.techniques.discup.case import CASE
from levelfield.generation.techniques.discup.network import soft_prompts
from levelfield.generation.techniques.discup.technique import DisCup
from levelfield.models.torch.language_model import language_model

POSITIVE = {"sentiment": "positive"}
PROMPTS = ("The lake", "", "Once upon a time there was a very old road", "Go ")
SHORT = Decoding(max_new_tokens=6)


def texts(technique, prompts=PROMPTS, control=POSITIVE, decoding=SHORT) -> list[str]:
    asked = [Request(str(n), prompt, control) for n, prompt in enumerate(prompts)]
    return [one.continuation for one in technique.generate(asked, decoding=decoding, seed=1)]


def embeddings(base: str, text: str) -> torch.Tensor:
    """Of the tokens of a text."""
    model = language_model(base)
    return model.model.get_input_embeddings()(torch.tensor(model.ids(text))).detach()


@pytest.fixture(scope="module")
def like_gpt2(tmp_path_factory) -> Path:
    """A model whose tokens begin with "!", as GPT-2's do: the token of id 0 is one of the text."""
    words = Tokenizer(BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(tiny.texts(), BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    words.add_special_tokens([AddedToken("<|endoftext|>")])
    end = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **end)
    assert tokenizer.convert_tokens_to_ids("!") == 0
    folder = tmp_path_factory.mktemp("like-gpt2")
    model = tiny.causal_model("gpt2", len(tokenizer))
    for part in (model.config, model.generation_config):
        part.bos_token_id = part.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_prompt_of_no_embeddings_is_refused(tmp_path: Path):
    base = cases.model()
    empty = {label: torch.empty(0, 16) for label in ("negative", "positive")}
    guide = tiny_soft_prompt.save_matrices(base, tmp_path / "g", empty)
    with pytest.raises(ModelError, match="its weights negative are empty"):
        texts(DisCup(model=base, guide=str(guide)))


def test_without_control_it_is_the_base():
    asked = [Request("1", "The lake"), Request("2", "Go on")]
    base = UncontrolledBase(model=cases.model())
    assert [one.text for one in CASE.make().generate(asked)] == [
        one.text for one in base.generate(asked)
    ]


@pytest.mark.parametrize("family", ["gpt2", "llama", "bloom"])
def test_a_prompt_of_real_embeddings_is_the_text_of_these_tokens(family, tmp_path: Path):
    base = cases.model(family)
    before = "It was a very good day"
    matrices = {"negative": embeddings(base, "It was"), "positive": embeddings(base, before)}
    guide = tiny_soft_prompt.save_matrices(base, tmp_path / "g", matrices)
    technique = DisCup(model=base, guide=str(guide))
    lm = language_model(base)
    for prompt in (" The lake", ""):
        written = " was green and old"
        (log_p,) = technique.log_probs([Request("1", prompt, POSITIVE)], [written])
        ids = [lm.bos_id, *lm.ids(before), *lm.ids(prompt)]
        tokens = lm.ids(written)
        with torch.inference_mode():
            logits = lm.model(input_ids=torch.tensor([[*ids, *tokens]])).logits[0]
        expected = logits[len(ids) - 1 : -1].double().log_softmax(-1)
        expected = expected[torch.arange(len(tokens)), torch.tensor(tokens)]
        assert log_p == pytest.approx(expected.numpy(), abs=1e-5)


def test_labels_of_one_batch_have_prompts_of_their_own():
    technique = CASE.make(batch=4)
    asked = [
        Request(f"{label}{n}", prompt, {"sentiment": label})
        for n, prompt in enumerate(PROMPTS[:2])
        for label in ("positive", "negative")
    ]
    ids = [technique._prompted(request, 6).ids for request in asked]
    vocabulary = technique.base.tokens.vocabulary_size
    virtual = [[id - vocabulary for id in row if id >= vocabulary] for row in ids]
    assert virtual == [[3, 4, 5, 6], [0, 1, 2]] * 2
    assert all(row[0] == technique.base.bos_id for row in ids)
    together = {one.id: one.text for one in technique.generate(asked, decoding=SHORT)}
    for request in asked:
        (alone,) = technique.generate([request], decoding=SHORT)
        assert alone.text == together[request.id]


def test_of_several_attributes_the_prompts_stand_one_behind_the_other(tmp_path: Path):
    base = cases.model()
    guides = [cases.prompt_guide(base), cases.prompt_guide(base, "topic")]
    control = {"topic": "Sports", **POSITIVE}
    technique = DisCup(model=base, guide=",".join(guides))
    rows = [
        DisCup(model=base, guide=guide)._prompts({attribute: value}).lm.model._prompts
        for guide, (attribute, value) in zip(
            guides, (("sentiment", "positive"), ("topic", "Sports")), strict=True
        )
    ]
    both = torch.cat([rows[0][3:7], rows[1][3:7]])
    joint = tiny_soft_prompt.save_matrices(
        base, tmp_path / "g", {"positive": both, "negative": both.clone()}
    )
    expected = texts(DisCup(model=base, guide=str(joint)))
    assert texts(technique, control=control) == expected
    assert texts(technique, control=control) != texts(technique)


@pytest.mark.parametrize("character", ["!", "\n"])
def test_no_token_is_taken_for_the_end_and_none_is_deleted(
    character, like_gpt2: Path, tmp_path: Path, monkeypatch
):
    """The authors read every "!" as the end of the text, and glue words at newlines."""
    base = str(like_gpt2)
    guide = str(tiny_soft_prompt.save(base, tmp_path / "g"))
    technique = DisCup(model=base, guide=guide)
    (token,) = technique.base.ids(character)
    ids = technique._prompted(Request("1", f"Go{character} It was", POSITIVE), 6).ids
    assert token in ids[1:]
    transformer = technique.base.model.transformer
    table, bias = transformer.wte.weight.detach().clone(), transformer.ln_f.bias.detach()
    table[token] *= 5
    monkeypatch.setattr(transformer.wte.weight, "data", table)
    monkeypatch.setattr(transformer.ln_f.bias, "data", bias + 50 * table[token])
    written = texts(technique, prompts=("The lake", f"It was{character}"))
    assert written == [character * 6] * 2


def test_the_repetition_penalty_is_of_the_text_alone():
    technique = CASE.make()
    decoding = Decoding(top_p=1.0, repetition_penalty=1.7)
    request = Request("1", "The lake", POSITIVE)
    written = " was green"
    (log_p,) = technique.log_probs([request], [written], decoding=decoding)
    ids, tokens = technique._prompted(request, 6).ids, technique.base.ids(written)
    vocabulary = technique.base.tokens.vocabulary_size
    for step, token in enumerate(tokens):
        so_far = [*ids, *tokens[:step]]
        with torch.inference_mode():
            row = torch.tensor([so_far])
            logits = technique._writer(POSITIVE).model(input_ids=row).logits[0, -1].tolist()
        for id in {id for id in so_far if id < vocabulary}:
            logits[id] = logits[id] / 1.7 if logits[id] > 0 else logits[id] * 1.7
        expected = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)[token]
        assert log_p[step] == pytest.approx(float(expected), abs=1e-5)


def test_a_token_costs_a_pass_of_the_base():
    answers = CASE.make().generate(
        [Request(str(n), prompt, POSITIVE) for n, prompt in enumerate(PROMPTS)], decoding=SHORT
    )
    assert all(one.forward_passes == one.tokens and one.backward_passes == 0 for one in answers)


def test_the_soft_prompt_takes_room_from_the_prompt():
    technique = CASE.make()
    long = "word " * 2_000
    ids = technique._prompted(Request("1", long, POSITIVE), 6).ids
    assert len(ids) == technique.base.tokens.limit - 6
    without = technique._prompted(Request("1", long), 6).ids
    assert len(without) == len(ids)
    assert ids[5:] == without[5:]
    assert technique.input_of(Request("1", "The lake", POSITIVE)) == "The lake"


def test_the_base_stays_as_it_is():
    technique = CASE.make()
    soft_prompts.cache_clear()  # or its base may be one that other tests have pushed out
    row = torch.tensor([[technique.base.bos_id, *technique.base.ids("The lake was")]])
    with torch.inference_mode():
        before = technique.base.model(input_ids=row).logits
        texts(technique)
        after = technique.base.model(input_ids=row).logits
        same = technique._writer(POSITIVE).model(input_ids=row).logits
    assert torch.equal(before, after)
    assert torch.equal(before, same)
    shared = next(technique._writer(POSITIVE).model.parameters())
    assert shared is next(technique.base.model.parameters())


def test_prompts_of_another_width_are_refused(tmp_path: Path):
    base = cases.model()
    guide = tiny_soft_prompt.save_matrices(
        base, tmp_path / "g", {"negative": torch.zeros(2, 8), "positive": torch.zeros(2, 8)}
    )
    with pytest.raises(ModelError, match=r"shape \(2, 8\).* width 16"):
        texts(DisCup(model=base, guide=str(guide)))


def test_guides_of_another_kind_are_refused():
    guide = cases.class_guide(cases.model())
    refusal = DisCup(model=cases.model(), guide=guide).refusal(POSITIVE)
    assert "is of kind class-lm; expected soft-prompt" in refusal
    assert "--technique discup" in refusal
    with pytest.raises(UserError, match="not a label"):
        next(CASE.make().generate([Request("1", "a", {"sentiment": "mixed"})]))


def test_greedy_texts_follow_the_prompted_model():
    technique = CASE.make()
    request = Request("1", "The lake", POSITIVE)
    (answer,) = technique.generate([request], decoding=Decoding(max_new_tokens=5, greedy=True))
    ids = technique._prompted(request, 5).ids
    written = []
    for _ in range(answer.tokens):
        with torch.inference_mode():
            row = torch.tensor([[*ids, *written]])
            logits = technique._writer(POSITIVE).model(input_ids=row).logits[0, -1]
        written.append(int(np.argmax(logits.numpy())))
    assert answer.continuation == technique.base.continuation(ids, written)


@pytest.mark.slow
def test_the_guide_that_ships_tells_labels_apart():
    technique = DisCup()
    asked = [
        Request(label, "All in all, the evening was", {"sentiment": label})
        for label in ("positive", "negative")
    ]
    for words, better in ((" a wonderful success", 0), (" a complete failure", 1)):
        log_p = [values.sum() for values in technique.log_probs(asked, [words] * 2)]
        assert log_p[better] > log_p[1 - better] + 0.5, words
