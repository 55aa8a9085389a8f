from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import polars as pl
import pytest

from levelfield.core.sample import Sample
from levelfield.core.scores import PARTS_SCHEMA, Scores, concatenate
from levelfield.core.signature import signature, with_run


def scores(ids, values, undefined=None, sign="m|v:1", **more):
    return Scores("m", tuple(ids), np.array(values, float), undefined or {}, sign, True, **more)


def test_a_nan_without_a_reason_is_refused_and_so_is_a_reason_without_a_nan():
    with pytest.raises(ValueError, match="needs a reason"):
        scores("ab", [1.0, np.nan])
    with pytest.raises(ValueError, match="needs a reason"):
        scores("ab", [1.0, 2.0], {"a": "empty text"})


def test_values_of_another_shape_or_type_are_refused():
    with pytest.raises(ValueError, match="float64 of shape"):
        scores("ab", [1.0])
    with pytest.raises(ValueError, match="float64 of shape"):
        Scores("m", ("a",), np.array([1], np.float32), {}, "m", True)


def test_a_mean_leaves_undefined_values_out_and_the_signature_says_how_many():
    some = scores("abc", [1.0, np.nan, 3.0], {"b": "one sentence only"}, truncated=frozenset("a"))
    assert some.mean() == 2.0
    assert some.run_signature == "m|v:1|n:3 undefined:1 truncated:1"
    assert np.isnan(scores("", []).mean())


def test_records_have_null_and_a_reason_where_undefined():
    records = list(scores("ab", [1.5, np.nan], {"b": "empty text"}).records())
    assert records == [
        {"id": "a", "metric": "m", "value": 1.5, "signature": "m|v:1"},
        {"id": "b", "metric": "m", "value": None, "undefined": "empty text", "signature": "m|v:1"},
    ]


def test_partitions_put_together_are_the_whole():
    parts = pl.DataFrame([("a", "x", 1.0, 1.0)], schema=PARTS_SCHEMA, orient="row")
    whole = concatenate(
        [
            scores("a", [1.0], parts=parts),
            scores("b", [np.nan], {"b": "r"}, truncated=frozenset("b")),
        ]
    )
    assert (whole.ids, whole.undefined, whole.truncated) == (("a", "b"), {"b": "r"}, {"b"})
    assert whole.parts is not None
    assert len(whole.parts) == 1
    with pytest.raises(ValueError, match="different signatures"):
        concatenate([scores("a", [1.0]), scores("b", [1.0], sign="other")])


def test_a_bar_in_a_choice_does_not_look_like_another_field():
    assert signature("m", {"model": "a|v:9\nb"}).count("|") == 2
    assert with_run("m", n=1, undefined=0, truncated=0) == "m|n:1 undefined:0 truncated:0"


def test_samples_pair_when_they_answer_one_request_and_cluster_when_they_share_a_prompt():
    control = {"sentiment": "positive"}
    one = Sample("1", "a", prompt="The lake", control=control, system="x", seed=1)
    two = Sample("2", "b", prompt="The lake", control=control, system="y", seed=2)
    other = Sample("3", "c", prompt="The lake", control={"sentiment": "negative"})
    assert one.input == two.input != other.input
    assert one.shared == other.shared == ("The lake",)
    assert Sample("4", "d").input is None
    assert Sample("4", "d").shared == ()


def test_parts_given_as_rows_are_those_of_a_frame():
    rows = [("a", "x", 1, np.float64(0.5)), ("a", "y", None, 0.5)]
    frame = pl.DataFrame(rows, schema=PARTS_SCHEMA, orient="row")
    of_rows = Scores("m", ("a",), np.array([1.0]), {}, "m", "higher", parts=rows)
    of_frame = Scores("m", ("a",), np.array([1.0]), {}, "m", "higher", parts=frame)
    assert of_rows.part_rows == of_frame.part_rows == frame.rows()
    assert of_rows.parts.equals(frame)
    assert of_rows.parts.schema == frame.schema
    assert pickle.loads(pickle.dumps(of_rows)).parts.equals(frame)
    assert dataclasses.replace(of_rows, metric="other").parts.equals(frame)


def test_parts_of_several_scores_are_joined_whether_rows_or_frames():
    rows = [("a", "x", 1.0, 1.0)]
    frame = pl.DataFrame(rows, schema=PARTS_SCHEMA, orient="row")

    def scores(parts):
        return Scores("m", ("a",), np.array([1.0]), {}, "m", "higher", parts=parts)

    for several in ([rows, rows], [rows, frame], [frame, None, rows]):
        assert concatenate([scores(parts) for parts in several]).part_rows == rows * 2
    assert concatenate([scores(None), scores(None)]).parts is None
