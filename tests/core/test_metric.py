from __future__ import annotations

import pytest

from levelfield.core.errors import first_line
from levelfield.core.metric import MetricError, guarded
from levelfield.core.partitions import partitions
from levelfield.core.sample import Sample


def test_partitions_hold_every_sample_once_in_order():
    samples = [Sample(str(i), "") for i in range(130)]
    parts = list(partitions(samples))
    assert [len(p) for p in parts] == [64, 64, 2]
    assert [s.id for p in parts for s in p] == [s.id for s in samples]


class Panic(BaseException):
    """As libraries of Rust raise it: no `Exception`."""


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [Panic("lost"), UnprintableError(), SystemExit(0)])
def test_whatever_a_metric_raises_is_one_line_that_names_it(error: BaseException) -> None:
    with (
        pytest.raises(MetricError, match=f"metric 'm' fails: {type(error).__name__}: ") as raised,
        guarded(object, "fails", name="m"),
    ):
        raise error
    assert "not from levelfield" in str(raised.value)


def test_ctrl_c_in_a_metric_ends_the_run() -> None:
    with pytest.raises(KeyboardInterrupt), guarded(object, "fails", name="m"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n one \n two"), "one"),
        (ValueError(), "ValueError"),
        (UnprintableError(), "UnprintableError"),
    ],
)
def test_an_error_has_one_line_whatever_it_says(error: Exception, line: str) -> None:
    assert first_line(error).startswith(line)
