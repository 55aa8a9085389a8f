from __future__ import annotations

import csv

import polars as pl
import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import load_ratings, load_samples, load_scores, open_samples
from levelfield.io.comparisons import load_comparisons


def test_csv_rows_are_numbered_by_the_line_they_begin_in(read):
    samples = read(
        "out.csv",
        'text,label\r\n"one\nand ""a half"", more",pos\r\n\r\nplain "quotes" within,neg\r\n',
        mapping={"control.sentiment": "label"},
    )
    assert [(s.id, s.text, s.control["sentiment"]) for s in samples] == [
        ("out:2", 'one\nand "a half", more', "pos"),
        ("out:5", 'plain "quotes" within', "neg"),
    ]


def test_unicode_line_breaks_do_not_end_a_row(read):
    assert read("out.csv", "text\na\u2028b\x85c\n")[0].text == "a\u2028b\x85c"


def test_tsv_is_separated_by_tabs(read):
    (sample,) = read("out.TSV", "text\tratings.overall.ann\textra column\na, b\t3\tz\n")
    assert (sample.text, sample.ratings) == ("a, b", {"overall": {"ann": 3.0}})
    assert sample.extra == {"extra column": "z"}


def test_a_byte_order_mark_before_the_header_is_fine(read):
    assert read("out.csv", b"\xef\xbb\xbftext\na\n")[0].text == "a"


def test_a_cell_may_be_longer_than_the_csv_module_likes(read):
    assert len(read("out.csv", f"text\n{'x' * 200_000}\n")[0].text) == 200_000


def test_every_bad_row_is_reported_with_its_line(problems):
    found = problems(
        "bad.csv",
        b"id,text\n"
        b"1,good\n"
        b"2\n"
        b"3,one,two\n"
        b'4,"a "b" c"\n'
        b"5,caf\xe9\n"
        b"6,zero\0\n"
        b"7,a\rb\n"
        b"8,good\n"
        b'9,"open\n'
        b"10,swallowed\n",
    )
    assert [p.partition(": ")[0] for p in found] == [f"bad.csv:{n}" for n in (*range(3, 9), 10)]
    for problem, says in zip(
        found,
        [
            '1 cell, expected 2 as in the header ("id", "text")',
            "3 cells, expected 2",
            "text after the closing quote",
            "not UTF-8: byte 0xe9 at column 6",
            "NUL character",
            "a carriage return outside quotes",
            "is never closed",
        ],
        strict=True,
    ):
        assert says in problem


def test_a_cell_that_never_ends_is_not_read_into_memory(problems, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.TEXT_CHARACTERS", 150_000)
    before = csv.field_size_limit(150_000)
    try:
        (found,) = problems("a.csv", 'text\n"' + "x\n" * 80_000)
    finally:
        csv.field_size_limit(before)
    assert "a cell of more than" in found


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "\nid;text\n1;a\n", "a.csv:2: the header has no comma but a semicolon"),
        ("a.tsv", "id;text\n1;a\n", "--format csv"),
        ("a.csv", "id\ttext\n1\ta\n", "--format tsv"),
        ("a.tsv", "id,text\n1,a\n", "--format csv"),
        ("a.csv", "text,text\na,b\n", 'a.csv:1: the header names "text" more than once'),
        ("a.csv", "text\n", "no samples in a.csv"),
        ("a.csv", "", "no samples in a.csv"),
        ("a.csv", 'te"xt\n"', "a.csv:2: the quote"),
        ("a.csv", b"\xff\ntext\na\n", "a.csv:1: not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_whole_table_is_one_problem(problems, name, content, problem):
    (found,) = problems(name, content)
    assert problem in found


def test_a_table_of_a_spreadsheet_with_decimal_commas_is_read(read):
    content = '\ufeffid;text;note\r\n1;"A cat sat; then\r\nit slept, long.";3,5\r\n'
    (sample,) = read("a.csv", content)
    assert (sample.id, sample.text) == ("1", "A cat sat; then\r\nit slept, long.")
    assert sample.extra == {"note": "3,5"}


def test_a_comma_in_the_header_separates_whatever_else_is_there(read):
    (sample,) = read("a.csv", "id,text,a;b\n1,x,2\n")
    assert sample.extra == {"a;b": "2"}


def test_a_spreadsheet_is_to_be_saved_as_csv(write):
    with pytest.raises(UserError, match=r"a.xlsx: a spreadsheet; save it as CSV in UTF-8$"):
        open_samples([write("a.xlsx", b"PK")])
    with pytest.raises(UserError, match=r"a.xlsx: a spreadsheet; save it as CSV in UTF-8$"):
        load_scores([write("a.xlsx", b"PK")])


@pytest.mark.parametrize("number", ["3,5", "-1,25", "1.234,5", "1,234"])
def test_a_number_with_a_comma_is_refused_with_how_it_is_written(problems, number):
    (found,) = problems("a.csv", f"id;text;ratings.q\n1;a;{number}\n")
    assert found.endswith("with a point, as in 3.5, and thousands without a separator")


def test_a_table_without_text_is_one_problem_and_not_one_a_row(problems):
    (found,) = problems("a.csv", "id,output\n1,a\n2,b\n3,c\n")
    assert found == (
        'a.csv: text: missing; the fields are "id", "output"; '
        "name yours, for example --map text=output"
    )


ODD = "Nr;Model Name;Input Text;Generated Output;Target Label;Gold\n1;m;Once;Once more.;1;x\n"


def test_columns_are_guessed_by_names_and_values(problems):
    (found,) = problems("a.csv", ODD)
    assert found.endswith(
        "for example --map 'text=Generated Output' --map 'system=Model Name' "
        "--map references=Gold --map 'prompt=Input Text'"
    )


def test_a_column_with_which_no_text_begins_is_a_source(problems):
    (found,) = problems("a.csv", ODD.replace(";Once;", ";Twice;"))
    assert "--map 'source=Input Text'" in found


def test_labels_that_a_file_numbers_get_names(write):
    mapping = {"text": "Generated Output", "control.sentiment": "Target Label", "id": "Nr"}
    table = write("a.csv", ODD + "2;m;Once;Twice.;0;y\n")
    samples = load_samples(table, mapping=mapping, label_names={"1": "positive"})
    assert [s.control["sentiment"] for s in samples] == ["positive", "0"]


@pytest.mark.parametrize("label", ["1", '["1", "2"]', '"1"'])
def test_labels_of_json_get_names(write, label):
    record = f'{{"id": "1", "text": "x", "control": {{"sentiment": {label}}}}}\n'
    (sample,) = load_samples(write("a.jsonl", record), label_names={"1": "positive"})
    wanted = ("positive", "2") if "[" in label else "positive"
    assert sample.control == {"sentiment": wanted}


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [1, 2],
            "text": ["a", "b"],
            "references": [["x", "y"], None],
            "control": [
                {"sentiment": "positive", "topic": None},
                {"sentiment": None, "topic": "t"},
            ],
            "ratings.coherence": [[1.0, None, float("nan")], [2.0, 3.0, 4.0]],
            "seed": [None, 3],
            "when": [None, "today"],
        }
    )


