"""Training of discriminators: what is learnt from, what is held out, and that a kill changes
nothing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, BertConfig, BertModel

import tiny_classifier
from levelfield.cli.train import discriminator as command
from levelfield.core.errors import ModelError, UserError
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.train import builder
from levelfield.train.discriminator import DiscriminatorSpec
from levelfield.train.discriminator.discrimination import (
    Discrimination,
    EncodedPairs,
    auc,
    build_discriminator,
    encode,
)
from levelfield.train.discriminator.pairs import (
    TrainingPair,
    TrainingPairs,
    held_out,
    read_rows,
)
from levelfield.train.infiller import Size
from levelfield.train.loop import Recipe

SMALL = Size(32, 1, 64, head=16)
GOOD = ("harbour", "gentle", "bread", "lantern")
BAD = ("gravel", "bitter", "static", "rust")


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def planted(path: Path, n: int = 60) -> Path:
    """Positives have a good word, negatives a bad one; all else is chance."""
    rng = np.random.default_rng(0)

    def text(words: Sequence[str]) -> str:
        filler = rng.choice(["the", "old", "boat", "came", "home", "late", "again"], 6).tolist()
        filler[int(rng.integers(6))] = words[int(rng.integers(len(words)))]
        return " ".join(filler)

    rows = [{"positive": f"{text(GOOD)} {i}", "negative": f"{text(BAD)} {i}"} for i in range(n)]
    return write(path, rows)


def spec(steps: int = 6, **options: object) -> DiscriminatorSpec:
    recipe = Recipe(steps=steps, learning_rate=3e-3, warmup=2, every=2, seed=1)
    chosen = {"start": "", "size": SMALL, "vocabulary": 330, "batch": 8, "window": 32, **options}
    return DiscriminatorSpec(recipe, loading=Loading("cpu"), **chosen)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


# -- rows


def test_texts_are_strings_or_turns_and_other_fields_are_ignored(tmp_path):
    a = write(tmp_path / "a.jsonl", [{"id": "1", "positive": " A b. ", "negative": "B a."}])
    turns = {"positive": ["Hi.", " You? "], "negative": ["Hi.", "No."], "unchanged": False}
    b = write(tmp_path / "b.jsonl", [turns])
    b.write_bytes(b.read_bytes() + b"\n")
    assert read_rows([a, b]).pairs == (("A b.", "B a."), ("Hi.\nYou?", "Hi.\nNo."))
    assert read_rows([a, b], " ").pairs == (("A b.", "B a."), ("Hi. You?", "Hi. No."))


def test_rows_that_teach_nothing_are_left_out_and_counted(tmp_path):
    rows = [
        {"positive": "a", "negative": "b"},
        {"positive": "c", "negative": "d"},
        {"positive": "c", "negative": "c "},
        {"positive": [], "negative": "d"},
        {"positive": "e", "negative": " "},
        {"positive": "f", "negative": "a"},
    ]
    rows_read = read_rows([write(tmp_path / "a.jsonl", rows)])
    assert rows_read.pairs == (("a", "b"), ("c", "d"))
    assert rows_read.skipped == {
        "the negative is the positive": 1,
        "a text is empty": 2,
        "the negative is another row's positive": 1,
    }


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "0 rows to learn from"),
        ([{"positive": "a", "negative": "b"}], "1 rows to learn from"),
        ([{"positive": "a", "negative": "b"}, {"positive": "a", "negative": "c"}], "2 rows"),
        ([{"positive": "a", "negative": "a"}] * 2, "the negative is the positive: 2"),
        ([{"positive": "a", "negative": ""}, {"positive": "b", "negative": ""}], "is empty: 2"),
        ([{"positive": "a"}], 'negatives.jsonl:1: expected an object with "positive" and'),
        ([{"positive": "a", "negative": None}], "negatives.jsonl:1"),
        ([{"positive": "a", "negative": [1]}], "negatives.jsonl:1"),
        ([["a", "b"]], "negatives.jsonl:1"),
        (["a"], "negatives.jsonl:1"),
    ],
)
def test_files_that_can_not_be_learnt_from_are_refused_in_one_line(tmp_path, rows, complaint):
    file = write(tmp_path / "negatives.jsonl", rows)
    with pytest.raises(UserError, match=complaint) as raised:
        read_rows([file])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b'{"positive": "a"', b"\xff\xfe", b"no\n", b"[" * 100_000])
def test_files_that_are_not_jsonl_are_refused_by_name(tmp_path, content):
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.jsonl"):
        read_rows([tmp_path / "x.jsonl"])
    with pytest.raises(UserError, match="can't be read"):
        read_rows([tmp_path / "absent.jsonl"])


@given(st.lists(st.text(max_size=3), min_size=2, max_size=60), st.randoms())
def test_a_text_is_held_out_with_all_its_negatives_whatever_the_order(positives, random):
    held = held_out(positives)
    sides = dict(zip(positives, held.tolist(), strict=True))
    assert [sides[text] for text in positives] == held.tolist()
    distinct = len(set(positives))
    assert sum(sides.values()) == max(1, distinct // 10)
    shuffled = random.sample(positives, len(positives))
    assert held_out(shuffled).tolist() == [sides[text] for text in shuffled]


# -- what the model reads


def reader(window: int, side: str) -> TorchClassifier:
    tokenizer = tiny_classifier.tokenizer()
    tokenizer.model_max_length, tokenizer.truncation_side = window, side
    return TorchClassifier(tiny_classifier.model(("negative", "positive")), tokenizer)


@pytest.mark.parametrize("side", ["left", "right"])
def test_pairs_that_differ_only_where_the_model_does_not_read_are_left_out(side):
    same = "the lake was so clear this morning that we could count the pebbles"
    differs_first, differs_last = (
        TrainingPair(f"good {same}", f"bad {same}"),
        TrainingPair(f"{same} good", f"{same} bad"),
    )
    rows = TrainingPairs(
        (
            differs_first,
            differs_last,
            TrainingPair("we swam", "we sank"),
            TrainingPair("it was", "it is"),
        ),
        {"x": 1},
    )
    pairs, left = encode(rows, reader(10, side))
    assert left.pairs == ((differs_last if side == "left" else differs_first), *rows.pairs[2:])
    assert left.skipped == {"x": 1, "they differ only where the model does not read": 1}
    assert pairs.cut == 2
    assert len(pairs.positive[0]) == 10
    assert (pairs.held_out == held_out([pair.positive for pair in left.pairs])).all()


def test_nothing_left_after_reading_is_refused():
    rows = TrainingPairs(
        (TrainingPair("we swam home " * 9 + "late", "we swam home " * 9 + "early"),) * 2, {}
    )
    with pytest.raises(UserError, match="does not read: 2"):
        encode(rows, reader(10, "right"))


# -- the task


def says(texts) -> torch.Tensor:
    """The log-odds of a text are its first id."""
    return torch.tensor([[0.0, float(ids[0])] for ids in texts])


def task(n: int, batch: int, *, held: int = 2, seed: int = 0) -> Discrimination:
    """Pair i: its positive is i + 5 tokens of it, its negative one more."""
    ids = [np.full(5 + i % 7, i, np.int32) for i in range(n)]
    longer = [np.append(ids_of_text, ids_of_text[0]) for ids_of_text in ids]
    out = np.arange(n) < held
    return Discrimination(EncodedPairs(ids, longer, out, 0), batch, seed, says, "")


@pytest.mark.parametrize(("n", "batch"), [(3, 8), (40, 1), (100, 8), (700, 3)])
def test_every_pass_sees_every_pair_once_and_none_that_is_held_out(n, batch):
    discrimination = task(n, batch)
    counts: Counter[int] = Counter()
    for pool in range(4):
        batches = discrimination._pool(pool)
        assert [len(rows) for rows in batches] == [batch] * discrimination.POOL
        counts.update(itertools.chain.from_iterable(rows.tolist() for rows in batches))
        seen = [counts[i] for i in range(2, n)]
        assert max(seen) - min(seen) <= 1
    assert not counts.keys() & {0, 1}


def test_every_pass_has_an_order_of_its_own():
    discrimination = task(66, 2)  # a pool is a pass
    first, second = (
        {frozenset(rows.tolist()) for rows in discrimination._pool(pool)} for pool in (0, 1)
    )
    assert set().union(*first) == set().union(*second)
    assert first != second


def test_a_batch_depends_on_seed_and_step_only():
    first, again, other = task(100, 4), task(100, 4), task(100, 4, seed=1)
    late = again._pool(3)
    assert all((a == b).all() for a, b in zip(first._pool(3), late, strict=True))
    assert any((a != b).any() for a, b in zip(other._pool(3), late, strict=True))


def test_loss_and_validation_are_their_formulas():
    z_positive, z_negative = np.array([3, 0, -1, 2]), np.array([-2, 0, 1, -5])
    texts = [[np.full(2 + z % 3, z, np.int32) for z in side] for side in (z_positive, z_negative)]
    discrimination = Discrimination(
        EncodedPairs(*texts, np.array([True] * 3 + [False]), 0), 2, 0, says, ""
    )
    figures = discrimination.validation(None)
    right = np.array([3, 0, -1, 2, 0, -1])
    assert figures["loss"] == pytest.approx(np.mean(np.log(1 + np.exp(-right))))
    assert figures["accuracy"] == 2 / 6  # no decision is not a right one
    assert figures["auc"] == pytest.approx((3 + 0.5 + 1 + 1) / 9)
    loss = discrimination.loss(None, 0)  # both pairs of the batch are the one that is not held out
    assert loss.count == 4
    assert float(loss.total) == pytest.approx(2 * (np.log1p(np.exp(-2)) + np.log1p(np.exp(-5))))


numbers = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(numbers, numbers)
def test_auc_is_the_share_of_pairs_in_the_right_order_with_ties_half(positive, negative):
    wins = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    area = auc(np.array(positive, float), np.array(negative, float))
    assert area == pytest.approx(sum(wins) / len(wins))


# -- from rows to a model folder


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(tmp_path_factory.mktemp("rows") / "negatives.jsonl")


@pytest.fixture(scope="module")
def learnt(rows_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "learnt"
    build_discriminator([rows_file], spec(120), out, sources=["made up, CC0"])
    return out


def test_a_planted_signal_is_learnt_and_applies_to_new_texts(learnt):
    about = json.loads((learnt / "training.json").read_text())
    assert about["history"][-1]["validation"]["auc"] > 0.95
    model = load("classifier", str(learnt))
    assert model.labels == ("negative", "positive")
    p, _ = model.probabilities(["late the gentle boat came", "late the bitter boat came"])
    assert p[0, 1] > 0.9 > 0.1 > p[1, 1]


def test_the_card_says_data_licence_and_how_well_it_does(learnt):
    card = (learnt / "README.md").read_text(encoding="utf-8")
    for phrase in (
        "made up, CC0",
        "| Pairs | 60, of which 6 are held out |",
        "random weights, seed 1",
    ):
        assert phrase in card
    assert "| AUC | " in card
    assert not (learnt / "training").exists()


def test_texts_are_scored_as_they_were_trained(learnt):
    assert AutoTokenizer.from_pretrained(learnt).model_max_length == 32
    model = load("classifier", str(learnt))
    long = " ".join(f"the boat came home {i}" for i in range(30))
    (ids,), (cut,) = model.read([long])
    tokenizer = AutoTokenizer.from_pretrained(learnt, model_max_length=10_000)
    bare = tokenizer(long.strip(), add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    assert cut
    assert ids == [end, *bare[-30:], end]


class KilledError(Exception):
    pass


@pytest.mark.thinned
@pytest.mark.parametrize("kills", [(1,), (3, 4), (4, 1, 1)])
def test_killed_and_resumed_is_as_if_nothing_had_happened(rows_file, tmp_path, kills):
    straight = build_discriminator([rows_file], spec(), tmp_path / "a", sources=())
    for steps in kills:
        torch.manual_seed(steps)  # a new process has other random numbers at hand
        left = iter(range(steps))

        def kill_later(_: int, left=left) -> None:
            if next(left, None) is None:
                raise KilledError

        with pytest.raises(KilledError):
            build_discriminator(
                [rows_file], spec(), tmp_path / "b", sources=(), progress=kill_later
            )
    resumed = build_discriminator([rows_file], spec(), tmp_path / "b", sources=())
    assert [row.step for row in resumed] == [2, 4, 6]
    assert [(r.step, r.loss, r.validation) for r in resumed] == [
        (r.step, r.loss, r.validation) for r in straight
    ]
    a, b = (contents(tmp_path / name) for name in "ab")
    assert a["model.safetensors"] == b["model.safetensors"]
    assert a.keys() == b.keys()


def test_a_finished_model_is_left_as_it_is_and_another_run_is_refused(rows_file, tmp_path):
    out = tmp_path / "model"
    first = build_discriminator([rows_file], spec(2), out, sources=())
    before, notes = contents(out), []
    assert build_discriminator([rows_file], spec(2), out, sources=(), notes=notes.append) == first
    assert contents(out) == before
    assert notes == [f"{out} already holds this model"]
    other = planted(tmp_path / "other.jsonl", 30)
    for files, chosen in (([other], spec(2)), ([rows_file], spec(4))):
        with pytest.raises(UserError, match="is not empty and holds no run of this kind"):
            build_discriminator(files, chosen, out, sources=())
    with pytest.raises(UserError, match="is not empty"):
        build_discriminator([rows_file], spec(2), rows_file, sources=())
    assert contents(out) == before


def test_a_kill_while_the_checkpoint_is_cleared_away_leaves_a_finished_model(rows_file, tmp_path):
    out = tmp_path / "model"
    first = build_discriminator([rows_file], spec(2), out, sources=())
    (out / "training").mkdir()
    assert build_discriminator([rows_file], spec(2), out, sources=()) == first
    assert not (out / "training").exists()


def test_a_kill_between_the_last_step_and_the_card_loses_nothing(rows_file, tmp_path, monkeypatch):
    first = build_discriminator([rows_file], spec(2), tmp_path / "a", sources=())

    def kill(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(builder, "write_card", kill)
        with pytest.raises(KilledError):
            build_discriminator([rows_file], spec(2), tmp_path / "b", sources=())
    again = build_discriminator([rows_file], spec(2), tmp_path / "b", sources=())
    assert [(r.loss, r.validation) for r in again] == [(r.loss, r.validation) for r in first]
    a, b = (contents(tmp_path / name) for name in "ab")
    assert a["model.safetensors"] == b["model.safetensors"]
    assert a.keys() == b.keys()


def test_a_checkpoint_of_other_rows_is_refused(rows_file, tmp_path):
    def kill(steps: int, seen: list[int] = []) -> None:  # noqa: B006
        seen.append(steps)
        if len(seen) > 4:
            raise KilledError

    with pytest.raises(KilledError):
        build_discriminator([rows_file], spec(), tmp_path / "m", sources=(), progress=kill)
    other = planted(tmp_path / "other.jsonl", 30)
    with pytest.raises(UserError, match="another run"):
        build_discriminator([other], spec(), tmp_path / "m", sources=())


@pytest.mark.parametrize("kind", ["encoder", "classifier"])
def test_an_encoder_or_a_classifier_of_other_labels_is_a_start(rows_file, tmp_path, kind):
    start = tmp_path / "start"
    if kind == "encoder":
        size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = BertConfig(
            vocab_size=500, intermediate_size=32, max_position_embeddings=24, **size
        )
        BertModel(config).save_pretrained(start)
        tiny_classifier.tokenizer().save_pretrained(start)
    else:
        tiny_classifier.save(start, ("a", "b", "c"), family="bert", positions=24)
    out = tmp_path / "model"
    build_discriminator([rows_file], spec(2, start=str(start)), out, sources=())
    model = load("classifier", str(out))
    assert model.labels == ("negative", "positive")
    assert model._limit == 24
    assert "| Begun from | " in (out / "README.md").read_text(encoding="utf-8")


def test_a_start_that_is_not_an_encoder_is_refused(rows_file, causal_folders, tmp_path):
    start = str(causal_folders["gpt2"])
    with pytest.raises(ModelError, match="is a causal model; training begins from an"):
        build_discriminator([rows_file], spec(start=start), tmp_path / "m", sources=())


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"window": 7}])
def test_sizes_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UserError, match=r"=[07]: expected a whole number from [18] to"):
        spec(**wrong)


def test_the_command_trains_and_says_how_well(rows_file, tmp_path):
    out = tmp_path / "model"
    start = tiny_classifier.save(tmp_path / "start", ("a", "b", "c"), family="bert")
    words = [str(rows_file), "--out", str(out), "--steps", "2", "--start", str(start)]
    ran = CliRunner().invoke(command, words)
    assert ran.exit_code == 0, ran.output
    assert "60 pairs, 6 of them held out" in ran.stderr
    assert "AUC" in ran.stderr.splitlines()[-1]
    before = contents(out)
    again = CliRunner().invoke(command, words)
    assert "already holds this model" in again.stderr
    assert contents(out) == before
