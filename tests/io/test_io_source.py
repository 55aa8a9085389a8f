from __future__ import annotations

import io
import json
import os
import resource
import threading
import tracemalloc
from pathlib import Path

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import OTHER_LABELS, Census, load_samples, open_samples
from levelfield.io.opening import labels


def test_iterating_reads_the_files_again(write):
    source = open_samples([write("a.jsonl", '{"text": "x"}\n{"text": "y"}\n')])
    assert [s.text for s in source] == [s.text for s in source] == ["x", "y"]
    one, other = iter(source), iter(source)
    assert next(one) == next(other)


def test_iterating_without_a_check_stops_at_the_first_problem(write):
    source = open_samples([write("a.jsonl", '{"text": "x"}\n{}\n{"text": "y"}\n3\n')])
    samples = iter(source)
    assert next(samples).text == "x"
    with pytest.raises(InputError) as caught:
        next(samples)
    assert caught.value.problems[0].startswith("a.jsonl:2: text")
    twice = iter(open_samples([write("b.jsonl", '{"text": "x", "id": 1}\n' * 2)]))
    next(twice)
    with pytest.raises(InputError, match="was used at"):
        next(twice)


LINES = '{"text": "x"}\n{"text": "y"}\n'


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(LINES + '{"text": "z"}\n'),
        lambda path: path.write_text(LINES[:14]),
        lambda path: path.write_text(""),
        lambda path: path.write_text(LINES + '{"te'),
        lambda path: os.utime(path, ns=(1, 1)),  # as many bytes, others perhaps
        lambda path: path.unlink(),
        lambda path: path.with_name("b").write_text(LINES) and path.with_name("b").replace(path),
    ],
)
def test_a_file_that_changes_between_two_passes_is_an_error(write, change):
    path = Path(write("a.jsonl", LINES))
    source = open_samples([path])
    assert source.check().n == 2
    change(path)
    with pytest.raises(InputError, match=r"^a\.jsonl: changed while it was read"):
        list(source)
    with pytest.raises(InputError, match="changed while it was read"):
        source.check_unchanged()


def test_a_file_that_changes_during_a_check_is_an_error(write, monkeypatch):
    monkeypatch.setattr("levelfield.io.samples.PROGRESS_EVERY", 1)
    path = Path(write("a.jsonl", LINES))
    source = open_samples([path])
    with pytest.raises(InputError, match="changed while it was read"):
        source.check(progress=lambda _: os.utime(path, ns=(1, 1)))


def test_lines_beside_the_texts_may_not_change_either(write):
    source = open_samples([write("a.txt", "x\ny\n")], source_file=write("s.txt", "1\n2\n"))
    source.check()
    write("s.txt", "1\n2\n3\n")
    with pytest.raises(InputError, match="changed while it was read"):
        list(source)


def test_ids_may_repeat_where_they_mean_nothing(write):
    source = open_samples([write("b.jsonl", '{"text": "x", "id": 1}\n' * 2)], ids="any")
    for _ in range(2):
        assert [(s.id, s.text) for s in source] == [("1", "x")] * 2
        assert source.check().n == 2


def test_a_census_counts_what_there_is(write):
    write(
        "gedi.jsonl",
        '{"text": "xy", "prompt": "x", "seed": 0, "control": {"sentiment": "positive"}, "n": 1}\n'
        '{"text": "", "dataset": "d", "seed": 1, "control": {"keywords": ["sea", "sun", "sea"]}}\n',
    )
    write(
        "pplm.csv",
        "text,system,ratings.overall.ann,ratings.overall.bo,control.sentiment\n"
        "long text,other,1,,negative\nb,,2,3,positive\n",
    )
    source = open_samples(["gedi.jsonl", "pplm.csv"])
    census = source.check()
    assert census == Census(
        n=4,
        filled={
            "id": 4,
            "text": 3,
            "prompt": 1,
            "source": 0,
            "references": 0,
            "context": 0,
            "control": 4,
            "system": 4,
            "dataset": 1,
            "seed": 2,
            "ratings": 2,
            "extra": 1,
        },
        files={"gedi.jsonl": 2, "pplm.csv": 2},
        systems={"gedi": 2, "other": 1, "pplm": 1},
        datasets={"d": 1},
        seeds={0: 1, 1: 1},
        control={"sentiment": {"positive": 2, "negative": 1}, "keywords": {"sea": 1, "sun": 1}},
        ratings={"overall": {"ann": 2, "bo": 1}},
        extra={"n": 1},
    )
    assert census.n - census.filled["prompt"] == 3
    assert source.names == ("gedi.jsonl", "pplm.csv")


