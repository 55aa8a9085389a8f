"""`tools.suite`: every test file is in exactly one share, and durations are told by room."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.suite import room, room_table, run, shares, suite_files

ROOT = Path(__file__).parents[1]


def test_every_file_with_tests_is_run():
    """`make test` and `make test-slow` choose by marker among all of these files."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    with_tests = {
        name
        for name in listed.stdout.splitlines()
        if (ROOT / name).exists()
        and name not in ("levelfield/agree/compare.py",)  # its function is about statistical tests
        and re.search(r"^def test_", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    }
    assert with_tests - {*suite_files([])} == set()


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,4}\.py", fullmatch=True), st.floats(0, 100)),
    st.lists(st.from_regex(r"[a-z]{1,4}\.py", fullmatch=True), unique=True),
    st.integers(1, 4),
)
def test_shares_hold_each_file_once_and_differ_by_no_more_than_a_file(seconds, files, count):
    divided = shares(files, seconds, count)
    assert sorted(file for share in divided for file in share) == sorted(files)
    assert all(divided)
    totals = [sum(seconds.get(file, 1.0) for file in share) for share in divided]
    totals += [0.0] * (count - len(totals))
    longest = max((seconds.get(file, 1.0) for file in files), default=0.0)
    assert max(totals) - min(totals) <= longest + 1e-9


def test_a_room_is_a_folder_of_tests():
    assert room("tests/study/ask/test_run.py") == "study"
    assert room("tests/test_docs.py") == "tests"
    assert room("rating/tests/web/test_pages.py") == "rating"
    assert room_table({"tests/io/test_a.py": 1.0, "tests/io/test_b.py": 2.5}).endswith(
        "  io                   3.5 s"
    )


def test_a_failure_in_any_share_is_the_status_of_the_run(tmp_path, capfd):
    # written to files, which pytest runs as two shares: one has to pass, the other has to fail
    for name, outcome in (("good", "assert True"), ("bad", "assert False")):
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}():\n    {outcome}\n")
    good, bad = (str(tmp_path / f"test_{name}.py") for name in ("good", "bad"))
    options = ["-q", "-p", "no:cacheprovider", "--noconftest"]
    status, seconds = run([[good], [bad]], options)
    assert status == 1
    assert len(seconds) == 2
    assert "1 failed" in capfd.readouterr().out
    assert run([[good], [good, "-k", "absent"]], options)[0] == 0
    assert run([[good, "-k", "absent"]], options)[0] == 5
