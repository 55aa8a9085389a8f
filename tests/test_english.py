"""The wording of docstrings and comments, and the names that code gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.english import findings, python_files

ROOT = Path(__file__).parent.parent
PLACES = (
    "levelfield",
    "rating/levelfield_rating",
    "reproductions/levelfield_reproductions",
    "benchmarks",
    "tools",
)


def test_wording_and_names_are_plain():
    files = python_files([str(ROOT / place) for place in PLACES])
    assert [str(finding) for file in files for finding in findings(file)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""What stands behind the gap."""', 2),
        ("x = 1  # there is no gap", 0),
        ("x = 1  # a gap is no text", 1),
        ('"""Says "behind" in quotes."""', 0),
        ("def of_text(told): ...", 2),
        ("def text_of(score): ...", 0),
    ],
)
def test_wording_and_names_that_are_not_plain_are_found(tmp_path, source: str, expected: int):
    file = tmp_path / "module.py"
    file.write_text(source, encoding="utf-8")
    assert len(list(findings(file))) == expected
