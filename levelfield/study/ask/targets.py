"""Whether the Python callable of a system is there: known before a run, and without running it."""

from __future__ import annotations

import ast
import contextlib
import difflib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path


def lacking(target: str, folder: Path) -> str:
    """Returns why `MODULE:NAME` can't be called from a study file in this folder; empty if it can
    be, as far as the source tells.

    Nothing is imported. A name of the entry-point group is checked when the file is read.
    """
    module, colon, name = target.partition(":")
    if not colon:
        return ""
    path: list[str] = [str(folder), *sys.path]
    spec = None
    for step, part in enumerate(parts := module.split(".")):
        spec = _spec(".".join(parts[: step + 1]), path)
        if spec is None:
            what = f"there is no module {'.'.join(parts[: step + 1])}"
            return f"{what} beside the study file or installed; check the name"
        path = list(spec.submodule_search_locations or [])
        if not path and part != parts[-1] and len(parts) > step + 1:
            module = ".".join(parts[: step + 1])
            mend = f"write {module}:{name}" if parts[step + 1 :] == ["py"] else "check the name"
            return f"{module} is no package; {mend}"
    source = Path(spec.origin) if spec and spec.origin else None
    if source is None or source.suffix != ".py":
        return ""
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        return f"{source.name} can't be read: {' '.join(str(error).split())}"
    names = set(_names(tree))
    first = name.split(".")[0]
    if first in names or names & {"*", "__getattr__"}:
        return ""
    near = difflib.get_close_matches(first, names, n=1)
    hint = f"did you mean {module}:{near[0]}?" if near else "check the name"
    return f"there is no {first} in {source.name}; {hint}"


def _spec(name: str, path: list[str]) -> ModuleSpec | None:
    """Returns where a module is, by the finders that an import asks."""
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, AttributeError):
            if spec := finder.find_spec(name, path):
                return spec
    # finders of what is built in, or installed for editing, know no path
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, AttributeError):
            if "." not in name and (spec := finder.find_spec(name, None)):
                return spec
    return None


def _names(tree: ast.AST) -> Iterator[str]:
    """Yields the names that a module binds, `*` where it takes those of another."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                continue
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                yield node.id
        yield from _names(node)
