"""Faults to know before a study is published.

Each check looks for one kind of fault in texts, votes and results, and says what it found with
numbers and examples; see `docs/audit.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levelfield.study.audit import (
    completeness,
    copies,
    habits,
    judges,
    labels,
    prompts,
    scores,
    seeds,
    style,
    votes,
    wording,
)
from levelfield.study.audit.findings import (
    SEVERITIES,
    AuditedStudy,
    Check,
    Example,
    Finding,
    Severity,
)
from levelfield.study.cells import Cell, CellKey

__all__ = ["CHECKS", "Example", "Finding", "Severity", "audit"]

_MODULES = (
    completeness,
    prompts,
    labels,
    copies,
    seeds,
    judges,
    votes,
    scores,
    style,
    habits,
    wording,
)
CHECKS = tuple(
    check for module in _MODULES for check in vars(module).values() if isinstance(check, Check)
)
"""All checks, in the order of their findings."""


def audit(
    cells: Sequence[Cell], *, expected: Sequence[CellKey] = (), training: Iterable[str] = ()
) -> list[Finding]:
    """Returns the findings of all checks, the serious ones first; changes nothing.

    Args:
        cells: of one study, with the texts, votes, rates and values that are known.
        expected: the grid; without it, all combinations of the systems, datasets and seeds seen.
        training: texts that systems were trained on, where they are known; read once, one by one.
    """
    study = AuditedStudy(tuple(cells), tuple(expected), training)
    findings = [finding for check in CHECKS for finding in check(study)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
