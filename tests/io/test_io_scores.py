"""Scores of other programs: tables with a column a metric, or one value a row."""

from __future__ import annotations

import hashlib
import json
import math

import polars as pl
import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import load_scores
from levelfield.io import scores as scores_module

WIDE = "sys,seg,BLEURT,comet\na,1,0.5,0.7\na,2,,0.6\nb,1,-1e-2,nan\n"
MAPPING = {"id": "sys+seg", "metric.bleurt": "BLEURT", "metric.comet": "comet"}


def problems(*paths, **options):
    with pytest.raises(InputError) as caught:
        load_scores(list(paths), **options)
    assert all("\n" not in problem for problem in caught.value.problems)
    return list(caught.value.problems)


def test_a_column_a_metric_with_an_id_of_several_columns(write):
    bleurt, comet = load_scores(write("w.csv", WIDE), mapping=MAPPING)
    assert (bleurt.metric, comet.metric) == ("bleurt", "comet")
    assert bleurt.values == {"a/1": 0.5, "a/2": pytest.approx(math.nan, nan_ok=True), "b/1": -0.01}
    assert math.isnan(comet.values["b/1"])
    assert bleurt.elsewhere


def test_the_signature_names_the_file_the_column_and_the_digest(write):
    path = write("w.csv", WIDE)
    bleurt, _ = load_scores(path, mapping=MAPPING)
    digest = hashlib.sha256(WIDE.encode()).hexdigest()[:12]
    assert bleurt.signature == f"elsewhere.bleurt|file:w.csv|column:BLEURT|sha256:{digest}"


def test_one_value_a_row_in_every_format(write):
    rows = [
        {"id": "1", "metric": "bleurt", "value": 0.5},
        {"id": "2", "metric": "bleurt", "value": None},
        {"id": "1", "metric": "comet", "value": 0.25},
    ]
    pl.DataFrame(rows).write_parquet(write("a.parquet", b""))
    tsv = "id\tmetric\tvalue\n1\tbleurt\t0.5\n2\tbleurt\t\n1\tcomet\t0.25\n"
    for path in (
        write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        write("a.json", json.dumps(rows)),
        write("a.tsv", tsv),
        write("a.csv", tsv.replace("\t", ",")),
        "a.parquet",
    ):
        bleurt, comet = load_scores(path)
        assert (bleurt.values["1"], comet.values) == (0.5, {"1": 0.25})
        assert math.isnan(bleurt.values["2"])
        assert bleurt.signature.startswith(f"elsewhere.bleurt|file:{path}|sha256:")
    renamed = write("b.csv", "nr,measure,score\n1,bleurt,0.5\n")
    (bleurt,) = load_scores(renamed, mapping={"id": "nr", "metric": "measure"})
    assert bleurt.values == {"1": 0.5}


def test_columns_that_bear_our_names_need_no_mapping(write):
    (bleurt,) = load_scores(write("a.csv", "id,metric.bleurt\n1,0.5\n"))
    assert (bleurt.metric, bleurt.values) == ("bleurt", {"1": 0.5})


def test_a_table_without_the_names_says_what_to_write(write):
    assert problems(write("w.csv", WIDE)) == [
        'w.csv: no id and no score; the columns are "sys", "seg", "BLEURT", "comet"; expected what '
        "`levelfield score` writes, or name your columns, for example --map id=sys+seg "
        "--map metric.bleurt=BLEURT --map metric.comet=comet"
    ]
    (problem,) = problems("w.csv", mapping={"id": "sys+segment", "metric.c": "comet"})
    assert problem.startswith('w.csv: no id; the columns are "sys", "seg"')
    half = write("half.csv", "id,sys,metric.c\n1,a,0.5\n")
    (problem,) = problems(half, mapping={"id": "sys+seg"})
    assert problem == 'half.csv:2: id: there is no "seg"; the fields are "id", "sys", "metric.c"'


def test_ids_that_are_there_twice_or_missing_are_named(write):
    mapping = {"id": "seg", "metric.c": "comet"}
    (problem,) = problems(write("w.csv", WIDE), mapping=mapping)
    assert problem == (
        'w.csv:4: c of id "1" already has a value at w.csv:2; remove one of them, or combine '
        "several columns into the id, for example --map id=sys+seg"
    )
    gaps = write("gaps.csv", "sys,seg,comet\na,1,0.5\na,,0.5\n")
    assert problems(gaps, mapping={"id": "sys+seg", "metric.c": "comet"}) == [
        'gaps.csv:3: id: "seg" is part of it and empty; fill it in'
    ]
    assert problems(gaps, mapping=mapping) == ["gaps.csv:3: id: is empty; name it"]


