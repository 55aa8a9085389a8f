"""Lists wording and names that the code avoids: `python -m tools.english [PATH ...]`.

Docstrings and comments are searched for phrases with a plainer word ("behind" for "after", "is no"
before a noun), and the names that a module gives for pronouns, participles and prepositions, which
do not say what they hold. Quoted text, literals and examples are left out. Each finding is a line
`FILE:LINE: what`; the exit status is 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCES = ("levelfield", "rating", "reproductions", "benchmarks", "tools", "tests", "conftest.py")

PHRASES = {
    re.compile(r"\bbehind\b"): "after, or past",
    re.compile(
        r"(?<!\b[Tt]here )\b(?:is|are) no\b"
        r"(?! (?:longer|more|larger|smaller|better|worse|less|greater))"
    ): "is not a, or has no",
    re.compile(r"\bstands?\b(?! (?:in )?for\b)"): "is, or is written",
    re.compile(r"\bso many\b"): "that many, or the number of",
    re.compile(r"\banew\b"): "again",
}
"""What prose does not say -> what to write instead."""

_LITERAL = re.compile(r'``?[^`]*``?|"[^"]*"|“[^”]*”|^ *>>> .*$', re.MULTILINE)
_WORD = "one of at own what wanted found said some why known both theirs given made asked told"
_VAGUE = frozenset(_WORD.split())
_PREPOSITION = re.compile(r"_*(?:of|its|at|behind|beside|all_of|what)_|(?:\w+_)?behind$")

_KEPT = """
AuditReport.at_least BARTScoreFromSource.given CalibratedSystem.wanted Calibration.found
Cell.asked CellRecord.asked CellStatus.asked correlations.wanted Correspondence.why Derived.why
estimates.wanted evaluate.wanted ExampleCard.why export.what Fact.what Fault.of Fault.what
Finding.of Finding.what Gap.what Item.given JudgeAgreement.of_rates LeftOut.why LogRow.at
Measure.of_control MetaEvaluation.of_like_systems MetricAgreement.of_aspects of_ranks of_samples
own_work Practice.given QuestionAnswer.why RatedScores.of_groups RatedSet.why Saved.at Shown.given
SpreadBetween.why StudySummary.at_levels Unit.given WorkedExample.given WorkedExample.why
"""
KEPT = frozenset(_KEPT.split())
"""Names that users' files or programs hold, some only in one class or function."""


class Finding(NamedTuple):
    """A name or phrase to write otherwise, and where it is."""

    file: Path
    line: int
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.advice}"


def findings(file: Path) -> Iterator[Finding]:
    """Yields the phrases and names of a Python file that should be written otherwise."""
    with tokenize.open(file) as stream:
        source = stream.read()
    tree = ast.parse(source)
    for line, prose in [*_docstrings(tree), *_comments(source)]:
        blanked = _LITERAL.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), prose)
        for phrase, instead in PHRASES.items():
            for match in phrase.finditer(blanked):
                place = line + blanked.count("\n", 0, match.start())
                yield Finding(file, place, f'"{match[0]}": {instead}')
    for line, owner, name in _names(tree):
        if not KEPT.isdisjoint((name, f"{owner}.{name}")):
            continue
        if name in _VAGUE:
            yield Finding(file, line, f"name {name}: name the thing")
        elif _PREPOSITION.match(name):
            yield Finding(file, line, f"name {name}: begin with a noun, not a preposition")


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields every string that is a statement: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    lines = iter(source.splitlines(keepends=True))
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _names(node: ast.AST, owner: str = "") -> Iterator[tuple[int, str, str]]:
    """Yields the names that a module binds, each with its line and the class or function around it.

    They are the names of arguments, variables, functions and classes.
    """
    for child in ast.iter_child_nodes(node):
        inner = owner
        match child:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield child.lineno, owner, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                if name not in _VAGUE:  # `Options.of` makes an instance
                    yield child.lineno, owner, name
                inner = name
        yield from _names(child, inner)


def python_files(paths: Sequence[str] = SOURCES) -> Iterator[Path]:
    """Yields the Python files at or below paths."""
    for path in map(Path, paths):
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


if __name__ == "__main__":
    listed = [f for file in python_files(sys.argv[1:] or SOURCES) for f in findings(file)]
    print(*listed, sep="\n")
    sys.exit(bool(listed))
