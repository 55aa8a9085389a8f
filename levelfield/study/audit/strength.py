"""Does the control do anything?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    percent,
    shown,
)
from levelfield.study.audit.judged import Judged, is_majority, judged, size

_LIKELY = 0.3
_ENOUGH = 50


def control_changes_nothing(study: AuditedStudy) -> list[Finding]:
    """Control without effect: what a text was asked for does not show in it.

    Strength s = (b − 1/K) / (1 − 1/K), b the mean over the K values of the share found right, so
    0 for texts that were never told what to be and 1 for texts that are always right, whatever a
    judge prefers; mean over judges, cells weighted by their texts, 95 % interval from binomial
    errors (judges taken as one, since they read the same texts). Serious if the interval lies below
    0.1, or below 0 (control works backwards); a warning if it only reaches 0, a note where s is
    0.3 or more all the same, and below 50 texts (too few to tell). Also the same text for different
    values of a prompt: serious from half of the prompts on, a warning from a tenth. Silent where
    neither votes nor rates and the number of texts are known, and for rates of systems that were
    asked for some values only, where the votes for the others are unknown.
    """
    findings = _same_for_all_values(study)
    for (system, control, attribute), interval in strengths(study).items():
        s, low, high = interval
        about = f"{attribute}: " if attribute != control else ""
        numbers = f"strength {s:.2f} (95 % interval {low:.2f} to {high:.2f}; 0 is none, 1 is full)"
        severity: Severity
        if high < 0:
            severity, what = "serious", f"control works backwards: {numbers}"
        elif high < 0.1:
            severity, what = "serious", f"control changes nothing: {numbers}"
        elif low <= 0:
            enough = sum(map(size, study.systems[system, control])) >= _ENOUGH
            severity = "warning" if s < _LIKELY and enough else "note"
            what = f"control can't be told from none: {numbers}"
        else:
            continue
        own = study.systems[system, control]
        texts = sum(map(size, own))
        where = (system, "", control, None)
        found = (about + what, texts, texts)
        findings.append(Finding("control-changes-nothing", severity, *where, *found))
    return findings


def _same_for_all_values(study: AuditedStudy) -> list[Finding]:
    findings = []
    for (system, control), cells in study.systems.items():
        same, of = [], 0
        for cell in cells:
            prompts = grouped(study.texts[cell.key], lambda text: text.sample.prompt)
            for texts in prompts.values():
                values = {tuple(text.sample.control.items()) for text in texts}
                if len(values) > 1 and any(text.written for text in texts):
                    of += 1
                    if len({text.sample.text for text in texts}) == 1:
                        same.append(texts[0])
        severity = Limits(0.5, 0.1).severity(len(same) / of) if of else None
        if same and severity:
            share = percent(len(same), of)
            what = f"{len(same):,} of {of:,} prompts ({share}) have one text for all wanted values"
            where = (system, "", control, None)
            found = (what, len(same), of, shown(same[:EXAMPLES]))
            findings.append(Finding("control-changes-nothing", severity, *where, *found))
    return findings


def strengths(study: AuditedStudy) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """System, control, attribute -> strength and its 95 % interval."""
    every: dict[tuple[str, str], set[str]] = {}
    alone = [one for one in judged(study) if not is_majority(one.judge)]
    for one in alone:
        every.setdefault((one.key.control, one.attribute), set()).add(one.value)
    found = {}
    groups = grouped(alone, lambda one: (one.key.system, one.key.control, one.attribute))
    for (system, control, attribute), of_system in groups.items():
        # s, its standard error, texts, of one judge in one cell
        parts = [
            part
            for of in grouped(of_system, lambda one: (one.key, one.judge)).values()
            if (part := _strength(of, every[control, attribute])) is not None
        ]
        weight = sum(n for *_, n in parts)
        if weight:
            judges = len({one.judge for one in of_system})
            s = sum(n * s for s, _, n in parts) / weight
            # judges read the same texts, so their errors add up as if equal; those of cells do not
            error = math.sqrt(judges * sum((n * e) ** 2 for _, e, n in parts)) / weight
            found[system, control, attribute] = (s, s - 1.96 * error, s + 1.96 * error)
    return _of_whole_cells(study) | found


def _of_whole_cells(study: AuditedStudy) -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """Strengths from rates of all texts, by a judge that is named after the attribute it judges.

    That is all a study of several attributes at once may have published.
    """
    strengths = {}
    for (system, control), cells in study.systems.items():
        controls = [s.control for cell in study.controls[control] for s in cell.samples]
        own = [s.control for cell in cells for s in cell.samples]
        for attribute in dict.fromkeys(name for wanted in own for name in wanted):
            values = {wanted.get(attribute) for wanted in own}
            k = len(values)
            # what is right by chance, where a system was asked for some values only, nobody knows
            if k < 2 or values != {wanted.get(attribute) for wanted in controls}:
                continue
            rates = [
                (rate.percent / 100, n)
                for cell in cells
                for rate in cell.rates
                if rate.judge == attribute and not rate.value and (n := size(cell))
            ]
            if rates:
                texts = sum(n for _, n in rates)
                b = sum(n * a for a, n in rates) / texts
                s = (b - 1 / k) / (1 - 1 / k)
                smooth = (b * texts + 1) / (texts + 2)
                error = math.sqrt(smooth * (1 - smooth) / texts) / (1 - 1 / k)
                strengths[system, control, attribute] = (s, s - 1.96 * error, s + 1.96 * error)
    return strengths


def _strength(of: Sequence[Judged], every: set[str]) -> tuple[float, float, int] | None:
    k = len(of)
    if k < 2 or any(one.n is None for one in of):
        return None
    values = {one.value for one in of}
    n = [one.n or 1 for one in of]
    if all(one.elsewhere is not None for one in of):
        # equals the formula for rates when the judge gave no other labels
        s = fmean(one.right - (one.elsewhere or 0) for one in of)
    elif values == every:
        s = (sum(one.right for one in of) - 1) / (k - 1)
    else:
        return None
    # as if one text more had been right and one wrong: a share of 0 or 1 of few is no certainty
    smooth = [(one.right * m + 1) / (m + 2) for one, m in zip(of, n, strict=True)]
    error = math.sqrt(sum(p * (1 - p) / m for p, m in zip(smooth, n, strict=True))) / (k - 1)
    return s, error, sum(n)
