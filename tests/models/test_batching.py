from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from levelfield.models.tokens import buckets, padded, token_mask, unique, window


@given(st.lists(st.integers(0, 300)), st.integers(1, 2000))
def test_every_item_is_in_one_bucket_and_no_bucket_breaks_the_budget(lengths, budget):
    rows = [bucket.tolist() for bucket in buckets(lengths, budget)]
    assert sorted(i for bucket in rows for i in bucket) == list(range(len(lengths)))
    for bucket in rows:
        assert len(bucket) == 1 or len(bucket) * max(1, *(lengths[i] for i in bucket)) <= budget


@given(st.lists(st.integers(1, 300), min_size=1))
def test_buckets_come_longest_first_so_that_memory_runs_out_at_once_or_never(lengths):
    longest = [max(lengths[i] for i in bucket) for bucket in buckets(lengths, 600)]
    assert longest == sorted(longest, reverse=True)


@given(st.lists(st.text(max_size=3)))
def test_unique_items_put_back_in_place_are_the_items(items):
    distinct, inverse = unique(items)
    assert [distinct[i] for i in inverse] == items
    assert len(set(distinct)) == len(distinct)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 60))
def test_a_window_is_full_whenever_there_is_enough_to_fill_it(left, right, room):
    keep_left, keep_right = window(left, right, room)
    assert 0 <= keep_left <= left
    assert 0 <= keep_right <= right
    assert keep_left + keep_right == min(left + right, room)


@given(st.integers(60, 90), st.integers(60, 90), st.integers(0, 60))
def test_a_window_with_enough_on_both_sides_is_centred(left, right, room):
    keep_left, keep_right = window(left, right, room)
    assert 0 <= keep_right - keep_left <= 1


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("rows", [[[5]], [[5], [6]], [[5, 6, 7], [8]], [[], [4]]])
def test_rows_are_padded_to_the_longest_as_the_plain_loop_does(rows: list[list[int]], left: bool):
    longest = max(map(len, rows))
    spare = [longest - len(row) for row in rows]
    ids = [[0] * n + row if left else row + [0] * n for row, n in zip(rows, spare, strict=True)]
    ones = [[1] * len(row) for row in rows]
    mask = [
        [0] * n + ones_of_row if left else ones_of_row + [0] * n
        for ones_of_row, n in zip(ones, spare, strict=True)
    ]
    assert torch.from_numpy(padded(rows, 0, left=left)).tolist() == ids
    assert torch.from_numpy(token_mask(rows, left=left)).tolist() == mask
