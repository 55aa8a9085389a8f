from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from levelfield.io import writing
from levelfield.io.samples import Spool
from levelfield.io.writing import clear, temporary_file, temporary_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="looks at locks")

BOTH = pytest.mark.parametrize("make", [temporary_file, temporary_folder])
CHILD = """
import sys
from pathlib import Path
from levelfield.io.writing import temporary_file, temporary_folder
with temporary_file(Path(sys.argv[1])), temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "input").write_text("secret")
    print("there", flush=True)
    sys.stdin.read()
"""


@BOTH
def test_it_goes_at_the_end_and_when_something_is_raised(tmp_path, make):
    with make(tmp_path) as path:
        assert path.parent == tmp_path
        assert path.exists()
    with pytest.raises(KeyboardInterrupt), make(tmp_path):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.kill
def test_what_a_killed_process_left_goes_with_the_next_and_not_before(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    there = set(tmp_path.iterdir())
    assert len(there) == 2
    with temporary_file(tmp_path) as mine:  # while it lives
        assert set(tmp_path.iterdir()) == {*there, mine}
    process.kill()
    process.communicate()
    assert set(tmp_path.iterdir()) == there
    with temporary_file(tmp_path) as mine:
        assert set(tmp_path.iterdir()) == {mine}


@BOTH
def test_one_that_is_in_use_in_this_process_stays(tmp_path, make):
    with make(tmp_path) as path:
        clear(tmp_path)
        with make(tmp_path) as other:
            assert path.exists()
        assert not other.exists()


def test_what_may_not_be_ours_stays(tmp_path, monkeypatch):
    with temporary_file(tmp_path) as path:
        name = path.name
    names = (".levelfield-0123456789ab.tmp", ".levelfield-00000000-0123456789ab.tmp", "a.tmp")
    for other in names:
        (tmp_path / other).write_text("")
    (tmp_path / "target").write_text("kept")
    (tmp_path / name).symlink_to(tmp_path / "target")
    clear(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names, name, "target"}

    (tmp_path / name).unlink()
    (tmp_path / name).write_text("another user's")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    clear(tmp_path)
    assert (tmp_path / name).exists()


@BOTH
def test_where_there_are_no_locks_nothing_is_cleared(tmp_path, monkeypatch, make):
    with make(tmp_path) as path:
        name = path.name
    (tmp_path / name).write_text("")

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(writing.fcntl, "flock", refuse)
    with make(tmp_path) as path:
        assert path.exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_one_that_is_cleared_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    lock, taken = writing._lock, []

    def lose_once(path: Path) -> int | None:
        if not taken:
            taken.append(path)
            path.unlink()
            raise BlockingIOError
        return lock(path)

    monkeypatch.setattr(writing, "_lock", lose_once)
    with temporary_file(tmp_path) as path:
        assert path.exists()
        assert path != taken[0]


def test_many_threads_make_and_clear_at_once(tmp_path):
    lost = []

    def make_many() -> None:
        for _ in range(40):
            with temporary_file(tmp_path) as path:
                clear(tmp_path)
                if not path.exists():
                    lost.append(path)

    threads = [threading.Thread(target=make_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost
    assert not list(tmp_path.iterdir())


def test_a_folder_is_its_owners_and_a_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    with temporary_folder(tmp_path) as folder, temporary_file(tmp_path) as file:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert file.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_spool_goes_with_its_owner(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "stream").write_text("a\n")
    spool = Spool(str(tmp_path / "stream"))
    assert spool.file.read_text() == "a\n"
    assert len(list(tmp_path.iterdir())) == 2
    del spool
    assert [path.name for path in tmp_path.iterdir()] == ["stream"]
