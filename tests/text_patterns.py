"""Every regular expression in the source, and texts that make bad ones slow."""

from __future__ import annotations

import ast
import functools
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CALLS = frozenset({"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall"})
_CALLS |= {"finditer"}
_AT_START = frozenset({"match", "fullmatch"})


class TextPattern(NamedTuple):
    """A pattern, where it stands, and whether it is only tried at the start of a text."""

    file: str
    name: str
    pattern: re.Pattern[str]
    at_start: bool

    def run(self, text: str) -> None:
        """Does the most that code does with it."""
        if self.at_start:
            self.pattern.match(text)
            self.pattern.fullmatch(text)
        else:
            self.pattern.sub("", text)


def patterns(package: Path) -> Iterator[TextPattern]:
    """Yields the patterns of a package that stand in its source as plain strings."""
    for path, tree, calls in _parsed(package):
        for call in calls:
            if (pattern := _compiled(call)) is not None:
                name = _name(tree, call)
                at_start = _methods(tree, name, call) <= _AT_START
                yield TextPattern(_file(path), name or call.func.attr, pattern, at_start)


@functools.cache
def _parsed(package: Path) -> list[tuple[Path, ast.Module, list[ast.Call]]]:
    """The files with calls of `re`, and these calls."""
    parsed = []
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import re\n" in source:
            tree = ast.parse(source)
            calls = [node for node in ast.walk(tree) if _is_call(node)]
            parsed.append((path, tree, calls))
    return parsed


def built_patterns(package: Path) -> Iterator[str]:
    """Yields the files in which patterns are put together when the program runs."""
    for path, _, calls in _parsed(package):
        if any(not _is_constant(call.args[0]) for call in calls):
            yield _file(path)


def _file(path: Path) -> str:
    return path.relative_to(Path(__file__).parent.parent).as_posix()


def _is_constant(node: ast.AST) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _name(tree: ast.Module, call: ast.Call) -> str:
    """The name of a pattern; empty if it has none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value is call:
            return ast.unparse(node.targets[0])
    return ""


def _is_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in _CALLS
    )


def _compiled(call: ast.Call) -> re.Pattern[str] | None:
    """The pattern of a call; None if it is not a plain string, or one of bytes."""
    try:
        pattern = ast.literal_eval(call.args[0])
    except ValueError:
        return None
    flags = [word.value for word in call.keywords if word.arg == "flags"]
    places = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
    flags += call.args[places.get(call.func.attr, 2) :][:1]
    names = {node.attr for flag in flags for node in ast.walk(flag) if hasattr(node, "attr")}
    value = re.RegexFlag(0)
    for name in names:
        value |= re.RegexFlag[name]
    return re.compile(pattern, value) if isinstance(pattern, str) else None


def _methods(tree: ast.Module, name: str, call: ast.Call) -> set[str]:
    """How a pattern is used: the methods that are called on its name; `search` for all else."""
    if call.func.attr != "compile":
        return {call.func.attr}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    if direct := [node.attr for node in attributes if node.value is call]:
        return set(direct)
    methods = [node.attr for node in attributes if getattr(node.value, "id", "") == name]
    uses = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return set(methods) if name and len(methods) == len(uses) else {"search"}


_CHARACTERS = (
    " \t\n\r\x0b\x0c\u00a0\u2003\u2028\x00\u200b"
    "aAiIzé0591٣雪あกя_"
    "\"'`’“”‘.,;:!?…。…-–—/\\|@#&%$*+=~^<>()[]{}"
)
_UNITS = (
    "ab", "a ", " a", "a.", ".a", ". ", " .", "a-", "a'", "ha", "he", "aA", "Aa", "a1", "1.",
    "1,", "a@", "@a", "a/", "://", "[]", "()", "{}", "<>", "</", "<a", "&a", "&#", "\\n", "--",
    "'s", "n't", "\" ", " \"", "``", "\n ", " \n", "\n\n", "\r\n", "::", ": ", "? ", "?\n", "=(",
    "* ", "**", "- ", "_a", "a_", "a,", "\t ", ";=", "1-", "a\n", "I ", "i'", "lo", "xd", "A.",
    "a.b.", "www.", "i am ", "http://", "<think>", "<think>a", "score", "sure:", "sure ",
    "Traceback ", "a:\n", "雪。", "\"a", "x,model=", "=1", "0.0", "{a}", "--map a ", "'a'",
)  # fmt: skip
_BEGINNINGS = ("7", "a", "a ", "www.", "a@", "`", '"', "<", "<think>", "Sure! Here", "[", "\n", "1")
_ENDS = ("!", "\0", "a", "\n", ".", "@", "\x01雪")


def worst_cases(length: int, *, brief: bool = False) -> Iterator[str]:
    """Yields texts of a length in which runs of one or few characters begin, go on and end badly.

    Args:
        brief: only those that have found a fault before.
    """
    units = [*_CHARACTERS, *_UNITS]
    for unit in units:
        run = (unit * (length // len(unit) + 1))[:length]
        yield run + "\x01"
        if brief:
            continue
        for end in _ENDS:
            yield run + end
        for beginning in _BEGINNINGS:
            yield beginning + run + "\x01"
    yield (string.ascii_letters + string.digits) * (length // 62)
