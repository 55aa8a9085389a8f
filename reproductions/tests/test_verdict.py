"""What `same` means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield_reproductions import Derived, Number, Outcome, Verdict, judge


def outcome(
    printed: str, value: float | None, places: int | None = None, **more: object
) -> Outcome:
    decimals = len(printed.partition(".")[2])
    number = Number("p", "p.1", "row", "column", printed, decimals if places is None else places)
    return judge(number, Derived(value, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0.81", 0.8115),
        ("0.53", 0.5250193),
        ("95", 95.035),
        ("-0.00", 0.004),
        ("-0.00", -0.0),
        ("0.00", -0.0049),
        ("360", 360.0),
        ("-0.07", -0.066),
    ],
)
def test_a_value_that_rounds_to_the_printed_digits_is_the_same(printed: str, value: float):
    assert outcome(printed, value).verdict is Verdict.SAME


@pytest.mark.parametrize("printed", ["0.12", "0.13"])
def test_a_half_may_go_either_way(printed: str):
    assert outcome(printed, 0.125).verdict is Verdict.SAME


def test_noise_of_a_sum_does_not_decide_a_half():
    assert outcome("0.3", 0.1 + 0.2 + 0.05).verdict is Verdict.SAME
    assert outcome("42.1", 42.150000000000006).verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("printed", "value"), [("0.81", 0.8051 - 0.0002), ("85.2", 85.119), ("4", 3.4), ("0.39", -0.39)]
)
def test_a_value_that_does_not_is_different(printed: str, value: float):
    assert outcome(printed, value).verdict is Verdict.DIFFERS


def test_digits_that_are_dropped_because_they_are_zeros_count():
    assert outcome("95", 95.3).verdict is Verdict.SAME
    assert outcome("95", 95.3, places=1).verdict is Verdict.DIFFERS
    assert outcome("95", 95.04, places=1).verdict is Verdict.SAME


@given(st.floats(-1e4, 1e4), st.integers(0, 4))
def test_what_python_prints_of_a_value_is_the_same_as_the_value(value: float, places: int):
    assert outcome(f"{value:.{places}f}", value).verdict is Verdict.SAME


@given(st.floats(-1e4, 1e4), st.integers(0, 4))
def test_a_whole_unit_off_is_different(value: float, places: int):
    printed = f"{value:.{places}f}"
    assert outcome(printed, float(printed) + 10.0**-places).verdict is Verdict.DIFFERS


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_missing_value_can_not_be_derived_and_has_a_gap(value: float | None):
    result = outcome("0.81", value)
    assert result.verdict is Verdict.CANNOT
    assert result.derived.gap
    assert result.difference is None


def test_another_model_is_neither_same_nor_different():
    result = outcome("0.44", 0.44, comparable=False)
    assert result.verdict is Verdict.OTHER
    assert result.difference == pytest.approx(0)
