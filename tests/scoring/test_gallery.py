"""Samples of a page: all systems' texts of an input, whatever comes, and no more than fit."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.gallery import EACH, LOWEST, Gallery, InputDraw


def texts(systems, prompts, seeds=(None,)):
    return [
        Sample(f"{s}/{p}/{seed}", f"P{p} text", prompt=f"P{p}", system=f"s{s}", seed=seed)
        for p in range(prompts)
        for s in range(systems)
        for seed in seeds
    ]


def drawn(samples, size):
    draw = InputDraw(size)
    for sample in samples:
        draw.offer(sample, sample)
    return [list(one) for one in draw]


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 5), st.integers(9, 60), st.randoms())
def test_a_drawn_input_has_the_texts_of_all_systems_in_any_order(
    systems, prompts, seeds, size, rng
):
    samples = texts(systems, prompts, range(seeds))
    kept = drawn(samples, size)
    assert sum(map(len, kept)) <= size
    each = systems * min(seeds, EACH)
    if each <= size:
        assert len(kept) == min(prompts, size // each)
        for one in kept:
            assert len({s.prompt for s in one}) == 1
            assert {(s.system, s.seed) for s in one} == {
                (f"s{s}", seed) for s in range(systems) for seed in range(min(seeds, EACH))
            }
        rng.shuffle(samples)
        again = drawn(samples, size)
        assert {s.id for one in again for s in one} == {s.id for one in kept for s in one}


def test_texts_that_answer_nothing_in_common_are_drawn_one_by_one():
    samples = [Sample(str(i), "text", system="s") for i in range(300)]
    assert [len(one) for one in drawn(samples, 50)] == [1] * 50


def test_one_input_of_very_many_texts_stays_bounded():
    samples = [Sample(str(i), "t", prompt="P", system=f"s{i}", seed=i % 7) for i in range(900)]
    assert sum(map(len, drawn(samples, 50))) == 50


def test_a_gallery_lines_systems_up_and_keeps_the_worst_values():
    samples = texts(16, 400)
    random.Random(0).shuffle(samples)
    values = np.random.default_rng(0).permutation(len(samples)).astype(np.float64)
    ids = tuple(s.id for s in samples)
    gallery = Gallery()
    gallery.add(samples, [s.system for s in samples], [Scores("m", ids, values, {}, "m|v:1", True)])
    inputs = gallery.inputs()
    assert [len({shown.sample.system for shown in one}) for one in inputs] == [16] * 12
    shown = {s.sample.id: s for s in gallery.shown()}
    assert sum(s.values["m"] < LOWEST for s in shown.values()) == LOWEST
    assert all(s.sample.id in shown for one in inputs for s in one)
    assert "what every system wrote for 12 inputs" in gallery.how()
