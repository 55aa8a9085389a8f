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
    monkeypatch.setattr("levelfield.core.limits.LIST_BYTES", 10)
    path = write_zip(tmp_path / "a.zip", {"one.json": b"x" * 11, "two.json": b"x" * 5})
    with (
        Archive(path) as archive,
        pytest.raises(ArchiveError, match=r"one\.json: more than 10 bytes"),
    ):
        archive.read(0)


def bomb(blocks: int) -> bytes:
    """A frame of Zstandard whose blocks repeat a line end, 128 KiB each."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00\x58"
    block = (1 << 1 | (1 << 17) << 3).to_bytes(3, "little") + b"\n"
    last = (1 | 1 << 1 | 1 << 3).to_bytes(3, "little") + b"\n"
    return header + block * blocks + last


def test_what_would_unpack_to_gigabytes_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    packed = bomb(40_000)
    assert len(packed) < 200_000
    with pytest.raises(ValueError, match="may unpack to more than 268,435,456 bytes"):
        without_zstandard(packed)
    monkeypatch.setattr("zip_members.zstandard", lambda _: packed)
    path = write_zip(tmp_path / "a.zip", {"one.json": b"{}"})
    with (
        Archive(path) as archive,
        pytest.raises(ArchiveError, match=r"one\.json: may unpack to more than"),
    ):
        archive.read(0)
    assert without_zstandard(bomb(2)) == b"\n" * (1 << 18)


def test_a_changed_byte_that_zstandard_doesn_t_notice_is_damage(tmp_path: Path):
    path = write_zip(tmp_path / "a.zip", {"one.json": b'{"value": "C"}'})
    path.write_bytes(path.read_bytes().replace(b'"C"', b'"I"', 1))
    with (
        Archive(path) as archive,
        pytest.raises(ArchiveError, match=r"one\.json: damaged: its length or checksum"),
    ):
        archive.read(0)


def test_a_member_shorter_or_longer_than_its_directory_states_is_damage(tmp_path, monkeypatch):
    for content in (b"[1]", b"[1, 2, 3]"):
        monkeypatch.setattr("zip_members.zstandard", lambda _, content=content: zstandard(content))
        path = write_zip(tmp_path / "a.zip", {"one.json": b"[1, 2]"})
        with Archive(path) as archive, pytest.raises(ArchiveError, match="damaged: its length"):
            archive.read(0)


@pytest.mark.parametrize(
    "content", [b"[1]\n", b"[1,\n2]\n", b"[1,\r\n2]\r\n", b"[\r\n]", b"\xef\xbb\xbf[1]", b"", b"\n"]
)
def test_line_ends_and_marks_that_the_reader_drops_are_there_again(tmp_path: Path, content: bytes):
    path = write_zip(tmp_path / "a.zip", {"one.json": content})
    with Archive(path) as archive:
        assert archive.read(0) == content


def test_a_frame_that_is_cut_off_or_is_none_is_damage():
    whole = zstandard(b"[1, 2]")
    for end in range(1, len(whole)):
        with pytest.raises(ValueError, match="damaged"):
            without_zstandard(whole[:end])
    with pytest.raises(ValueError, match="damaged: not a frame"):
        without_zstandard(b"[1, 2]")


def test_a_deflated_member_is_unpacked_no_further_than_its_directory_states(tmp_path: Path):
    import tracemalloc

    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("one.json", b" " * 20_000_000)
    stated = (20_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(stated, (10).to_bytes(4, "little")))
    tracemalloc.start()
    with Archive(path) as archive, pytest.raises(ArchiveError, match=r"one\.json: damaged"):
        archive.read(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
