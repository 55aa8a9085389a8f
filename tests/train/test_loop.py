"""The training loop, on models that take a second."""

from __future__ import annotations

import json
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

from levelfield.core.errors import UserError
from levelfield.train import loop
from levelfield.train.checkpoint import CHECKPOINT
from levelfield.train.loop import Loss, Recipe, fit
from small_infillers import Killed, infilling


@pytest.mark.parametrize(("embeddings", "learnt"), [(0.0, False), (1.0, True)])
def test_embeddings_have_a_learning_rate_of_their_own(tmp_path, embeddings, learnt):
    model, task, _ = infilling()
    begun = {name: p.detach().clone() for name, p in model.named_parameters()}
    fit(model, task, Recipe(steps=2, warmup=1, embeddings=embeddings), tmp_path)
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, begun[name])}
    assert ("shared.weight" in changed) is learnt
    assert begun.keys() - changed <= {"shared.weight"}


@pytest.mark.parametrize("family", ["t5", "causal"])
def test_a_run_that_was_killed_has_the_loss_curve_of_one_that_was_not(tmp_path, family):
    recipe = Recipe(steps=12, every=4, warmup=2)
    model, task, _ = infilling(family)
    whole = fit(model, task, recipe, tmp_path / "whole")

    def killed(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            raise Killed

    left = 6
    with pytest.raises(Killed):
        fit(
            infilling(family)[0], infilling(family)[1], recipe, tmp_path / "killed", progress=killed
        )
    again, task_again, _ = infilling(family)
    history = fit(again, task_again, recipe, tmp_path / "killed")
    assert [(row.step, row.loss, row.validation) for row in history] == [
        (row.step, row.loss, row.validation) for row in whole
    ]
    for first, second in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)
    lines = (tmp_path / "killed" / loop.HISTORY).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]


def test_dropout_does_not_change_the_curve_of_a_killed_run(tmp_path):
    class Noisy:
        identity = "noisy"

        def loss(self, model: Any, step: int) -> Loss:
            x = torch.ones(8, 4) * step
            return Loss(torch.nn.functional.dropout(model(x), 0.5).square().sum(), 8)

        def validation(self, model: Any) -> dict[str, float]:
            return {"weight": float(model.weight.sum())}

    def layer() -> torch.nn.Linear:
        torch.manual_seed(0)
        return torch.nn.Linear(4, 2)

    recipe = Recipe(steps=6, every=2, learning_rate=0.1)
    whole = fit(layer(), Noisy(), recipe, tmp_path / "a")
    with torch.random.fork_rng():
        torch.manual_seed(99)  # the global state must not matter
        before = torch.random.get_rng_state()
        other = fit(layer(), Noisy(), recipe, tmp_path / "b")
        torch.manual_seed(99)
        assert torch.equal(before, torch.random.get_rng_state())
    assert [row.validation for row in whole] == [row.validation for row in other]


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    recipe = Recipe(steps=2, every=1)
    model, task, _ = infilling()
    fit(model, task, recipe, tmp_path)
    with pytest.raises(UserError, match="another run"):
        fit(infilling()[0], infilling(batch=3)[1], recipe, tmp_path)
    with pytest.raises(UserError, match="another run"):
        fit(infilling()[0], task, Recipe(steps=3, every=1), tmp_path)
    path = tmp_path / CHECKPOINT
    whole = path.read_bytes()
    content = bytearray(whole)
    content[-3] ^= 1
    for damage in (whole[:2000], bytes(content), b"", b"garbage" * 99):
        path.write_bytes(damage)
        with pytest.raises(UserError, match="is damaged; delete it"):
            fit(infilling()[0], task, recipe, tmp_path)


@pytest.mark.parametrize(
    "about",
    [None, {}, {"step": "-1"}, {"step": "99999"}, {"history": "garbage"}, {"checksum": "0"}],
)
def test_a_checkpoint_with_damaged_metadata_is_refused(tmp_path, about):
    recipe = Recipe(steps=2, every=1)
    model, task, _ = infilling()
    fit(model, task, recipe, tmp_path)
    path = tmp_path / CHECKPOINT
    with safetensors.safe_open(path, "pt") as file:
        words = file.metadata()
    changed = {**words, **about} if about else about
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, changed)
    with pytest.raises(UserError, match="is damaged; delete it"):
        fit(infilling()[0], task, recipe, tmp_path)


def test_a_checkpoint_without_its_moments_is_refused(tmp_path):
    recipe = Recipe(steps=2, every=1)
    model, task, _ = infilling()
    fit(model, task, recipe, tmp_path)
    path = tmp_path / CHECKPOINT
    with safetensors.safe_open(path, "pt") as file:
        words = file.metadata()
    tensors = safetensors.torch.load_file(path)
    weights = {name: value for name, value in tensors.items() if name.startswith("weight")}
    safetensors.torch.save_file(weights, path, words)
    with pytest.raises(UserError, match="is damaged; delete it"):
        fit(infilling()[0], task, recipe, tmp_path)


def test_draws_by_a_seed_leave_the_others_as_they_are():
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    draws = []
    for _ in range(2):
        with loop.seeded(5):
            draws.append(torch.rand(3))
    assert torch.equal(*draws)
    assert torch.equal(torch.rand(2), expected)


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path):
    class Broken:
        identity = "broken"

        def loss(self, model: Any, _: int) -> Loss:
            return Loss(model(torch.ones(1, 2)).sum() * torch.nan, 1)

        def validation(self, _: Any) -> dict[str, float]:
            return {}

    with pytest.raises(UserError, match="no longer a number at step 2"):
        fit(torch.nn.Linear(2, 1), Broken(), Recipe(steps=4, every=2), tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()


def test_the_learning_rate_rises_stays_and_falls_to_a_tenth():
    rates = [Recipe(steps=100, learning_rate=1.0, warmup=10, decay=0.5).rate(i) for i in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9:50] == pytest.approx([1.0] * 41)
    assert rates[-1] == pytest.approx(0.1 + 0.9 / 50)
    assert rates[50:] == sorted(rates[50:], reverse=True)


def test_recipes_that_make_no_sense_are_refused():
    for wrong in ({"steps": 0}, {"steps": 1, "every": 0}, {"steps": 1, "decay": 2}):
        with pytest.raises(UserError):
            Recipe(**wrong)
