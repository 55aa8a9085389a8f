"""Labelled texts: read, merged, split and kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_rows import LABELS, many, rows

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.train.labelled import (
    RatingScale,
    apart,
    from_controls,
    from_ratings,
    joined,
    merged,
    split,
)


def test_labels_are_the_controls_and_sorted():
    samples = [Sample(str(i), "x", control={"mood": m}) for i, m in enumerate(["sad", "glad "])]
    labelled = from_controls(samples, "mood")
    assert labelled.labels == ("glad", "sad")
    assert labelled.targets.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({}, "sample '7' has no label"),
        ({"mood": ("sad", "glad")}, "several labels: sad, glad"),
        ({"mood": "sad"}, "1 different labels"),
    ],
)
def test_samples_without_one_label_each_are_refused(control, message):
    with pytest.raises(UserError, match=message):
        from_controls([Sample("7", "x", control=control)], "mood")


def test_a_held_out_label_that_is_never_learnt_is_refused():
    with pytest.raises(UserError, match="'odd', which no training text has"):
        from_controls([Sample("7", "x", control={"mood": "odd"})], "mood", LABELS)


def test_ratings_become_shares_of_two_labels_within_the_scale():
    scale = RatingScale("formality", "informal", "formal", -3, 3)
    ratings = [{"a": -3.0}, {"a": 0.0, "b": 1.0}, {"a": 3.0}, {"a": 9.0}]
    labelled = from_ratings(
        [Sample(str(i), "x", ratings={"formality": r}) for i, r in enumerate(ratings)], scale
    )
    np.testing.assert_allclose(labelled.targets[:, 1], [0, 3.5 / 6, 1, 1])
    np.testing.assert_allclose(labelled.targets.sum(axis=1), 1)


def test_a_scale_with_equal_ends_is_refused():
    with pytest.raises(UserError, match="expected a greater number"):
        RatingScale("formality", "informal", "formal", 3, 3)


def test_equal_texts_are_merged_with_the_mean_of_their_targets():
    labelled = merged(
        rows(["It's fine .", "It 's FINE.", "other", " ", "it's fine."], [1, 0, 0, 1, 1])
    )
    assert labelled.rows.texts == ("It's fine .", "other")
    np.testing.assert_allclose(labelled.rows.targets, [[1 / 3, 2 / 3], [1, 0]])
    assert (labelled.repeated, labelled.empty) == (2, 1)


@given(st.lists(st.text("ab ", max_size=4), max_size=12))
def test_merging_keeps_the_mass_of_labels(texts):
    data = rows(texts, [len(t) % 2 for t in texts])
    labelled = merged(data)
    assert len(labelled.rows) + labelled.repeated + labelled.empty == len(texts)
    assert len({t.split() and " ".join(t.split()) for t in labelled.rows.texts}) == len(
        labelled.rows
    )
    np.testing.assert_allclose(labelled.rows.targets.sum(axis=1), 1)


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
