"""Texts of a corpus are what the files say, whatever they come in; ids among them mean nothing."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.io import open_samples
from levelfield.io.corpus import corpus_texts

TEXTS = ["It rained.", "", "Ça va 🙂\u2028still one", "It rained."]
LINES = "".join(f"{text}\n" for text in TEXTS).encode()
RECORDS = "".join(json.dumps({"id": "same", "text": text}) + "\n" for text in TEXTS).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.txt", LINES),
        ("c", LINES.removesuffix(b"\n")),
        ("C.TXT", LINES.replace(b"\n", b"\r\n")),
        ("c.txt", b"\xef\xbb\xbf" + LINES),
        ("c.txt.gz", gzip.compress(b"\xef\xbb\xbf" + LINES, mtime=0)),
        ("C.GZ", gzip.compress(LINES, mtime=0)),
        ("c.v1.xz", lzma.compress(LINES)),
        ("c.jsonl", RECORDS),
        ("C.NDJSON", b"\xef\xbb\xbf" + RECORDS),
        ("c.json", json.dumps([{"id": 1, "text": text} for text in TEXTS]).encode()),
        ("c.csv", b"id,text\n" + b"".join(b'1,"%s"\n' % text.encode() for text in TEXTS)),
    ],
)
def test_every_kind_of_file_gives_the_same_texts_and_tells_of_all_its_bytes(write, name, content):
    read = []
    assert list(corpus_texts([write(name, content)], read.append)) == TEXTS
    assert sum(read) == Path(name).stat().st_size


def test_files_are_read_one_after_the_other_and_one_of_them_twice_if_asked(write):
    files = [write("a.jsonl", RECORDS), write("b.txt", "It stopped.\n"), "a.jsonl"]
    assert list(corpus_texts(files)) == [*TEXTS, "It stopped.", *TEXTS]
    assert list(corpus_texts([])) == []


def test_only_one_line_end_is_no_part_of_a_line(write):
    assert list(corpus_texts([write("c.txt", b"one\r\r\n \rtwo \n")])) == ["one\r", " \rtwo "]


@given(
    texts=st.lists(
        st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"])),
        max_size=8,
    )
)
def test_lines_come_back_as_they_were_written(tmp_path_factory, texts):
    file = tmp_path_factory.mktemp("corpus") / "c.txt.gz"
    file.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    assert list(corpus_texts([file])) == texts


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "c.jsonl.gz",
            gzip.compress(RECORDS, mtime=0),
            r"c.jsonl.gz: packed .jsonl files .* unpack it",
        ),
        ("c.CSV.XZ", lzma.compress(b"text\na\n"), r"packed .csv files .* unpack it"),
        ("c.txt.bz2", b"", r"\.bz2 files are not supported; unpack it"),
        ("c.txt", b"one\ntwo caf\xe9\n", r"c.txt:2: not UTF-8: byte 0xe9 at column 8"),
        ("c.txt", "one\n".encode("utf-16"), r"c.txt: the file is UTF-16"),
        ("c", b"one\0\n", "c:1: NUL"),
        ("c.jsonl", b'{"text": "a"}\n{\n', "c.jsonl:2: not JSON"),
        ("c.jsonl", b'{"words": "a"}\n', "c.jsonl:1: text: missing"),
        ("c.gz", gzip.compress(LINES, mtime=0)[:-9], "c.gz: can't be read: "),
        ("c.xz", b"no xz", "c.xz: can't be read: "),
    ],
)
def test_what_can_not_be_read_is_named_with_its_place(write, name, content, said):
    with pytest.raises(UserError, match=said) as caught:
        list(corpus_texts([write(name, content)]))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_and_a_folder_are_named(tmp_path):
    for name in ("missing", "missing.jsonl", "."):
        with pytest.raises(UserError, match=f"{name}: "):
            list(corpus_texts([tmp_path / name]))


def test_what_can_be_read_only_once_is_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(LINES,))
    writer.start()
    assert list(corpus_texts([tmp_path / "pipe"])) == TEXTS
    writer.join()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RECORDS)))
    assert list(corpus_texts(["-"])) == TEXTS


def test_one_path_is_no_list_of_letters_and_a_frame_no_list_of_names(tmp_path):
    path = tmp_path / "c.txt"
    path.write_bytes(LINES)
    assert list(corpus_texts(path)) == list(corpus_texts(str(path))) == TEXTS
    assert list(corpus_texts(pl.DataFrame({"text": TEXTS, "n": range(4)}))) == TEXTS
    with pytest.raises(UserError, match="files: records in memory"):
        open_samples(pl.DataFrame({"text": TEXTS}))
