"""What should have been noticed before a study is published.

Each check looks for one kind of fault in texts, votes and results, and says what it found with
numbers and examples; see `docs/audit.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from levelfield.study.audit import (
    completeness,
    copies,
    judges,
    labels,
    prompts,
    scores,
    seeds,
    style,
    votes,
    wording,
)
from levelfield.study.audit.findings import SEVERITIES, AuditedStudy, Example, Finding, Severity
from levelfield.study.cells import Cell, CellKey

__all__ = ["CHECKS", "Example", "Finding", "Severity", "audit"]

CHECKS: tuple[Callable[[AuditedStudy], list[Finding]], ...] = (
    completeness.missing_cells,
    completeness.missing_texts,
    completeness.label_sets_differ,
    completeness.requests_differ,
    completeness.requests_repeated,
    completeness.labels_unbalanced,
    prompts.wrong_request,
    prompts.shifted_texts,
    prompts.prompt_not_continued,
    prompts.prompt_repeated,
    labels.label_in_input,
    labels.label_in_text,
    copies.identical_seeds,
    copies.identical_systems,
    copies.identical_texts,
    copies.copied_texts,
    seeds.seeds_differ,
    judges.control_changes_nothing,
    labels.labels_swapped,
    judges.majority_is_none,
    judges.mixed_scales,
    judges.judge_biased,
    judges.judges_disagree,
    votes.judges_identical,
    votes.judge_constant,
    votes.judge_depends,
    scores.scores_incomplete,
    scores.scores_strange,
    style.length_differs,
    style.cut_at_length,
    style.style_differs,
    wording.wrong_encoding,
    wording.empty_text,
    wording.leftover_markup,
    wording.boilerplate,
    wording.repetition,
    wording.cut_text,
)


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
