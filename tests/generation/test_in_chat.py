"""Texts that begin the answer to a message, in the chat template of the base."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import tiny
from contract_cases import CASES
from levelfield.core.errors import ModelError
from levelfield.generation.chat_frame import ChatFrame, chat_frame
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.table import TECHNIQUES, technique_class
from levelfield.generation.technique import InChat, UncontrolledBase
from levelfield.generation.techniques._prompts.prompts import message
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.models.torch.language_model import language_model

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WHOLE = Decoding(top_p=1.0)
IN_CHAT = sorted(name for name in TECHNIQUES if issubclass(technique_class(name), InChat))


@functools.cache
def model(seed: int = 0) -> str:
    """A folder with a tiny random base that has a chat template."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-in-chat-"))
    words = tiny.causal_tokenizer("llama")
    words.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    words.chat_template = CHATML
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tiny.causal_model("llama", len(words), seed=seed).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def log_p_of(name: str, ids: Sequence[int]) -> torch.Tensor:
    """log P of the next token, of one row without a cache: (vocabulary,)."""
    with torch.inference_mode():
        logits = language_model(name).model(input_ids=torch.tensor([list(ids)])).logits[0, -1]
    return logits.double().log_softmax(-1)


def frame(said: str) -> list[int]:
    """BOS and the chat up to where the answer begins."""
    base = language_model(model())
    return [base.bos_id, *ChatFrame(base.tokenizer).ids([message("user", said)])]


def test_what_the_base_reads_is_the_chat_and_the_prompt():
    technique = UncontrolledBase(model=model(), chat="Say it.")
    entry = technique._prompted(Request("1", "The lake"), 3)
    assert entry.ids == [*frame("Say it."), *technique.base.ids("The lake")]
    assert technique._ends > technique.base.ends


@pytest.mark.slow
def test_smollm2_has_a_chat_template_of_its_own():
    technique = UncontrolledBase(chat="Write a review of a film.")
    (answer,) = technique.generate([Request("1", "The film")], decoding=Decoding(max_new_tokens=4))
    assert answer.text.startswith("The film")
    assert technique.input_of(Request("1", "The film")).endswith(
        "<|im_start|>user\nWrite a review of a film.<|im_end|>\n<|im_start|>assistant\nThe film"
    )


def test_experts_see_the_text_alone_and_the_base_the_chat():
    technique = DExperts(
        model=model(),
        experts=f"positive={model(1)},negative={model(2)}",
        strength=0.7,
        chat="Say it.",
    )
    base = technique.base
    prompts, text = ["The lake", "Once upon a time there was a road"], " was green"
    requests = [Request(str(n), p, {"sentiment": "positive"}) for n, p in enumerate(prompts)]
    for prompt, values in zip(
        prompts, technique.log_probs(requests, [text] * 2, decoding=WHOLE), strict=True
    ):
        read, tokens = base.ids(prompt), base.ids(text)
        for step, token in enumerate(tokens):
            seen = [*read, *tokens[:step]]
            of_base = log_p_of(model(), [*frame("Say it."), *seen])
            good, bad = (log_p_of(model(n), [base.bos_id, *seen]) for n in (1, 2))
            expected = (of_base + 0.7 * (good - bad)).log_softmax(-1)[token]
            assert values[step] == pytest.approx(float(expected), abs=1e-4)


def test_the_repetition_penalty_sees_the_text_alone():
    technique = UncontrolledBase(model=model(), chat="green green green")
    base, prompt, text = technique.base, "The lake", " green"
    (values,) = technique.log_probs(
        [Request("1", prompt)], [text], decoding=Decoding(top_p=1.0, repetition_penalty=1.5)
    )
    read, token = base.ids(prompt), base.ids(text)[0]
    assert token not in read
    ids = torch.tensor([[*frame("green green green"), *read]])
    with torch.inference_mode():
        logits = base.model(input_ids=ids).logits[0, -1].double()
    is_seen = torch.isin(torch.arange(len(logits)), torch.tensor(read))
    logits = torch.where(is_seen, torch.where(logits > 0, logits / 1.5, logits * 1.5), logits)
    assert values[0] == pytest.approx(float(logits.log_softmax(-1)[token]), abs=1e-4)


@pytest.mark.parametrize("name", IN_CHAT)
@pytest.mark.parametrize("prompt", ["", "The lake"])
def test_every_technique_that_says_so_writes_in_a_chat(name: str, prompt: str):
    """With guides of random weights, for the base of the contract, which is given a template."""
    technique = CASES[name].make(chat="Say it.")
    base = technique.base
    before = base.tokenizer.chat_template
    base.tokenizer.chat_template = CHATML
    chat_frame.cache_clear()
    try:
        control = {} if name == "base" else {"sentiment": "positive"}
        (answer,) = technique.generate(
            [Request("1", prompt, control)], decoding=Decoding(max_new_tokens=3)
        )
    finally:
        base.tokenizer.chat_template = before
        chat_frame.cache_clear()
    assert answer.text.startswith(prompt)
    assert answer.tokens > 0


def test_a_chat_is_in_the_signature_and_in_the_base_that_costs_are_measured_from():
    alone, technique = (UncontrolledBase(model=model(), chat=chat) for chat in ("", "Say it."))
    assert technique.signature.startswith(f"{alone.signature}|chat:")
    assert technique.signature != UncontrolledBase(model=model(), chat="Say more.").signature
    caa = CASES["caa"].make(chat="Say it.")
    assert caa.uncontrolled.chat == "Say it."


def test_a_base_without_a_template_is_refused(tmp_path: Path):
    technique = UncontrolledBase(model=str(tiny.save("gpt2", tmp_path)), chat="Say it.")
    with pytest.raises(ModelError, match="has no chat template; leave chat out"):
        next(technique.generate([Request("1", "The lake")]))
