"""Filling in the middle by causal models, against one forward a token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelfield.core.errors import ModelError
from levelfield.core.sample import Sample
from levelfield.metrics.cdm import CDMMomentum
from levelfield.models.contracts import Gapped, Target
from levelfield.models.infilling import FIM, FimModel
from levelfield.models.load import load
from levelfield.models.torch.causal import TorchCausalModel
from levelfield.train.infiller import Size
from levelfield.train.infiller.examples import train_tokenizer
from levelfield.train.infiller.infilling import new_model

TEXTS = [
    "The kettle sang on the stove. Nobody heard it!\nThe cat slept on.",
    "Two boats left the harbour in fog. Only one came back, at noon. 🙂",
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 400)


@pytest.fixture(scope="module")
def network(tokenizer):
    new = new_model("causal", Size(16, 2, 32, head=8), len(tokenizer), 0, positions=64).eval()
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.mul_(3)
    return new


@pytest.fixture(scope="module")
def model(network, tokenizer):
    return FimModel(TorchCausalModel(network, tokenizer))


def plain(network, tokenizer, left, right, target, end):
    """One forward for each token of the target."""
    ids = [tokenizer(t, add_special_tokens=False)["input_ids"] for t in (left, right, target)]
    marks = tokenizer.convert_tokens_to_ids(list(FIM))
    prefix = [marks[0], *ids[0], marks[1], *ids[1], marks[2]]
    log_p = []
    for token in [*ids[2], *([tokenizer.eos_token_id] if end else [])]:
        with torch.no_grad():
            logits = network(torch.tensor([prefix])).logits[0, -1]
        log_p.append(logits.double().log_softmax(-1)[token].item())
        prefix.append(token)
    return log_p


def test_middles_are_scored_as_by_the_plain_loop(network, tokenizer, model):
    sources = [Gapped("The kettle ", " the stove."), Gapped("", " left"), Gapped("Only one ", "")]
    targets = [[Target("sang on", False), Target("sat", True)], [Target("Two boats", True)],
               [Target("came back, at noon. 🙂", False), Target("", True)]]  # fmt: skip
    likelihoods = model.log_likelihood(sources, targets)
    for source, mine, values in zip(sources, targets, likelihoods.log_p, strict=True):
        for target, value in zip(mine, values, strict=True):
            left, right = source.left.rstrip(), source.right
            expected = plain(network, tokenizer, left, right, target.text, target.end)
            expected = expected if target.text else []
            np.testing.assert_allclose(value, expected, atol=1e-5)
    assert likelihoods.source_cut == [False] * 3
    alone = [model.log_likelihood([s], [t]).log_p[0] for s, t in zip(sources, targets, strict=True)]
    for single, many in zip(alone, likelihoods.log_p, strict=True):
        for a, b in zip(single, many, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_what_is_nearest_to_the_gap_is_kept(network, tokenizer, model):
    far = "Only one came back. " * 30
    likelihoods = model.log_likelihood([Gapped(far, " then left.")], [[Target("boats", False)]])
    assert likelihoods.source_cut == [True]
    assert likelihoods.target_cut == [[False]]
    ids = [
        tokenizer(t, add_special_tokens=False)["input_ids"] for t in (far, "then left.", "boats")
    ]
    room = 64 - 3 - len(ids[1]) - len(ids[2])
    marks = tokenizer.convert_tokens_to_ids(list(FIM))
    prefix = [marks[0], *ids[0][-room:], marks[1], *ids[1], marks[2]]
    with torch.no_grad():
        logits = network(torch.tensor([prefix])).logits[0, -1]
    expected = logits.double().log_softmax(-1)[ids[2][0]].item()
    assert likelihoods.log_p[0][0][0] == pytest.approx(expected, abs=1e-5)
    long = model.log_likelihood([Gapped("", "")], [[Target("noon " * 100, True)]])
    assert long.target_cut == [[True]]
    assert len(long.log_p[0][0]) == 61


def test_a_causal_pair_has_momentum_in_the_middle(network, tokenizer, tmp_path):
    folders = [tmp_path / "amateur", tmp_path / "expert"]
    other = new_model("causal", Size(32, 1, 32, head=8), len(tokenizer), 5, positions=64)
    for folder, causal in zip(folders, (network, other), strict=True):
        causal.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    sample = Sample(id="a", text="Two boats left. Only one came back.")
    amateur, expert = map(str, folders)
    assert CDMMomentum(amateur, amateur).score([sample]).values[0] == 0
    metric = CDMMomentum(amateur, expert, pooling="sum")
    assert "|form:infilling|" in metric.signature
    value = metric.score([sample]).values[0]
    log_p = [
        np.concatenate(FimModel(load("causal", name)).log_likelihood(
            [Gapped("", " Only one came back."), Gapped("Two boats left. ", "")],
            [[Target("Two boats left.", False)], [Target("Only one came back.", False)]],
        ).log_p, axis=None)
        for name in (amateur, expert)
    ]  # fmt: skip
    totals = [sum(float(np.sum(causal)) for causal in model_log_p) for model_log_p in log_p]
    assert value == pytest.approx(totals[1] - totals[0], abs=1e-4)


def test_a_causal_model_without_the_markers_is_refused(causal_folders):
    with pytest.raises(ModelError, match="not trained to fill gaps"):
        FimModel(load("causal", str(causal_folders["gpt2"])))
