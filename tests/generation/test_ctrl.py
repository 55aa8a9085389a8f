"""CTRL: its codes, what follows them, and the penalty that its paper samples with."""

from __future__ import annotations

import math

import pytest
import tiny_ctrl
import torch
from transformers import CTRLLMHeadModel, CTRLTokenizer

import technique_cases as cases
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.ctrl.technique import CTRL, FORBIDDEN, control_codes

PROMPTS = ("The lake", "", "it was The lake it")
POSITIVE = {"sentiment": "positive"}


def technique(**options) -> CTRL:
    return CTRL(model=cases.ctrl(), **options)


class TestCodes:
    def test_every_code_begins_with_one_that_ctrl_has(self):
        from transformers.models.ctrl.tokenization_ctrl import CONTROL_CODES

        codes = [code for of in control_codes().values() for code in of.values()]
        assert {code.partition(" ")[0] for code in codes} == set(CONTROL_CODES)
        assert "Technologies" in codes
        assert "Technology" not in codes

    @pytest.mark.parametrize(
        ("control", "what"),
        [
            ({"topic": "gardening"}, "no code for topic 'gardening'; there are \"world\""),
            ({"sentiment": "mixed"}, 'there are "positive", "negative"'),
            ({"keywords": ("court",)}, "codes for sentiment and topic, but none for keywords"),
            ({"topic": ("Sports", "World")}, "no code for topic 'Sports, World'"),
            ({"sentiment": "positive", "topic": "Sports"}, "accepts one attribute at a time"),
            ({}, "requires a control, or code=CODE"),
        ],
    )
    def test_what_has_no_code_is_refused_before_a_model_is_loaded(self, control, what: str):
        unloaded = CTRL(model="no/such-model")
        assert what in unloaded.refusal(control)
        with pytest.raises(UserError, match="'1': ctrl: "):
            next(unloaded.generate([Request("1", "The lake", control)]))

    @pytest.mark.parametrize("code", ["Technology", "horror", "Rating: 5.0"])
    def test_a_code_of_ones_own_that_ctrl_does_not_have_is_refused(self, code: str):
        with pytest.raises(UserError, match=f"code is '{code}'; expected one that begins with"):
            CTRL(model="no/such-model", code=code)

    @pytest.mark.parametrize(
        ("control", "code"),
        [
            (POSITIVE, "Reviews Rating: 5.0"),
            ({"sentiment": ("Negative",)}, "Reviews Rating: 1.0"),
            ({"topic": "Sci/Tech"}, "Technologies"),
            ({"topic": "World"}, "Politics"),
            ({"topic": "horror"}, "Horror"),
            ({}, "Opinion"),
        ],
    )
    def test_its_tokens_are_all_that_precedes_a_prompt(self, control, code: str):
        made = technique(code="Opinion")
        words = made.base.tokenizer
        ids = made._prompted(Request("1", "The lake", control), 5).ids
        assert words.convert_ids_to_tokens(ids) == [*code.split(), "The", "lake"]

    def test_a_vocabulary_without_the_code_is_an_error(self, tmp_path):
        words = tuple(word for word in tiny_ctrl.WORDS if word != "Technologies")
        made = CTRL(model=str(tiny_ctrl.save(tmp_path / "lacking", words)))
        with pytest.raises(ModelError, match="no code 'Technologies' in its vocabulary"):
            next(made.generate([Request("1", "The lake", {"topic": "Sci/Tech"})]))

    def test_a_model_that_is_no_ctrl_is_refused_before_it_is_loaded(self):
        with pytest.raises(UserError, match="is a gpt2, not a CTRL"):
            next(CTRL(model=cases.model()).generate([Request("1", "a", POSITIVE)]))


