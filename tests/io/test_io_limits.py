"""What is read has limits that are said, and no file keeps a reader waiting for ever."""

from __future__ import annotations

import csv
import json
import os
import threading
from pathlib import Path

import polars as pl
import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import load_ratings, load_samples, open_samples
from levelfield.io.corpus import corpus_texts
from levelfield.io.outputs import OutputTarget, check_targets
from levelfield.io.toml import read_toml
from levelfield.io.writing import atomic_writer

LONG = {"id": "1", "text": "short"}, {"id": "2", "text": "x" * 1_001}


@pytest.fixture
def small(monkeypatch):
    """Limits that a test reaches quickly."""
    monkeypatch.setattr("levelfield.core.limits.TEXT_CHARACTERS", 1_000)
    monkeypatch.setattr("levelfield.core.limits.LIST_BYTES", 5_000)
    monkeypatch.setattr("levelfield.core.limits.LINE_BYTES", 3_000)
    monkeypatch.setattr("levelfield.core.limits.STREAM_BYTES", 5_000)
    monkeypatch.setattr("levelfield.core.limits.TOML_BYTES", 100)
    monkeypatch.setattr("levelfield.core.limits.PIPE_WAIT_S", 0.05)


def content(suffix: str) -> bytes:
    """Two samples, the second of which has a long text."""
    match suffix:
        case "json":
            return json.dumps(LONG).encode()
        case "jsonl":
            return "\n".join(map(json.dumps, LONG)).encode()
        case "csv":
            return "\n".join(["id,text", *(f"{r['id']},{r['text']}" for r in LONG)]).encode()
        case "txt":
            return "\n".join(r["text"] for r in LONG).encode()
    pl.DataFrame(LONG).write_parquet("long.parquet")
    return Path("long.parquet").read_bytes()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("suffix", "place"),
    [("jsonl", "2"), ("json", "item 2"), ("csv", "3"), ("txt", "2"), ("parquet", "row 2")],
)
def test_a_text_that_is_too_long_is_named_in_every_format(problems, tmp_path, suffix, place):
    os.chdir(tmp_path)

    assert problems(f"a.{suffix}", content(suffix)) == [
        f"a.{suffix}:{place}: text: a text of 1,001 characters; at most 1,000 are read; split it"
    ]


@pytest.mark.usefixtures("small")
def test_samples_in_memory_have_the_same_limit():
    with pytest.raises(InputError, match=r"item 2: text: a text of 1,001 characters"):
        load_samples(list(LONG))


@pytest.mark.usefixtures("small")
def test_a_list_that_is_parsed_whole_has_a_limit(problems):
    for indent in (None, 1):
        (found,) = problems("a.json", json.dumps([{"text": "x" * 500}] * 20, indent=indent))
        assert found == (
            "a.json: a list of more than 5,000 bytes, too long to be read at once; write one "
            "object a line, as .jsonl"
        )


@pytest.mark.usefixtures("small")
def test_many_cells_of_one_row_are_not_read_into_memory(problems):
    before = csv.field_size_limit()
    found = problems("a.csv", "text,b\n" + '"' + "x\n" * 2_000)
    assert found == ["a.csv:2: a row of more than 3,000 characters; is a quote left open?"]
    assert csv.field_size_limit() >= before


def test_slices_of_parquet_have_few_rows_where_rows_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr("levelfield.io.formats.table.SLICE_BYTES", 10_000)
    asked = []
    slice_of = pl.LazyFrame.slice

    def spy(frame: pl.LazyFrame, start: int, rows: int) -> pl.LazyFrame:
        asked.append(rows)
        return slice_of(frame, start, rows)

    monkeypatch.setattr(pl.LazyFrame, "slice", spy)
    texts = [f"{n} " * 500 for n in range(100)]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "a.parquet")

    assert [s.text for s in load_samples(tmp_path / "a.parquet")] == texts
    assert max(asked) <= 16
    assert sum(rows * 1_000 > 10_000 for rows in asked) <= 2  # check and reading begin at 16


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    return path


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "read",
    [
        lambda path: load_samples(path),
        lambda path: load_ratings(path),
        lambda path: read_toml(path),
        lambda path: list(corpus_texts([path])),
        lambda path: list(corpus_texts([path.rename(path.with_suffix(".text"))])),
    ],
)
def test_a_named_pipe_that_nobody_writes_to_is_said(pipe, read):
    before = threading.active_count()
    with pytest.raises(UserError) as caught:
        read(pipe)
    assert "a named pipe that no program writes to (waited 0.05 s)" in str(caught.value)
    assert threading.active_count() == before


@pytest.mark.usefixtures("small")
def test_a_named_pipe_that_nobody_reads_is_said(pipe):
    before = threading.active_count()
    with (
        pytest.raises(UserError, match=r"a named pipe that no program reads from \(waited 0.05 s"),
        atomic_writer(pipe),
    ):
        pass
    assert threading.active_count() == before


@pytest.mark.usefixtures("small")
def test_what_a_command_may_write_over_is_seen_without_waiting_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "study.toml")
    check_targets([OutputTarget("--out", str(tmp_path / "out"))], [str(tmp_path / "study.toml")])


def test_a_named_pipe_with_a_late_writer_is_read(pipe):
    def write() -> None:
        pipe.write_text('{"text": "So."}\n')

    writer = threading.Timer(0.1, write)
    writer.start()
    assert [s.text for s in load_samples(pipe)] == ["So."]
    writer.join()


def test_a_pipe_of_the_shell_is_read():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as writer:
        writer.write('{"text": "So."}\n')
    assert [s.text for s in load_samples(f"/dev/fd/{reading}", format="jsonl")] == ["So."]
    os.close(reading)


@pytest.mark.usefixtures("small")
def test_a_pipe_without_end_does_not_fill_the_disk():
    with pytest.raises(
        UserError, match="stream of more than 5,000 bytes; write it to a file first"
    ):
        open_samples(["/dev/zero"], format="text").check()


@pytest.mark.usefixtures("small")
def test_a_toml_file_has_a_limit(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("a = 1\n" + "#" * 100)
    with pytest.raises(UserError, match="can't be read: more than 100 bytes"):
        read_toml(file)
