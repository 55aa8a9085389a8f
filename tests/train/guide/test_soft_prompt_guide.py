"""Soft prompts learn from a discriminator what the base should write, and nothing else learns."""

from __future__ import annotations

import functools
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import tiny
import tiny_class_lm
import tiny_future
import tiny_soft_prompt
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques._class_lm.network import class_lm
from levelfield.generation.techniques._future.network import future_model
from levelfield.generation.techniques.discup import training
from levelfield.generation.techniques.discup.network import with_prompts
from levelfield.generation.techniques.discup.settings import SoftPromptSettings
from levelfield.generation.techniques.discup.teachers import (
    ClassTeacher,
    FutureTeacher,
    TextBatch,
    teacher_of,
)
from levelfield.generation.techniques.discup.technique import DisCup
from levelfield.generation.techniques.discup.training import (
    Distillation,
    LearntPrompts,
    beginnings,
    cup_loss,
    held_out_figures,
)
from levelfield.models.guides import Guide, guide_named
from levelfield.models.loading import Loading
from levelfield.models.torch.decoding import CausalRows
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train import loop
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, own_texts

LABELS = ("negative", "positive")
SETTINGS = {"prompt": "3", "candidates": 40, "batch": 4, "epochs": 1, "tokens": 8}
SOURCE = "our own sentences: Apache-2.0"
SAVE = {
    "class": tiny_class_lm.save,
    "future": tiny_future.save,
    "prompt": tiny_soft_prompt.save,
}
families = pytest.mark.parametrize("family", ["gpt2", "llama", "bloom"])


@functools.cache
def tiny_model(family: str = "gpt2") -> str:
    """A folder with a random model, made once."""
    return str(tiny.save(family, Path(tempfile.mkdtemp(prefix="levelfield-tiny-")), begins=True))


@functools.cache
def folder_of(kind: str) -> str:
    """A folder with a random guide for the tiny model, made once."""
    folder = Path(tempfile.mkdtemp(prefix="levelfield-guide-")) / kind
    return str(SAVE[kind](tiny_model(), folder))


def guide_of(kind: str) -> Guide:
    return guide_named(folder_of(kind))


def rows(n: int = 12) -> Labelled:
    texts = [
        f"{beginning} {i}"
        for i in range(n)
        for beginning in ("today the old lake was", "we saw it")
    ]
    return Labelled(tuple(texts), np.eye(2)[[0, 1] * n], LABELS)


def built(out: Path, **settings) -> Guide:
    base = tiny_model()
    texts = own_texts(rows(), None, [SOURCE], share=0.2, seed=0)
    chosen = settings_of("soft-prompt", {**SETTINGS, "teacher": folder_of("future"), **settings})
    return build_guide(texts, GuideSpec("soft-prompt", "sentiment", chosen, start=base), out)


class LikesSome:
    """A teacher to whom tokens whose embeddings begin with a positive number are positive."""

    guide = Guide("likes-some", Path(), "future", "sentiment", LABELS, "", "", "", {})

    def posterior(self, texts: TextBatch, candidates: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        table = language_model(tiny_model()).model.get_input_embeddings().weight.detach()
        y = (6 * table[candidates][..., 0]).sigmoid()
        return torch.stack([1 - y, y], dim=-1)


def distillation(lm: LanguageModel, teacher=None, **settings) -> Distillation:
    chosen = SoftPromptSettings(**{**SETTINGS, **settings})
    train, ids = readable(rows(), lm, chosen.tokens)
    return Distillation(train, ids, teacher or LikesSome(), lm, chosen, 0, "")


def learner(lm: LanguageModel, **settings) -> LearntPrompts:
    chosen = SoftPromptSettings(**{**SETTINGS, **settings})
    return LearntPrompts(lm, beginnings(chosen, LABELS, "sentiment", lm), seed=0)


# -- the loss


def test_the_loss_is_that_of_the_formula():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    y = torch.rand(3, 7, generator=generator, dtype=torch.float64)
    y[:, 5:] = 0  # no candidates
    for tau, weight in ((0.5, 1.0), (0.1, 0.3)):
        loss = cup_loss(logits, y, tau, weight)
        for row in range(3):
            x = [math.exp(z) for z in logits[row].tolist()]
            x = [value / sum(x) for value in x]
            good = [math.exp(value / tau) for value in y[row].tolist()]
            bad = [math.exp((1 - value) / tau if value > 0 else 0) for value in y[row].tolist()]
            expected = -sum(g / sum(good) * math.log(p) for g, p in zip(good, x, strict=True))
            expected -= weight * sum(
                b / sum(bad) * math.log(1 - p) for b, p in zip(bad, x, strict=True)
            )
            assert float(loss[row]) == pytest.approx(expected, rel=1e-9)


def test_the_anchor_keeps_the_proportions_of_the_base():
    """With β = 1 the least of the first sum is at p · exp(y / τ)."""
    p, y, tau = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.2, 0.2, 0.8]]), 0.5
    best = (p * (y / tau).exp()).log()
    least = float(cup_loss(best, y, tau, 0.0, p.log()))
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        other = best + 0.3 * torch.randn(1, 3, generator=generator)
        assert float(cup_loss(other, y, tau, 0.0, p.log())) >= least
    assert float(best.softmax(-1)[0, 0] / best.softmax(-1)[0, 1]) == pytest.approx(5 / 3)


