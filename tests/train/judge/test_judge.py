"""From labelled texts to a folder that judges."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from judge_rows import BAD, GOOD, many, rows
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2ForSequenceClassification,
)

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.metrics.judges import choose
from levelfield.metrics.judges import load as load_judge
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import attribute_of, resolve
from levelfield.models.small.fasttext import train_fasttext
from levelfield.models.small.shapes import Settings, Shape
from levelfield.models.small.textcnn import Vocabulary
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import load_to_tune
from levelfield.train.figures import read_figures
from levelfield.train.judge import JudgeSpec, Tuning
from levelfield.train.judge import architectures as judge_build
from levelfield.train.judge import architectures as judge_task
from levelfield.train.judge.architectures import Classification, build_judge, recipe_of
from levelfield.train.labelled import Labelled, LabelledTexts, joined, merged, split


class Killing:
    """Counts steps and raises after a number of them, in place of a kill."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.steps: list[int] = []

    def __call__(self, steps: int) -> None:
        self.steps.append(steps)
        if sum(self.steps) > self.after:
            raise KeyboardInterrupt


def killed(*_: object) -> None:
    raise KeyboardInterrupt


SMALL = JudgeSpec(
    "sentiment",
    "textcnn",
    shape=Shape(dimension=8, widths=(1, 2), channels=8, dropout=0.2),
    epochs=8,
    batch=16,
    learning_rate=0.01,
    fasttext=Settings(dimension=4, buckets=100, epochs=8, learning_rate=0.5),
)


def test_a_pass_has_every_text_as_often_as_it_is_to_be_learnt_from():
    data = joined([(many(3), 2), (rows(["rare text"]), 1)])
    ids = Vocabulary.of(data.texts, most=50).ids(data.texts)
    task = Classification(data, ids, torch.tensor, "words", batch=4, seed=0)
    steps = -(-37 // 4)
    seen = np.concatenate([task._passes.rows(step) for step in range(steps)])
    assert np.bincount(seen).tolist() == [2] * 18 + [1]
    after = np.concatenate([task._passes.rows(step) for step in range(steps, 2 * steps)])
    assert after.tolist() != seen.tolist()
    assert recipe_of(data, replace(SMALL, epochs=2, batch=4)).steps == round(2 * 37 / 4)


@pytest.mark.parametrize("architecture", ["textcnn", "fasttext"])
def test_a_judge_is_trained_tried_and_votes_by_its_folder(tmp_path, architecture):
    if architecture == "fasttext":
        pytest.importorskip("fasttext")
    train, test = split(many(), 0.2, seed=0)
    spec = replace(SMALL, architecture=architecture)
    out = tmp_path / "mine"
    test_figures = build_judge(
        LabelledTexts(train, test), spec, out, sources=["our own sentences: Apache-2.0"]
    )
    assert test_figures.accuracy > 0.9
    assert np.sum(test_figures.confusion) == test_figures.n == len(test)
    assert read_figures(out) == test_figures
    card = (out / "README.md").read_text()
    assert "our own sentences: Apache-2.0" in card
    assert f"{test_figures.accuracy:.4f} on {len(test):,} held-out texts" in card
    (judge,) = choose(str(out))
    assert judge.attribute == "sentiment"
    verdicts = load_judge(judge, [judge], Loading()).verdicts(["a fine day", "we hated it", ""])
    assert [v.vote for v in verdicts] == ["positive", "negative", None]


@pytest.fixture
def tiny_encoder(tmp_path) -> str:
    """A random BERT that knows the words of these tests."""
    folder = tmp_path / "bert"
    words = sorted({word for text in (*GOOD, *BAD) for word in text.split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *map(str, range(40))]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.slow
def test_a_fine_tuned_encoder_votes_by_its_folder_and_goes_on_after_a_kill(
    tmp_path, monkeypatch, tiny_encoder
):
    monkeypatch.setattr(judge_task, "CHECKPOINT_STEPS", 30)
    train, test = split(many(), 0.2, seed=0)
    spec = JudgeSpec(
        "sentiment",
        "transformer",
        tuning=Tuning(epochs=10, batch=16, learning_rate=3e-3),
        start=tiny_encoder,
    )
    test_figures = build_judge(LabelledTexts(train, test), spec, tmp_path / "whole")
    assert test_figures.accuracy > 0.9
    (judge,) = choose(str(tmp_path / "whole"))
    assert judge.attribute == "sentiment"
    verdicts = load_judge(judge, [judge], Loading()).verdicts(["a fine day", "we hated it", ""])
    assert [v.vote for v in verdicts] == ["positive", "negative", None]

    steps = []

    def killed(model, task, step, loss=Classification.loss):
        steps.append(step)
        if step == 100 and len(steps) <= 101:
            raise KeyboardInterrupt
        return loss(task, model, step)

    monkeypatch.setattr(Classification, "loss", lambda task, model, step: killed(model, task, step))
    with pytest.raises(KeyboardInterrupt):
        build_judge(LabelledTexts(train, test), spec, tmp_path / "killed")
    again = build_judge(LabelledTexts(train, test), spec, tmp_path / "killed")
    assert steps[101] == 90  # where the checkpoint is
    assert again == test_figures
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "killed")]
    assert weights[0] == weights[1]


