"""Poolings against their formulas, the linear one against planted weights and its own optimality,
and the command that trains it."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from levelfield.cli.train_pooler import pooler as command
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics.cdm import CDMMomentum
from levelfield.metrics.pooling import POOLINGS, LinearPooler, resample
from levelfield.training.pooler.fit import fit, select

numbers = st.floats(-50, 50)
sequences = st.lists(numbers, min_size=1, max_size=80).map(np.array)


def test_poolings_are_their_formulas():
    m = np.array([2.0, -1.0, 0.5])
    found = {name: pool(m) for name, pool in POOLINGS.items()}
    assert found == {"sum": 1.5, "mean": 0.5, "max": 2.0, "min": -1.0}


@given(sequences, st.integers(1, 60))
def test_resampling_keeps_the_mean_and_the_range(m, length):
    x = resample(m, length)
    assert x.shape == (length,)
    assert x.mean() == pytest.approx(m.mean(), abs=1e-9)
    assert x.min() >= m.min() - 1e-9
    assert x.max() <= m.max() + 1e-9


@given(sequences, st.integers(1, 40))
def test_a_number_of_the_resampled_sequence_is_the_mean_over_its_stretch(m, length):
    T = len(m)
    expected = []
    for l in range(length):  # noqa: E741
        low, high = l / length, (l + 1) / length
        covered = [max(0.0, min(high, (t + 1) / T) - max(low, t / T)) for t in range(T)]
        expected.append(sum(c * v for c, v in zip(covered, m, strict=True)) * length)
    np.testing.assert_allclose(resample(m, length), expected, atol=1e-8)


@given(sequences)
def test_resampling_to_its_own_length_is_the_sequence_and_one_token_is_a_constant(m):
    np.testing.assert_allclose(resample(m, len(m)), m, atol=1e-9)
    np.testing.assert_allclose(resample(m[:1], 7), np.full(7, m[0]), atol=1e-9)


def drawn(n: int, *, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=rng.integers(1, 60)) for _ in range(n)]


def test_ridge_recovers_planted_weights():
    rng = np.random.default_rng(3)
    planted, bias = rng.normal(size=8), 1.5
    m = [rng.normal(size=8) for _ in range(400)]
    ratings = [float(planted @ one + bias) for one in m]
    found = fit(m, ratings, kind="ridge", length=8, penalty=1e-9)
    np.testing.assert_allclose(found.weights / found.scale, planted, atol=1e-5)
    np.testing.assert_allclose(found.predict(m), ratings, atol=1e-5)


def test_logistic_recovers_the_direction_of_planted_weights():
    rng = np.random.default_rng(4)
    planted = np.array([3.0, -2.0, 0.0, 1.0])
    m = [rng.normal(size=4) for _ in range(4000)]
    labels = [float(rng.random() < 1 / (1 + math.exp(-(planted @ one)))) for one in m]
    found = fit(m, labels, kind="logistic", length=4, penalty=1e-4)
    np.testing.assert_allclose(found.weights / found.scale, planted, atol=0.3)
    assert ((found.predict(m) > 0) & (found.predict(m) < 1)).all()


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_no_nearby_weights_have_a_lower_penalised_loss(kind, penalty):
    m = drawn(50)
    y = np.array([float(one.mean() > 0) for one in m])
    found = fit(m, y.tolist(), kind=kind, length=4, penalty=penalty)
    Z = (np.stack([resample(one, 4) for one in m]) - found.mean) / found.scale

    def objective(w: Any, b: float) -> float:
        z = Z @ w + b
        if kind == "ridge":
            loss = 0.5 * ((z - y) ** 2).mean()
        else:
            p = 1 / (1 + np.exp(-z))
            loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
        return float(loss + penalty / 2 * (w**2).sum())

    best = objective(found.weights, found.bias)
    for step in np.vstack([np.eye(5), -np.eye(5)]) * 1e-2:
        assert objective(found.weights + step[:4], found.bias + step[4]) > best


def test_features_that_never_change_get_no_weight_and_do_no_harm():
    m = [np.array([5.0, float(i)]) for i in range(10)]
    found = fit(m, list(range(10)), kind="ridge", length=2, penalty=1e-9)
    assert found.weights[0] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(found.predict(m), np.arange(10), atol=1e-5)


def test_a_saved_pooler_is_the_same_pooler(tmp_path):
    m = drawn(30)
    made = fit(m, [one.sum() for one in m], kind="ridge", momentum="cdm|é", trained_on="30 ratings")
    with (tmp_path / "p.json").open("w", encoding="utf-8") as file:
        made.save(file)
    again = LinearPooler.load(str(tmp_path / "p.json"))
    np.testing.assert_array_equal(again.predict(m), made.predict(m))
    assert again.predict([]).shape == (0,)
    assert (again.digest, again.momentum, again.trained_on) == (
        made.digest,
        "cdm|é",
        "30 ratings",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "expected a file with format"),
        ({"kind": "forest"}, "kind is 'forest'"),
        ({"length": 3}, "expected 3 finite numbers"),
        ({"length": "2"}, "whole number"),
        ({"weights": [1, "a"]}, "could not convert"),
        ({"weights": [1, math.nan]}, "weights: expected 2 finite numbers"),
        ({"scale": [1, 0]}, "scale above 0"),
        ({"bias": None}, "float"),
        ({"mean": None}, "mean"),
    ],
)
def test_a_damaged_pooler_is_refused_in_one_line_that_names_the_file(tmp_path, change, said):
    file = io.StringIO()
    fit(drawn(9), list(range(9)), kind="ridge", length=2).save(file)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(json.loads(file.getvalue()) | change), encoding="utf-8")
    with pytest.raises(UserError, match=said) as error:
        LinearPooler.load(str(path))
    assert "p.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}"])
def test_a_file_that_is_no_pooler_is_refused(tmp_path, content):
    path = tmp_path / "p.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"pooler=.*p\.json"):
        LinearPooler.load(str(path))


@pytest.mark.parametrize("targets", [[], [1.0], [2.0, 2.0], [1.0, math.nan]])
def test_ratings_that_teach_nothing_are_refused(targets):
    with pytest.raises(UserError, match="at least two rated sequences"):
        fit(drawn(len(targets)), targets, kind="ridge")


def test_a_logistic_pooler_wants_labels():
    with pytest.raises(UserError, match="labels 0 and 1"):
        fit(drawn(2), [0.0, 0.5], kind="logistic")


def test_what_is_held_out_is_drawn_by_the_seed_and_by_group():
    m = drawn(60)
    y = [float(one.max()) for one in m]
    groups = [i // 6 for i in range(60)]
    first, again, other = (
        select(m, y, kind="ridge", groups=groups, seed=seed) for seed in (1, 1, 2)
    )
    assert first.held_out == 12
    assert first.pooler.digest == again.pooler.digest
    assert (first.spearman, first.penalty) == (again.spearman, again.penalty)
    assert other.spearman != first.spearman


def test_noise_gets_the_strongest_penalty_and_signal_a_weak_one():
    m = drawn(300)
    noise = np.random.default_rng(9).normal(size=300).tolist()
    planted = np.linspace(-1, 1, 4)
    signal = [float(planted @ resample(one, 4)) for one in m]
    assert select(m, noise, kind="ridge", length=4).penalty == 10.0
    found = select(m, signal, kind="ridge", length=4)
    assert found.penalty == 0.001
    assert found.spearman > 0.99


def test_one_group_can_not_be_held_out_of_itself():
    with pytest.raises(UserError, match="too few"):
        select(drawn(4), [1, 2, 3, 4], kind="ridge", groups=["a"] * 4)


# -- the command


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("pair")
    return str(tiny.save("gpt2", root / "a", seed=0)), str(tiny.save("gpt2", root / "e", seed=1))


def rated(path: Path, models: tuple[str, str]) -> list[Sample]:
    """Texts whose rating is their summed momentum over their first half."""
    texts = tiny.texts()[:24]
    samples = [Sample(str(i), text) for i, text in enumerate(texts)]
    metric = CDMMomentum(*models, form="conditional")
    lines = []
    for sample, ((unit,)) in zip(samples, metric.momentum(samples), strict=True):
        rating = float(resample(unit.m, 4)[:2].sum())
        record = {"id": sample.id, "text": sample.text, "ratings": {"coherence": {"a": rating}}}
        lines.append(json.dumps(record))
    lines.append(json.dumps({"id": "x", "text": "Nobody rated this."}))
    lines.append(json.dumps({"id": "y", "text": " ", "ratings": {"coherence": {"a": 1}}}))
    path.write_text("\n".join(lines), encoding="utf-8")
    return samples


def trained(models: tuple[str, str], path: Path, *more: str) -> Any:
    words = [f"-oamateur={models[0]}", f"-oexpert={models[1]}", "-oform=conditional"]
    return CliRunner().invoke(
        command, [str(path), "--aspect", "coherence", *words, "--length", "4", *more]
    )


def test_the_command_trains_a_pooler_that_the_metric_takes(models, tmp_path):
    samples = rated(tmp_path / "rated.jsonl", models)
    out = tmp_path / "pooler.json"
    done = trained(models, tmp_path / "rated.jsonl", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "24 ratings of coherence" in done.stderr
    assert "left out 2 (not rated: 1, empty text: 1)" in done.stderr
    given = {"form": "conditional", "pooling": "classifier", "pooler": str(out)}
    metric = CDMMomentum(*models, **given)
    m = [units[0].m for units in CDMMomentum(*models, form="conditional").momentum(samples)]
    found = metric.score(samples)
    np.testing.assert_allclose(found.values, LinearPooler.load(str(out)).predict(m), atol=1e-9)
    ratings = [resample(one, 4)[:2].sum() for one in m]
    assert np.corrcoef(found.values, ratings)[0, 1] > 0.95
    assert f"pooler:{LinearPooler.load(str(out)).digest}" in metric.signature


def test_a_pooler_of_another_pair_is_refused(models, tmp_path):
    rated(tmp_path / "rated.jsonl", models)
    out = tmp_path / "pooler.json"
    trained(models, tmp_path / "rated.jsonl", "--out", str(out))
    swapped = CDMMomentum(
        models[1], models[0], form="conditional", pooling="classifier", pooler=str(out)
    )
    with pytest.raises(UserError, match="trained on other momentum"):
        _ = swapped.signature


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--aspect", "style"), "left out: not rated: 26"),
        (("-opooling=max",), "--option pooling: expected one of"),
        (("-otask=dialogue", "-oturns=mean"), "turns=mean"),
        (("-otask=poem",), "expected text or dialogue or commonsense"),
        (("--kind", "logistic"), "labels 0 and 1"),
    ],
)
def test_the_command_says_what_is_wrong(models, tmp_path, more, said):
    rated(tmp_path / "rated.jsonl", models)
    done = trained(models, tmp_path / "rated.jsonl", "--out", str(tmp_path / "p.json"), *more)
    assert isinstance(done.exception, UserError)
    assert said in str(done.exception)
    assert not (tmp_path / "p.json").exists()


def test_labels_make_a_logistic_pooler(models, tmp_path):
    path, out = tmp_path / "labels.jsonl", tmp_path / "p.json"
    lines = [
        json.dumps({"id": str(i), "text": text, "ratings": {"coherence": {"a": i % 2}}})
        for i, text in enumerate(tiny.texts()[:12])
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    done = trained(models, path, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert LinearPooler.load(str(out)).kind == "logistic"
