"""Every metric has one class, and every class of the package a name of its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import levelfield
from levelfield import metrics
from levelfield.core.registry import installed, options


def test_every_metric_is_exported_under_the_name_of_its_class():
    for name, entry in installed().items():
        if entry.module.startswith("levelfield."):
            assert entry.attr in metrics.__all__, name
            assert getattr(metrics, entry.attr) is entry.load(), name
            assert entry.load().__name__ == entry.attr, name


def test_every_option_of_a_metric_is_read_by_its_type():
    unread = [
        f"{name} {option}: {declaration.annotation}"
        for name, entry in installed().items()
        for option, declaration in options(entry.load()).items()
        if isinstance(declaration.annotation, str)
    ]
    assert unread == []


def test_every_exported_name_is_there():
    assert all(getattr(metrics, name).__name__ == name for name in metrics.__all__)
    assert dir(metrics) == list(metrics.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Coherence'"):
        _ = metrics.Coherence


def test_exports_load_no_model_library():
    code = (
        "import sys, levelfield.metrics as m; [getattr(m, name) for name in m.__all__]\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_two_public_classes_have_one_name():
    names = Counter(
        statement.name
        for path in Path(levelfield.__file__).parent.rglob("*.py")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_")
    )
    assert {name for name, n in names.items() if n > 1} == set()
