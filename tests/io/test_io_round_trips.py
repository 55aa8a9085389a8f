from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import InputError
from levelfield.core.sample import Sample
from levelfield.io import as_record, load_samples

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
others = st.none() | st.integers() | words
numbers = st.floats(-1e100, 1e100)


def samples(strings=words):
    named = strings.filter(bool)
    return st.lists(
        st.builds(
            Sample,
            id=named,
            text=strings,
            prompt=strings,
            source=strings,
            references=st.lists(strings, max_size=3).map(tuple),
            context=st.lists(strings, max_size=3).map(tuple),
            control=st.dictionaries(
                named,
                named | st.lists(strings, min_size=1, max_size=3).map(tuple),
                max_size=3,
            ),
            system=named,
            dataset=strings,
            seed=st.none() | st.integers(),
            ratings=st.dictionaries(
                named, st.dictionaries(strings, numbers, min_size=1, max_size=3), max_size=2
            ),
            extra=st.dictionaries(strings, others, max_size=3),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda s: s.id,
    )


@given(samples())
def test_samples_come_back_from_jsonl(given):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl")
        lines = [json.dumps(as_record(s), ensure_ascii=i % 2 == 0) for i, s in enumerate(given)]
        path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
        assert load_samples(path) == given


@given(samples())
def test_samples_come_back_from_a_json_list(given):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        text = json.dumps([as_record(s) for s in given], ensure_ascii=False, indent=1)
        path.write_text(text, encoding="utf-8", newline="\n")
        assert load_samples(path) == given


@given(samples(strings=words.map(lambda s: s.replace("\0", ""))), st.sampled_from([",", "\t"]))
def test_samples_come_back_from_cells(given, separator):
    fields = list(Sample.__dataclass_fields__)[:-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv" if separator == "," else "a.tsv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fields, delimiter=separator)
            writer.writeheader()
            for sample in given:
                record = {k: v for k, v in as_record(sample).items() if k != "extra"}
                for field in ("references", "context", "control", "ratings"):
                    if field in record:
                        record[field] = json.dumps(record[field])
                writer.writerow(record)
        assert [as_record(s) for s in load_samples(path)] == [
            {k: v for k, v in as_record(s).items() if k != "extra"} for s in given
        ]


@given(samples())
def test_samples_come_back_from_parquet(given):
    lists = pl.List(pl.String)
    schema = {
        "id": pl.String,
        "text": pl.String,
        "prompt": pl.String,
        "references": lists,
        "context": lists,
        "system": pl.String,
        "ratings.overall": pl.Struct({"ann": pl.Float64, "bo": pl.Float64}),
    }
    rows = [as_record(s) for s in given]
    for row, sample in zip(rows, given, strict=True):
        first = next(iter(sample.ratings.values()), {})
        row["ratings.overall"] = dict(zip(("ann", "bo"), first.values(), strict=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.parquet")
        kept = [{field: row.get(field) for field in schema} for row in rows]
        pl.DataFrame(kept, schema).write_parquet(path)
        back = load_samples(path)
    for sample, row, original in zip(back, rows, given, strict=True):
        for field in ("id", "text", "prompt", "references", "context", "system"):
            assert getattr(sample, field) == getattr(original, field)
        assert sample.ratings.get("overall", {}) == row["ratings.overall"]


@given(
    st.binary(max_size=200), st.sampled_from(["jsonl", "json", "csv", "tsv", "text", "ctrleval"])
)
def test_no_bytes_whatever_make_it_crash(content, format):
    problems: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        path.write_bytes(content)
        try:
            load_samples(path, format=format)
        except InputError as error:
            problems = error.problems
    assert all(problem.isprintable() for problem in problems)
