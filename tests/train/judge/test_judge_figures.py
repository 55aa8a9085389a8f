"""How good a judge is on texts that it was not trained on."""

from __future__ import annotations

import numpy as np
import pytest
from judge_rows import rows

from levelfield.train.figures import calibration_error, figures
from levelfield.train.labelled import Labelled, merged


def test_equal_texts_with_different_labels_are_not_ratings():
    merged_rows = merged(rows(["so", "so", "fine"], [0, 1, 1])).rows
    assert merged_rows.targets[0].tolist() == [0.5, 0.5]
    assert figures(np.full((2, 2), 0.5), merged_rows).spearman is None


def test_figures_are_those_of_the_definitions():
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8], [np.nan, np.nan]])
    test_figures = figures(p, rows(["a", "b", "c", "d", ""], [0, 0, 1, 1, 1]))
    assert test_figures.confusion == ((1, 1), (0, 2))
    assert (test_figures.n, test_figures.undecided) == (5, 1)
    assert test_figures.accuracy == pytest.approx(3 / 5)  # undecided is wrong
    f1 = 2 * 1 / (2 + 1), 2 * 2 / (3 + 3)  # 2 TP / (right + said)
    assert test_figures.macro_f1 == pytest.approx(np.mean(f1))
    assert test_figures.brier == pytest.approx(2 * (0.1**2 + 0.6**2 + 0.3**2 + 0.2**2) / 4)
    assert test_figures.spearman is None


def test_calibration_error_is_the_gap_in_bins_of_equally_many():
    confidence = np.array([0.5, 0.6, 0.9, 1.0])
    right = np.array([True, False, True, True])
    expected = (2 * abs(0.5 - 0.55) + 2 * abs(1 - 0.95)) / 4
    assert calibration_error(confidence, right, bins=2) == pytest.approx(expected)
    assert np.isnan(calibration_error(np.empty(0), np.empty(0, bool)))


def test_ratings_are_compared_by_rank_and_their_middle_is_of_no_label():
    targets = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    p = np.array([[0.8, 0.2], [0.1, 0.9], [0.7, 0.3]])
    test_figures = figures(p, Labelled(("a", "b", "c"), targets, ("low", "high"), rated=True))
    assert test_figures.spearman == pytest.approx(0.5)
    assert test_figures.confusion == ((1, 0), (1, 0))
    assert test_figures.accuracy == pytest.approx(0.5)
