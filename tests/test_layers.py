"""A folder imports only from those above it, and the command line starts without PyTorch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import levelfield

ROOT = Path(levelfield.__file__).parent
ORDER = [
    "core",
    "io",
    "models",
    "aspects",
    "metrics",
    "meta",
    "datasets",
    "papers",
    "study",
    "training",
    "report",
    "rating",
    "cli",
]


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else "core"


def test_no_module_imports_from_a_layer_above_its_own():
    wrong = []
    for path in ROOT.rglob("*.py"):
        name = ".".join(["levelfield", *path.relative_to(ROOT).with_suffix("").parts])
        if name in ("levelfield.__init__", "levelfield.__main__"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = [
            node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        ]
        wrong += [
            f"{name} imports {module}"
            for module in imported
            if module.startswith("levelfield")
            and ORDER.index(layer(module)) > ORDER.index(layer(name))
        ]
    assert wrong == []


def test_help_and_lists_do_not_wait_for_pytorch():
    code = (
        "import sys; sys.argv = ['levelfield', 'metrics']\n"
        "from levelfield.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ctrleval.coherence" in done.stdout
