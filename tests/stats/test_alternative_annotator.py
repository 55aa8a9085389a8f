"""The alternative annotator test against its procedure written plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from levelfield.stats.alternative_annotator import FEWEST, alternative_annotator_test


def annotated(noise=0.5, n=60, raters=4, missing=0.2, seed=0, points=5):
    """A judge and raters who see the same quality; some ratings are missing."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(1, points, n)

    def seen(sd):
        return np.clip(np.round(quality + rng.normal(scale=sd, size=n)), 1, points)

    ratings = np.column_stack([seen(0.8) for _ in range(raters)])
    ratings[rng.random(ratings.shape) < missing] = np.nan
    judge = seen(noise)
    judge[3] = np.nan
    return judge, ratings


def plain(judge, ratings, epsilon, nominal):
    """ω and ρ, item by item."""
    p_values, advantages = [], []
    for j in range(ratings.shape[1]):
        differences, wins = [], []
        for f, h in zip(judge, ratings, strict=True):
            others = [r for k, r in enumerate(h) if k != j and not math.isnan(r)]
            if math.isnan(f) or math.isnan(h[j]) or not others:
                continue

            def closeness(value, others=others):
                if nominal:
                    return sum(value == r for r in others) / len(others)
                return -math.sqrt(sum((value - r) ** 2 for r in others) / len(others))

            judge_wins = closeness(f) >= closeness(h[j])
            rater_wins = closeness(h[j]) >= closeness(f)
            wins.append(judge_wins)
            differences.append(int(rater_wins) - int(judge_wins))
        if len(wins) < 30:
            continue
        advantages.append(np.mean(wins))
        p_values.append(stats.ttest_1samp(differences, epsilon, alternative="less").pvalue)
    m = len(p_values)
    harmonic = sum(1 / k for k in range(1, m + 1))
    largest = max(
        [k for k, p in enumerate(sorted(p_values), 1) if p <= k / m * 0.05 / harmonic], default=0
    )
    return largest / m, np.mean(advantages), p_values


@pytest.mark.parametrize("nominal", [False, True])
@pytest.mark.parametrize("noise", [0.3, 0.8, 1.2, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2])
def test_rates_are_those_of_the_procedure(noise, epsilon, nominal):
    judge, ratings = annotated(noise)
    result = alternative_annotator_test(judge, ratings, epsilon=epsilon, nominal=nominal)
    rate, advantage, p_values = plain(judge, ratings, epsilon, nominal)
    assert result.winning_rate == pytest.approx(rate)
    assert result.advantage == pytest.approx(advantage)
    assert [r.p for r in result.raters] == pytest.approx(p_values)


def test_a_good_judge_passes_and_a_random_one_does_not():
    good, ratings = annotated(0.1, n=100)
    bad = np.random.default_rng(1).permutation(good)
    assert alternative_annotator_test(good, ratings, epsilon=0.1).winning_rate == 1
    assert alternative_annotator_test(bad, ratings, epsilon=0.1).winning_rate == 0


def test_ties_count_for_both_even_if_rounding_parts_them():
    ratings = np.tile([0.1, 0.3, 0.2], (40, 1))
    result = alternative_annotator_test(np.full(40, 0.2), ratings, epsilon=0.1)
    assert result.raters[2].advantage == 1
    assert result.raters[2].p == 0  # all differences are 0, and ε is more


def test_raters_with_few_items_are_left_out():
    judge, ratings = annotated(n=60, missing=0)
    ratings[FEWEST - 1 :, 0] = np.nan
    result = alternative_annotator_test(judge, ratings, epsilon=0.1)
    assert [r.rater for r in result.raters] == [1, 2, 3]
    assert result.left_out == 1
    nobody = alternative_annotator_test(judge, ratings[:, :1], epsilon=0.1)
    assert nobody.raters == ()
    assert math.isnan(nobody.winning_rate)
