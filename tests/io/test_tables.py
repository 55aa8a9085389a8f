"""A table as a terminal, LaTeX and Markdown show it."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from levelfield.io.tables import Table, TableCell, TableColumn
from levelfield.show.terminal.blocks import print_table

COLUMNS = [
    TableColumn("system", words=True),
    TableColumn("n", repeated=True),
    TableColumn("up", "family", "family.up", direction="higher"),
    TableColumn("down", "family", "family.down", direction="lower"),
]
ROWS = [
    ["a_b", "12", TableCell("−0.31", True, "± 0.02", "a"), TableCell()],
    [TableCell("c", letters="†"), "12", TableCell("−0.92", beside="± 0.03", letters="b"), "1.5"],
]
TABLE = Table(
    COLUMNS,
    ROWS,
    caption="means over 24 texts",
    legend=["± half the interval"],
    best="shown best",
    letters="equal letters: no difference shown",
    notes=["down: undefined: empty text: 12"],
    signatures=["family.up|k:`1`|v:1"],
)


def printed(table: Table, *, letters: bool = True) -> str:
    file = io.StringIO()
    print_table(Console(file=file, width=100, color_system=None), table, letters=letters)
    return file.getvalue()


def test_latex_has_marks_letters_and_arrows_and_keeps_what_is_copied_in_comments():
    assert TABLE.to_latex().splitlines() == [
        "% family.up|k:`1`|v:1",
        "% down: undefined: empty text: 12",
        r"\begin{table}",
        r"\centering",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r" &  & \multicolumn{2}{c}{family} \\",
        r"\cmidrule(lr){3-4}",
        r"System & n & up $\uparrow$ & down $\downarrow$ \\",
        r"\midrule",
        r"a\_b & 12 & \textbf{$-$0.31} $\pm$ 0.02\textsuperscript{a} & -- \\",
        r"c\textsuperscript{\dag{}} & 12 & $-$0.92 $\pm$ 0.03\textsuperscript{b} & 1.5 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\caption{Means over 24 texts; $\pm$ half the interval; bold: shown best; equal letters: "
        r"no difference shown.}",
        r"\end{table}",
    ]


def test_markdown_has_whole_names_the_legend_notes_and_signatures():
    assert TABLE.to_markdown().split("\n\n") == [
        "| system | n | family.up ↑ | family.down ↓ |\n"
        "| :-- | --: | --: | --: |\n"
        "| a\\_b | 12 | **−0.31** ± 0.02 <sup>a</sup> | – |\n"
        "| c <sup>†</sup> | 12 | −0.92 ± 0.03 <sup>b</sup> | 1.5 |",
        "Means over 24 texts; ± half the interval; **bold** shown best; equal letters: no "
        "difference shown",
        "- down: undefined: empty text: 12",
        "```\nfamily.up|k:`1`|v:1\n```",
    ]


def test_a_terminal_marks_the_best_and_leaves_letters_out_if_they_follow_elsewhere():
    lines = printed(TABLE).splitlines()
    assert lines[2].split() == ["a_b", "12", "*−0.31", "±", "0.02", "a", "–"]
    assert "equal letters" in printed(TABLE)
    assert "0.02 a" not in printed(TABLE, letters=False)
    assert "equal letters" not in printed(TABLE, letters=False)


def test_a_table_without_rows_is_its_heads_and_its_legend():
    empty = Table(COLUMNS, [], caption="nothing")
    assert printed(empty).splitlines()[1].split() == ["system", "n", "up", "↑", "down", "↓"]
    assert "\\midrule\n\\bottomrule" in empty.to_latex()
    assert len(empty.to_markdown().splitlines()) == 4


@given(st.text(min_size=1), st.text(), st.text(), st.text())
def test_no_text_ends_a_cell_a_row_or_the_table(name: str, text: str, note: str, signature: str):
    table = Table(
        [TableColumn(name, words=True), TableColumn("m")],
        [[text, TableCell(text, True, text)]] * 2,
        notes=[note],
        signatures=[signature],
    )
    latex = table.to_latex()
    body = latex.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in body.splitlines()] == [1, 1]
    heads = latex.splitlines()
    assert sum(not line.startswith("%") for line in heads) == 12
    rows = table.to_markdown().split("\n")[:4]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3, 3, 3, 3]
