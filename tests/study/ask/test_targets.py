"""A callable that is not there is said before anything is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield.study import load_study
from levelfield.study.ask.systems import lacking

TOY = """
raise RuntimeError("a check imports nothing")
class Noisy: ...
def generate(requests): ...
async def later(): ...
if True:
    chosen = generate
a, b = 1, 2
import numpy.linalg as algebra
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "star.py").write_text("from json import *")
    (tmp_path / "broken.py").write_text("def generate(:")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text("def generate(requests): ...")
    return tmp_path


@pytest.mark.parametrize(
    "target",
    [
        "toy:generate", "toy:Noisy.generate", "toy:later", "toy:chosen", "toy:b", "toy:algebra",
        "star:dumps", "package.inner:generate", "json:dumps", "importlib.metadata:version",
        "sys:exit", "levelfield.study:load_study", "installed-name",
    ],
)  # fmt: skip
def test_a_callable_that_is_there_lacks_nothing(folder, target):
    assert lacking(target, folder) == ""
    assert "toy" not in sys.modules


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("absent:generate", "there is no module absent beside the study file or installed"),
        ("toy.inner:generate", "toy is not a package; check the name"),
        ("toy.py:generate", "toy is not a package; write toy:generate"),
        ("package.absent:generate", "there is no module package.absent"),
        ("toy:generat", "there is no generat in toy.py; did you mean toy:generate?"),
        ("toy:zzz", "there is no zzz in toy.py; check the name"),
        ("broken:generate", "broken.py can't be read: invalid syntax"),
    ],
)
def test_one_that_is_not_says_why(folder, target, reason):
    assert lacking(target, folder).startswith(reason)


def test_a_run_names_all_missing_callables_and_asks_nobody(folder):
    file = folder / "study.toml"
    file.write_text(
        """
name = "Openings"
seeds = [1]
metrics = ["diversity.distinct-1"]
[datasets.d]
prompts = ["The lake"]
[controls.sentiment]
sentiment = ["positive"]
[[systems]]
name = "A"
callable = "toy:generat"
[[systems]]
name = "B"
callable = "absent:generate"
[[systems]]
name = "C"
files = "c.jsonl"
"""
    )
    study = load_study(file)
    with pytest.raises(UserError) as caught:
        study.run()
    first, second = str(caught.value).splitlines()
    assert first.startswith('study.toml: system "A": callable "toy:generat": there is no generat')
    assert second.startswith('study.toml: system "B": callable "absent:generate": there is no')
    assert study.status().counts == {"missing": 3}
    with pytest.raises(UserError, match='system "B"'):
        study.run(only=["B"])
