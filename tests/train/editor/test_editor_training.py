"""Editors: corrupted sentences, what is learnt of them, and the folder that is left."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.cbart.corruption import IGNORED, Corruption, some_sentences
from levelfield.generation.techniques.cbart.editor_options import EditorSpec
from levelfield.generation.techniques.cbart.network import Action, EditorTokens, editor
from levelfield.generation.techniques.cbart.technique import CBART
from levelfield.generation.techniques.cbart.training import Editing, build_editor, padded
from levelfield.train.corpus import tokenise
from levelfield.train.loop import Recipe
from small_infillers import DOCUMENTS, Killed

# -- sentences


def test_sentences_are_a_sample_of_those_that_are_whole():
    texts = ["A Heading\nOne two three four five. He left.\nno capital letter here at all."] * 3
    assert some_sentences(texts, 99, 20, 0) == ["One two three four five."] * 3
    assert some_sentences(texts, 99, 4, 0) == []
    many = [f"Number {n} is a number like others." for n in range(400)]
    sample = some_sentences(many, 100, 20, 0)
    assert len(set(sample)) == 100
    assert sample == sorted(sample, key=many.index)
    assert sample == some_sentences(many, 100, 20, 0) != some_sentences(many, 100, 20, 1)
    assert 120 < np.mean([many.index(sentence) for sentence in sample]) < 280


# -- corruption

GOES_ON = np.arange(60) % 3 == 2
"""Of the tokens of the tests' sentences every third belongs to the word before it."""


def corruption() -> Corruption:
    return Corruption(GOES_ON, np.full(60, 1 / 60))


def examples(many: int = 3000):
    rng = np.random.default_rng(0)
    for _ in range(many):
        length = int(rng.integers(2, 20))
        sentence = rng.permutation(60)[:length].astype(np.int32)
        yield sentence, corruption().example(sentence, rng)


def test_the_actions_turn_the_source_into_the_filled_text():
    for sentence, e in examples():
        built, masked = [], []
        for token, action in zip([*e.source.tolist(), None], e.actions.tolist(), strict=True):
            if action in (Action.REPLACE, Action.INSERT):
                built.append(e.filled[len(built)])
                masked.append(True)
            if action != Action.REPLACE and token is not None:
                built.append(token)
                masked.append(False)
        assert built == e.filled.tolist()
        assert masked == e.masked.tolist()
        assert len(built) <= len(sentence)


def test_what_is_filled_is_of_the_sentence_and_in_its_order():
    kinds: Counter[str] = Counter()
    for sentence, e in examples():
        place = {int(token): i for i, token in enumerate(sentence)}
        places = [place[int(token)] for token in e.filled]
        assert places == sorted(set(places))
        actions = set(e.actions.tolist())
        assert not {Action.REPLACE, Action.INSERT} <= actions
        kinds["wrong" if Action.REPLACE in actions else "missing"] += 1
        kinds["segment"] += IGNORED in actions
        kinds["prompt"] += len(e.source) > 0 and e.source[0] == sentence[0]
    assert 0.45 < kinds["wrong"] / 3000 < 0.55
    assert kinds["segment"] > 500
    assert kinds["prompt"] > 500


def test_an_insertion_is_asked_for_exactly_where_tokens_are_missing():
    for sentence, e in examples():
        if Action.REPLACE in e.actions or IGNORED in e.actions:
            continue
        place = {int(token): i for i, token in enumerate(sentence)}
        places = [-1, *(place[int(token)] for token in e.source), len(sentence)]
        gaps = [b - a > 1 for a, b in itertools.pairwise(places)]
        assert gaps == [action == Action.INSERT for action in e.actions]


def test_a_word_grows_from_its_beginning():
    """Pieces of a word follow its first piece, and a word that has begun is continued next."""
    begun = 0
    for sentence, e in examples():
        if Action.REPLACE in e.actions or IGNORED in e.actions:
            continue
        place = {int(token): i for i, token in enumerate(sentence)}
        for before, token in zip([None, *e.filled], e.filled, strict=False):
            if GOES_ON[token] and place[int(token)] > 0:
                assert before == sentence[place[int(token)] - 1]
        begun += sum(
            bool(GOES_ON[token] and masked)
            for token, masked in zip(e.filled, e.masked, strict=True)
        )
    assert begun > 50


