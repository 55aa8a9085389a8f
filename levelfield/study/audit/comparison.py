"""Is everything there: cells, texts, wanted values?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from statistics import median, multimode

from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    only,
)
from levelfield.study.audit.texts import wants_words
from levelfield.study.cells import Cell, CellKey, value_name


def missing_cells(study: AuditedStudy) -> list[Finding]:
    """Cells that the grid has and the study has not, and cells that failed.

    The grid is what was expected, or else every combination of the systems, datasets and seeds seen
    with a kind of control. Serious if the system lacks a dataset altogether, or a cell failed:
    means over datasets then are means of different things. A warning for single seeds.
    """
    findings = []
    there = {
        cell.key
        for cell in study.cells
        if cell.samples or cell.rates or cell.groups or cell.failure or cell.asked == 0
    }
    holes = grouped(
        (key for key in _grid(study) if key not in there), lambda key: (key.system, key.control)
    )
    for (system, control), missing in holes.items():
        lacking = grouped(missing, lambda key: key.dataset)
        own = {k.dataset for k in there if (k.system, k.control) == (system, control)}
        severity: Severity = "serious" if lacking.keys() - own else "warning"
        of = len(missing) + sum((k.system, k.control) == (system, control) for k in there)
        names = "; ".join(f"{d}: {_seeds(keys)}" for d, keys in lacking.items())
        what = f"{len(missing)} of {of} cells are missing ({names})"
        where = (system, only(lacking), control, None)
        findings.append(Finding("missing-cell", severity, *where, what, len(missing), of))
    for cell in study.cells:
        if cell.failure:
            what = f"the cell failed: {cell.failure}"
            findings.append(Finding("missing-cell", "serious", *_where(cell), what, 1, 1))
    return findings


def _grid(study: AuditedStudy) -> list[CellKey]:
    if study.expected:
        return list(dict.fromkeys(study.expected))
    grid = []
    for control, cells in study.controls.items():
        axes = (
            dict.fromkeys(getattr(cell.key, name) for cell in cells)
            for name in ("system", "dataset", "seed")
        )
        grid += [
            CellKey(system, dataset, control, seed) for system, dataset, seed in product(*axes)
        ]
    return grid


def _seeds(keys: Iterable[CellKey]) -> str:
    return "seeds " + ", ".join(str(key.seed) for key in keys)


def missing_texts(study: AuditedStudy) -> list[Finding]:
    """Fewer texts than were asked for, or than most cells have for the same value.

    A warning; serious if a cell lacks 10 % or more. What was wrong with answers is a warning too.
    Cells that have results only are one note: no check of texts saw them.
    """
    findings = []
    limits = Limits(0.1, 0)
    usual = _usual_numbers(study)
    for (system, control), cells in study.systems.items():
        values: dict[str, set[str]] = {}
        for cell in cells:
            values.setdefault(cell.key.dataset, set()).update(_numbers(cell))
        short = {
            cell.key: lacking
            for cell in cells
            if (lacking := _lacking(cell, usual, values[cell.key.dataset]))
        }
        if short:
            n = sum(short.values())
            of = n + sum(len(cell.samples) for cell in cells if cell.key in short)
            shares = (
                short[c.key] / (short[c.key] + len(c.samples)) for c in cells if c.key in short
            )
            severity = limits.severity(max(shares)) or "warning"
            what = f"{n:,} of {of:,} texts are missing, in {len(short)} of {len(cells)} cells"
            dataset = only({key.dataset for key in short})
            seed = next(iter(short)).seed if len(short) == 1 else None
            where = (system, dataset, control, seed)
            findings.append(Finding("missing-texts", severity, *where, what, n, of))
        problems = [f"{cell.key}: {problem}" for cell in cells for problem in cell.problems]
        if problems:
            n = len(problems)
            more = f" and {n - EXAMPLES} more" if n > EXAMPLES else ""
            what = f"answers were not as they should be: {'; '.join(problems[:EXAMPLES])}{more}"
            where = (system, "", control, None)
            findings.append(Finding("missing-texts", "warning", *where, what, n, n))
    bare = [c for c in study.cells if (c.rates or c.groups) and not (c.samples or c.failure)]
    if bare:
        n, of = len(bare), len(study.cells)
        what = f"{n:,} of {of:,} cells have results only; checks of texts could not see them"
        findings.append(Finding("missing-texts", "note", "", "", "", None, what, n, of))
    return findings


def _lacking(cell: Cell, usual: Mapping[tuple[str, str, str], int], values: Iterable[str]) -> int:
    """How many texts a cell has less than it should; a cell that failed has said so.

    Values are those that any seed of the system was asked for.
    """
    if cell.failure or not (cell.samples or cell.missing):
        return 0
    _, dataset, control, _ = cell.key
    numbers = _numbers(cell)
    below = sum(max(0, usual[dataset, control, value] - numbers[value]) for value in values)
    return max(len(cell.missing), (cell.asked or 0) - len(cell.samples), below)


def _numbers(cell: Cell) -> Counter[str]:
    return Counter(value_name(sample.control) for sample in cell.samples)


def _usual_numbers(study: AuditedStudy) -> dict[tuple[str, str, str], int]:
    """Dataset, kind of control, value -> the number of texts that most cells have."""
    numbers_of_cells: dict[tuple[str, str, str], list[int]] = {}
    for cell in study.cells:
        for value, n in _numbers(cell).items():
            numbers_of_cells.setdefault((cell.key.dataset, cell.key.control, value), []).append(n)
    return {key: max(multimode(numbers)) for key, numbers in numbers_of_cells.items()}


def _where(cell: Cell) -> tuple[str, str, str, int]:
    return (cell.key.system, cell.key.dataset, cell.key.control, cell.key.seed)


def label_sets_differ(study: AuditedStudy) -> list[Finding]:
    """Systems that were asked for fewer values of a control than others.

    Serious: to be right on one of four topics is another task than on all four, and a mean over
    what each was asked for does not compare. One finding a kind of control. Silent for controls
    that want words in the text, and where most values are asked once a cell: what a system lacks
    of these are texts.
    """
    findings = []
    for control, cells in study.controls.items():
        values_of = {
            system: set().union(*map(values_asked, own))
            for system, own in grouped(cells, lambda cell: cell.key.system).items()
        }
        numbers = [n for cell in cells for n in _numbers(cell).values()]
        if (numbers and median(numbers) == 1) or any(
            wants_words(sample.control) for cell in cells for sample in cell.samples
        ):
            continue
        every = set().union(*values_of.values())
        # published values of several attributes at once may be named attribute by attribute
        fewer = {s: every - own for s, own in values_of.items() if own and own < every}
        if fewer:
            lacks = "; ".join(
                f"{system} only {', '.join(sorted(values_of[system]))}"
                if len(values_of[system]) < len(lacking)
                else f"{system} not {', '.join(sorted(lacking))}"
                for system, lacking in fewer.items()
            )
            what = f"{len(fewer)} of {len(values_of)} systems were asked for fewer values: {lacks}"
            where = (only(fewer), "", control, None)
            counts = (len(fewer), len(values_of))
            findings.append(Finding("label-sets-differ", "serious", *where, what, *counts))
    return findings


def values_asked(cell: Cell) -> set[str]:
    """The values a cell's texts were asked for; from its rates or groups if it has no texts."""
    texts = {value_name(sample.control) for sample in cell.samples}
    rates = {rate.value for rate in cell.rates if rate.value}
    return texts or rates or {group.value_asked for group in cell.groups if group.value_asked}
