"""The training loop, and the infillers that it trains, on models that take seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelfield.core.errors import ModelError, UserError
from levelfield.models.tokens import Gapped
from levelfield.models.torch.infilling import Target, load_infilling
from levelfield.training import loop
from levelfield.training.build import Spec, build_infiller
from levelfield.training.corpus import tokenise
from levelfield.training.infiller import (
    IGNORED,
    Example,
    Format,
    Infilling,
    Size,
    draw,
    new_model,
    sentence_ends,
    train_tokenizer,
)
from levelfield.training.loop import Loss, Recipe, fit

DOCUMENTS = [
    f"The {who} {did} by the {where}. Nobody saw the {who}!\nThen it rained on the {where}."
    for who in ("goat", "clerk", "twin", "judge")
    for did in ("waited", "sang", "slept")
    for where in ("mill", "river", "gate", "stairs", "well")
]
TINY = Size(16, 1, 32, head=8)


class Killed(BaseException):
    """Stands for a kill."""


def infilling(family: str = "t5", batch: int = 4) -> tuple[Any, Infilling, Any]:
    tokenizer = train_tokenizer(DOCUMENTS, 350)
    model = new_model(family, TINY, len(tokenizer), 0, positions=128)
    ends = sentence_ends(tokenizer, len(tokenizer))
    corpus = tokenise(DOCUMENTS, tokenizer)
    task = Infilling(corpus, Format(tokenizer, family), ends, batch, 24, 0, "start")
    return model, task, tokenizer


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
    found = fit(again, task_again, recipe, tmp_path / "killed")
    assert [(row.step, row.loss, row.validation) for row in found] == [
        (row.step, row.loss, row.validation) for row in whole
    ]
    for one, two in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
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
        torch.manual_seed(99)  # what stands in the global state must not matter
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
    path = tmp_path / loop.CHECKPOINT
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UserError, match="damaged; delete it"):
        fit(infilling()[0], task, recipe, tmp_path)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    class Broken:
        identity = "broken"

        def loss(self, model: Any, _: int) -> Loss:
            return Loss(model(torch.ones(1, 2)).sum() * torch.nan, 1)

        def validation(self, _: Any) -> dict[str, float]:
            return {}

    with pytest.raises(UserError, match="no number any more at step 2"):
        fit(torch.nn.Linear(2, 1), Broken(), Recipe(steps=4, every=2), tmp_path)
    assert not (tmp_path / loop.CHECKPOINT).exists()


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


# -- examples


def test_an_example_is_a_window_with_a_segment_taken_out():
    _, task, _ = infilling()
    corpus = task.corpus
    text = corpus.ids.tolist()
    examples = draw(corpus, np.arange(len(corpus)), np.random.default_rng(0), 300, 24, task.ends)
    joined = ["".join(map(chr, [*e.left, *e.segment, *e.right])) for e in examples]
    assert all(one in "".join(map(chr, text)) for one in joined)
    assert all(len(e.segment) and (len(e.left) or len(e.right)) for e in examples)
    assert all(len(e.left) + len(e.segment) + len(e.right) <= 24 for e in examples)
    sentences = [e for e in examples if task.ends[e.segment[-1]]]
    assert 60 < len(sentences) < 290
    assert {bool(len(e.left)) for e in examples} == {True, False}


def test_a_corpus_of_crumbs_is_refused():
    _, task, tokenizer = infilling()
    crumbs = tokenise(["a", "b", "c"], tokenizer)
    with pytest.raises(UserError, match="tokens or more"):
        draw(crumbs, np.arange(3), np.random.default_rng(0), 2, 24, task.ends)


def test_encoder_decoders_learn_the_segment_and_its_end():
    _, task, tokenizer = infilling()
    example = Example(*(np.array(ids, np.int32) for ids in ([20, 21], [30, 31, 32], [40])))
    mark, end = tokenizer.convert_tokens_to_ids(["<extra_id_0>", "</s>"])
    other = example._replace(segment=np.array([33], np.int32))
    batch = task.format.batch([example, other], 0)
    assert batch.source.tolist() == [[20, 21, mark, 40, end]] * 2
    assert batch.inputs.tolist() == [[0, mark, 30, 31, 32], [0, mark, 33, end, 0]]
    no = IGNORED
    assert batch.labels.tolist() == [[no, 30, 31, 32, end], [no, 33, end, no, no]]


def test_causal_models_learn_all_but_the_markers():
    _, task, tokenizer = infilling("causal")
    prefix, suffix, middle, end = tokenizer.convert_tokens_to_ids(
        ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "</s>"]
    )
    example = Example(*(np.array(ids, np.int32) for ids in ([20, 21], [30], [40])))
    batch = task.format.batch([example], None)
    assert batch.source is None
    assert batch.inputs.tolist() == [[prefix, 20, 21, suffix, 40, middle, 30]]
    no = IGNORED
    assert batch.labels.tolist() == [[20, 21, no, 40, no, 30, end]]


def test_a_tokenizer_without_the_markers_is_refused():
    _, _, tokenizer = infilling()
    known = tokenizer.get_vocab()
    known.pop("<extra_id_0>")
    tokenizer.get_vocab = lambda: known
    with pytest.raises(ModelError, match="<extra_id_0>"):
        Format(tokenizer, "t5")


def test_the_validation_loss_is_what_the_metrics_seam_says(tmp_path):
    """Train a little, save, load as a user does: the mean −log P of the segments is the loss."""
    history = build_infiller(lambda: iter(DOCUMENTS), spec(), tmp_path / "m", sources=["ours: CC0"])
    loaded = load_infilling(str(tmp_path / "m"))
    _, _, tokenizer = infilling()
    total, count = 0.0, 0
    for document in DOCUMENTS[::50]:
        left, right = document.split(" Nobody ")
        found = loaded.log_likelihood([Gapped(left + " ", "")], [[Target("Nobody " + right, True)]])
        total, count = total - found.log_p[0][0].sum(), count + len(found.log_p[0][0])
    assert history[-1].validation["loss"] < np.log(len(tokenizer))
    assert total / count == pytest.approx(history[-1].validation["loss"], rel=0.3)


# -- folders


def spec(**changes: Any) -> Spec:
    recipe = Recipe(steps=30, every=10, learning_rate=1e-2, warmup=3)
    return Spec(**{"recipe": recipe, "size": TINY, "vocabulary": 350, "batch": 8, "window": 24}
                | changes)  # fmt: skip


def test_a_model_folder_is_whole_and_says_what_it_is(tmp_path):
    out = tmp_path / "small"
    said: list[str] = []
    build_infiller(
        lambda: iter(DOCUMENTS), spec(half=True), out, sources=["ours: CC0"], notes=said.append
    )
    card = (out / "README.md").read_text()
    assert "ours: CC0" in card
    assert "nats a token on held-out documents" in card
    assert not (out / "training").exists()
    assert load_infilling(str(out)).gap_token == "<extra_id_0>"
    with pytest.raises(UserError, match="not empty"):
        build_infiller(lambda: iter(DOCUMENTS), spec(), out, sources=[])
    before = sorted((p.name, p.read_bytes()) for p in out.iterdir())
    build_infiller(lambda: iter(DOCUMENTS), spec(half=True), out, sources=[], notes=said.append)
    assert "already" in said[-1]
    assert before == sorted((p.name, p.read_bytes()) for p in out.iterdir())


@pytest.mark.parametrize("family", ["t5", "causal"])
def test_a_build_that_was_killed_gives_the_same_files(tmp_path, family):
    def build(out: Path, left: int) -> None:
        def killed(steps: int) -> None:
            nonlocal left
            left -= steps
            if left < 0:
                raise Killed

        build_infiller(
            lambda: iter(DOCUMENTS), spec(family=family), out, sources=[], progress=killed
        )

    build(tmp_path / "a" / "m", 1000)
    with pytest.raises(Killed):
        build(tmp_path / "b" / "m", 15)
    assert not (tmp_path / "b" / "m" / "model.safetensors").exists()
    build(tmp_path / "b" / "m", 1000)
    weights = [(tmp_path / one / "m" / "model.safetensors").read_bytes() for one in "ab"]
    assert weights[0] == weights[1]


def test_an_expert_takes_the_tokenizer_of_its_amateur(tmp_path):
    build_infiller(lambda: iter(DOCUMENTS), spec(), tmp_path / "amateur", sources=[])
    larger = spec(size=Size(32, 1, 64, head=8), tokenizer=str(tmp_path / "amateur"))
    build_infiller(lambda: iter(DOCUMENTS), larger, tmp_path / "expert", sources=[])
    one, two = ((tmp_path / name / "tokenizer.json").read_text() for name in ("amateur", "expert"))
    assert one == two
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        build_infiller(
            lambda: iter(DOCUMENTS), spec(tokenizer=str(tmp_path)), tmp_path / "x", sources=[]
        )


def test_a_model_that_is_there_is_trained_on(tmp_path, tiny_folders, causal_folders):
    folder = tmp_path / "more"
    history = build_infiller(
        lambda: iter(DOCUMENTS), spec(start=str(tiny_folders["t5"])), folder, sources=[]
    )
    assert history[-1].validation["loss"] < history[0].validation["loss"]
    causal = build_infiller(
        lambda: iter(DOCUMENTS),
        spec(start=str(causal_folders["gpt2"]), family="causal"),
        tmp_path / "fim",
        sources=[],
    )
    assert causal[-1].validation["loss"] < causal[0].validation["loss"]
    with pytest.raises(ModelError, match="not causal"):
        build_infiller(
            lambda: iter(DOCUMENTS),
            spec(start=str(tiny_folders["t5"]), family="causal"),
            tmp_path / "wrong",
            sources=[],
        )
