"""Members of zip files are read whatever packed them, or refused with what to do."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.io.archive import Archive, ArchiveError, without_zstandard
from zip_members import write_zip, zstandard

DOCUMENT = {"text": 'a "quote", a\ttab\nand a line\r', "signs": "é☃ \x01", "list": [1, None, ""]}


@pytest.mark.parametrize("indent", [None, 2])
def test_members_that_zstandard_packed_are_read(tmp_path: Path, indent: int | None):
    content = json.dumps(DOCUMENT, ensure_ascii=indent is None, indent=indent).encode()
    path = write_zip(tmp_path / "a.zip", {"one.json": content, "two.json": b"[]"})
    with Archive(path) as archive:
        assert archive.names == ("one.json", "two.json")
        assert json.loads(archive.read("one.json")) == DOCUMENT
        assert json.loads(archive.read(1)) == []


@given(st.recursive(st.text() | st.integers(), st.lists, max_leaves=5), st.sampled_from([None, 2]))
def test_a_json_document_comes_out_of_zstandard_as_it_went_in(value: object, indent: int | None):
    content = json.dumps(value, ensure_ascii=False, indent=indent)
    assert json.loads(
        without_zstandard(zstandard(content.encode("utf-8", "replace")))
    ) == json.loads(content.encode("utf-8", "replace"))


def test_what_real_compressors_write_is_read():
    arrow = pytest.importorskip("pyarrow")
    content = json.dumps([DOCUMENT] * 5_000, indent=2).encode()
    packed = arrow.compress(content, codec="zstd", asbytes=True)
    assert len(packed) < len(content) / 10
    assert json.loads(without_zstandard(packed)) == [DOCUMENT] * 5_000


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_last_member_of_a_name_counts_and_all_are_there_by_place(tmp_path: Path, method: int):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("a", "2")
    with Archive(path) as archive:
        assert (archive.read("a"), archive.read(0), archive.read(1)) == (b"2", b"1", b"2")
        assert "a" in archive
        assert "b" not in archive


def test_what_is_no_zip_file_is_refused(tmp_path: Path):
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ArchiveError, match="not a whole zip file"):
        Archive(path)
    write_zip(path, {"one.json": b"abc"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 151
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"not a whole zip file: zip file version 15\.1"):
        Archive(path)


def test_an_unknown_method_and_damage_are_refused_with_the_member_s_name(tmp_path: Path):
    path = write_zip(tmp_path / "a.zip", {"one.json": b"abc"}, method=97)
    with (
        Archive(path) as archive,
        pytest.raises(ArchiveError, match=r"one\.json: unsupported compression method 97"),
    ):
        archive.read(0)
    path = write_zip(tmp_path / "b.zip", {"one.json": b'{"a": 1}' * 100})
    path.write_bytes(path.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe", 1))
    with Archive(path) as archive, pytest.raises(ArchiveError, match=r"one\.json: "):
        json.loads(archive.read(0))


def test_a_member_longer_than_the_limit_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("levelfield.io.archive.LIST_BYTES", 10)
    path = write_zip(tmp_path / "a.zip", {"one.json": b"x" * 11, "two.json": b"x" * 5})
    with (
        Archive(path) as archive,
        pytest.raises(ArchiveError, match=r"one\.json: more than 10 bytes"),
    ):
        archive.read(0)