@pytest.mark.thinned
@pytest.mark.parametrize("architecture", ["textcnn", "linear", "fasttext"])
def test_a_judge_that_was_killed_and_built_again_is_as_one_that_was_not(
    tmp_path, monkeypatch, architecture
):
    """A TextCNN goes on from its checkpoint; the others, which have no steps, begin again."""
    if architecture == "fasttext":
        pytest.importorskip("fasttext")
    monkeypatch.setattr(judge_task, "CHECKPOINT_STEPS", 5)
    train, test = split(many(8), 0.2, seed=0)
    spec = JudgeSpec("sentiment", architecture, epochs=4, batch=8)
    texts = LabelledTexts(train, test)
    build_judge(texts, spec, tmp_path / "whole" / "m")
    with monkeypatch.context() as patch:
        if architecture != "textcnn":
            patch.setattr(judge_build, "write_figures", killed)
        progress = Killing(12 if architecture == "textcnn" else 10_000)
        with pytest.raises(KeyboardInterrupt):
            build_judge(
                LabelledTexts(train, test), spec, tmp_path / "killed" / "m", progress=progress
            )
    again = Killing(10_000)
    build_judge(texts, spec, tmp_path / "killed" / "m", progress=again)
    if architecture == "textcnn":
        assert again.steps[0] == 10  # done at the checkpoint
    folders = [tmp_path / name / "m" for name in ("whole", "killed")]
    whole, resumed = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert whole.keys() == resumed.keys()
    timed = ("training.json", "README.md")
    assert all(whole[name] == resumed[name] for name in whole if name not in timed)


