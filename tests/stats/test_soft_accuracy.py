"""Soft pairwise accuracy against all permutations, pair by pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from levelfield.stats.resampling import Resampling
from levelfield.stats.soft_accuracy import soft_pairwise_accuracy

MANY = Resampling(permutations=40_000)


def study(systems=4, sources=7, seed=0, texts=1):
    rng = np.random.default_rng(seed)
    system, source = np.divmod(np.arange(systems * sources), sources)
    system, source = np.tile(system, texts), np.tile(source, texts)
    y = np.round(rng.normal(size=system.size) + 0.3 * system, 1)
    return np.round(y + rng.normal(size=y.size), 1), y, source, system


def exact(x, y, source, system):
    """The measure with every sign pattern tried."""

    def p(v, i, j):
        d = []
        for k in sorted(set(source)):
            v_i, v_j = (v[(source == k) & (system == s)] for s in (i, j))
            if v_i.size and v_j.size:
                d.append(v_i.mean() - v_j.mean())
        sums = [sum(s * e for s, e in zip(signs, d, strict=True))
                for signs in itertools.product((1, -1), repeat=len(d))]  # fmt: skip
        further = [1.0 if t > sum(d) + 1e-9 else 0.5 if t > sum(d) - 1e-9 else 0.0 for t in sums]
        return np.mean(further) if d else None

    pairs = list(itertools.combinations(sorted(set(system)), 2))
    values = [(p(x, *pair), p(y, *pair)) for pair in pairs]
    return np.mean([1 - abs(a - b) for a, b in values if a is not None])


@pytest.mark.parametrize("texts", [1, 2])
def test_it_is_the_mean_of_how_alike_p_values_are(texts):
    data = study(texts=texts)
    assert soft_pairwise_accuracy(*data, resampling=MANY).value == pytest.approx(
        exact(*data), abs=0.01
    )


def test_texts_that_are_missing_leave_their_source_out_of_a_pair():
    data = [v[1:-2] for v in study()]
    assert soft_pairwise_accuracy(*data, resampling=MANY).value == pytest.approx(
        exact(*data), abs=0.01
    )


def test_a_metric_agrees_with_itself_and_contradicts_its_opposite():
    x, y, source, system = study(sources=40)
    assert soft_pairwise_accuracy(y, y, source, system).value == 1
    apart = y + 10 * system
    assert soft_pairwise_accuracy(-apart, apart, source, system).value == pytest.approx(0)
    level = soft_pairwise_accuracy(np.zeros_like(x), apart, source, system).value
    assert level == pytest.approx(0.5)  # it is sure of nothing


def test_pairs_without_a_common_source_are_left_out_and_noted():
    x, y, source, system = study(systems=3)
    source = np.where(system == 2, source + 7, source)
    e = soft_pairwise_accuracy(x, y, source, system)
    assert e.note == "2 pairs of systems share no source and are left out"
    alone = soft_pairwise_accuracy(x, y, np.arange(x.size), system)
    assert alone.why_undefined == "no two systems share a source"