def test_labels_of_a_free_attribute_do_not_fill_the_memory(write, monkeypatch):
    monkeypatch.setattr("levelfield.io.samples.MOST_LABELS", 3)
    records = [{"text": "a", "control.keywords": f"word {n}"} for n in range(10)]
    lines = "\n".join(map(json.dumps, records))
    counts = open_samples([write("a.jsonl", lines)]).check().control["keywords"]
    assert counts == {"word 0": 1, "word 1": 1, "word 2": 1, OTHER_LABELS: 7}


def test_progress_counts_every_sample_once(write):
    source = open_samples([write("a.txt", "a\n" * 2_500)])
    steps: list[int] = []
    source.check(progress=steps.append)
    assert steps == [1_000, 1_000, 500]


def test_twenty_problems_are_shown_and_all_are_counted(write):
    with pytest.raises(InputError) as caught:
        open_samples([write("a.jsonl", "{}\n" * 70), write("b.jsonl", "3\n" * 5)]).check()
    assert (len(caught.value.problems), caught.value.total) == (20, 75)
    assert str(caught.value).endswith("… and 55 more problems")


def test_one_file_names_no_system_and_several_do(write):
    a, b = write("a.jsonl", '{"text": "x"}'), write("b.jsonl", '{"text": "x", "system": "own"}')
    assert [s.system for s in open_samples([a])] == [""]
    assert [s.system for s in open_samples([a, b])] == ["a", "own"]
    assert [s.system for s in open_samples([a, b], system="s")] == ["s", "own"]


def test_an_id_used_twice_is_named_with_both_places_and_the_mend(write):
    a = write("gedi.jsonl", '{"text": "x", "id": "3"}\n{"text": "x", "id": 4}\n')
    b = write("pplm.jsonl", '\n{"text": "x", "id": 3}\n{"text": "x", "id": "gedi:9"}\n')
    with pytest.raises(InputError) as caught:
        open_samples([a, b]).check()
    assert caught.value.problems == (
        'pplm.jsonl:2: id "3" was used at gedi.jsonl:1; '
        "with --ids file, each id begins with the name of its file",
    )
    samples = list(open_samples([a, b], ids="file"))
    assert [s.id for s in samples] == ["gedi/3", "gedi/4", "pplm/3", "pplm/gedi:9"]
    with pytest.raises(
        InputError, match=r'twice.jsonl:2: id "3" was used at twice.jsonl:1; ids mu'
    ):
        load_samples(write("twice.jsonl", '{"text": "x", "id": 3}\n' * 2))


def test_ids_made_from_the_line_are_compared_too(write):
    with pytest.raises(InputError, match=r'id "a:2" was used at a.jsonl:1'):
        load_samples(write("a.jsonl", '{"text": "x", "id": "a:2"}\n{"text": "y"}\n'))


@pytest.mark.parametrize(
    ("paths", "short"),
    [
        (["x/gedi.v2.jsonl", "pplm.csv"], ["gedi.v2", "pplm"]),
        (["a/out.jsonl", "b/out.jsonl"], ["a/out", "b/out"]),
        (["/r/a/x/out.jsonl", "/r/b/x/out.jsonl"], ["a/x/out", "b/x/out"]),
        (["out.jsonl", "out.csv"], ["out.jsonl", "out.csv"]),
        (["-", "hf:org/set?split=test"], ["stdin", "set"]),
        (["hf:set?split=a", "hf:set?split=b"], ["hf:set?split=a", "hf:set?split=b"]),
    ],
)
def test_files_are_told_apart_by_names_as_short_as_can_be(paths, short):
    assert labels(paths) == short


