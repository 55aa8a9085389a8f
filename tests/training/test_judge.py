"""Training of judges: rows merged and kept apart, figures, and a folder that judges."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2ForSequenceClassification,
)

from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.judges import Loading, choose, load
from levelfield.models.judges import load_judge
from levelfield.models.resolve import attribute_of, resolve
from levelfield.models.small.fasttext import Settings, train_fasttext
from levelfield.models.small.textcnn import Shape, Vocabulary
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import load_to_tune
from levelfield.training import judge_recipes
from levelfield.training.judge import (
    Classification,
    Spec,
    Tuning,
    build_judge,
    read_figures,
    recipe_of,
)
from levelfield.training.judged import calibration_error, figures
from levelfield.training.labelled import (
    Labelled,
    Scale,
    apart,
    from_controls,
    from_ratings,
    joined,
    merged,
    split,
)

LABELS = ("negative", "positive")
GOOD, BAD = ("a fine day", "we loved it", "fine soup"), ("a sad day", "we hated it", "sad soup")


def rows(texts, right=None, labels=LABELS) -> Labelled:
    right = [0] * len(texts) if right is None else right
    return Labelled(tuple(texts), np.eye(len(labels))[right], labels)


def many(n: int = 40) -> Labelled:
    texts = [f"{text} {i}" for i in range(n) for text in (*GOOD, *BAD)]
    return rows(texts, [1, 1, 1, 0, 0, 0] * n)


SMALL = Spec(
    "sentiment",
    "textcnn",
    shape=Shape(dimension=8, widths=(1, 2), channels=8, dropout=0.2),
    epochs=8,
    batch=16,
    learning_rate=0.01,
    fasttext=Settings(dimension=4, buckets=100, epochs=8, learning_rate=0.5),
)


# -- rows


def test_labels_are_the_controls_and_sorted():
    samples = [Sample(str(i), "x", control={"mood": m}) for i, m in enumerate(["sad", "glad "])]
    found = from_controls(samples, "mood")
    assert found.labels == ("glad", "sad")
    assert found.targets.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("control", "said"),
    [
        ({}, "sample '7' has no label"),
        ({"mood": ("sad", "glad")}, "several labels: sad, glad"),
        ({"mood": "sad"}, "1 different labels"),
    ],
)
def test_samples_without_one_label_each_are_refused(control, said):
    with pytest.raises(UserError, match=said):
        from_controls([Sample("7", "x", control=control)], "mood")


def test_a_held_out_label_that_is_never_learnt_is_refused():
    with pytest.raises(UserError, match="'odd', which no training text has"):
        from_controls([Sample("7", "x", control={"mood": "odd"})], "mood", LABELS)


def test_ratings_become_shares_of_two_labels_within_the_scale():
    scale = Scale("formality", "informal", "formal", -3, 3)
    ratings = [{"a": -3.0}, {"a": 0.0, "b": 1.0}, {"a": 3.0}, {"a": 9.0}]
    found = from_ratings(
        [Sample(str(i), "x", ratings={"formality": r}) for i, r in enumerate(ratings)], scale
    )
    np.testing.assert_allclose(found.targets[:, 1], [0, 3.5 / 6, 1, 1])
    np.testing.assert_allclose(found.targets.sum(axis=1), 1)


def test_a_scale_with_equal_ends_is_refused():
    with pytest.raises(UserError, match="expected a greater number"):
        Scale("formality", "informal", "formal", 3, 3)


def test_equal_texts_are_merged_with_the_mean_of_their_targets():
    found = merged(
        rows(["It's fine .", "It 's FINE.", "other", " ", "it's fine."], [1, 0, 0, 1, 1])
    )
    assert found.rows.texts == ("It's fine .", "other")
    np.testing.assert_allclose(found.rows.targets, [[1 / 3, 2 / 3], [1, 0]])
    assert (found.repeated, found.empty) == (2, 1)


@given(st.lists(st.text("ab ", max_size=4), max_size=12))
def test_merging_keeps_the_mass_of_labels(texts):
    data = rows(texts, [len(t) % 2 for t in texts])
    found = merged(data)
    assert len(found.rows) + found.repeated + found.empty == len(texts)
    assert len({t.split() and " ".join(t.split()) for t in found.rows.texts}) == len(found.rows)
    np.testing.assert_allclose(found.rows.targets.sum(axis=1), 1)


def test_a_split_has_every_text_once_and_does_not_depend_on_order():
    data = merged(many()).rows
    train, held = split(data, 0.25, seed=3)
    assert len(held) == round(len(data) / 4)
    assert sorted(train.texts + held.texts) == sorted(data.texts)
    _, again = split(data.only(np.arange(len(data))[::-1]), 0.25, seed=3)
    assert sorted(again.texts) == sorted(held.texts)
    assert sorted(split(data, 0.25, seed=4)[1].texts) != sorted(held.texts)


def test_a_split_of_too_few_texts_is_refused():
    with pytest.raises(UserError, match="at least one on either side"):
        split(rows(["a"]), 0.5, 0)


EIGHT = "one two three four five six seven eight"


@pytest.mark.parametrize(
    ("text", "held_out", "dropped"),
    [
        ("Too bad!", "too bad", True),
        ("it is too bad that", "too bad", False),  # two words are in too many texts
        ("so: I do n't care much , really", "I don't care much", True),
        (f"Zero {EIGHT}.", f"{EIGHT} nine", True),
        (f"-lrb- {EIGHT} -rrb- ten", f"({EIGHT})", True),
        ("one two three four five six seven", f"{EIGHT} nine", False),
        ("a cat", "a dog", False),
    ],
)
def test_training_texts_with_something_of_a_held_out_text_are_left_out(text, held_out, dropped):
    kept, n = apart(rows(["another one", text]), [held_out])
    assert n == int(dropped)
    assert kept.texts == (("another one",) if dropped else ("another one", text))


def test_sets_with_other_labels_are_not_joined():
    with pytest.raises(UserError, match="labels differ"):
        joined([(rows(["a"]), 1), (rows(["b"], labels=("x", "y")), 1)])


# -- figures


def test_equal_texts_with_different_labels_are_no_ratings():
    both = merged(rows(["so", "so", "fine"], [0, 1, 1])).rows
    assert both.targets[0].tolist() == [0.5, 0.5]
    assert figures(np.full((2, 2), 0.5), both).spearman is None


def test_figures_are_those_of_the_definitions():
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8], [np.nan, np.nan]])
    found = figures(p, rows(["a", "b", "c", "d", ""], [0, 0, 1, 1, 1]))
    assert found.confusion == ((1, 1), (0, 2))
    assert (found.n, found.undecided) == (5, 1)
    assert found.accuracy == pytest.approx(3 / 5)  # undecided is wrong
    f1 = 2 * 1 / (2 + 1), 2 * 2 / (3 + 3)  # 2 TP / (right + said)
    assert found.macro_f1 == pytest.approx(np.mean(f1))
    assert found.brier == pytest.approx(2 * (0.1**2 + 0.6**2 + 0.3**2 + 0.2**2) / 4)
    assert found.spearman is None


def test_calibration_error_is_the_gap_in_bins_of_equally_many():
    confidence = np.array([0.5, 0.6, 0.9, 1.0])
    right = np.array([True, False, True, True])
    expected = (2 * abs(0.5 - 0.55) + 2 * abs(1 - 0.95)) / 4
    assert calibration_error(confidence, right, bins=2) == pytest.approx(expected)
    assert np.isnan(calibration_error(np.empty(0), np.empty(0, bool)))


def test_ratings_are_compared_by_rank_and_their_middle_is_of_no_label():
    targets = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    p = np.array([[0.8, 0.2], [0.1, 0.9], [0.7, 0.3]])
    found = figures(p, Labelled(("a", "b", "c"), targets, ("low", "high"), rated=True))
    assert found.spearman == pytest.approx(0.5)
    assert found.confusion == ((1, 0), (1, 0))
    assert found.accuracy == pytest.approx(0.5)


# -- training


def test_a_pass_has_every_text_as_often_as_it_is_to_be_learnt_from():
    data = joined([(many(3), 2), (rows(["rare text"]), 1)])
    ids = Vocabulary.of(data.texts, most=50).ids(data.texts)
    task = Classification(data, ids, torch.tensor, "words", batch=4, seed=0)
    steps = -(-37 // 4)
    seen = np.concatenate([task._batch(step) for step in range(steps)])
    assert np.bincount(seen).tolist() == [2] * 18 + [1]
    after = np.concatenate([task._batch(step) for step in range(steps, 2 * steps)])
    assert after.tolist() != seen.tolist()
    assert recipe_of(data, replace(SMALL, epochs=2, batch=4)).steps == round(2 * 37 / 4)


@pytest.mark.parametrize("architecture", ["textcnn", "fasttext"])
def test_a_judge_is_trained_tried_and_votes_by_its_folder(tmp_path, architecture):
    if architecture == "fasttext":
        pytest.importorskip("fasttext")
    train, test = split(many(), 0.2, seed=0)
    spec = replace(SMALL, architecture=architecture)
    out = tmp_path / "mine"
    found = build_judge(train, test, spec, out, sources=["our own sentences: Apache-2.0"])
    assert found.accuracy > 0.9
    assert np.sum(found.confusion) == found.n == len(test)
    assert read_figures(out) == found
    card = (out / "README.md").read_text()
    assert "our own sentences: Apache-2.0" in card
    assert f"{found.accuracy:.4f} on {len(test):,} held-out texts" in card
    (judge,) = choose(str(out))
    assert judge.attribute == "sentiment"
    verdicts = load(judge, [judge], Loading()).verdicts(["a fine day", "we hated it", ""])
    assert [v.vote for v in verdicts] == ["positive", "negative", None]


@pytest.fixture
def tiny_encoder(tmp_path) -> str:
    """A random BERT that knows the words of these tests."""
    folder = tmp_path / "bert"
    words = sorted({word for text in (*GOOD, *BAD) for word in text.split()})
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *map(str, range(40))]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(known), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(known), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    return str(folder)


def test_a_fine_tuned_encoder_votes_by_its_folder_and_goes_on_after_a_kill(
    tmp_path, monkeypatch, tiny_encoder
):
    train, test = split(many(), 0.2, seed=0)
    spec = Spec(
        "sentiment",
        "transformer",
        tuning=Tuning(epochs=45, batch=16, learning_rate=3e-3),
        start=tiny_encoder,
    )
    found = build_judge(train, test, spec, tmp_path / "whole", sources=())
    assert found.accuracy > 0.9
    (judge,) = choose(str(tmp_path / "whole"))
    assert judge.attribute == "sentiment"
    verdicts = load(judge, [judge], Loading()).verdicts(["a fine day", "we hated it", ""])
    assert [v.vote for v in verdicts] == ["positive", "negative", None]

    steps = []

    def killed(model, task, step, of=Classification.loss):
        steps.append(step)
        if step == 520 and len(steps) <= 521:
            raise KeyboardInterrupt
        return of(task, model, step)

    monkeypatch.setattr(Classification, "loss", lambda task, model, step: killed(model, task, step))
    with pytest.raises(KeyboardInterrupt):
        build_judge(train, test, spec, tmp_path / "killed", sources=())
    again = build_judge(train, test, spec, tmp_path / "killed", sources=())
    assert steps[521] == 500  # where the checkpoint is
    assert again == found
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_a_classifier_that_reads_to_the_last_token_can_be_fine_tuned(tmp_path):
    """GPT-2's finds that token by the padding, which its configuration does not name."""
    tokenizer = tiny.tokenizer("bart")
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64, num_labels=2
    )
    torch.manual_seed(0)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    spec = Spec("mood", "transformer", tuning=Tuning(epochs=1), start=str(tmp_path / "start"))
    data = many(3)
    build_judge(data, data, spec, tmp_path / "judge", sources=())
    loaded = load_judge(str(tmp_path / "judge"), device="cpu")
    together, _ = loaded.probabilities(data.texts)
    alone = np.vstack([loaded.probabilities([text])[0] for text in data.texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_discriminator_that_began_from_a_judge_judges_nothing(tmp_path, tiny_encoder):
    spec = Spec("mood", "transformer", tuning=Tuning(epochs=1), start=tiny_encoder)
    build_judge(many(3), many(3), spec, tmp_path / "judge", sources=())
    resolved = resolve(str(tmp_path / "judge"))
    assert attribute_of(resolved) == "mood"
    model, tokenizer = load_to_tune(resolved, ("negative", "positive"), torch.device("cpu"))
    (tmp_path / "other").mkdir()
    TorchClassifier.of(model, tokenizer).save(tmp_path / "other")
    assert attribute_of(resolve(str(tmp_path / "other"))) == ""


def test_texts_that_are_read_in_part_are_counted(tmp_path, tiny_encoder):
    data = rows([*many(3).texts, "fine " * 50], [*many(3).targets.argmax(1), 1])
    spec = Spec("mood", "transformer", tuning=Tuning(epochs=1), start=tiny_encoder)
    notes: list[str] = []
    build_judge(data, data, spec, tmp_path / "judge", sources=(), notes=notes.append)
    assert any(note.startswith("1 texts are longer") for note in notes)


def test_a_judge_of_our_own_can_not_be_fine_tuned(tmp_path):
    spec = Spec("mood", "transformer", start="offline/sentiment")
    with pytest.raises(ModelError, match="is a judge of our own"):
        build_judge(many(), many(), spec, tmp_path / "judge", sources=())


def test_what_is_no_encoder_can_not_be_fine_tuned(tmp_path, causal_folders):
    spec = Spec("sentiment", "transformer", start=str(next(iter(causal_folders.values()))))
    with pytest.raises(ModelError, match="is a causal model; training begins from an encoder"):
        build_judge(many(), many(), spec, tmp_path / "judge", sources=())


def test_equal_runs_give_equal_weights_and_a_finished_one_is_left_alone(tmp_path):
    train, test = split(many(), 0.2, seed=0)
    notes: list[str] = []
    for name in ("one", "two"):
        build_judge(train, test, SMALL, tmp_path / name, sources=())
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("one", "two")]
    assert weights[0] == weights[1]
    build_judge(train, test, SMALL, tmp_path / "one", sources=(), notes=notes.append)
    assert any("already" in note for note in notes)
    with pytest.raises(UserError, match="give another folder"):
        build_judge(train, test, replace(SMALL, seed=1), tmp_path / "one", sources=())


def test_a_judge_of_ratings_ranks_texts(tmp_path):
    p = np.tile([0.9, 0.8, 0.9, 0.2, 0.1, 0.3], 40)
    targets = np.stack([1 - p, p], axis=1)
    data = Labelled(many().texts, targets, ("informal", "formal"), rated=True)
    train, test = split(data, 0.2, seed=0)
    out = tmp_path / "mine"
    found = build_judge(train, test, replace(SMALL, attribute="formality"), out, sources=())
    assert found.spearman > 0.6
    assert json.loads((out / "test.json").read_text())["spearman"] == found.spearman


def test_one_text_with_two_labels_does_not_multiply_all_others_for_fasttext(monkeypatch, tmp_path):
    written = {}

    def kept(texts, targets, labels, settings, **options):
        written.update(options, targets=targets)
        return train_fasttext(texts, targets, labels, settings, **options)

    monkeypatch.setattr("levelfield.training.judge.train_fasttext", kept)
    data = merged(rows([*many().texts, "fine", "fine"], [*many().targets.argmax(1), 0, 1])).rows
    build_judge(data, many(), Spec("mood", "fasttext"), tmp_path / "judge", sources=())
    assert written["copies"] == 1
    assert set(np.unique(written["targets"])) == {0.0, 1.0}


def test_an_unknown_architecture_is_refused():
    with pytest.raises(UserError, match="there is no architecture 'lstm'"):
        Spec("sentiment", "lstm")


# -- recipes


def test_there_is_a_recipe_for_every_set_and_architecture():
    found = judge_recipes.names()
    assert len(found) == 16
    for name in found:
        assert judge_recipes.spec_of(name).architecture == name.rpartition("-")[2]
    with pytest.raises(UserError, match="did you mean sentiment-textcnn"):
        judge_recipes.spec_of("sentimental-textcnn")


@pytest.mark.usefixtures("rated_data")
def test_what_may_ship_is_learnt_from_nothing_of_sst2():
    """Both sets come from the same reviews."""
    found = judge_recipes.prepare("sentiment-nltk-linear")
    assert len(found.test) == 1821
    assert apart(found.train, found.test.texts)[1] == 0
    assert all("CC BY 4.0" in source for source in found.sources)
    assert found.facts["Left out"].startswith("1,686 texts")


def test_the_figures_that_are_shown_are_those_of_recipes():
    file = resources.files("levelfield.training") / "judge_figures.toml"
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["measured"]
    assert {row["recipe"] for row in rows} <= set(judge_recipes.names())
    assert len({row["recipe"] for row in rows}) == len(rows)
    assert all(row["recipe"].startswith("formality") == ("spearman" in row) for row in rows)


def test_a_figure_that_is_no_number_is_null_in_the_file_and_no_number_again_when_read(tmp_path):
    rated = Labelled(
        texts=("fine", "good", "bad", "poor"),
        targets=np.full((4, 2), 0.5),
        times=np.ones(4, np.int64),
        labels=("low", "high"),
        rated=True,
    )
    build_judge(rated, rated, Spec("tone", "textcnn", epochs=1), tmp_path / "j", sources=[])
    said = (tmp_path / "j" / "test.json").read_text()
    assert "NaN" not in said
    assert json.loads(said)["accuracy"] is None
    assert np.isnan(read_figures(tmp_path / "j").accuracy)
