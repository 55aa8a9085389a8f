"""Poolings against their formulas, and the files of linear ones."""

from __future__ import annotations

import dataclasses
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.metrics.pooling import POOLINGS, LinearPooler, resample

numbers = st.floats(-50, 50)
sequences = st.lists(numbers, min_size=1, max_size=80).map(np.array)
POOLER = LinearPooler(
    "ridge", np.array([0.5, -2.0]), 1.5, np.array([0.1, 0.2]), np.array([1.0, 3.0]), "", ""
)


def test_poolings_are_their_formulas():
    m = np.array([2.0, -1.0, 0.5])
    pooled = {name: pool(m) for name, pool in POOLINGS.items()}
    assert pooled == {"sum": 1.5, "mean": 0.5, "max": 2.0, "min": -1.0}


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


def test_a_saved_pooler_is_the_same_pooler(tmp_path):
    m = [np.array([1.0, 2.0, 0.5]), np.array([-1.0])]
    pooler = dataclasses.replace(POOLER, momentum="cdm|é", trained_on="30 ratings")
    with (tmp_path / "p.json").open("w", encoding="utf-8") as file:
        pooler.save(file)
    again = LinearPooler.load(str(tmp_path / "p.json"))
    np.testing.assert_array_equal(again.predict(m), pooler.predict(m))
    assert again.predict([]).shape == (0,)
    assert (again.digest, again.momentum, again.trained_on) == (
        pooler.digest,
        "cdm|é",
        "30 ratings",
    )


@pytest.mark.parametrize(
    ("change", "message"),
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
def test_a_damaged_pooler_is_refused_in_one_line_that_names_the_file(tmp_path, change, message):
    file = io.StringIO()
    POOLER.save(file)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(json.loads(file.getvalue()) | change), encoding="utf-8")
    with pytest.raises(UserError, match=message) as error:
        LinearPooler.load(str(path))
    assert "p.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", "[" * 100_000])
def test_a_file_that_is_not_a_pooler_is_refused(tmp_path, content):
    path = tmp_path / "p.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"pooler=.*p\.json"):
        LinearPooler.load(str(path))
