"""Rewriters learn their pairs, go on where they were killed, and follow rewards."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from levelfield.core.errors import UserError
from levelfield.generation.techniques.rewriter import training as rewriter_training
from levelfield.generation.techniques.rewriter.network import open_seq2seq
from levelfield.generation.techniques.rewriter.rewriter_options import RewardSpec, RewriterSpec
from levelfield.generation.techniques.rewriter.sentence_pairs import (
    RewritingPair,
    RewritingPairs,
    rewriting_pairs,
)
from levelfield.generation.techniques.rewriter.training import (
    Rewriting,
    build_rewriter,
    greedy_texts,
    policy_loss,
)
from levelfield.models.loading import Loading
from levelfield.train.loop import Recipe
from small_infillers import Killed

EIGHT = tuple(
    RewritingPair(label, source, text)
    for text, source in (
        ("The lake is old.", "lake is old"),
        ("It was a wall.", "it was a wall"),
        ("Nobody came.", "nobody came"),
        ("I saw the road.", "saw the road"),
    )
    for label, source, text in (("formal", source, text), ("informal", text, source))
)
PAIRS = RewritingPairs("formality", ("formal", "informal"), EIGHT, EIGHT[:2])


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    return str(tiny.save("t5", tmp_path_factory.mktemp("base") / "t5"))


class Constant:
    """A reward of one value."""

    signatures = ("constant",)

    def of(self, texts, pairs):  # noqa: ARG002
        return np.full(len(texts), 0.7)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_eight_pairs_are_learnt_by_heart_in_both_directions(base, tmp_path):
    spec = RewriterSpec(Recipe(steps=400, learning_rate=1e-2, warmup=10, every=400), base, batch=8)
    about = build_rewriter(PAIRS, spec, tmp_path / "out")
    model = open_seq2seq(str(tmp_path / "out"), Loading())
    assert greedy_texts(model, EIGHT, 8) == [pair.text for pair in EIGHT]
    assert about.figures["bleu"] == pytest.approx(100)
    assert about.figures["copies"] == 0
    assert "BLEU 100.0 against" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("rewards", [RewardSpec(), RewardSpec(content=0.5, metric="chrf.source")])
def test_a_run_that_was_killed_leaves_the_same_bytes(base, tmp_path, rewards):
    spec = RewriterSpec(Recipe(steps=6, every=2, warmup=2), base, batch=4, rewards=rewards)
    build_rewriter(PAIRS, spec, tmp_path / "whole")
    left = 3

    def killed(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            raise Killed

    with pytest.raises(Killed):
        build_rewriter(PAIRS, spec, tmp_path / "killed", progress=killed)
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    build_rewriter(PAIRS, spec, tmp_path / "killed")
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    notes: list[str] = []
    build_rewriter(PAIRS, spec, tmp_path / "whole", notes=notes.append)
    assert notes == [f"{tmp_path / 'whole'} already holds this rewriter"]


@pytest.mark.slow
def test_rewards_change_the_weights_and_other_rewards_are_another_run(base, tmp_path):
    spec = RewriterSpec(Recipe(steps=3, every=2, warmup=2), base, batch=4)
    rewarded = replace(spec, rewards=RewardSpec(content=5.0, metric="chrf.source"))
    build_rewriter(PAIRS, spec, tmp_path / "a")
    build_rewriter(PAIRS, rewarded, tmp_path / "b")
    assert weights(tmp_path / "a") != weights(tmp_path / "b")
    with pytest.raises(UserError, match="holds no run of this kind"):
        build_rewriter(PAIRS, rewarded, tmp_path / "a")
    card = (tmp_path / "b" / "README.md").read_text()
    assert "| Rewards | 0.05 chrf.source|" in card


# -- rewards


def gradient(model, loss) -> torch.Tensor:
    model.model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.model.parameters() if p.grad is not None])


def test_the_policy_gradient_is_that_of_the_expected_reward(base):
    """Over all texts of two tokens at most, each weighted with its probability: the loss has the
    gradient of −E[r], whatever the baseline."""
    model = open_seq2seq(base, Loading())
    model.model.double()
    source, _ = model.source("formal: the lake")
    few = [5, 6, 7]
    texts = [[model.end], *([a, model.end] for a in few), *map(list, product(few, few))]
    reward = np.random.default_rng(0).random(len(texts))
    sources = [source] * len(texts)

    def log_p() -> torch.Tensor:
        """log P of the texts among these: every step chooses among four tokens."""
        ids, mask = model.encoded([source] * 4)
        begins = torch.tensor([[model.start, 0], *([model.start, a] for a in few)])
        logits = model.model(input_ids=ids, attention_mask=mask, decoder_input_ids=begins).logits
        chosen = logits[..., [model.end, *few]].log_softmax(-1)
        place = {model.end: 0, **{a: n for n, a in enumerate(few, 1)}}
        return torch.stack(
            [
                chosen[0, 0, place[text[0]]]
                + (chosen[place[text[0]], 1, place[text[1]]] if len(text) > 1 else 0.0)
                for text in texts
            ]
        )

    # the texts that end after two tokens and those that are cut there share their mass
    p = log_p().detach().exp()
    assert float(p.sum()) == pytest.approx(1)
    expected = -gradient(model, (log_p().exp() * torch.tensor(reward)).sum())
    for baseline in (0.0, 0.4, 3.0):
        loss = policy_loss(log_p(), reward, np.full(len(texts), baseline))
        actual = gradient(model, (p * loss).sum())
        torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-6)
    assert len(sources) == len(p)
    assert float(expected.norm()) > 1e-3


def test_a_reward_of_one_value_gives_the_gradient_of_the_likelihood(base):
    model = open_seq2seq(base, Loading())
    likelihood = Rewriting(PAIRS, model, 4, 0, "start")
    rewarded = Rewriting(PAIRS, model, 4, 0, "start", Constant())
    torch.manual_seed(0)
    assert not rewarded._policy(EIGHT[:4], [s for s, _ in rewarded._ids[:4]]).any()
    torch.testing.assert_close(
        gradient(model, rewarded.loss(None, 0).total),
        gradient(model, likelihood.loss(None, 0).total),
        atol=0,
        rtol=0,
    )


def test_sampled_texts_have_the_gradient_of_the_expected_reward(base, monkeypatch):
    """Texts of one token, which can all be counted up: the mean gradient of some thousand samples
    points where the exact one does."""
    monkeypatch.setattr(rewriter_training, "budget", lambda *_: 1)

    class LettersE:
        signatures = ("e",)

        def of(self, texts, pairs):  # noqa: ARG002
            return np.array([1.0 * ("e" in text) for text in texts])

    model = open_seq2seq(base, Loading())
    learning = Rewriting(PAIRS, model, 8, 0, "start", LettersE())
    sources = [source for source, _ in learning._ids]
    ids, mask = model.encoded(sources)
    begin = torch.full((8, 1), model.start)
    p = model.model(input_ids=ids, attention_mask=mask, decoder_input_ids=begin).logits.softmax(-1)
    every = [model.text([id]) for id in range(p.shape[-1])]
    expected = gradient(model, -(p[:, 0] * torch.tensor(LettersE().of(every, ()))).sum(-1).mean())
    torch.manual_seed(0)
    many = 400
    sampled = gradient(model, learning._policy(EIGHT * many, sources * many).mean())
    cosine = torch.nn.functional.cosine_similarity(sampled, expected, dim=0)
    assert float(cosine) > 0.9
    assert 0.6 < float(sampled @ expected / (expected @ expected)) < 1.5


def test_rewards_without_a_judge_or_below_zero_are_refused():
    with pytest.raises(UserError, match="--style-reward needs a judge"):
        RewardSpec(style=1.0)
    with pytest.raises(UserError, match=r"content=-1\.0: expected a number from 0 on"):
        RewardSpec(content=-1.0)


# -- pairs


def pair_file(path: Path, *rows: tuple[str, str, str]) -> str:
    lines = [
        json.dumps({"source": s, "text": t, "control": {"formality": label}})
        for s, t, label in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_pairs_are_learnt_both_ways_and_those_that_share_a_sentence_stay_together(tmp_path):
    rows = [(f"hi {n}", f"Hello {n}.", "formal") for n in range(20)]
    rows += [(f"hey {n}", f"Hello {n}.", "formal") for n in range(20)]
    file = pair_file(tmp_path / "pairs.jsonl", *rows, ("Bye.", "bye", "informal"))
    pairs = rewriting_pairs([file], "formality", share=0.2, both_directions=True)
    assert pairs.labels == ("formal", "informal")
    assert len(pairs.train) + len(pairs.test) == 82
    assert len(pairs.test) >= 8
    learnt = {text for pair in pairs.train for text in (pair.source, pair.text)}
    assert not learnt & {text for pair in pairs.test for text in (pair.source, pair.text)}
    for pair in pairs.test:
        other = "informal" if pair.label == "formal" else "formal"
        assert pair.reversed(other) in pairs.test


def test_pairs_that_teach_nothing_are_refused(tmp_path):
    file = pair_file(tmp_path / "pairs.jsonl", ("hi", "Hello.", "formal"))
    with pytest.raises(UserError, match="needs two labels, and there are 1: formal"):
        rewriting_pairs([file], "formality", both_directions=True)
    pairs = rewriting_pairs(
        [file], "formality", both_directions=True, labels=("formal", "informal"), share=0
    )
    assert [pair.label for pair in pairs.train] == ["formal", "informal"]
    with pytest.raises(UserError, match=r"expected one label in control.tone"):
        rewriting_pairs([file], "tone")
    with pytest.raises(UserError, match="the source is empty"):
        rewriting_pairs([pair_file(tmp_path / "b.jsonl", (" ", "Hello.", "formal"))], "formality")
