"""Tables with many columns on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from levelfield.io.tables import Table, TableCell, TableColumn
from levelfield.show.terminal.blocks import print_table, print_wrapped


def column(name, values, above="", *, repeated=False):
    """A column and its cells, each of a value and what stands beside it."""
    cells = [TableCell(*value.split()[:1], beside=" ".join(value.split()[1:])) for value in values]
    return TableColumn(name, above, repeated=repeated), cells


def printed(names, columns, *, width=80):
    file = io.StringIO()
    out = Console(file=file, force_terminal=True, width=width, color_system=None, highlight=False)
    heads, cells = zip(*columns, strict=True)
    rows = zip(names, *cells, strict=True)
    print_table(out, Table([TableColumn("system", words=True), *heads], [*rows]))
    return file.getvalue()


def test_parts_of_a_cell_stand_beside_each_other_if_the_table_then_fits():
    columns = [column(f"m{i} ↑", ["0.11 ±0.01"]) for i in range(3)]
    assert "0.11 ±0.01" in printed(["x"], columns)
    tall = printed(["x"], columns, width=30)
    assert tall.splitlines()[1:3] == [
        "x        0.11   0.11   0.11",
        "        ±0.01  ±0.01  ±0.01",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_columns_that_do_not_fit_follow_below_with_the_names_again(width):
    columns = [
        column(f"measure-{i} ↑", ["0.123 ±0.456", "–"], f"family {i // 3}") for i in range(9)
    ]
    text = printed(["x", "日本"], [column("n", ["40", "40"], repeated=True), *columns], width=width)
    blocks = text.rstrip().split("\n\n")
    assert all(block.count("日本") == 1 for block in blocks)
    assert all(text.count(f"{i} ↑") == 1 for i in range(9))
    if width > 30:
        assert max(cell_len(line) for line in text.splitlines()) <= width
    assert len(blocks) == {20: 9, 40: 5, 80: 2, 200: 1}[width]


def test_heads_stand_at_the_beginning_of_their_columns_however_long_they_are():
    columns = [
        column("a", ["1"], "a long head indeed"),
        column("b", ["2"], "a long head indeed"),
        column("c", ["3"], "next"),
    ]
    above, head, row = printed(["x"], columns).splitlines()[:3]
    assert above.index("next") == above.index("a long head indeed") + len("a long head indeed") + 2
    assert head.index("c") >= above.index("next")
    assert head.index("c") == row.index("3")


def test_names_can_not_break_lines_or_steer_the_terminal():
    text = printed(["a\nb", "\x1b[31mred"], [column("m", ["1", "2"])])
    assert "a\\nb" in text
    assert "\x1b[31m" not in text


def test_a_name_wider_than_half_a_terminal_goes_on_below():
    text = printed(["x" * 50, "y"], [column("m", ["0.1 ±0.2", "0.3 ±0.4"])], width=40)
    assert text.splitlines()[1:5] == [
        "x" * 20 + "  0.1 ±0.2",
        "x" * 20,
        "x" * 10,
        "y" + " " * 19 + "  0.3 ±0.4",
    ]


def test_sentences_are_wrapped_but_not_at_no_break_spaces():
    file = io.StringIO()
    out = Console(file=file, force_terminal=True, width=20, color_system=None)
    print_wrapped(out, "one two three four\u00a0five six")
    assert file.getvalue().splitlines() == ["one two three", "  four five six"]


def test_a_name_is_escaped_in_a_sentence_as_it_is_in_a_table():
    file = io.StringIO()
    print_wrapped(Console(file=file, force_terminal=True, width=40, color_system=None), "1 a\nb c")
    assert file.getvalue() == "1 a\\nb c\n"
