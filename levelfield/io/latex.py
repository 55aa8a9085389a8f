"""Text and tables for LaTeX documents that load the package booktabs."""

from __future__ import annotations

import itertools
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
    """Text that LaTeX sets as it is.

    >>> escape_latex("bleu_4 & 50 %")
    'bleu\\\\_4 \\\\& 50 \\\\%'
    """
    return " ".join("".join(_ESCAPES.get(c, c) for c in text).split())


def comment_lines(texts: Iterable[str]) -> list[str]:
    """Each text as a line that LaTeX leaves out, unchanged so that it can be copied."""
    return [f"% {' '.join(text.splitlines())}" for text in texts]


def spanning_heads(names: Sequence[str], *, first: int = 2) -> list[str]:
    """Heads above columns, one over neighbours with the same name, and the rules below them.

    >>> print(*spanning_heads(["content", "content", "", "style"]), sep="\\n")
     & \\multicolumn{2}{c}{content} &  & \\multicolumn{1}{c}{style} \\\\
    \\cmidrule(lr){2-3} \\cmidrule(lr){5-5}

    Args:
        names: one a column, not escaped; empty where a column has none.
        first: the number of the first of these columns.
    """
    cells, rules, at = [""] * (first - 1), [], first
    for name, of in itertools.groupby(names):
        width = len(list(of))
        if name:
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{at}-{at + width - 1}}}")
        else:
            cells += [""] * width
        at += width
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
    """A table as LaTeX, without a line break at its end.

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
