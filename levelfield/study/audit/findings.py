"""What an audit says: findings, and the study as its checks look at it."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import polars as pl
from scipy.special import bdtr, bdtrc, gammaln
from scipy.stats import mannwhitneyu

from levelfield.core.continuation import prompt_end
from levelfield.io.tables import booktabs, escape_latex
from levelfield.study.audit.texts import Text
from levelfield.study.cells import Cell, CellKey

K = TypeVar("K")
V = TypeVar("V")

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
EXAMPLES = 3
_EXCERPT = 160
_FEW = 20


class Example(NamedTuple):
    """A text that a finding speaks of: its sample's id, and how it begins."""

    id: str
    text: str


@dataclass(frozen=True)
class Finding:
    """Something that should be looked at before the study is believed.

    Attributes:
        check: what was looked for, e.g. `prompt-not-continued`.
        severity: `serious` (numbers are wrong or can't be compared), `warning`, or `note`.
        system, dataset, control, seed: where; empty (None for the seed) if it is several.
        what: one sentence with its numbers.
        n, of: how many, of how many; of texts unless `what` says otherwise.
        examples: a few of them.
    """

    check: str
    severity: Severity
    system: str
    dataset: str
    control: str
    seed: int | None
    what: str
    n: int
    of: int
    examples: tuple[Example, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the finding as `levelfield study audit --json` has it."""
        return {**vars(self), "examples": [example._asdict() for example in self.examples]}


@dataclass(frozen=True)
class AuditedStudy:
    """The cells of a study with their texts taken apart, once for all checks."""

    cells: tuple[Cell, ...]
    expected: tuple[CellKey, ...] = ()
    training: Iterable[str] = ()

    @functools.cached_property
    def texts(self) -> Mapping[CellKey, Sequence[Text]]:
        return {
            cell.key: [
                Text(s, cell.key, prompt_end(s.prompt, s.text, "letters")) for s in cell.samples
            ]
            for cell in self.cells
        }

    @functools.cached_property
    def systems(self) -> Mapping[tuple[str, str], Sequence[Cell]]:
        """The cells of each system and kind of control: what a finding is about as a rule."""
        return grouped(self.cells, lambda cell: (cell.key.system, cell.key.control))

    @functools.cached_property
    def controls(self) -> Mapping[str, Sequence[Cell]]:
        return grouped(self.cells, lambda cell: cell.key.control)

    def of_system(self, cells: Sequence[Cell]) -> list[Text]:
        return [text for cell in cells for text in self.texts[cell.key]]


@dataclass(frozen=True)
class Limits:
    """From which share of the texts on a finding is serious, a warning, a note."""

    serious: float
    warning: float
    note: float = math.inf

    def severity(self, share: float) -> Severity | None:
        limits = zip(SEVERITIES, (self.serious, self.warning, self.note), strict=True)
        return next((severity for severity, limit in limits if share >= limit), None)


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def share_found(
    check: str, limits: Limits, what: str, hits: Sequence[Text], all_texts: Sequence[Text]
) -> list[Finding]:
    """Returns a finding about the hits among the texts of a system; none below the limits.

    The dataset that is worst decides, if it has 20 texts or more: a fault in one prompt set is
    not to be thinned by the others. `what` continues `12 of 70 texts (17 %)`.
    """
    if not hits:
        return []
    n = _counts(hits)
    of = _counts(all_texts)
    total = (len(hits), len(all_texts))
    shares = {d: (n.get(d, 0), of[d]) for d in of if of[d] >= _FEW} or {"": total}
    worst, (some, of_these) = max(shares.items(), key=lambda item: item[1][0] / item[1][1])
    severity = limits.severity(some / of_these)
    if severity is None:
        return []
    whole = f"{len(hits):,} of {len(all_texts):,} texts ({percent(*total)})"
    apart = some / of_these >= 2 * total[0] / total[1]
    where = f", most on {worst} ({percent(some, of_these)})" if apart else ""
    examples = hits[:: max(1, len(hits) // EXAMPLES)][:EXAMPLES]
    dataset, seed = common(hits, all_texts)
    key = hits[0].key
    return [
        Finding(
            check,
            severity,
            key.system,
            dataset,
            key.control,
            seed,
            f"{whole} {what}{where}",
            *total,
            shown(examples),
        )
    ]


def _counts(texts: Sequence[Text]) -> dict[str, int]:
    return {d: len(of) for d, of in grouped(texts, lambda text: text.key.dataset).items()}


def common(hits: Sequence[Text], all_texts: Sequence[Text]) -> tuple[str, int | None]:
    """The dataset and the seed of the hits, where they have only one and the others more."""
    datasets, seeds = ({getattr(t.key, name) for t in hits} for name in ("dataset", "seed"))
    dataset = datasets.pop() if len(datasets) == 1 else ""
    others = {text.key.seed for text in all_texts}
    return dataset, seeds.pop() if len(seeds) == 1 < len(others) else None


def only(names: Iterable[str]) -> str:
    """The name, if it is one only; else empty."""
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else ""


def shown(texts: Iterable[Text]) -> tuple[Example, ...]:
    return tuple(Example(text.sample.id, excerpt(text.sample.text)) for text in texts)


def excerpt(text: str) -> str:
    """How a text begins, on one line."""
    line = " ".join(text[: 2 * _EXCERPT].split())
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1].rstrip() + "…"


def percent(n: float, of: float) -> str:
    """Returns a share as people read it.

    >>> percent(1, 3), percent(2, 1000), percent(0, 0)
    ('33 %', '0.2 %', '–')
    """
    if not of:
        return "–"
    value = 100 * n / of
    return f"{value:.1f} %" if 0 < value < 1 or 99.5 <= value < 100 else f"{value:.0f} %"


def counted(counts: Mapping[str, int], most: int = 4) -> str:
    """The names with their numbers, largest first: `role markers 12, special tokens 3`."""
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(order) - most} more" if len(order) > most else ""
    return ", ".join(f"{name} {n:,}" for name, n in order[:most]) + more


LEVEL = 1e-7
"""A study has thousands of comparisons; p below this is no chance of any of them."""


def p_of_shares(a: int, n: int, b: int, m: int) -> float:
    """Fisher's exact test of a of n against b of m: twice the smaller tail, at most 1.

    >>> round(p_of_shares(1, 10, 9, 10), 6)
    0.001093
    """
    least, most = max(0, a + b - m), min(n, a + b)
    k = np.arange(least, most + 1)
    log_p = -sum(gammaln(x + 1) for x in (k, n - k, a + b - k, m - a - b + k))
    p = np.exp(log_p - log_p.max())
    tails = p[: a - least + 1].sum(), p[a - least :].sum()
    return min(1.0, 2 * float(min(tails) / p.sum()))


def p_of_more(k: int, n: int, p: float) -> float:
    """P(X ≥ k) of a binomial of n draws with share p.

    >>> round(p_of_more(3, 3, 0.5), 6)
    0.125
    """
    return float(bdtrc(k - 1, n, p)) if k > 0 else 1.0


def p_of_fewer(k: int, n: int, p: float) -> float:
    """P(X ≤ k) of a binomial of n draws with share p.

    >>> round(p_of_fewer(0, 3, 0.5), 6)
    0.125
    """
    return float(bdtr(k, n, p))


def p_of_order(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Mann and Whitney's test: P(X > Y) + P(X = Y) / 2 as it is here, and p, asymptotic.

    >>> share, p = p_of_order([1, 2, 3], [4, 5, 6])
    >>> share
    0.0
    """
    test = mannwhitneyu(x, y, method="asymptotic")
    return float(test.statistic) / (len(x) * len(y)), float(test.pvalue)


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
