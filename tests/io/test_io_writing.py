from __future__ import annotations

import errno
import io
import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield.io import atomic_writer
from levelfield.io.writing import check_writable, file_replacement, folder_replacement


def test_the_file_is_there_when_all_is_written(tmp_path):
    path = tmp_path / "scores.jsonl"
    with atomic_writer(path) as file:
        file.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt, SystemExit])
def test_any_exception_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "scores.jsonl"
    path.write_text("old")

    def write_half():
        with atomic_writer(path) as file:
            file.write("new")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_the_old_file_or_the_usual(tmp_path):
    old, new, plain = (tmp_path / name for name in ("old", "new", "plain"))
    old.write_text("")
    old.chmod(0o640)
    plain.write_text("")
    for path in (old, new):
        with atomic_writer(path):
            pass
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == plain.stat().st_mode


def test_a_private_file_is_its_owner_s_alone_from_the_first_byte(tmp_path):
    old, new = (tmp_path / name for name in ("old", "new"))
    old.write_text("")
    old.chmod(0o644)
    for path in (old, new):
        with atomic_writer(path, private=True) as file:
            file.write("secret")
            file.flush()
            written = [p for p in tmp_path.iterdir() if p.stat().st_size]
            assert {stat.S_IMODE(p.stat().st_mode) for p in written} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (old, new)} == {0o600}


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with atomic_writer(link) as file:
        file.write("a")
    assert link.is_symlink()
    assert target.read_text() == "a"


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ("x" * 255)
    with atomic_writer(path) as file:
        file.write("a")
    assert path.read_text() == "a"


def test_a_device_is_written_as_it_is():
    with atomic_writer(os.devnull) as file:
        file.write("a")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no names of descriptors here")
def test_an_open_pipe_is_written_under_the_name_of_its_descriptor():
    reader, writer = os.pipe()
    try:
        name = f"/dev/fd/{writer}"
        check_writable(name)
        with atomic_writer(name) as file:
            file.write("whole\n")
        assert os.read(reader, 100) == b"whole\n"
    finally:
        os.close(reader)
        os.close(writer)


def test_half_a_character_becomes_an_escape_that_json_reads_back(tmp_path):
    path = tmp_path / "a.jsonl"
    with atomic_writer(path) as file:
        json.dump("a\ud800", file, ensure_ascii=False)
    assert json.loads(path.read_text()) == "a\ud800"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none/a.jsonl", "there is no folder"),
        ("file/a.jsonl", "there is no folder"),
        (".", "is a folder"),
        ("", "is a folder"),
        ("a\0b", "can't be written: embedded null byte"),
        ("x" * 300, "can't be written: File name too long"),
    ],
)
def test_a_place_that_can_not_be_written_is_the_users_mistake(tmp_path, monkeypatch, name, problem):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(UserError, match=problem), atomic_writer(name):
        pytest.fail("nothing may be computed for a file that can't be written")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_file_or_folder_that_may_not_be_written_is_respected(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UserError, match="is not writable"), atomic_writer(path):
        pass
    monkeypatch.undo()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match="can't be written: Permission denied"), atomic_writer(path):
        pass


def test_a_full_disk_is_one_line(tmp_path):
    with pytest.raises(UserError, match="No space left"), atomic_writer(tmp_path / "a"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


def test_a_minus_is_standard_output_in_utf8_whatever_the_locale(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    sys.stdout.write("before ")
    with atomic_writer("-") as file:
        file.write("é\n")
    print("after")
    sys.stdout.flush()
    assert raw.getvalue() == b"before \xc3\xa9\nafter\n"


def test_standard_output_may_be_any_text_stream(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with atomic_writer("-") as file:
        file.write("a")
    assert sys.stdout.getvalue() == "a"


def test_a_file_is_replaced_with_its_permissions_or_not_at_all(tmp_path):
    target = tmp_path / "kept.bin"
    target.write_bytes(b"old")
    target.chmod(0o640)
    with suppress(KeyboardInterrupt), file_replacement(target) as path:
        path.write_bytes(b"ne")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"old"
    with file_replacement(target) as path:
        path.write_bytes(b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_takes_the_place_of_nothing_or_of_an_empty_one(tmp_path):
    target = tmp_path / "made"
    for content in ("first", "second"):
        with suppress(KeyboardInterrupt), folder_replacement(target) as folder:
            raise KeyboardInterrupt
        with folder_replacement(target) as folder:
            assert folder.name == "made"
            (folder / "file").write_text(content)
        assert (target / "file").read_text() == content
        (target / "file").unlink()
    (target / "file").write_text("mine")
    with pytest.raises(OSError), folder_replacement(target):  # noqa: PT011
        pass
    assert (target / "file").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [target]
