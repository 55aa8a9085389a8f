"""What an audit comes to, and its forms for programs and papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from levelfield.io.tables import booktabs, escape_latex
from levelfield.study.audit.findings import SEVERITIES, Finding, Severity

_COLUMNS = ("check", "severity", "system", "dataset", "control", "seed", "what", "n", "of")


@dataclass(frozen=True)
class AuditReport:
    """The findings of an audit.

    Attributes:
        study: the name of the study.
        findings: the serious ones first.
    """

    study: str
    findings: tuple[Finding, ...]

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """Returns the findings that are as bad or worse."""
        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return tuple(finding for finding in self.findings if finding.severity in bad)

    def to_dict(self) -> dict[str, Any]:
        """Returns the document of `levelfield study audit --json`."""
        return {"study": self.study, "findings": [f.to_dict() for f in self.findings]}

    def to_polars(self) -> pl.DataFrame:
        """Returns one row a finding, without the examples."""
        rows = [{name: getattr(f, name) for name in _COLUMNS} for f in self.findings]
        schema = {c: pl.Int64 if c in ("seed", "n", "of") else pl.String for c in _COLUMNS}
        return pl.DataFrame(rows, schema=schema)

    def to_latex(self) -> str:
        """Returns a booktabs table of the findings."""
        rows = (
            [escape_latex(text) for text in (f.severity, f.check, f.system or "all", f.what)]
            for f in self.findings
        )
        head = ["Severity & Check & System & Finding \\\\"]
        return booktabs("lllp{.5\\textwidth}", head, rows, f"Audit of {self.study}.", wide=True)


def counted_findings(findings: Sequence[Finding]) -> str:
    """Returns the number of findings of each severity, in words."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(f"{counts[s]} {s}" for s in SEVERITIES if counts[s]) or "nothing found"
