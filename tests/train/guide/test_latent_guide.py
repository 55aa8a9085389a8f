"""Latents, prefixes and a flow are learnt in two stages, and end as one run however often it is
killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import tiny
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.generation.techniques._latent import training
from levelfield.generation.techniques._latent.flow_training import FlowTask, LearntFlow
from levelfield.generation.techniques._latent.latents import latent_model
from levelfield.generation.techniques._latent.settings import LatentSettings
from levelfield.generation.techniques._latent.training import LatentTask, LearntLatent, flow_shape
from levelfield.models.guides import Guide, guide_for
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.language_model import language_model
from levelfield.train import loop
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.guide.texts import by_attribute, guide_texts, subset
from levelfield.train.labelled import (
    Labelled,
    from_controls,
    from_several_controls,
    own_texts,
)

SETTINGS = {
    "size": 6,
    "positions": 2,
    "rank": 3,
    "kept": 5,
    "batch": 8,
    "epochs": 1,
    "tokens": 12,
    "flow_blocks": 2,
    "flow_width": 8,
    "flow_steps": 20,
}
BOTH = "sentiment,topic"
ENDS = {
    "sentiment": {"negative": "is sad and bad", "positive": "is a fine joy"},
    "topic": {"Business": "has stock to sell", "Sports": "won the game", "World": "is at war"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.save("llama", tmp_path_factory.mktemp("base"))


def samples(attributes: str = BOTH, n: int = 10) -> list[Sample]:
    return [
        Sample(f"{attribute} {label} {i}", f"the old lake {i} {end}", control={attribute: label})
        for attribute in attributes.split(",")
        for i in range(n)
        for label, end in ENDS[attribute].items()
    ]


def rows(attributes: str = BOTH) -> Labelled:
    if "," in attributes:
        return from_several_controls(samples(attributes), attributes.split(","))
    return from_controls(samples(attributes), attributes)


def built(folder: Path, out: Path, attributes: str = BOTH, **settings) -> Guide:
    texts = own_texts(rows(attributes), None, [], share=0.2, seed=0)
    chosen = settings_of("latent", {**SETTINGS, **settings})
    return build_guide(texts, GuideSpec("latent", attributes, chosen, start=str(folder)), out)


def task_and_model(folder: Path, **settings) -> tuple[LatentTask, LearntLatent]:
    base, labelled = language_model(str(folder)), rows()
    chosen = LatentSettings(**{**SETTINGS, "noise": 0.0, **settings})
    ids = [row[:5] for row in base.tokens.ids(labelled.texts)]
    random = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(labelled), 9, generator=random)
    model = LearntLatent(base, vectors, len(labelled.labels), chosen, seed=0)
    for name, parameter in model.named_parameters():
        if name != "decoder.offset":
            parameter.data.normal_(std=0.5, generator=random)
    parts = by_attribute(labelled, BOTH)
    return LatentTask(labelled, parts, ids, vectors, chosen, 0, "read"), model


def plain_nats(model: LearntLatent, folder: Path, e: torch.Tensor, text: list[int]) -> float:
    """Returns −log P(text | prefix of e), token by token, without a cache."""
    from transformers import DynamicCache

    base, prefix = language_model(str(folder)), model.decoder(e[None]).detach()[0]
    nats = 0.0
    for t, token in enumerate(text):
        cache = DynamicCache(ddp_cache_data=[(layer[0][None], layer[1][None]) for layer in prefix])
        ids = torch.tensor([[base.bos_id, *text[:t]]])
        with torch.inference_mode():
            logits = base.model(input_ids=ids, **with_cache(cache)).logits[0, -1]
        nats -= float(logits.double().log_softmax(-1)[token])
    return nats


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_loss_is_that_of_the_paper(folder: Path, step: int):
    task, model = task_and_model(folder)
    loss = task.loss(model, step)
    part = task.parts[step % 2]
    batch = task._batch(step)
    e = model.encoder(task.vectors[part.at[batch]]).detach()
    texts = [task.ids[i] for i in part.at[batch]]
    nats = sum(
        plain_nats(model, folder, latent, text) for latent, text in zip(e, texts, strict=True)
    )
    reconstruction = nats / sum(map(len, texts))
    log_p = model.head(e)[:, part.block].log_softmax(-1).detach()
    labels = -sum(float(log_p[i, part.truth[b]]) for i, b in enumerate(batch)) / len(batch)
    gap = 0.0
    if step > 0:
        other = task.parts[(step - 1) % 2]
        before = model.encoder(task.vectors[other.at[task._batch(step - 1)]]).detach()
        gap = float((e.mean(0) - before.mean(0)).square().mean())
        assert gap > 0.001
    assert labels > 0.1
    expected = 0.5 * reconstruction + 0.2 * labels + 0.3 * 10 * gap
    assert loss.count == len(batch)
    assert float(loss.total.detach()) / loss.count == pytest.approx(expected, rel=1e-4)


def test_the_weight_of_labels_that_are_learnt_goes_to_the_texts(folder: Path):
    task, model = task_and_model(folder)
    part, batch = task.parts[0], task._batch(0)
    model.head.weight.data.zero_()
    with torch.no_grad():
        e = model.encoder(task.vectors[part.at[batch]])
        nats = model.nats(e, [task.ids[i] for i in part.at[batch]]).sum()
    reconstruction = float(nats) / sum(len(task.ids[i]) for i in part.at[batch])
    # all texts of this batch are sure to be of the first label, whatever they are
    object.__setattr__(part, "targets", np.eye(2)[np.zeros(len(part.at), int)])
    for bias, weight in ((2.0, 0.2), (3.0, 0.05)):  # cross-entropies of 0.127 and 0.049
        model.head.bias.data[part.block] = torch.tensor([bias, 0.0])
        labels = float(np.log1p(np.exp(-bias)))
        assert (labels < 0.1) == (weight == 0.05)
        loss = float(task.loss(model, 0).total.detach()) / len(batch)
        assert loss == pytest.approx((0.7 - weight) * reconstruction + weight * labels, rel=1e-4)


def test_attributes_take_turns_and_all_their_texts_are_read(folder: Path):
    task, _ = task_and_model(folder)
    for which, part in enumerate(task.parts):
        turns = -(-len(part.at) // task.settings.batch)
        read = np.concatenate([task._batch(which + 2 * turn) for turn in range(turns)])
        assert sorted(read) == list(range(len(part.at)))


def test_no_gradient_reaches_the_base(folder: Path):
    task, model = task_and_model(folder)
    base = language_model(str(folder)).model
    loss = task.loss(model, 1)
    loss.total.backward()
    assert all(parameter.grad is None for parameter in base.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert not {id(p) for p in base.parameters()} & {id(p) for p in model.parameters()}


def test_the_loss_of_the_flow_is_that_of_its_density():
    random = torch.Generator().manual_seed(0)
    latents = [
        (part, torch.randn(len(part.at), 6, generator=random))
        for part in by_attribute(rows(), BOTH)
    ]
    task = FlowTask.of(latents, 0, "read")
    model = LearntFlow(flow_shape(LatentSettings(**SETTINGS)), 5, seed=0)
    for parameter in model.parameters():
        parameter.data.normal_(std=0.3, generator=random)
    with torch.random.fork_rng():
        torch.manual_seed(1)  # whose first number is above 0.2: no noise
        assert float(torch.rand(())) > 0.2
        torch.manual_seed(1)
        loss = task.loss(model, 0)
    places = torch.from_numpy(task._passes.rows(0))
    assert loss.count == len(places) == len(task.label)
    expected, double = 0.0, model.double()
    for i in places.tolist():
        k, e = int(task.label[i]), task.latents[i].double()
        J = torch.autograd.functional.jacobian(lambda x: double.flow(x[None])[0][0], e)
        epsilon = double.flow(e[None])[0][0]
        gaussian = torch.distributions.Normal(double.flow.mean[k], double.flow.sd[k])
        log_p = gaussian.log_prob(epsilon).sum() + torch.linalg.slogdet(J).logabsdet
        its = slice(0, 2) if k < 2 else slice(2, 5)
        log_label = double.head(epsilon)[its].log_softmax(-1)[k - its.start]
        expected -= float(log_p.detach()) / 6 + float(log_label.detach())
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-4)


# -- the guide


@pytest.mark.slow
def test_a_guide_of_two_attributes_has_the_labels_of_both(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    assert guide.attributes == {
        "sentiment": ("negative", "positive"),
        "topic": ("Business", "Sports", "World"),
    }
    assert guide_for("topic", "latent", str(guide.path), str(folder)) == guide
    learnt = latent_model(guide, str(folder))
    for (attribute, label), cloud in learnt.latents.items():
        assert cloud.shape == (5, 6), (attribute, label)
        assert cloud.abs().max() <= 1
    texts = safetensors.torch.load_file(guide.weights)
    assert {t.dtype for n, t in texts.items() if not n.startswith("flow.")} == {torch.float16}


def test_a_guide_of_one_attribute_has_its_labels(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g", "topic")
    assert (guide.attribute, guide.labels) == ("topic", ("Business", "Sports", "World"))
    assert list(latent_model(guide, str(folder)).latents) == [
        ("topic", label) for label in guide.labels
    ]


@pytest.mark.slow
def test_latents_tell_labels_after_training(folder: Path, tmp_path: Path):
    figures = built(folder, tmp_path / "g", epochs=30, learning_rate=0.01, flow_steps=200).settings[
        "figures"
    ]
    for attribute, chance in (("sentiment", 1 / 2), ("topic", 1 / 3)):
        assert figures[f"accuracy-{attribute}"] > chance + 0.3
        assert figures[f"density-accuracy-{attribute}"] > chance + 0.3
    assert figures["perplexity"] < figures["perplexity-base"]
    assert figures["perplexity-label"] < figures["perplexity-other"]


@pytest.mark.slow
def test_two_runs_leave_the_same_bytes(folder: Path, tmp_path: Path):
    first, other = (built(folder, tmp_path / name / "g") for name in "ab")
    for name in ("guide.json", "guide.safetensors", "README.md"):
        assert (first.path / name).read_bytes() == (other.path / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [(LearntLatent, 6), (LearntFlow, 12)])
def test_a_run_that_was_killed_ends_as_one_that_was_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill
):
    """In either stage; vectors of texts are not computed again."""
    monkeypatch.setattr(training, "EVERY", 4)
    whole = built(folder, tmp_path / "whole" / "g", epochs=1.5)
    step = loop._step

    def killed(model, task, recipe, optimizer, number):
        if isinstance(model, kill[0]) and number == kill[1]:
            raise KeyboardInterrupt
        return step(model, task, recipe, optimizer, number)

    monkeypatch.setattr(loop, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        built(folder, tmp_path / "killed" / "g", epochs=1.5)
    monkeypatch.setattr(loop, "_step", step)
    monkeypatch.setattr(
        "levelfield.generation.techniques._latent.training.load_encoder",
        lambda *_: pytest.fail("reads again"),
    )
    again = built(folder, tmp_path / "killed" / "g", epochs=1.5)
    assert again.checksum == whole.checksum
    assert not (again.path / "training").exists()


def test_the_card_has_figures(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    card, figures = (guide.path / "README.md").read_text("utf-8"), guide.settings["figures"]
    assert f"sentiment {figures['accuracy-sentiment']:.4f}, topic" in card
    assert f"{figures['perplexity-base']:.1f} without" in card


# -- texts with labels of several attributes


def test_a_text_may_have_labels_of_some_attributes():
    samples = [
        Sample("1", "one", control={"sentiment": "positive"}),
        Sample("2", "two", control={"topic": "World", "sentiment": "negative"}),
        Sample("3", "three", control={"topic": "Sports"}),
    ]
    labelled = from_several_controls(samples, ["sentiment", "topic"])
    assert labelled.labels == ("negative", "positive", "Sports", "World")
    assert labelled.attributes == ("sentiment", "sentiment", "topic", "topic")
    assert labelled.targets.tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]]
    sentiment, topic = by_attribute(labelled, "")
    assert (sentiment.at.tolist(), sentiment.truth.tolist()) == ([0, 1], [1, 0])
    assert (topic.at.tolist(), topic.truth.tolist()) == ([1, 2], [1, 0])


def test_training_uses_at_most_the_chosen_number_of_texts_of_a_label():
    labelled = rows()
    few = subset(labelled, 4, seed=0)
    assert few.targets.sum(axis=0).tolist() == [4] * 5
    assert set(few.texts) < set(labelled.texts)
    assert few.texts != subset(labelled, 4, seed=1).texts
    assert subset(labelled, 0, seed=0) is labelled
    assert len(subset(labelled, 99, seed=0)) == len(labelled)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([Sample("1", "one", control={"style": "x"})], r"sample '1' has no label; expected one in"),
        (
            [Sample(str(n), "one", control={"sentiment": "ab"[n]}) for n in range(2)],
            r"0 different labels of topic",
        ),
    ],
)
def test_texts_without_labels_are_refused(samples, reason):
    with pytest.raises(UserError, match=reason):
        from_several_controls(samples, ["sentiment", "topic"])


def test_a_label_that_no_training_text_has_is_refused():
    held_out = [Sample("1", "one", control={"sentiment": "mixed"})]
    held_out += [Sample("2", "two", control={"topic": "World"})]
    labels = {"sentiment": ("negative", "positive"), "topic": ("Sports", "World")}
    with pytest.raises(UserError, match="the label 'mixed', which no training text has"):
        from_several_controls(held_out, list(labels), labels)


def test_other_kinds_of_guides_have_one_attribute():
    with pytest.raises(UserError, match="guides of kind class-lm serve one attribute"):
        GuideSpec("class-lm", "sentiment,topic")


def test_texts_of_files_may_have_several_attributes(tmp_path: Path):
    file = tmp_path / "texts.jsonl"
    file.write_text(
        "".join(
            json.dumps({"id": s.id, "text": s.text, "control": dict(s.control)}) + "\n"
            for s in samples()
        )
    )
    texts = guide_texts([str(file)], "sentiment, topic", share=0.2)
    assert texts.train.attributes == ("sentiment",) * 2 + ("topic",) * 3
    assert len(texts.train) + len(texts.test) == len(samples())


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("kept", 0, "kept=0"),
        ("noise", -1.0, "noise=-1.0"),
        ("flow_blocks", 0, "flow_blocks=0"),
    ],
)
def test_settings_out_of_range_are_refused(option, value, reason):
    with pytest.raises(UserError, match=reason):
        LatentSettings(**{option: value})
