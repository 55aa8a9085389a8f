"""CSV that people open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_FORMULA = re.compile(r"""(^|[;\t\r\n])(?=[\s"]*[=+\-@＝＋－＠])|^(?=[\t\r\n])""")
"""Where a spreadsheet might begin to calculate: at the start of a cell, and after what some take
for the end of one."""


def csv_text(rows: Iterable[Sequence[object]], *, end: str = "\r\n") -> str:
    """Returns rows as CSV that no spreadsheet takes for formulas: see `safe_cell`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    for row in rows:
        writer.writerow([safe_cell(cell) for cell in row])
    return text.getvalue()


def safe_cell(cell: object) -> object:
    """Returns the cell, with an apostrophe wherever a spreadsheet would begin to calculate.

    Numbers stay numbers, also those that are written as text.

    >>> safe_cell("=1+1"), safe_cell(-1), safe_cell("-0.5"), safe_cell("a;=1+1"), safe_cell("1+1")
    ("'=1+1", -1, '-0.5', "a;'=1+1", '1+1')
    """
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    return _FORMULA.sub(r"\1'", cell)
