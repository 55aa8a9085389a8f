"""What should have been noticed before a study is published.

Each check looks for one kind of fault in texts, votes and results, and says what it found with
numbers and examples; see `docs/audit.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from levelfield.study.audit import alignment, comparison, judging, strength, wording
from levelfield.study.audit.findings import SEVERITIES, AuditedStudy, Example, Finding, Severity
from levelfield.study.cells import Cell, CellKey

__all__ = ["CHECKS", "Example", "Finding", "Severity", "audit"]

CHECKS: tuple[Callable[[AuditedStudy], list[Finding]], ...] = (
    comparison.missing_cells,
    comparison.missing_texts,
    comparison.label_sets_differ,
    alignment.wrong_request,
    alignment.prompt_not_continued,
    alignment.label_in_input,
    comparison.identical_seeds,
    strength.control_changes_nothing,
    judging.majority_is_none,
    judging.mixed_scales,
    judging.judge_biased,
    judging.judges_disagree,
    comparison.length_differs,
    wording.empty_text,
    wording.leftover_markup,
    wording.repetition,
    wording.cut_text,
)


def audit(cells: Sequence[Cell], *, expected: Sequence[CellKey] = ()) -> list[Finding]:
    """Returns the findings of all checks, the serious ones first; changes nothing.

    Args:
        cells: of one study, with the texts, votes, rates and values that are known.
        expected: the grid; without it, all combinations of the systems, datasets and seeds seen.
    """
    study = AuditedStudy(tuple(cells), tuple(expected))
    findings = [finding for check in CHECKS for finding in check(study)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
