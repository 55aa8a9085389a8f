"""Progress where stderr is no terminal: a line a minute, and none for short work."""

from __future__ import annotations

import io

import pytest

from levelfield.cli import terminal


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch):
    """Lets seconds go by."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_long_work_says_a_line_a_minute_with_what_is_left(wait, capsys):
    with terminal.progress_bar("ctrleval.coherence", 10_000) as progress:
        for _ in range(4):
            wait(24.5)
            progress(400)
    assert capsys.readouterr().err == "levelfield: ctrleval.coherence 1,200 of 10,000, 9 min left\n"


def test_work_of_unknown_size_says_how_much_is_done(wait, capsys):
    with terminal.progress_bar("training", None) as progress:
        wait(61)
        progress(64)
        progress(64)
        wait(61)
        progress(64)
    assert capsys.readouterr().err == "levelfield: training 64\nlevelfield: training 192\n"


def test_a_rate_stands_beside_the_bar_and_in_the_lines(wait, capsys, monkeypatch):
    with terminal.progress_bar("generating", 10, lambda: "7 tokens/s") as progress:
        wait(60)
        progress(5)
    assert capsys.readouterr().err == "levelfield: generating 5 of 10, 60 s left, 7 tokens/s\n"
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.progress_bar("generating", 10, lambda: "7 tokens/s") as progress:
        progress(5)
    assert "7 tokens/s" in capsys.readouterr().err


def test_short_work_says_nothing(wait, capsys):
    with terminal.progress_bar("scoring", 10) as progress:
        wait(59)
        progress(10)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("rate", "left"), [(100, "2 min"), (10, "15 min"), (1, "2.5 h"), (10_000, "1 s")]
)
def test_what_is_left_is_in_one_unit(wait, capsys, rate, left):
    with terminal.progress_bar("x", 9_000 + rate * 60) as progress:
        wait(60)
        progress(rate * 60)

    assert capsys.readouterr().err.endswith(f", {left} left\n")


def test_a_table_without_a_reader_is_a_broken_pipe_and_no_end_of_the_program(monkeypatch):
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(terminal.sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        terminal.console().print("a table")
