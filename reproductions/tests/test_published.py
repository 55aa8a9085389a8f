"""The numbers as they are printed: transcribed whole, and consistent with each other."""

from __future__ import annotations

from decimal import Decimal

import pytest

from levelfield_reproductions import PAPERS, Number, PublishedTable, read_paper, tables
from levelfield_reproductions.recipes import lpf

NUMBERS = [n for name in PAPERS for t in read_paper(name).tables for n in t.numbers]

SHAPES = {
    "ctrleval.1": (2, 7),
    "ctrleval.2": (2, 4),
    "ctrleval.3": (8, 12),
    "ctrleval.4": (8, 6),
    "ctrleval.5": (6, 3),
    "ctrleval.6": (3, 4),
    "ctrleval.7": (3, 4),
    "ctrleval.figure6": (4, 8),
    "ctrleval.figure7": (2, 6),
    "lpf.2": (4, 1),
    "lpf.7": (6, 4),
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
    "lpf.text": (11, 2),
    "thesis.3": (10, 9),
    "thesis.4": (10, 2),
    "thesis.5": (10, 9),
    "thesis.7": (9, 9),
    "thesis.8": (9, 9),
    "thesis.9": (2, 9),
    "thesis.10": (1, 4),
    "thesis.11": (9, 3),
    "cdm.2": (9, 4),
    "cdm.3": (9, 4),
    "cdm.4": (16, 4),
    "cdm.5": (7, 4),
    "cdm.6": (14, 4),
    "cdm.8": (7, 2),
    "cdm.9": (3, 4),
    "cdm.10": (3, 2),
    "dexperts.neutral-positive": (15, 3),
    "dexperts.neutral-negative": (15, 3),
    "dexperts.positive-negative": (15, 3),
    "dexperts.negative-positive": (15, 3),
    "dexperts.toxicity": (12, 3),
    "pplm.ablation": (13, 4),
    "pplm.fluency": (3, 8),
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


def test_four_tables_have_empty_cells():
    holed = {t.id: len(t.numbers) for t in tables() if t.id not in SHAPES}
    assert holed == {
        "thesis.6": 9 + 2 + 9,
        "lpf.14": 12 + 8 + 5 + 12,
        "lpf.15": 2 * (11 + 9 + 6 + 7),
        "cdm.1": 3 + 1 + 3,
    }


def test_a_number_that_a_paper_prints_twice_is_the_same_in_both_places():
    def rows(id: str, end: str) -> list[list[str]]:
        numbers = [n for n in tables(id)[0].numbers if n.row.endswith(end)]
        names = dict.fromkeys(n.row for n in numbers)
        return [[n.printed for n in numbers if n.row == name] for name in names]

    for pair in ("small-base", "small-large", "small-xl", "small-11b"):
        first = rows("cdm.4", f"T5 {pair}")[0]
        assert rows("cdm.5", f"T5 {pair}") == rows("cdm.6", f"T5 {pair}") == [first]
    assert rows("cdm.2", "Generative CDM") == rows("cdm.4", "Generative, T5 small-11b")
    assert rows("cdm.2", "Discriminative CDM") == rows("cdm.4", "Discriminative, T5 small-11b")
    assert rows("cdm.3", "AMR-Multi") == rows("cdm.4", "Generative, T5 small-large")
    assert rows("cdm.3", "Classifier-Pooled") == rows("cdm.4", "Discriminative, T5 small-large")
    assert rows("ctrleval.7", "T5-large") == rows("ctrleval.6", "T5")
    whole = {**cells(tables("ctrleval.3")[0]), **cells(tables("ctrleval.4")[0])}
    for id, row in (("ctrleval.5", "CTRLEval"), ("ctrleval.6", "PEGASUS")):
        for n in (
            n for n in tables(id)[0].numbers if n.row == row and "parameters" not in n.column
        ):
            column = n.column.replace("attribute relevance ", "")
            assert whole["CTRLEval", column].printed == n.printed
    sizes = {n.row: int(n.printed) for n in tables("lpf.2")[0].numbers}
    assert set(sizes.values()) == set(lpf.SIZES.values())


def test_a_slor_whose_second_decimal_is_5_is_printed_down_where_there_is_one_decimal():
    halves = []
    for id, shorter in (("lpf.9a", "10"), ("lpf.9b", "11"), ("lpf.9c", "12"), ("lpf.9d", "13")):
        beside = cells(tables(f"lpf.{shorter}")[0])
        for (row, column), n in cells(tables(id)[0]).items():
            if column == "SLOR" and n.printed[-3] == "." and n.printed.endswith("5"):
                named = row.replace("CTG BART", "C BART")
                assert beside[named, column].value == n.value - Decimal("0.05")
                halves.append((shorter, named))
    assert halves == [
        ("10", "Falcon 40B FS"),
        ("10", "Falcon 40B Ov"),
        ("10", "GeDi"),
        ("11", "Prior CTG"),
        ("12", "C BART"),
        ("13", "Falcon 40B ZS"),
    ]


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
    numbers = cells(tables("lpf.10")[0])
    assert numbers["LLaMa2 70B FS", "dist3"].printed == "68"
    assert numbers["LLaMa2 70B FS", "dist3"].places == 1
    assert numbers["Prior CTG", "dist1"].places == 2


@pytest.mark.parametrize("id", ["lpf.8a", "lpf.8b", "lpf.9a", "lpf.9b", "lpf.9c", "lpf.9d"])
def test_printed_ranks_follow_from_printed_values(id: str):
    [table] = tables(id)
    numbers = cells(table)
    for column in {n.column for n in table.numbers if f"{n.column} rank" in column_names(table)}:
        values = {row: n.value for (row, c), n in numbers.items() if c == column}
        sign = 1 if column == "perplexity" else -1
        for row, value in values.items():
            rank = 1 + sum(sign * other < sign * value for other in values.values())
            assert numbers[row, f"{column} rank"].value == rank, (row, column)


def column_names(table: PublishedTable) -> set[str]:
    return {n.column for n in table.numbers}


@pytest.mark.parametrize("id", ["lpf.8", "lpf.9", "lpf.10", "lpf.11", "lpf.12", "lpf.13"])
def test_overall_lies_between_zero_shot_and_few_shot(id: str):
    for table in tables(id):
        numbers = cells(table)
        for (row, column), n in numbers.items():
            if not row.endswith(" Ov") or column.endswith((" sd", " rank")):
                continue
            system = row.removesuffix(" Ov")
            two = (
                numbers[f"{system} ZS", column].value + numbers[f"{system} FS", column].value
            ) / 2
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
    numbers = cells(tables(id)[0])
    for row in {row for row, _ in numbers}:
        mean = sum((numbers[row, p].value for p in parts), Decimal(0)) / len(parts)
        assert abs(mean - numbers[row, "average"].value) <= Decimal("0.11"), row


@pytest.mark.parametrize("id", ["thesis.3", "thesis.4", "thesis.5", "thesis.7", "thesis.8"])
def test_a_mean_in_the_thesis_is_that_of_the_rows_above_or_in_doubt(id: str):
    [table] = tables(id)
    numbers = cells(table)
    for column in column_names(table):
        above = [n.value for (row, c), n in numbers.items() if c == column and row != "Mean"]
        off = abs(sum(above) / len(above) - numbers["Mean", column].value)
        assert (off > Decimal("0.001")) == bool(numbers["Mean", column].doubt), column


def test_facts_name_tables_that_exist_and_where_to_look():
    for name in PAPERS:
        existing = {t.number for t in read_paper(name).tables}
        for fact in read_paper(name).facts:
            assert set(fact.tables) <= existing
            assert fact.what
            assert fact.evidence
            assert fact.where


def test_every_doubt_is_about_a_number_that_is_there():
    assert sorted((n.table, n.row, n.column) for n in NUMBERS if n.doubt) == [
        ("thesis.4", "Mean", "fastText"),
        ("thesis.7", "DURL", "METEOR"),
        ("thesis.8", "DURL", "METEOR"),
    ]


def test_shares_of_judgements_add_up():
    for table in tables("dexperts"):
        for row in {n.row for n in table.numbers}:
            shares = [n.value for n in table.numbers if n.row == row]
            assert abs(sum(shares) - 1) <= Decimal("0.02"), row
