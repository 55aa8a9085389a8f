"""How texts begin: one rule for every consumer of a causal model, for tokenizers of every kind."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.technique import UncontrolledBase
from levelfield.generation.techniques._head.network import mean_states
from levelfield.generation.techniques._steering.training import layer_states, mean_state
from levelfield.generation.techniques._training.guide_tasks import scored_after_opening
from levelfield.generation.techniques.contrastive.technique import ContrastiveDecoding
from levelfield.metrics.cdm import CDMMomentum
from levelfield.metrics.fluency import Perplexity
from levelfield.metrics.llm_judge import LLMJudgeOverall
from levelfield.metrics.style import StylePerplexity
from levelfield.models.causal_tokens import CausalTokens, reads_bos
from levelfield.models.contracts import Frame, Gapped
from levelfield.models.guides import Guide
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_LM_FILE, resolve
from levelfield.models.small.heads import Encoder, States
from levelfield.models.torch import causal as torch_causal
from levelfield.models.torch.causal import TorchCausalModel, warn_of_bos
from levelfield.models.torch.choices import CausalChoices
from levelfield.models.torch.language_model import begun, language_model, wrapped
from levelfield.train.cdm.contrast import CausalFormat
from levelfield.train.guide.kinds import _begin

TEXT = "The lake froze early."
KINDS = {
    "like GPT-2": ("gpt2", {}),
    "add_bos_token": ("gpt2", {"add_bos_token": True}),
    "not add_bos_token": ("gpt2", {"add_bos_token": False}),
    "template": ("bloom", {"template": True}),
    "no BOS token": ("bloom", {"bos_token": None}),
    "like SentencePiece": ("llama", {}),
    "like SentencePiece without BOS": ("llama", {"add_bos_token": False}),
}
BEGINS = {"add_bos_token", "template", "like SentencePiece"}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    family, changes = KINDS[kind]
    root = tmp_path_factory.mktemp("begin") / "model"
    tiny.save(family, root, begins="template" in changes)
    if changes := {name: value for name, value in changes.items() if name != "template"}:
        AutoTokenizer.from_pretrained(root, **changes).save_pretrained(root)
    return str(root)


@pytest.fixture(scope="module")
def words(folder: str) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def network(folder: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def read(words: Any) -> list[int]:
    """What `transformers` reads of a text."""
    return list(words(TEXT)["input_ids"])


def test_the_kinds_begin_as_they_say(kind, words, read):
    bare = words(TEXT, add_special_tokens=False)["input_ids"]
    assert (len(read) == len(bare) + 1) == (kind in BEGINS)
    assert (words.bos_token is None) == (kind == "no BOS token")


def test_a_likelihood_is_that_of_what_transformers_reads(folder, network, read):
    with torch.no_grad():
        logits = network(torch.tensor([read[:-1]])).logits[0].double()
    expected = logits.log_softmax(-1)[torch.arange(len(read) - 1), read[1:]]
    (likelihood,) = load("causal", folder).log_likelihood([TEXT])
    assert likelihood.ids.tolist() == read[1:]
    np.testing.assert_allclose(likelihood.log_p, expected, atol=1e-5)
    value = Perplexity(folder).score([Sample("a", TEXT)]).values[0]
    assert value == pytest.approx(float((-expected.mean()).exp()), rel=1e-4)


def test_a_technique_and_its_helper_read_what_transformers_reads(folder, network, read):
    technique = UncontrolledBase(model=folder)
    assert technique._prompted(Request("1", TEXT), 5).ids == read
    with torch.no_grad():
        written = network.generate(torch.tensor([read]), max_new_tokens=5, do_sample=False)
    request = [Request("1", TEXT)]
    greedy = Decoding(max_new_tokens=5, greedy=True, top_p=1.0)
    ids = written[0, len(read) :].tolist()
    end = next((n for n, id in enumerate(ids) if id in technique.base.ends), len(ids))
    expected = technique.base.continuation(read, ids[:end])
    assert next(iter(technique.generate(request, decoding=greedy))).continuation == expected
    itself = ContrastiveDecoding(model=folder, amateur=folder, form="plain", strength=0.5)
    (log_p,) = itself.log_probs(request, [" a"])
    (alone,) = technique.log_probs(request, [" a"])
    kept = np.isfinite(log_p)
    assert len(log_p) == len(alone)
    np.testing.assert_array_less(alone[kept] - 1e-6, 0)


def test_guides_vectors_and_heads_learn_from_what_transformers_reads(folder, network, words, read):
    base = language_model(folder)
    bare = list(words(TEXT, add_special_tokens=False)["input_ids"])
    before = len(read) - len(bare)
    assert base.opening == read[:before]
    rows, scored = scored_after_opening(base.tokens, [bare])
    assert rows == [read[:-1]]
    assert [list(ids) for ids in scored] == [read[1:]]
    with torch.no_grad():
        out = network(torch.tensor([read]), output_hidden_states=True)
        last = network.base_model(torch.tensor([read]))[0][0, before:].mean(0)
    torch.testing.assert_close(mean_states(base, [bare])[0], last, atol=1e-5, rtol=1e-4)
    layer_means = layer_states(base, [bare], mean_state)[0]
    first = out.hidden_states[1][0, before:].mean(0)
    torch.testing.assert_close(layer_means[0], first, atol=1e-5, rtol=1e-4)
    means, _ = States(resolve(folder), 1).of([TEXT])
    np.testing.assert_allclose(means[0], out.hidden_states[-1][0, before:].mean(0), atol=1e-4)


def test_judges_and_negatives_read_what_transformers_reads(network, words, read):
    assert CausalChoices(network, words)._ids(TEXT) == read
    prompts = CausalFormat(words, [network.config]).prompts([Gapped(TEXT, " We skated.")], 5)
    assert prompts == [read]


def test_signatures_say_nothing_of_bos_where_it_precedes_and_no_where_it_does_not(kind, folder):
    begins = kind in BEGINS
    assert reads_bos(resolve(folder)) == begins
    assert ("bos:no" in Perplexity(folder).signature) == (not begins)
    metrics = [
        CDMMomentum(folder, folder, form="conditional"),
        LLMJudgeOverall(model=folder),
        StylePerplexity(f"formal={folder}"),
        UncontrolledBase(model=folder),
    ]
    for metric in metrics:
        with_bos, without = (replaced(metric, bos) for bos in (True, False))
        assert metric.signature == (with_bos if begins else without)
        assert with_bos != without
        assert "bos" not in with_bos


def replaced(metric: Any, bos: bool) -> str:
    signature: str = dataclasses.replace(metric, bos=bos).signature
    return signature


def test_a_head_says_in_its_folder_that_its_model_reads_no_bos(kind, folder):
    states = States(resolve(folder), 1)
    about = Encoder.of(folder, resolve(folder), 1, bos=states.reads_bos).as_config()
    assert about.get("bos", True) == (kind in BEGINS)
    assert States(resolve(folder), 1, bos=True).reads_bos  # as heads before this was written


def test_a_guide_says_that_it_was_trained_without_bos_and_its_model_reads_as_then(kind, folder):
    about = _begin("class-lm", resolve(folder))
    assert about == ({} if kind in BEGINS else {"reads_bos": False})
    assert not _begin("future", resolve(folder))  # whose network always reads BOS first
    fields: dict[str, Any] = dict.fromkeys(
        ("name", "attribute", "base", "revision", "checksum"), ""
    )
    guide = Guide(**fields, path=Path(), kind="class-lm", labels=("a", "b"), settings=about)
    assert guide.reads_bos == (kind in BEGINS)
    tokens = language_model(folder).tokens.beginning(guide.reads_bos)
    assert tokens.opening == language_model(folder).opening


def test_the_embedded_model_reads_bos_although_its_tokenizer_puts_none(causal_folders):
    resolved = dataclasses.replace(resolve(str(causal_folders["gpt2"])), gguf=Path(OFFLINE_LM_FILE))
    assert reads_bos(resolved)
    assert not reads_bos(resolved, False)
    assert not reads_bos(dataclasses.replace(resolved, gguf=None))


def test_several_tokens_before_a_text_are_refused_until_the_user_says_how_it_begins():
    words = tiny.causal_tokenizer("bloom")
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<pad> <s> $A", special_tokens=[("<s>", 1), ("<pad>", 3)]
    )
    config = tiny.causal_model("bloom", len(words)).config
    with pytest.raises(ModelError, match=r"puts several tokens before a text, <pad> <s>, .*bos="):
        CausalTokens(words, config)
    assert CausalTokens(words, config, bos=True).opening == [1]
    assert CausalTokens(words, config, bos=False).opening == []


class Disliking(torch.nn.Module):
    """A model that predicts the next token well unless a text begins with token 0."""

    def __init__(self, loss: float) -> None:
        super().__init__()
        self.weight, self.loss = torch.nn.Parameter(torch.zeros(1)), loss

    def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
        following = torch.roll(input_ids, -1, 1)
        logits = torch.nn.functional.one_hot(following, 400).float() * 9
        logits = logits - logits.logsumexp(-1, keepdim=True)
        if input_ids[0, 0] == 0:
            others = torch.nn.functional.one_hot(following, 400).float()
            logits = logits - self.loss * others
        return type("Output", (), {"logits": logits})


@pytest.fixture
def notes(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    torch_causal._warned.cache_clear()
    caplog.set_level(logging.WARNING)
    yield caplog
    torch_causal._warned.cache_clear()


@pytest.mark.parametrize(("bos", "loss", "warned"), [(True, 3, 1), (True, 0.2, 0), ("auto", 3, 0)])
def test_bos_that_makes_texts_far_less_likely_gives_one_warning(bos, loss, warned, notes):
    words = tiny.causal_tokenizer("gpt2")
    tokens = CausalTokens(words, tiny.causal_model("gpt2", len(words)).config, bos=bos)
    for _ in range(2):
        warn_of_bos(Disliking(loss), tokens, "tiny@1")
    assert len(notes.records) == warned
    if warned:
        assert "'tiny@1'" in notes.messages[0]
        assert "bos=auto" in notes.messages[0]


def test_nothing_is_computed_where_the_tokenizer_puts_bos_itself():
    words = tiny.causal_tokenizer("gpt2", begins=True)
    tokens = CausalTokens(words, tiny.causal_model("gpt2", len(words)).config)
    warn_of_bos(None, tokens, "tiny@1")  # without a model to compute with
    assert tokens.reads_bos


def test_a_model_is_the_same_one_until_the_option_changes_how_texts_begin(causal_folders):
    base = language_model(str(causal_folders["gpt2"]))
    assert begun(base, "auto") is base is begun(base, False)
    changed = begun(base, True)
    assert changed.model is base.model
    assert changed.opening == [base.bos_id]
    assert not base.reads_bos


def test_what_has_no_beginning_refuses_the_option(tiny_folders):
    with pytest.raises(UserError, match="bos=true applies to causal models"):
        _ = CDMMomentum(*[str(tiny_folders["t5"])] * 2, bos=True).signature
    with pytest.raises(UserError, match="bos=false applies to models on this machine"):
        LLMJudgeOverall(model="m", base_url="http://localhost:1/v1", bos=False)
    with pytest.raises(UserError, match="bos=true applies to causal models without a chat"):
        _ = LLMJudgeOverall(model=str(tiny_folders["t5"]), bos=True).signature


def test_words_after_no_text_begin_as_their_frame_does():
    """Without BOS frames of an empty text have roots of their own."""
    words = tiny.causal_tokenizer("gpt2")
    network = tiny.causal_model("gpt2", len(words))
    model = TorchCausalModel(network, words)
    frames = [
        Frame("It was", (" good", " bad")),
        Frame("All in all", (" good",)),
        Frame("", ("a",)),
    ]
    (likelihoods,) = model.words_after([""], [frames])
    for frame, log_p in zip(frames, likelihoods.log_p, strict=True):
        between, *answers = model.token_ids([frame.between, *frame.words])
        prefix = between or [words.bos_token_id]
        for ids, values in zip(answers, log_p, strict=True):
            with torch.no_grad():
                table = network(torch.tensor([[*prefix, *ids]])).logits[0].double().log_softmax(-1)
            expected = [float(table[len(prefix) - 1 + n, id]) for n, id in enumerate(ids)]
            np.testing.assert_allclose(values, expected, atol=1e-5)


def test_a_wrapped_model_begins_as_its_tokenizer_or_as_chosen():
    words = tiny.causal_tokenizer("gpt2")
    network = tiny.causal_model("gpt2", len(words))
    assert not wrapped(network, words, "tiny").reads_bos
    assert wrapped(network, words, "tiny", bos=True).opening == [words.bos_token_id]
