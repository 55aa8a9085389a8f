"""Text and tables for LaTeX, Markdown and spreadsheets."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Sequence

_ESCAPES = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "±": "$\\pm$",
    "−": "$-$",
    # after the end of a row, LaTeX would take these for options of the line break
    "[": "{[}",
    "*": "{*}",
    "≤": "$\\le$",
}


def escape_latex(text: str) -> str:
    """Returns text that LaTeX sets as it is.

    >>> escape_latex("bleu_4 & 50 %")
    'bleu\\\\_4 \\\\& 50 \\\\%'
    """
    return " ".join("".join(_ESCAPES.get(c, c) for c in text).split())


def comment_lines(texts: Iterable[str]) -> list[str]:
    """Returns each text as a line that LaTeX leaves out, unchanged so that it can be copied."""
    return [f"% {' '.join(text.splitlines())}" for text in texts]


def spanning_heads(names: Sequence[str], *, first: int = 2) -> list[str]:
    """Returns heads of columns, one over neighbours of the same name, and the rules below them.

    >>> print(*spanning_heads(["content", "content", "", "style"]), sep="\\n")
     & \\multicolumn{2}{c}{content} &  & \\multicolumn{1}{c}{style} \\\\
    \\cmidrule(lr){2-3} \\cmidrule(lr){5-5}

    Args:
        names: one a column, not escaped; empty where a column has none.
        first: the number of the first of these columns.
    """
    cells, rules, column = [""] * (first - 1), [], first
    for name, group in itertools.groupby(names):
        width = len(list(group))
        if name:
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{column}-{column + width - 1}}}")
        else:
            cells += [""] * width
        column += width
    return [" & ".join(cells) + " \\\\", " ".join(rules)] if rules else []


def booktabs(
    columns: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str,
    *,
    comments: Iterable[str] = (),
    wide: bool = False,
) -> str:
    """Returns a table as LaTeX, without a line break at its end.

    Args:
        columns: how columns are set, e.g. `lrr`.
        head: lines above the first rule, complete with their ends.
        rows: cells, escaped.
        caption: below the table; escaped here.
        comments: lines that a reader of the source sees above it, as they are: signatures.
        wide: across both columns of a page, in small type.
    """
    environment = "table*" if wide else "table"
    lines = [
        *comment_lines(comments),
        f"\\begin{{{environment}}}",
        "\\centering",
        *(["\\footnotesize"] if wide else []),
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        *head,
        "\\midrule",
        *(" & ".join(row) + " \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        f"\\caption{{{escape_latex(caption)}}}",
        f"\\end{{{environment}}}",
    ]
    return "\n".join(lines)


_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&$])")


def escape_markdown(text: str) -> str:
    """Returns text that Markdown shows as it is, on one line.

    >>> escape_markdown("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False
) -> str:
    """Returns a table of escaped cells, the first column set left and all others right.

    Args:
        words: the others hold words and are set left as well.
    """
    lines = [head, [":--", *[":--" if words else "--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(lines: Iterable[str]) -> str:
    """Returns lines that Markdown shows as they are, with a fence that none of them ends."""
    text = "\n".join(" ".join(line.splitlines()) for line in lines)
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


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