def test_a_sure_student_has_a_finite_loss():
    logits = torch.tensor([[200.0, 0.0, 0.0]])
    loss = cup_loss(logits, torch.tensor([[0.1, 0.5, 0.9]]), 0.01)
    assert loss.isfinite().all()


@pytest.mark.parametrize("normalised", ["candidates", "vocabulary"])
def test_a_step_sums_the_losses_of_every_position_and_label(normalised):
    """Against one text at a time, read as one row of virtual and real tokens."""
    lm = language_model(tiny_model())
    task = distillation(lm, normalised=normalised, temperature=0.2, anchor=0.5)
    model = learner(lm)
    loss = task.loss(model, 0)
    prompts = [prompt.detach() for prompt in model.prompts()]
    vocabulary = lm.tokens.vocabulary_size
    expected, n = 0.0, 0
    for i in task._passes.rows(0):
        ids = task.ids[i]
        plain = lm.model(input_ids=torch.tensor([[lm.bos_id, *ids]])).logits[0, 1:]
        candidates = plain.topk(40).indices
        y = LikesSome().posterior(TextBatch.of([ids], lm), candidates)
        for label, prompt in enumerate(prompts):
            prompted = with_prompts(lm, prompt, "").model
            virtual = range(vocabulary, vocabulary + 3)
            logits = prompted(input_ids=torch.tensor([[lm.bos_id, *virtual, *ids]])).logits[0, 4:]
            p, label_logits = plain.log_softmax(-1), y[..., label]
            if normalised == "candidates":
                logits, p = logits.gather(-1, candidates), p.gather(-1, candidates)
            else:
                label_logits = torch.zeros_like(logits).scatter(-1, candidates, label_logits)
            expected += float(cup_loss(logits, label_logits, 0.2, 1.0, 0.5 * p).sum())
            n += len(ids)
    assert loss.count == n
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-4)


@families
def test_the_prompt_is_read_as_the_technique_reads_it(family):
    lm = language_model(tiny_model(family))
    task = distillation(lm)
    model = learner(lm)
    texts = TextBatch.of([row_ids[:n] for row_ids, n in zip(task.ids, (3, 1, 5), strict=False)], lm)
    prompt = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    logits = model.logits(texts, prompt)
    prompted = with_prompts(lm, prompt, "").model
    virtual = [lm.tokens.vocabulary_size + i for i in range(3)]
    expected = []
    for ids, n in zip(task.ids, (3, 1, 5), strict=False):
        row = CausalRows.of(prompted, [[lm.bos_id, *virtual, *ids[:n]]], 0, lm.device)
        expected.append(row._forward(row.ids, last_only=False)[0, 4:])
    assert torch.allclose(logits, torch.cat(expected), atol=1e-4)


# -- learning


@pytest.mark.thinned
@pytest.mark.parametrize("anchor", [0.0, 1.0])
def test_the_loss_falls_and_tokens_that_speak_for_the_label_get_likelier(anchor, tmp_path: Path):
    lm = language_model(tiny_model())
    task = distillation(lm, temperature=0.1, anchor=anchor, candidates=400)
    model = learner(lm, prompt="6")
    with torch.inference_mode():
        before = [prompt.clone() for prompt in model.prompts()]
    recipe = loop.Recipe(steps=60, learning_rate=0.01, warmup=3, every=60)
    loop.fit(model, task, recipe, tmp_path)
    with torch.inference_mode():
        after = model.prompts()
    first, last = (
        held_out_figures(model, task, prompts, task.rows, task.ids) for prompts in (before, after)
    )
    assert last["loss"] < first["loss"] - 0.5
    assert last["mass"] > first["mass"] + 0.15
    assert first["mass-base"] == last["mass-base"] == pytest.approx(0.5, abs=0.1)