@pytest.mark.parametrize("penalty", [1.0, 1.2])
def test_greedy_texts_are_those_of_transformers_behind_the_code(penalty: float):
    """`generate([code; prompt])` without the code, which is the greedy search where θ = 1."""
    words = CTRLTokenizer.from_pretrained(cases.ctrl())
    model = CTRLLMHeadModel.from_pretrained(cases.ctrl())
    decoding = Decoding(max_new_tokens=12, greedy=True, repetition_penalty=penalty)
    asked = [Request(prompt, prompt, POSITIVE) for prompt in PROMPTS]
    for answer in technique().generate(asked, decoding=decoding):
        before = words(f"Reviews Rating: 5.0 {answer.prompt}", return_tensors="pt")["input_ids"]
        whole = model.generate(
            before,
            max_new_tokens=12,
            do_sample=False,
            repetition_penalty=penalty,
            suppress_tokens=words.convert_tokens_to_ids(list(FORBIDDEN)),
            pad_token_id=0,
        )
        written = words.decode(whole[0, before.shape[1] :]).removesuffix("@@")
        assert answer.continuation.lstrip() == written
        assert answer.tokens == 12


def test_what_the_authors_forbid_is_never_written():
    """The tiny model would write hardly anything else."""
    made = technique()
    forbidden = made.base.tokenizer.convert_tokens_to_ids(list(FORBIDDEN))
    raw = CTRLLMHeadModel.from_pretrained(cases.ctrl())
    row = torch.tensor([made._prompted(Request("1", "The lake", POSITIVE), 5).ids])
    with torch.inference_mode():
        assert raw(row).logits[0, -1].softmax(-1)[forbidden].sum() > 0.5
        p = made.base.model(row).logits[0, -1].softmax(-1)
    assert p[forbidden].tolist() == [0.0, 0.0]
    assert p.sum() == pytest.approx(1.0, abs=1e-5)
    (log_p,) = made.log_probs([Request("1", "The lake", POSITIVE)], [" \u00e9"])
    assert log_p.tolist() == [-math.inf]


def test_the_penalty_is_the_papers_by_hand():
    """θ = 1.2, T = 0.5; the second logit is negative, and both of the first two have occurred."""
    decoding = Decoding(repetition_penalty=1.2, temperature=0.5, top_p=1.0)
    steer = technique().processor([POSITIVE], decoding=decoding)
    scores = steer(torch.tensor([[0, 1, 1]]), torch.tensor([[2.0, -1.0, 0.5, -1.0]]))
    exponents = (2 / 1.2 / 0.5, -1 * 1.2 / 0.5, 0.5 / 0.5, -1 / 0.5)
    weights = [math.exp(x) for x in exponents]
    expected = [w / sum(weights) for w in weights]
    assert scores[0].softmax(-1).tolist() == pytest.approx(expected, abs=1e-6)


def test_a_penalty_of_1_leaves_the_distribution():
    logits = torch.tensor([[2.0, -1.0, 0.5, -1.0]])
    steer = technique().processor([POSITIVE], decoding=Decoding(top_p=1.0))
    scores = steer(torch.tensor([[0, 1, 1]]), logits)
    assert torch.allclose(scores.softmax(-1), logits.softmax(-1), atol=1e-6)


def test_the_papers_decoding_is_there_by_name():
    assert CTRL.paper_decoding.greedy
    assert CTRL.paper_decoding.repetition_penalty == 1.2
    assert CTRL.paper_decoding.temperature == 1.0


class TestWords:
    def test_a_text_without_a_prompt_begins_with_no_blank(self):
        (answer,) = technique().generate([Request("1", "", POSITIVE)])
        assert answer.text == answer.text.lstrip() != ""

    @pytest.mark.parametrize("prompt", ["The lake\n", "The lake "])
    def test_there_is_no_blank_where_the_prompt_has_white_space(self, prompt: str):
        (answer,) = technique().generate([Request("1", prompt, POSITIVE)])
        assert answer.text.startswith(prompt)
        assert not answer.continuation[:1].isspace()

    def test_a_word_that_the_budget_cuts_has_no_mark_of_the_vocabulary(self):
        asked = [Request(str(n), "The lake", POSITIVE) for n in range(40)]
        decoding = Decoding(max_new_tokens=2, top_p=1.0)
        answers = list(technique().generate(asked, decoding=decoding))
        assert not [one.text for one in answers if "@@" in one.text]
