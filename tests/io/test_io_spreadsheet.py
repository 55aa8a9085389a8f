from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.io.tables import csv_text, safe_cell

SIGNS = "=+-@＝＋－＠"


@given(st.one_of(st.text(), st.text(alphabet=SIGNS + ";\t\n\r \"'1a"), st.integers(), st.floats()))
def test_a_safe_cell_says_the_same_and_begins_no_formula_wherever_it_is_split(cell: object):
    made = safe_cell(cell)
    if not isinstance(cell, str):
        assert made is cell
        return
    assert isinstance(made, str)
    assert made.replace("'", "") == cell.replace("'", "")
    if made != cell:
        assert safe_cell(made) == made
    if not re.fullmatch(r"[+-]?[0-9.]+(e[+-]?\d+)?", cell):
        assert not made.startswith(("\t", "\r", "\n"))
        for piece in re.split(r"[;\t\r\n]", made):
            assert not piece.lstrip(' "').startswith(tuple(SIGNS))


@pytest.mark.parametrize("number", ["-0.5", "+1", "-1e-7", "1.", ".5", -0.5, 0, "3"])
def test_a_number_is_no_formula(number: object):
    assert safe_cell(number) == number


@pytest.mark.parametrize("text", ["-", "-1-1", "+a", "-0.5 of", "－0.5", "=1"])
def test_what_only_begins_like_a_number_is_made_safe(text: str):
    assert safe_cell(text) == f"'{text}"


def test_rows_read_back_with_the_apostrophes():
    text = csv_text([("a,b", -0.5, "=x"), ("a;@x", 1, None)])
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [["a,b", "-0.5", "'=x"], ["a;'@x", "1", ""]]
