"""A file that grows by lines loses no whole line, whatever was torn off its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.io.appending import appending, whole_lines


@pytest.mark.parametrize("content", [b"", b"torn", b"one\n", b"one\ntorn", b"one\n\ntwo\r\nto"])
def test_lines_follow_the_last_whole_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    lines = list(whole_lines(path))
    assert b"".join(lines) == content[: content.rfind(b"\n") + 1]
    for sync in (False, True):
        with appending(path, sum(map(len, lines)), sync=sync) as write:
            write(b"next\n")
            assert list(whole_lines(path)) == [*lines, b"next\n"]


def test_a_file_that_is_not_there_has_no_lines_and_is_made(tmp_path: Path) -> None:
    assert list(whole_lines(tmp_path / "lines")) == []
    with appending(tmp_path / "lines", 0) as write:
        write(b"one\n")
    assert (tmp_path / "lines").read_bytes() == b"one\n"
