"""Text and tables for LaTeX documents that load the package booktabs."""

from __future__ import annotations

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
}


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it is.

    >>> escape_latex("bleu_4 & 50 %")
    'bleu\\\\_4 \\\\& 50 \\\\%'
    """
    return " ".join("".join(_ESCAPES.get(c, c) for c in text).split())


def booktabs(
    columns: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str,
    *,
    comment: str = "",
    wide: bool = False,
) -> str:
    """A table as LaTeX, without a line break at its end.

    Args:
        columns: how columns are set, e.g. `lrr`.
        head: lines above the first rule, complete with their ends.
        rows: cells, escaped.
        caption: below the table; escaped here.
        comment: what a reader of the source sees above it.
        wide: across both columns of a page, in small type.
    """
    environment = "table*" if wide else "table"
    lines = [
        *([f"% {comment}"] if comment else []),
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