def test_a_column_that_no_record_has_is_a_problem(write, problems):
    (found,) = problems("a.csv", "id,text\n1,a\n", mapping={"control.sentiment": "lable"})
    assert found == (
        'mapping control.sentiment=lable: no record has "lable"; the fields are "id", "text"'
    )
    (found,) = problems("a.csv", "id,text\n1,a\n", mapping={"text": "output"})
    assert found.startswith("mapping text=output: no record has")
    (found,) = problems("a.csv", "id,out\n1,a\n", mapping={"text": "output"})
    assert found.startswith('a.csv: text: there is no "output"')
    some = write("b.jsonl", '{"text": "a"}\n{"text": "b", "label": "c"}\n')
    assert load_samples(some, mapping={"control.x": "label"})[1].control == {"x": "c"}


def test_everything_wrong_with_the_names_is_told_before_reading(write):
    write("odd.yaml", "")
    write("packed.jsonl.gz", "")
    write("bare", "")
    write("folder/a.jsonl", "")
    with pytest.raises(InputError) as caught:
        open_samples(
            ["none.jsonl", "folder", "odd.yaml", "packed.jsonl.gz", "bare", "a\0b", "x" * 300]
        )
    for problem, says in zip(
        caught.value.problems,
        [
            "none.jsonl: No such file",
            "folder: is a folder; name the files in it",
            'odd.yaml: ".yaml" does not determine the format; name it: --format jsonl|json|csv',
            'packed.jsonl.gz: ".gz" does not determine the format; unpack it first',
            "bare: a name without suffix does not",
            "a\\x00b: not a file name",
            "x" * 300 + ": File name too long",
        ],
        strict=True,
    ):
        assert problem.startswith(says)


def test_options_that_can_not_be_are_refused(write):
    path = write("a.txt", "a\n")
    with pytest.raises(UserError, match='no format "yaml"; there are jsonl'):
        open_samples([path], format="yaml")
    with pytest.raises(UserError, match="ids=stem: expected given, file or any"):
        open_samples([path], ids="stem")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no files are given"):
        open_samples([])
    with pytest.raises(InputError, match="given 2 times"):
        open_samples([path, f"./{path}"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_problem(write):
    Path(write("a.txt", "a")).chmod(0)
    with pytest.raises(InputError, match="is not readable"):
        open_samples(["a.txt"])


def test_a_file_that_goes_away_is_a_problem_of_that_file(write):
    source = open_samples([write("a.txt", "a\n"), write("b.txt", "b\n")])
    Path("a.txt").unlink()
    with pytest.raises(InputError, match=r"a.txt: can't be read: No such file"):
        source.check()


def test_a_format_given_goes_before_the_suffix(read):
    assert read("a.log", '{"text": "a"}', format="jsonl")[0].id == "a:1"


def test_standard_input_is_kept_to_be_read_twice(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n{"text": "b"}\n'))
    monkeypatch.setattr("sys.stdin", stdin)
    source = open_samples(["-"])
    assert source.check().n == 2
    assert [s.id for s in source] == ["stdin:1", "stdin:2"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(InputError, match=r"^stdin:1: not UTF-8"):
        load_samples("-", format="text")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UserError, match="standard input is closed"):
        load_samples("-")


def test_a_pipe_is_kept_to_be_read_twice(tmp_path):
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a\nb\n"))
    writer.start()
    source = open_samples([pipe])
    assert source.check().n == 2
    assert [s.text for s in source] == ["a", "b"]
    writer.join()


def test_the_temporary_copy_goes_away_with_the_source(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    source = open_samples(["-"], format="text")
    assert len(list(source)) == 1
    assert list(tmp_path.iterdir())
    del source
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_texts_of_a_long_file_are_never_in_memory_together(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        for n in range(200_000):
            file.write(f'{{"text": "{"some words " * 20}{n}", "control": {{"a": "b"}}}}\n')
    source = open_samples([path])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert source.check().n == 200_000
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert used < 40, f"{used:.0f} MiB to check a file of {path.stat().st_size >> 20} MiB"
    tracemalloc.start()
    for sample, _ in zip(source, range(5_000), strict=False):
        assert sample.text
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