def test_only_the_prompt_encoders_get_gradients():
    lm = language_model(tiny_model())
    task = distillation(lm, teacher=ClassTeacher(class_lm(guide_of("class"), tiny_model())))
    model = learner(lm)
    weights = {name: p.clone() for name, p in lm.model.named_parameters()}
    task.loss(model, 0).total.backward()
    assert all(p.grad is None and not p.requires_grad for p in lm.model.parameters())
    assert {name for name, _ in model.named_parameters()} == {
        f"encoders.{i}.{name}" for i in range(2) for name, _ in model.encoders[0].named_parameters()
    }
    last = [encoder.mlp[-1] for encoder in model.encoders]
    assert all(float(layer.weight.grad.abs().max()) > 0 for layer in last)
    assert all(torch.equal(p, weights[name]) for name, p in lm.model.named_parameters())


def test_a_prompt_begins_with_the_words_of_its_label():
    lm = language_model(tiny_model())
    model = learner(lm, prompt="negative=2,positive=5", start=" very {label}")
    with torch.inference_mode():
        prompts = model.prompts()
    assert [len(prompt) for prompt in prompts] == [2, 5]
    ids = lm.ids(" very positive")
    expected = lm.model.get_input_embeddings()(torch.tensor([*ids, *ids])[:5])
    assert torch.equal(prompts[1], expected)


def test_without_words_a_prompt_begins_as_the_network_has_it():
    lm = language_model(tiny_model())
    model = learner(lm, start="")
    negative, positive = (prompt.detach() for prompt in model.prompts())
    assert 0 < negative.abs().max() < 1
    assert not torch.equal(negative, positive)


# -- teachers


def test_a_class_model_teaches_what_gedi_computes():
    base = tiny_model()
    learnt = class_lm(guide_of("class"), base)
    texts = TextBatch.of([[5, 9, 17], [40]], learnt.lm)
    candidates = torch.tensor([[1, 2], [3, 0], [7, 8], [2, 300]])
    y = ClassTeacher(learnt).posterior(texts, candidates)
    n = 0
    for ids in ([5, 9, 17], [40]):
        for end in range(1, len(ids) + 1):
            for k, candidate in enumerate(candidates[n].tolist()):
                scores = []
                text = [*ids[:end], candidate]
                for label in LABELS:
                    read = torch.tensor([[learnt.lm.bos_id, *learnt.codes[label], *text]])
                    with torch.inference_mode():
                        log_p = learnt.lm.model(input_ids=read).logits[0].log_softmax(-1)
                    begin = read.shape[1] - len(text) - 1
                    total = sum(float(log_p[begin + i, token]) for i, token in enumerate(text))
                    scores.append(learnt.scale / len(text) * total + learnt.bias[label])
                expected = torch.tensor(scores).softmax(-1)
                assert torch.allclose(y[n, k], expected, atol=1e-5)
            n += 1


def test_a_discriminator_of_the_future_teaches_what_fudge_computes():
    base = tiny_model()
    learnt = future_model(guide_of("future"), base)
    texts = TextBatch.of([[5, 9, 17], [40]], language_model(base))
    candidates = torch.tensor([[1, 2], [3, 0], [7, 8], [2, 300]])
    y = FutureTeacher(learnt).posterior(texts, candidates)
    beginnings = [[5], [5, 9], [5, 9, 17], [40]]
    for n, (text, next_ones) in enumerate(zip(beginnings, candidates.tolist(), strict=True)):
        for k, candidate in enumerate(next_ones):
            read = torch.tensor([[learnt.bos_id, *text, candidate]])
            expected = learnt.network.whole(read)[0, -1].softmax(-1)
            assert torch.allclose(y[n, k], expected, atol=1e-5)


def test_a_teacher_of_other_labels_is_refused():
    base = tiny_model()
    with pytest.raises(ModelError, match=r"labels negative, positive.*texts have bad, good"):
        teacher_of(folder_of("future"), "sentiment", ("bad", "good"), base, Loading())
    prompt = folder_of("prompt")
    with pytest.raises(ModelError, match="a teacher is of kind class-lm or future"):
        teacher_of(prompt, "sentiment", LABELS, base, Loading())


def test_labels_of_a_teacher_may_be_in_another_order():
    lm = language_model(tiny_model())
    task = distillation(lm)
    turned = Distillation(
        Labelled(task.rows.texts, task.rows.targets[:, ::-1], LABELS[::-1]),
        *(task.ids, task.teacher, lm, task.settings, 0, ""),
    )
    model = learner(lm)
    texts = TextBatch.of(task.ids[:2], lm)
    assert torch.equal(task.lesson(model, texts).y, turned.lesson(model, texts).y.flip(-1))