def test_a_batch_is_padded_with_the_special_tokens_around_each_text():
    tokenizer = tiny.tokenizer("bart")
    tokens = EditorTokens(tokenizer, tiny.model("bart", len(tokenizer)).config)
    (_, first), (_, second) = [e for e in examples(50) if len(e[1].source) > 1][:2]
    batch = padded([first, second], tokens)
    n, m = len(first.source), len(first.filled)
    assert batch.source[0, : n + 2].tolist() == [0, *first.source, 2]
    assert batch.actions[0, : n + 2].tolist() == [0, *first.actions]
    assert batch.targets[0, : m + 2].tolist() == [0, *first.filled, 2]
    shown = np.where(first.masked, tokens.mask, first.filled)
    assert batch.inputs[0, : m + 2].tolist() == [2, 0, *shown]
    assert batch.masked[0].sum() == first.masked.sum()
    assert (batch.mask.sum(1) == (batch.actions != IGNORED).sum(1)).all() or IGNORED in [
        *first.actions,
        *second.actions,
    ]


# -- training


def spec(start, **options) -> EditorSpec:
    recipe = Recipe(30, 3e-3, every=10)
    return EditorSpec(recipe, **{"start": str(start), "batch": 8, "window": 24, **options})


def build(out: Path, spec: EditorSpec, **options):
    return build_editor(lambda: iter(DOCUMENTS), spec, out, sources=["ours: free"], **options)


@pytest.mark.thinned
@pytest.mark.parametrize("learn", ["masks", "all"])
@pytest.mark.parametrize("family", ["bart", "t5"])
def test_training_lowers_the_loss_and_leaves_an_editor(family, learn, tmp_path, tiny_folders):
    out = tmp_path / "editor"
    history = build(out, spec(tiny_folders[family], learn=learn))
    assert history[-1].validation["loss"] < history[0].validation["loss"]
    assert set(history[-1].validation) == {"loss", "copy", "replace", "insert", "gaps"}
    assert "ours: free" in (out / "README.md").read_text()
    technique = CBART(model=str(out), chains=1)
    request = Request("1", "The goat", {"keywords": ("river",)})
    (answer,) = technique.generate([request], decoding=Decoding(greedy=True, max_new_tokens=8))
    assert answer.text.startswith("The goat")
    assert "river" in answer.text
    assert build(out, spec(tiny_folders[family], learn=learn)) == history


@pytest.mark.slow
def test_an_editor_that_begins_from_nothing_takes_the_embeddings_of_another(tmp_path, tiny_folders):
    build(tmp_path / "m", spec("", vocabulary=str(tiny_folders["t5"])))
    network = editor(str(tmp_path / "m")).network
    assert network.body.config.model_type == "bart"
    assert network.body.config.d_model == 16


@pytest.mark.slow
def test_killed_and_run_again_leaves_the_same_bytes(tmp_path, tiny_folders):
    def run(out: Path, steps: int) -> None:
        left = steps

        def killed(done: int) -> None:
            nonlocal left
            left -= done
            if left < 0:
                raise Killed

        build(out, spec(tiny_folders["bart"]), progress=killed)

    run(tmp_path / "a" / "m", 1000)
    with pytest.raises(Killed):
        run(tmp_path / "b" / "m", 15)
    assert not (tmp_path / "b" / "m" / "model.safetensors").exists()
    run(tmp_path / "b" / "m", 1000)
    weights = [(tmp_path / folder / "m" / "model.safetensors").read_bytes() for folder in "ab"]
    assert weights[0] == weights[1]


def test_what_can_not_be_trained_on_is_refused(tmp_path, tiny_folders, causal_folders):
    with pytest.raises(ModelError, match="not encoder-decoder"):
        build(tmp_path / "a", spec(causal_folders["gpt2"]))
    with pytest.raises(UserError, match="empty"):
        build_editor(lambda: iter(["no"]), spec(tiny_folders["t5"]), tmp_path / "b", sources=[])


def test_the_held_out_figures_are_shares_of_each_action():
    tokenizer = tiny.tokenizer("bart")
    tokens = EditorTokens(tokenizer, tiny.model("bart", len(tokenizer)).config)
    corpus = tokenise([" The goat slept by the mill."] * 100, tokenizer)
    task = Editing(corpus, tokens, 4, 40, "masks", 0, "start")

    class Copies:
        """Says that everything is copied, and fills in the first token of the vocabulary."""

        def parameters(self):
            return iter([torch.zeros(1)])

        def encode(self, ids, _):
            actions = torch.zeros(*ids.shape, 3)
            actions[..., 0] = 1
            return None, actions

        def decode(self, *inputs):
            return torch.eye(1, tokens.vocabulary_size).expand(int(inputs[-1].sum()), -1)

    figures = task.validation(Copies())
    assert [figures[name] for name in ("copy", "replace", "insert", "gaps")] == [1, 0, 0, 0]
