"""A folder imports only from those above it, and the command line starts without PyTorch."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import levelfield

ROOT = Path(levelfield.__file__).parent
ORDER = [
    "core",
    "text",
    "io",
    "stats",
    "datasets",
    "models",
    "metrics",
    "workers",
    "scoring",
    "agree",
    "planning",
    "train",
    "generation",
    "study",
    "show",
    "cli",
]
"""Every folder of the package, lowest first."""
ROOT_FILES = {"__init__", "__main__", "version"}


def layer(module: str) -> int:
    """The place of a module's folder in the order; below all of them for `levelfield.version`."""
    parts = module.split(".")
    return -1 if module == "levelfield.version" else ORDER.index(parts[1])


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(["levelfield", *path.relative_to(ROOT).with_suffix("").parts])
        yield name.removesuffix(".__init__"), path


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, whether at the top or inside a function."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("levelfield"):
            if node.module == "levelfield":
                yield from (f"levelfield.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("levelfield."))


def test_every_folder_and_root_file_has_its_place():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    files = {path.stem for path in ROOT.glob("*.py")}
    assert folders == set(ORDER)
    assert files == ROOT_FILES


def test_contributing_shows_the_folders_in_their_order():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == ORDER


def test_no_module_imports_from_a_folder_above_its_own():
    wrong = [
        f"{name} imports {module}"
        for name, path in modules()
        if path.parent != ROOT
        for module in imported(path)
        if layer(module) > layer(name)
    ]
    assert wrong == []


DISTRIBUTIONS = {"rating": "levelfield_rating", "reproductions": "levelfield_reproductions"}
"""Folder in the repository -> the package in it."""


def distribution_modules() -> Iterator[tuple[str, Path]]:
    for folder, package in DISTRIBUTIONS.items():
        top = ROOT.parent / folder
        for path in sorted((top / package).rglob("*.py")):
            name = ".".join(path.relative_to(top).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imported_names(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of every `from … import …`, at the top, in functions and for types."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_no_module_imports_itself_by_way_of_others():
    paths = dict([*modules(), *distribution_modules()])
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        pairs = imported_names(path)
        wanted = {
            f"{module}.{item}" if f"{module}.{item}" in paths else module for module, item in pairs
        }
        graph[name] = {module for module in wanted if module in paths and module != name}
    while leaves := {name for name, targets in graph.items() if not targets & graph.keys()}:
        for leaf in leaves:
            del graph[leaf]
    assert graph == {}


def test_paths_of_users_are_expanded_by_one_function():
    """`expanduser` raises RuntimeError for `~name` of nobody, or leaves it as it is."""
    wrong = [
        f"{name}:{node.lineno}"
        for name, path in [*modules(), *distribution_modules()]
        for node in nodes(path)
        if isinstance(node, ast.Attribute | ast.Name)
        and "expanduser" in (getattr(node, "attr", ""), getattr(node, "id", ""))
        and name != "levelfield.core.paths"
    ]
    assert wrong == []


def test_distributions_use_public_names_only():
    """A folder of techniques that begins with an underscore is not private: several share it."""
    private = [
        f"{name} imports {module}.{item}"
        for name, path in distribution_modules()
        for module, item in imported_names(path)
        if module.partition(".")[0] == "levelfield"
        and any(
            part.startswith("_") and part != "__version__"
            for part in [*module.replace(".techniques._", ".techniques.").split("."), item]
        )
    ]
    assert private == []


def test_the_package_imports_from_no_distribution_beside_it():
    wrong = [
        f"{name} imports {module}"
        for name, path in modules()
        for module, _ in imported_names(path)
        if module.partition(".")[0] in DISTRIBUTIONS.values()
    ]
    assert wrong == []


def test_a_file_name_stands_at_most_three_times():
    """Except for the files that the folder of every technique may have."""
    same = {"technique.py", "network.py", "training.py", "settings.py", "case.py"}
    names = Counter(
        path.name
        for _, path in modules()
        if path.name != "__init__.py"
        and not (path.name in same and path.parent.parent.name == "techniques")
    )
    assert {name: n for name, n in names.items() if n > 3} == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["metrics"], "ctrleval.coherence"),
        (["techniques"], "base"),
        (["generate", "--help"], "--technique"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_help_and_lists_do_not_wait_for_pytorch(words: list[str], said: str):
    code = (
        f"import sys; sys.argv = {['levelfield', *words]}\n"
        "from levelfield.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_help_of_commands_does_not_wait_for_polars():
    code = (
        "import sys\n"
        "from levelfield.cli import main\n"
        "for command in ('score', 'study', 'rate', 'agreement', 'estimate', 'strengths'):\n"
        "    sys.argv = ['levelfield', command, '--help']\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "assert 'polars' not in sys.modules and 'scipy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