# -- the guide


def test_two_runs_leave_the_same_bytes(tmp_path: Path):
    first, other = (built(tmp_path / name / "g") for name in "ab")
    for name in ("guide.json", "guide.safetensors", "README.md"):
        assert (first.path / name).read_bytes() == (other.path / name).read_bytes()


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(training, "EVERY", 2)
    whole = built(tmp_path / "whole" / "g")
    step = loop._step

    def killed(model, task, recipe, optimizer, number):
        if number == 3:
            raise KeyboardInterrupt
        return step(model, task, recipe, optimizer, number)

    monkeypatch.setattr(loop, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        built(tmp_path / "killed" / "g")
    monkeypatch.setattr(loop, "_step", step)
    assert built(tmp_path / "killed" / "g").checksum == whole.checksum


def test_the_guide_is_a_matrix_a_label_and_a_card(tmp_path: Path):
    guide = built(tmp_path / "g", prompt="positive=4,negative=6")
    tensors = safetensors.torch.load_file(guide.weights)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "negative": (6, 16),
        "positive": (4, 16),
    }
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    card = (guide.path / "README.md").read_text(encoding="utf-8")
    assert SOURCE in card
    assert f"| Teacher | {guide.settings['teacher']}, of kind future |" in card
    assert f"{guide.settings['figures']['mass']:.4f} on" in card
    technique = DisCup(model=tiny_model(), guide=str(guide.path))
    (answer,) = technique.generate(
        [Request("1", "The lake", {"sentiment": "positive"})], decoding=Decoding(max_new_tokens=3)
    )
    assert answer.tokens >= 1


def test_figures_are_those_of_one_text_at_a_time(tmp_path: Path):
    guide = built(tmp_path / "g")
    lm = language_model(tiny_model())
    test = own_texts(rows(), None, [], share=0.2, seed=0).test
    test, ids = readable(test, lm, 8)
    task = distillation(lm, teacher=FutureTeacher(future_model(guide_of("future"), tiny_model())))
    prompts = safetensors.torch.load_file(guide.weights)
    mass, nats, n, tokens = [0.0, 0.0], [0.0, 0.0, 0.0], 0, 0
    for i, text in enumerate(ids):
        texts = TextBatch.of([text], lm)
        lesson = task.lesson(learner(lm), texts)
        after = torch.tensor(text[1:])
        for label, name in enumerate(LABELS):
            prompted = with_prompts(lm, prompts[name].float(), "").model
            virtual = range(lm.tokens.vocabulary_size, lm.tokens.vocabulary_size + 3)
            row = torch.tensor([[lm.bos_id, *virtual, *text]])
            with torch.inference_mode():
                log_p = prompted(input_ids=row).logits[0, 4:].log_softmax(-1)
            is_likely = lesson.y[..., label] > 0.5
            mass[0] += float((log_p.gather(-1, lesson.candidates).exp() * is_likely).sum())
            mass[1] += float((lesson.log_p.gather(-1, lesson.candidates).exp() * is_likely).sum())
            is_other = int(test.targets[i, label] == 0)
            nats[is_other] -= float(log_p[:-1].gather(-1, after[:, None]).sum())
        nats[2] -= float(lesson.log_p[:-1].gather(-1, after[:, None]).sum())
        n, tokens = n + 2 * len(text), tokens + len(after)
    figures = guide.settings["figures"]
    assert figures["texts"] == len(ids)
    assert figures["mass"] == pytest.approx(mass[0] / n, abs=2e-3)
    assert figures["mass-base"] == pytest.approx(mass[1] / n, abs=2e-3)
    for name, value in zip(("", "-other", "-base"), nats, strict=True):
        expected = math.exp(value / tokens)
        assert figures[f"perplexity{name}"] == pytest.approx(expected, rel=2e-3), name


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("prompt", "0", "expected a number of at least 1"),
        ("prompt", "positive=3", "one for each label"),
        ("prompt", "positive=3,negative=x", "one for each label"),
        ("temperature", 0.0, "expected a number above 0"),
        ("candidates", 1, "expected a whole number from 2 on"),
        ("anchor", -1.0, "expected a number from 0 on"),
    ],
)
def test_settings_that_make_no_prompt_are_refused(setting, value, message, tmp_path: Path):
    with pytest.raises(UserError, match=message):
        built(tmp_path / "g", **{setting: value})