def test_what_is_no_number_is_named_with_its_column(write):
    bad = write("bad.csv", "id,metric.c\n1,high\n2,0.5\n")
    (first,) = problems(bad)
    assert first.startswith('bad.csv:2: metric.c: expected a number, found the string "high"')


def test_what_is_too_large_to_be_squared_is_refused(write):
    (first,) = problems(write("large.csv", "id,metric.c\n1,-1e308\n2,1e100\n"))
    assert first.startswith("large.csv:2: metric.c: expected a number, found -1e+308; the largest")


def test_infinite_values_are_read_from_every_format(write):
    jsonl = (
        '{"id":"1","metric":"c","value":"-inf","signature":"c|v:1"}\n'
        '{"id":"2","metric":"c","value":"inf","signature":"c|v:1"}\n'
        '{"id":"3","metric":"c","value":null,"undefined":"empty text","signature":"c|v:1"}\n'
    )
    (ours,) = load_scores(write("ours.jsonl", jsonl))
    (theirs,) = load_scores(write("theirs.csv", "id,metric.c\n1,-inf\n2,inf\n3,\n"))
    for column in (ours, theirs):
        assert list(column.values.values())[:2] == [-math.inf, math.inf]
        assert math.isnan(column.values["3"])
    (problem,) = problems(write("bad.jsonl", jsonl.replace('"inf"', '"high"')))
    assert problem.startswith("bad.jsonl:2: value: expected a number")


def test_a_mapping_that_no_scores_have_is_reported(write):
    path = write("w.csv", WIDE)
    with pytest.raises(UserError, match='no scores have "ter"; the columns are "sys", "seg"'):
        load_scores(path, mapping=MAPPING | {"metric.ter": "ter"})
    with pytest.raises(UserError, match="scores have no such field; there are id, metric, score"):
        load_scores(path, mapping={"text": "sys"})


def test_scores_inside_objects_are_suggested_with_their_path(write):
    row = {"system": "a", "segment": 1, "scores": {"bleurt": 0.5}}
    (problem,) = problems(write("a.jsonl", json.dumps(row) + "\n"))
    assert problem.endswith("--map id=system+segment --map metric.bleurt=scores.bleurt")
    mapping = {"id": "system+segment", "metric.bleurt": "scores.bleurt"}
    assert load_scores("a.jsonl", mapping=mapping)[0].values == {"a/1": 0.5}


def test_a_table_of_one_value_a_row_is_guessed_as_such(write):
    path = write("long.csv", "system,segment,metric,val\na,1,bleu,0.5\n")
    (problem,) = problems(path, mapping={"id": "system+segment"})
    assert problem.endswith("for example --map id=system+segment --map score=val")
    (bleu,) = load_scores(path, mapping={"id": "system+segment", "score": "val"})
    assert bleu.values == {"a/1": 0.5}


def test_plain_records_are_read_as_all_others(tmp_path, monkeypatch):
    value = {"id": "1", "metric": "m", "value": 0.5, "signature": "m|v:1"}
    file = tmp_path / "scores.jsonl"

    def read(**changed):
        records = [value, {**value, "id": "2", "value": 1}, {**value, "id": "é"}]
        records.append({**value, "id": "4", **changed})
        file.write_text("\n".join(map(json.dumps, records)))
        try:
            return [(c.signature, dict(c.values)) for c in load_scores([file])]
        except InputError as error:
            return str(error)

    cases = (
        {}, {"id": 4}, {"id": ""}, {"id": "1"}, {"id": None}, {"metric": "n"}, {"metric": 3},
        {"metric": []}, {"signature": "m|v:2"}, {"value": True}, {"value": None}, {"value": "1"},
        {"value": "inf"}, {"value": 1e300}, {"value": 10**400}, {"value": -0.0}, {"more": 1},
    )  # fmt: skip
    quick = [repr(read(**case)) for case in cases]
    monkeypatch.setattr(scores_module._ScoreReader, "_add_next", lambda *_: False)
    assert quick == [repr(read(**case)) for case in cases]
