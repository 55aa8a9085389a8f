"""The numbers as they are printed: transcribed whole, and consistent with each other."""

from __future__ import annotations

from decimal import Decimal

import pytest

from levelfield.papers import PAPERS, Number, PublishedTable, read_paper, tables

NUMBERS = [n for name in PAPERS for t in read_paper(name).tables for n in t.numbers]

SHAPES = {
    "ctrleval.1": (2, 7),
    "ctrleval.2": (2, 4),
    "ctrleval.3": (8, 12),
    "ctrleval.4": (8, 6),
    "lpf.8a": (13, 6),
    "lpf.8b": (11, 6),
    "lpf.9a": (13, 6),
    "lpf.9b": (11, 6),
    "lpf.9c": (8, 6),
    "lpf.9d": (9, 6),
    "lpf.10": (13, 16),
    "lpf.11": (11, 16),
    "lpf.12": (8, 18),
    "lpf.13": (9, 16),
    "lpf.16": (8, 2),
    "lpf.text": (10, 2),
    "thesis.3": (10, 9),
    "thesis.4": (10, 2),
    "thesis.5": (10, 9),
    "thesis.7": (9, 9),
    "thesis.8": (9, 9),
    "thesis.9": (2, 9),
    "thesis.10": (1, 4),
    "thesis.11": (9, 3),
    "cdm.2": (9, 4),
    "cdm.8": (7, 2),
    "cdm.9": (3, 4),
    "cdm.10": (3, 2),
}


def cells(table: PublishedTable) -> dict[tuple[str, str], Number]:
    return {(n.row, n.column): n for n in table.numbers}


@pytest.mark.parametrize("id", SHAPES)
def test_every_row_has_every_column_once(id: str):
    [table] = tables(id)
    rows, columns = SHAPES[id]
    assert len({n.row for n in table.numbers}) == rows
    assert len({n.column for n in table.numbers}) == columns
    assert len(cells(table)) == len(table.numbers) == rows * columns


def test_only_the_correlations_of_all_texts_have_empty_cells():
    listed = {t.id for t in tables()}
    assert listed - set(SHAPES) == {"thesis.6"}
    assert len(tables("thesis.6")[0].numbers) == 9 + 2 + 9


def test_a_printed_form_is_kept_digit_by_digit():
    for n in NUMBERS:
        sign, digits, exponent = n.value.as_tuple()
        assert str(n.value) == n.printed
        assert isinstance(exponent, int)
        assert n.places >= -exponent >= 0
        assert ("-" in n.printed) == bool(sign)
        assert digits
    assert any(n.printed == "-0.00" for n in NUMBERS)


def test_a_paper_that_drops_zeros_still_says_to_how_many_places():
    found = cells(tables("lpf.10")[0])
    assert found["LLaMa2 70B FS", "dist3"].printed == "68"
    assert found["LLaMa2 70B FS", "dist3"].places == 1
    assert found["Prior CTG", "dist1"].places == 2


@pytest.mark.parametrize("id", ["lpf.8a", "lpf.8b", "lpf.9a", "lpf.9b", "lpf.9c", "lpf.9d"])
def test_printed_ranks_follow_from_printed_values(id: str):
    [table] = tables(id)
    found = cells(table)
    for column in {n.column for n in table.numbers if f"{n.column} rank" in column_names(table)}:
        values = {row: n.value for (row, c), n in found.items() if c == column}
        sign = 1 if column == "perplexity" else -1
        for row, own in values.items():
            rank = 1 + sum(sign * other < sign * own for other in values.values())
            assert found[row, f"{column} rank"].value == rank, (row, column)


def column_names(table: PublishedTable) -> set[str]:
    return {n.column for n in table.numbers}


@pytest.mark.parametrize("id", ["lpf.8", "lpf.9", "lpf.10", "lpf.11", "lpf.12", "lpf.13"])
def test_overall_lies_between_zero_shot_and_few_shot(id: str):
    for table in tables(id):
        found = cells(table)
        for (row, column), n in found.items():
            if not row.endswith(" Ov") or column.endswith((" sd", " rank")):
                continue
            system = row.removesuffix(" Ov")
            two = (found[f"{system} ZS", column].value + found[f"{system} FS", column].value) / 2
            assert abs(two - n.value) <= Decimal("0.1"), (row, column)


@pytest.mark.parametrize(
    ("id", "parts"),
    [
        ("lpf.10", ("DistilBERT", "T5", "DeBERTa")),
        ("lpf.11", ("DistilBERT", "BERT", "DeBERTa")),
        ("lpf.12", ("any", "all", "extended coverage", "coverage")),
        ("lpf.13", ("sentiment", "topic")),
    ],
)
def test_averages_are_those_of_the_columns_beside_them(id: str, parts: tuple[str, ...]):
    found = cells(tables(id)[0])
    for row in {row for row, _ in found}:
        mean = sum((found[row, p].value for p in parts), Decimal(0)) / len(parts)
        assert abs(mean - found[row, "average"].value) <= Decimal("0.11"), row


@pytest.mark.parametrize("id", ["thesis.3", "thesis.4", "thesis.5", "thesis.7", "thesis.8"])
def test_a_mean_in_the_thesis_is_that_of_the_rows_above_or_in_doubt(id: str):
    [table] = tables(id)
    found = cells(table)
    for column in column_names(table):
        above = [n.value for (row, c), n in found.items() if c == column and row != "Mean"]
        off = abs(sum(above) / len(above) - found["Mean", column].value)
        assert (off > Decimal("0.001")) == bool(found["Mean", column].doubt), column


def test_facts_name_tables_that_exist_and_where_to_look():
    for name in PAPERS:
        known = {t.number for t in read_paper(name).tables}
        for fact in read_paper(name).facts:
            assert set(fact.tables) <= known
            assert fact.what
            assert fact.evidence
            assert fact.where


def test_every_doubt_is_about_a_number_that_is_there():
    assert sorted((n.table, n.row, n.column) for n in NUMBERS if n.doubt) == [
        ("thesis.4", "Mean", "fastText"),
        ("thesis.7", "DURL", "METEOR"),
        ("thesis.8", "DURL", "METEOR"),
    ]
