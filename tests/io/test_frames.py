"""Data frames in and out."""

from __future__ import annotations

import pandas
import polars
import pytest

from levelfield import compare, correlate, load_samples, plan_systems, score
from levelfield.io.arguments import records_of
from levelfield.io.frames import Framed
from levelfield.show import plot

COLUMNS = {
    "output": ["The lake was calm.", "A day.", "The lake.", "A day at sea."],
    "model": ["a", "a", "b", "b"],
    "opening": ["The lake", None, "The lake", None],
    "quality": [4, 2, 3, 1],
}
MAPPING = {"text": "output", "system": "model", "prompt": "opening"}


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_rows_of_a_frame_are_records(frame):
    samples = load_samples(frame(COLUMNS), mapping=MAPPING)
    assert [sample.text for sample in samples] == COLUMNS["output"]
    assert [sample.prompt for sample in samples] == ["The lake", "", "The lake", ""]
    assert [sample.id for sample in samples] == ["1", "2", "3", "4"]


def test_missing_values_of_pandas_are_missing():
    frame = pandas.DataFrame({"text": ["a"], "n": [float("nan")], 7: [pandas.NaT]})
    assert records_of(frame) == [{"text": "a", "n": None, "7": None}]
    assert records_of([{"text": "a"}]) is None


def test_ratings_of_a_frame():
    frame = polars.DataFrame(COLUMNS)
    values = score(frame, "rouge-1.references", mapping={**MAPPING, "references": "opening"})
    evaluation = correlate(
        values.scores.values(), frame, mapping={**MAPPING, "ratings.quality": "quality"}
    )
    assert evaluation.to_polars()["aspect"].unique().to_list() == ["quality"]


def test_results_are_shown_as_tables():
    result = score(polars.DataFrame(COLUMNS), "diversity.distinct-1", mapping=MAPPING)
    lines = repr(result).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["diversity"], ["system", "corpora", "distinct-1", "↑"],
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:4]] == ["a", "b"]
    assert lines[-1] == "Means over 4 texts"
    html = result._repr_html_()
    assert html.startswith("<table><caption>Means over 4 texts")
    assert html.count("<tr>") == 3
    assert repr(compare(result)).startswith("metric")
    assert list(result.to_pandas().columns) == result.to_polars().columns
    assert "detectable" in repr(plan_systems(sd=1.0))


def test_a_metric_is_drawn_with_the_best_system_on_top():
    result = score(
        polars.DataFrame(COLUMNS),
        "rouge-1.references",
        mapping={
            **MAPPING,
            "references": "output",
        },
    )
    figure = plot(result["rouge-1.references"])
    assert [text.get_text() for text in figure.axes[0].texts][::2] == ["a", "b"]
    assert figure.axes[0].get_xlabel().startswith("rouge-1.references")


def test_names_are_escaped_in_html():
    columns = {**COLUMNS, "model": ["<b>", "<b>", "b", "b"]}
    result = score(polars.DataFrame(columns), "diversity.distinct-1", mapping=MAPPING)
    assert "<b>" not in result._repr_html_().replace("<b>1", "")
    assert "&lt;b&gt;" in result._repr_html_()


def test_a_result_without_tables_is_its_frame():
    class Bare(Framed):
        def _frame(self):
            return None, [{"a": 1}]

    assert repr(Bare()) == str(polars.DataFrame({"a": [1]}))
    assert "<table" in Bare()._repr_html_()
