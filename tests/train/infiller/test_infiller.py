"""Infillers: their examples, what they learn, and their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield.core.errors import ModelError, UserError
from levelfield.models.contracts import Gapped, Target
from levelfield.models.load import load
from levelfield.train.corpus import tokenise
from levelfield.train.infiller import InfillerSpec, Size
from levelfield.train.infiller.examples import IGNORED, InfillingExample, InfillingFormat, draw
from levelfield.train.infiller.infilling import build_infiller
from levelfield.train.loop import Recipe
from small_infillers import DOCUMENTS, TINY, Killed, infilling

# -- examples


def test_an_example_is_a_window_with_a_segment_taken_out():
    _, task, _ = infilling()
    corpus = task.corpus
    text = corpus.ids.tolist()
    examples = draw(corpus, np.arange(len(corpus)), np.random.default_rng(0), 300, 24, task.ends)
    joined = ["".join(map(chr, [*e.left, *e.segment, *e.right])) for e in examples]
    assert all(document in "".join(map(chr, text)) for document in joined)
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
    example = InfillingExample(*(np.array(ids, np.int32) for ids in ([20, 21], [30, 31, 32], [40])))
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
    example = InfillingExample(*(np.array(ids, np.int32) for ids in ([20, 21], [30], [40])))
    batch = task.format.batch([example], None)
    assert batch.source is None
    assert batch.inputs.tolist() == [[prefix, 20, 21, suffix, 40, middle, 30]]
    no = IGNORED
    assert batch.labels.tolist() == [[20, 21, no, 40, no, 30, end]]


def test_a_tokenizer_without_the_markers_is_refused():
    _, _, tokenizer = infilling()
    vocabulary = tokenizer.get_vocab()
    vocabulary.pop("<extra_id_0>")
    tokenizer.get_vocab = lambda: vocabulary
    with pytest.raises(ModelError, match="<extra_id_0>"):
        InfillingFormat(tokenizer, "t5")


def test_the_validation_loss_is_what_the_metrics_seam_says(tmp_path):
    """Train a little, save, load as a user does: the mean −log P of the segments is the loss."""
    history = build_infiller(lambda: iter(DOCUMENTS), spec(), tmp_path / "m", sources=["ours: CC0"])
    loaded = load("infilling", str(tmp_path / "m"))
    _, _, tokenizer = infilling()
    total, count = 0.0, 0
    for document in DOCUMENTS[::50]:
        left, right = document.split(" Nobody ")
        likelihoods = loaded.log_likelihood(
            [Gapped(left + " ", "")], [[Target("Nobody " + right, True)]]
        )
        total, count = total - likelihoods.log_p[0][0].sum(), count + len(likelihoods.log_p[0][0])
    assert history[-1].validation["loss"] < np.log(len(tokenizer))
    assert total / count == pytest.approx(history[-1].validation["loss"], rel=0.3)


# -- folders


def spec(**changes: Any) -> InfillerSpec:
    recipe = Recipe(steps=30, every=10, learning_rate=1e-2, warmup=3)
    small = {"recipe": recipe, "size": TINY, "vocabulary": 350, "batch": 8, "window": 24}
    return InfillerSpec(**small | changes)


def test_a_model_folder_is_whole_and_says_what_it_is(tmp_path):
    out = tmp_path / "small"
    notes: list[str] = []
    build_infiller(
        lambda: iter(DOCUMENTS), spec(half=True), out, sources=["ours: CC0"], notes=notes.append
    )
    card = (out / "README.md").read_text()
    assert "ours: CC0" in card
    assert "nats per token on held-out documents" in card
    assert not (out / "training").exists()
    assert load("infilling", str(out)).gap_token == "<extra_id_0>"
    with pytest.raises(UserError, match="not empty"):
        build_infiller(lambda: iter(DOCUMENTS), spec(), out, sources=[])
    before = sorted((p.name, p.read_bytes()) for p in out.iterdir())
    build_infiller(lambda: iter(DOCUMENTS), spec(half=True), out, sources=[], notes=notes.append)
    assert "already" in notes[-1]
    assert before == sorted((p.name, p.read_bytes()) for p in out.iterdir())


@pytest.mark.slow
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
    weights = [(tmp_path / run / "m" / "model.safetensors").read_bytes() for run in "ab"]
    assert weights[0] == weights[1]


def test_an_expert_takes_the_tokenizer_of_its_amateur(tmp_path):
    build_infiller(lambda: iter(DOCUMENTS), spec(), tmp_path / "amateur", sources=[])
    larger = spec(size=Size(32, 1, 64, head=8), tokenizer=str(tmp_path / "amateur"))
    build_infiller(lambda: iter(DOCUMENTS), larger, tmp_path / "expert", sources=[])
    first, second = (
        (tmp_path / name / "tokenizer.json").read_text() for name in ("amateur", "expert")
    )
    assert first == second
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        build_infiller(
            lambda: iter(DOCUMENTS), spec(tokenizer=str(tmp_path)), tmp_path / "x", sources=[]
        )


@pytest.mark.slow
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