def test_parquet_columns_may_be_lists_and_structs(tmp_path, frame):
    frame.write_parquet(tmp_path / "out[1]*.parquet")
    first, second = load_samples(tmp_path / "out[1]*.parquet")
    assert (first.id, first.references, first.control) == (
        "1",
        ("x", "y"),
        {"sentiment": "positive"},
    )
    assert first.ratings == {"coherence": {"1": 1.0}}
    assert first.seed is None
    assert (second.references, second.control, second.seed) == ((), {"topic": "t"}, 3)
    assert second.extra == {"when": "today"}


def test_parquet_is_read_in_slices(tmp_path, monkeypatch):
    monkeypatch.setattr("levelfield.io.formats.table.SLICE", 3)
    for n in (1, 2, 3, 4, 6, 7):
        pl.DataFrame({"text": [str(i) for i in range(n)]}).write_parquet(tmp_path / "a.parquet")
        samples = load_samples(tmp_path / "a.parquet")
        assert [(s.id, s.text) for s in samples] == [(f"a:{i + 1}", str(i)) for i in range(n)]


def test_rows_of_parquet_are_named_as_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": ["a", None], "seed": [1.5, 2.0]}).write_parquet(path)
    with pytest.raises(InputError) as caught:
        open_samples([path]).check()
    assert [p.removeprefix(str(path))[:11] for p in caught.value.problems] == [
        ":row 1: see",
        ":row 2: tex",
    ]


def test_numbers_in_parquet_are_no_texts_but_one_problem_each(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [1, 2], "b": [b"x", None]}).write_parquet(path)
    with pytest.raises(InputError, match="found the number 2"):
        load_samples(path)


@pytest.mark.parametrize("damage", [b"", b"no parquet at all", None])
def test_unreadable_parquet_is_one_line(problems, tmp_path, damage):
    if damage is None:
        pl.DataFrame({"text": ["a" * 100] * 5_000}).write_parquet(tmp_path / "whole.parquet")
        whole = (tmp_path / "whole.parquet").read_bytes()
        damage = whole[:10] + b"x" * 30 + whole[40:]
    (found,) = problems("a.parquet", damage)
    assert found.startswith("a.parquet: can't be read as Parquet")


BLANK = "prompt,text\np0,The lake.\n,\n , \np1,A day.\n,\n"


def test_rows_of_empty_cells_are_no_texts_and_are_counted(write):
    source = open_samples([write("a.csv", BLANK)])
    assert source.check().n == 2
    assert [sample.id for sample in source] == ["a:2", "a:5"]
    assert source.notes == ("a.csv: rows of empty cells are left out: 3",)


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_rows_of_empty_cells_are_left_out_of_every_table(write, name):
    rows = {"prompt": ["p0", None, "p1"], "text": ["The lake.", None, "A day."]}
    frame = pl.DataFrame(rows)
    write(name, "")
    if name == "a.tsv":
        frame.write_csv(name, separator="\t")
    else:
        frame.write_parquet(name)
    assert [s.prompt for s in load_samples(name)] == ["p0", "p1"]
    for library in (frame, frame.to_pandas()):
        assert [s.prompt for s in load_samples(library)] == ["p0", "p1"]


def test_a_text_may_be_empty_where_a_row_says_something(read):
    assert [s.text for s in read("a.csv", 'text\n""\nA day.\n')] == ["", "A day."]
    assert [s.text for s in read("b.csv", "prompt,text\np0,\n")] == [""]
    assert [s.text for s in read("c.txt", "\nA day.\n")] == ["", "A day."]


def test_a_table_of_empty_rows_holds_nothing(problems):
    assert problems("a.csv", "prompt,text\n,\n") == [
        "no samples in a.csv; is it the file you mean?"
    ]


def test_rows_of_empty_cells_are_no_ratings_scores_or_choices(write):
    rated = load_ratings(write("r.csv", "id,aspect,rater,value\n1,q,a,3\n,,,\n2,q,a,4\n"))
    assert [r.value for r in rated.ratings] == [3, 4]
    assert rated.notes == ("r.csv: rows of empty cells are left out: 1",)
    (column,) = load_scores(write("s.csv", "id,metric.m\n1,0.5\n,\n"))
    assert column.values == {"1": 0.5}
    choices = load_comparisons(write("c.csv", "a,b,better\nx,y,a\n,,\n"), {})
    assert len(choices) == 1
