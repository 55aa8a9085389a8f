"""Findings of an audit, the study as its checks see it, and the table of checks."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import polars as pl
import scipy

from levelfield.core.continuation import prompt_end
from levelfield.core.documents import Document
from levelfield.core.strings import one_line, shortened
from levelfield.io.frames import Framed, FrameRows
from levelfield.io.tables import Table, TableColumn
from levelfield.study.audit.texts import Text
from levelfield.study.cells import Cell, CellKey, grouped

V = TypeVar("V")

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
EXAMPLES = 3
_EXCERPT = 160
_FEW = 20


class Example(NamedTuple):
    """A text that a finding cites: the id of its sample, and how it begins."""

    id: str
    text: str


@dataclass(frozen=True)
class Finding(Document):
    """A possible fault, to examine before the study is trusted.

    Attributes:
        check: what was looked for, e.g. `prompt-not-continued`.
        severity: `serious` (numbers are wrong or can't be compared), `warning`, or `note`.
        system, dataset, control, seed: where; empty (None for the seed) if it is several.
        what: one sentence with its numbers.
        n, of: how many of how many; texts unless `what` says otherwise.
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


@dataclass(frozen=True)
class AuditedStudy:
    """The cells of a study with their texts taken apart, once for all checks."""

    cells: tuple[Cell, ...]
    expected: tuple[CellKey, ...] = ()
    training: Iterable[str] = ()
    _facts: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def fact(self, find: Callable[[AuditedStudy], V]) -> V:
        """Returns what a function computes from the study, once for all parts."""
        if find not in self._facts:
            self._facts[find] = find(self)
        value: V = self._facts[find]
        return value

    @functools.cached_property
    def texts(self) -> Mapping[CellKey, Sequence[Text]]:
        return {
            cell.key: [
                Text(s, cell.key, prompt_end(s.prompt, s.text, "letters")) for s in cell.samples
            ]
            for cell in self.cells
        }

    def parts(self, per: Per) -> list[StudyPart]:
        """Returns the study cut into the parts that a check looks at one by one."""
        axes = _AXES[per]
        if not axes:
            return [StudyPart(self, self.cells)]
        groups = grouped(self.cells, lambda cell: tuple(getattr(cell.key, axis) for axis in axes))
        return [
            StudyPart(self, cells, **dict(zip(axes, names, strict=True)))
            for names, cells in groups.items()
        ]


Per = Literal["study", "control", "dataset", "system"]
_AXES: Mapping[Per, tuple[str, ...]] = {
    "study": (),
    "control": ("control",),
    "dataset": ("control", "dataset"),
    "system": ("system", "control"),
}


@dataclass(frozen=True)
class StudyPart:
    """Cells that a check compares; what they share is named, what differs is empty."""

    study: AuditedStudy
    cells: Sequence[Cell]
    control: str = ""
    dataset: str = ""
    system: str = ""

    @functools.cached_property
    def texts(self) -> list[Text]:
        return [text for cell in self.cells for text in self.study.texts[cell.key]]

    @property
    def texts_of_systems(self) -> dict[str, list[Text]]:
        return grouped(self.texts, lambda text: text.key.system)

    @property
    def cells_of_systems(self) -> dict[str, list[Cell]]:
        return grouped(self.cells, lambda cell: cell.key.system)


@dataclass(frozen=True)
class Limits:
    """From which share of the texts on a finding is serious, a warning, a note."""

    serious: float
    warning: float
    note: float = math.inf

    def severity(self, share: float) -> Severity | None:
        limits = zip(SEVERITIES, (self.serious, self.warning, self.note), strict=True)
        return next((severity for severity, limit in limits if share >= limit), None)


class Fault(NamedTuple):
    """A fault that a check reports, as in `Finding`; its place is the part's unless named.

    The severity may be a number, such as a share, which the limits of the check turn into one.
    """

    severity: Severity | float
    what: str
    n: int
    of: int
    examples: Sequence[Text] = ()
    system: str | None = None
    dataset: str | None = None
    control: str | None = None
    seed: int | None = None

    @classmethod
    def from_texts(
        cls, severity: Severity | float, sentence: str, hits: Sequence[Text], texts: Sequence[Text]
    ) -> Fault:
        """Returns a fault in some of a system's texts, with the first of them as examples."""
        dataset, seed = common((text.key for text in hits), (text.key for text in texts))
        place = (hits[0].key.system, dataset, hits[0].key.control, seed)
        return cls(severity, sentence, len(hits), len(texts), hits[:EXAMPLES], *place)


class Share(NamedTuple):
    """Texts of a system with a fault; their share decides how severe that is.

    `predicate` continues `12 of 70 texts (17 %)`.
    """

    predicate: str
    hits: Sequence[Text]
    texts: Sequence[Text]
    limits: Limits | None = None

    def fault(self, limits: Limits) -> Fault | None:
        """Returns the fault; None below the limits.

        The worst dataset of 20 texts or more decides, so that other prompt sets do not dilute a
        fault in one.
        """
        if not self.hits:
            return None
        hits, texts = (
            Counter(text.key.dataset for text in part) for part in (self.hits, self.texts)
        )
        total = (len(self.hits), len(self.texts))
        shares = {d: (hits[d], n) for d, n in texts.items() if n >= _FEW} or {"": total}
        worst, (k, n) = max(shares.items(), key=lambda item: item[1][0] / item[1][1])
        if (severity := limits.severity(k / n)) is None:
            return None
        apart = k / n >= 2 * total[0] / total[1]
        where = f", most on {worst} ({percent(k, n)})" if apart else ""
        sentence = f"{total[0]:,} of {total[1]:,} texts ({percent(*total)}) {self.predicate}{where}"
        examples = self.hits[:: max(1, len(self.hits) // EXAMPLES)][:EXAMPLES]
        fault = Fault.from_texts(severity, sentence, self.hits, self.texts)
        return fault._replace(examples=examples)


Faults = Iterable[Fault | Share]


@dataclass(frozen=True)
class Check:
    """A check of the audit: a function that looks for one kind of fault, part by part."""

    name: str
    per: Per
    limits: Limits
    find: Callable[[StudyPart], Faults]

    def __call__(self, study: AuditedStudy) -> list[Finding]:
        """Returns the findings in all parts of a study."""
        return [
            finding
            for part in study.parts(self.per)
            for result in self.find(part)
            if (finding := self._finding(part, result))
        ]

    def _finding(self, part: StudyPart, result: Fault | Share) -> Finding | None:
        fault = result.fault(result.limits or self.limits) if isinstance(result, Share) else result
        if fault is None:
            return None
        number = fault.severity
        severity = number if isinstance(number, str) else self.limits.severity(number)
        if severity is None:
            return None
        axes = ("system", "dataset", "control")
        place = {axis: getattr(part, axis) for axis in axes if getattr(fault, axis) is None}
        fields = {"severity": severity, **place, "examples": shown(fault.examples)}
        return Finding(self.name, **fault._asdict() | fields)


def check(
    name: str, *, per: Per, limits: Limits = Limits(math.inf, math.inf)
) -> Callable[[Callable[[StudyPart], Faults]], Check]:
    """Makes a function a check of the audit, which `levelfield.study.audit` lists.

    Args:
        name: what findings call it.
        per: what the function compares: all cells, those of a kind of control, those of a dataset
            and kind of control, or those of a system and kind of control.
        limits: from which number on a `Share`, or a `Fault` with a number, is a finding.
    """
    return lambda find: Check(name, per, limits, find)


def common(keys: Iterable[CellKey], all_keys: Iterable[CellKey]) -> tuple[str, int | None]:
    """Returns the dataset, if there is one only, and the seed, if it is one only of several."""
    keys = set(keys)
    seeds = {key.seed for key in keys}
    several = len({key.seed for key in all_keys}) > 1
    return only(key.dataset for key in keys), seeds.pop() if several and len(seeds) == 1 else None


def only(names: Iterable[str]) -> str:
    """Returns the name if there is exactly one, else an empty string."""
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else ""


def shown(texts: Iterable[Text]) -> tuple[Example, ...]:
    return tuple(Example(text.sample.id, excerpt(text.sample.text)) for text in texts)


def excerpt(text: str) -> str:
    """Returns the beginning of a text on one line."""
    return shortened(one_line(text[: 2 * _EXCERPT]), _EXCERPT)


def percent(n: float, total: float) -> str:
    """Returns a share as people read it.

    >>> percent(1, 3), percent(2, 1000), percent(0, 0)
    ('33 %', '0.2 %', '–')
    """
    if not total:
        return "–"
    value = 100 * n / total
    return f"{value:.1f} %" if 0 < value < 1 or 99.5 <= value < 100 else f"{value:.0f} %"


def counted(counts: Mapping[str, int], most: int = 4) -> str:
    """Returns the names with their numbers, largest first: `role markers 12, special tokens 3`."""
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(order) - most} more" if len(order) > most else ""
    return ", ".join(f"{name} {n:,}" for name, n in order[:most]) + more


LEVEL = 1e-7
"""Limit for p: low enough that none of a study's thousands of comparisons gets there by chance."""


def p_of_shares(a: int, n: int, b: int, m: int) -> float:
    """Returns p of Fisher's exact test of a of n against b of m: twice the smaller tail, at most 1.

    >>> round(p_of_shares(1, 10, 9, 10), 6)
    0.001093
    """
    least, most = max(0, a + b - m), min(n, a + b)
    k = np.arange(least, most + 1)
    log_p = -sum(scipy.special.gammaln(x + 1) for x in (k, n - k, a + b - k, m - a - b + k))
    p = np.exp(log_p - log_p.max())
    tails = p[: a - least + 1].sum(), p[a - least :].sum()
    return min(1.0, 2 * float(min(tails) / p.sum()))


def p_of_more(k: int, n: int, p: float) -> float:
    """Returns P(X ≥ k) of a binomial of n draws with share p.

    >>> round(p_of_more(3, 3, 0.5), 6)
    0.125
    """
    return float(scipy.special.bdtrc(k - 1, n, p)) if k > 0 else 1.0


def p_of_fewer(k: int, n: int, p: float) -> float:
    """Returns P(X ≤ k) of a binomial of n draws with share p.

    >>> round(p_of_fewer(0, 3, 0.5), 6)
    0.125
    """
    return float(scipy.special.bdtr(k, n, p))


def share_above(x: Sequence[float], y: Sequence[float]) -> float:
    """Returns P(X > Y) + P(X = Y) / 2 of the data: Mann and Whitney's U over the number of pairs.

    >>> share_above([1, 2, 3], [2, 5, 6])
    0.16666666666666666
    """
    ordered = np.sort(y)
    below = sum(np.searchsorted(ordered, x, side).sum() for side in ("left", "right"))
    return float(below / (2 * len(x) * len(y)))


def p_of_order(x: Sequence[float], y: Sequence[float]) -> float:
    """Returns the asymptotic p of Mann and Whitney's test.

    >>> round(p_of_order([1, 2, 3], [4, 5, 6]), 3)
    0.081
    """
    return float(scipy.stats.mannwhitneyu(x, y, method="asymptotic").pvalue)


_COLUMNS = ("check", "severity", "system", "dataset", "control", "seed", "what", "n", "of")


@dataclass(frozen=True, repr=False)
class AuditReport(Framed):
    """The findings of an audit.

    Attributes:
        study: the name of the study.
        findings: the serious ones first.
    """

    study: str
    findings: tuple[Finding, ...]

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """Returns the findings of this severity or a worse one."""
        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return tuple(finding for finding in self.findings if finding.severity in bad)

    def _frame(self) -> FrameRows:
        """Returns one row per finding, without the examples."""
        schema = {c: pl.Int64 if c in ("seed", "n", "of") else pl.String for c in _COLUMNS}
        return schema, self.to_dict()["findings"]

    def to_latex(self) -> str:
        """Returns a booktabs table of the findings."""
        names = [TableColumn(name, words=True) for name in ("severity", "check", "system")]
        table = Table(
            [*names, TableColumn("finding", words=True, sentences=True)],
            [[f.severity, f.check, f.system or "all", f.what] for f in self.findings],
            caption=f"audit of {self.study}",
            wide=True,
        )
        return table.to_latex()


def counted_findings(findings: Sequence[Finding]) -> str:
    """Returns the number of findings of each severity, in words."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(f"{counts[s]} {s}" for s in SEVERITIES if counts[s]) or "nothing found"