def test_a_classifier_that_reads_to_the_last_token_can_be_fine_tuned(tmp_path):
    """GPT-2's finds that token by the padding, which its configuration does not name."""
    tokenizer = tiny.tokenizer("bart")
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64, num_labels=2
    )
    torch.manual_seed(0)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    spec = JudgeSpec("mood", "transformer", tuning=Tuning(epochs=1), start=str(tmp_path / "start"))
    data = many(3)
    build_judge(LabelledTexts(data, data), spec, tmp_path / "judge")
    loaded = load("classifier", str(tmp_path / "judge"), Loading(device="cpu"))
    together, _ = loaded.probabilities(data.texts)
    alone = np.vstack([loaded.probabilities([text])[0] for text in data.texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_discriminator_that_began_from_a_judge_judges_nothing(tmp_path, tiny_encoder):
    spec = JudgeSpec("mood", "transformer", tuning=Tuning(epochs=1), start=tiny_encoder)
    build_judge(LabelledTexts(many(3), many(3)), spec, tmp_path / "judge")
    resolved = resolve(str(tmp_path / "judge"))
    assert attribute_of(resolved) == "mood"
    model, tokenizer = load_to_tune(resolved, ("negative", "positive"), torch.device("cpu"))
    (tmp_path / "other").mkdir()
    TorchClassifier(model, tokenizer).save(tmp_path / "other")
    assert attribute_of(resolve(str(tmp_path / "other"))) == ""


def test_texts_that_are_read_in_part_are_counted(tmp_path, tiny_encoder):
    data = rows([*many(3).texts, "fine " * 50], [*many(3).targets.argmax(1), 1])
    spec = JudgeSpec("mood", "transformer", tuning=Tuning(epochs=1), start=tiny_encoder)
    notes: list[str] = []
    build_judge(LabelledTexts(data, data), spec, tmp_path / "judge", notes=notes.append)
    assert any(note.startswith("1 texts are longer") for note in notes)


def test_a_judge_of_our_own_can_not_be_fine_tuned(tmp_path):
    spec = JudgeSpec("mood", "transformer", start="offline/sentiment")
    with pytest.raises(ModelError, match="is one of levelfield's own judges"):
        build_judge(LabelledTexts(many(), many()), spec, tmp_path / "judge")


def test_what_is_not_an_encoder_can_not_be_fine_tuned(tmp_path, causal_folders):
    spec = JudgeSpec("sentiment", "transformer", start=str(next(iter(causal_folders.values()))))
    with pytest.raises(ModelError, match="is a causal model; training begins from an encoder"):
        build_judge(LabelledTexts(many(), many()), spec, tmp_path / "judge")


def test_equal_runs_give_equal_weights_and_a_finished_one_is_left_alone(tmp_path):
    train, test = split(many(), 0.2, seed=0)
    notes: list[str] = []
    for name in ("one", "two"):
        build_judge(LabelledTexts(train, test), SMALL, tmp_path / name)
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("one", "two")]
    assert weights[0] == weights[1]
    build_judge(LabelledTexts(train, test), SMALL, tmp_path / "one", notes=notes.append)
    assert any("already" in note for note in notes)
    with pytest.raises(UserError, match="give another folder"):
        build_judge(
            LabelledTexts(train, test), replace(SMALL, seed=1), tmp_path / "one", sources=()
        )


def test_a_judge_of_ratings_ranks_texts(tmp_path):
    p = np.tile([0.9, 0.8, 0.9, 0.2, 0.1, 0.3], 40)
    targets = np.stack([1 - p, p], axis=1)
    data = Labelled(many().texts, targets, ("informal", "formal"), rated=True)
    train, test = split(data, 0.2, seed=0)
    out = tmp_path / "mine"
    test_figures = build_judge(
        LabelledTexts(train, test), replace(SMALL, attribute="formality"), out, sources=()
    )
    assert test_figures.spearman > 0.6
    assert json.loads((out / "test.json").read_text())["spearman"] == test_figures.spearman


def test_one_text_with_two_labels_does_not_multiply_all_others_for_fasttext(monkeypatch, tmp_path):
    written = {}

    def kept(texts, targets, labels, settings, **options):
        written.update(options, targets=targets)
        return train_fasttext(texts, targets, labels, settings, **options)

    monkeypatch.setattr("levelfield.train.judge.architectures.train_fasttext", kept)
    data = merged(rows([*many().texts, "fine", "fine"], [*many().targets.argmax(1), 0, 1])).rows
    build_judge(
        LabelledTexts(data, many()), JudgeSpec("mood", "fasttext"), tmp_path / "judge", sources=()
    )
    assert written["copies"] == 1
    assert set(np.unique(written["targets"])) == {0.0, 1.0}


def test_an_unknown_architecture_is_refused():
    with pytest.raises(UserError, match="architecture=lstm: expected textcnn, fasttext"):
        JudgeSpec("sentiment", "lstm")


def test_a_figure_that_is_not_a_number_is_null_in_the_file_and_nan_when_read(tmp_path):
    rated = Labelled(
        texts=("fine", "good", "bad", "poor"),
        targets=np.full((4, 2), 0.5),
        times=np.ones(4, np.int64),
        labels=("low", "high"),
        rated=True,
    )
    build_judge(
        LabelledTexts(rated, rated),
        JudgeSpec("tone", "textcnn", epochs=1),
        tmp_path / "j",
        sources=[],
    )
    document = (tmp_path / "j" / "test.json").read_text()
    assert "NaN" not in document
    assert json.loads(document)["accuracy"] is None
    assert np.isnan(read_figures(tmp_path / "j").accuracy)
