"""What is known of the agreement of raters: per group, pair and rater, as JSON, frame and table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from levelfield.agree.ratings import Standardised
from levelfield.io.tables import booktabs, escape_latex
from levelfield.stats.estimands import Measurement
from levelfield.stats.estimate import Estimate, finite

ALL_ASPECTS = "all aspects"
"""The name of the group in which an item is a sample on an aspect."""

_ICC = ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)", "ICC(2,k)")
"""The intraclass correlations of the LaTeX table."""

_SCHEMA = {
    "aspect": pl.String,
    "part": pl.String,
    "measure": pl.String,
    "a": pl.String,
    "b": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "clusters": pl.Int64,
    "undefined": pl.String,
    "no_interval": pl.String,
    "note": pl.String,
}


@dataclass(frozen=True)
class RaterPair:
    """Two raters on the items that both rated.

    Attributes:
        a, b: the raters.
        items: how many items both rated.
        pearson, spearman: correlations.
        kappa: Cohen's κ, without weights for nominal ratings, else with quadratic ones.
    """

    a: str
    b: str
    items: int
    pearson: Estimate
    spearman: Estimate
    kappa: Estimate

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "a": self.a,
            "b": self.b,
            "items": self.items,
            "pearson": _document(self.pearson),
            "spearman": _document(self.spearman),
            "kappa": _document(self.kappa),
        }


@dataclass(frozen=True)
class RaterSummary:
    """How one rater used the scale.

    Attributes:
        n: how many ratings.
        mean, sd: sd with n − 1; NaN for one rating.
        low, high: the lowest and the highest rating.
    """

    rater: str
    n: int
    mean: float
    sd: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "sd": finite(self.sd)}


@dataclass(frozen=True)
class Agreement:
    """Agreement on one aspect within one part.

    Attributes:
        aspect: its name, or `ALL_ASPECTS`.
        part: which part of the samples, e.g. a survey; `OVERALL` for all of them.
        items: samples on an aspect with at least one rating.
        ratings: how many.
        alpha: Krippendorff's.
        icc: the six of `intraclass`, by name.
        pairs: every two raters who rated an item in common.
        raters: by name.
    """

    aspect: str
    part: str
    items: int
    ratings: int
    alpha: Estimate
    icc: Mapping[str, Estimate]
    pairs: tuple[RaterPair, ...]
    raters: tuple[RaterSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "aspect": self.aspect,
            "part": self.part,
            "items": self.items,
            "ratings": self.ratings,
            "alpha": _document(self.alpha),
            "icc": {name: _document(e) for name, e in self.icc.items()},
            "pairs": [p.to_dict() for p in self.pairs],
            "raters": [r.to_dict() for r in self.raters],
        }

    def estimates(self) -> Iterator[tuple[str, str, str, Estimate]]:
        """Name of the measure, the two raters where it is of two, and the estimate."""
        yield "alpha", "", "", self.alpha
        for name, e in self.icc.items():
            yield name, "", "", e
        for p in self.pairs:
            for name, e in (("pearson", p.pearson), ("spearman", p.spearman), ("kappa", p.kappa)):
                yield name, p.a, p.b, e


@dataclass(frozen=True)
class Disagreement:
    """An item that raters disagree on.

    Attributes:
        variance: of its ratings, with m − 1.
        values: rater -> rating.
    """

    id: str
    aspect: str
    part: str
    variance: float
    values: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "values": dict(self.values)}


@dataclass(frozen=True)
class AgreementReport:
    """Agreement of raters, part by part.

    Attributes:
        groups: by aspect, then by part; the group of all comes last.
        worst: the items with the largest variance, the largest first.
        signature: every choice that could change a number.
        z_scores: the ratings, standardised by rater; see `ratings.z_scores`.
        by, level: as for `agreement`.
        files: where the ratings come from.
    """

    groups: tuple[Agreement, ...]
    worst: tuple[Disagreement, ...]
    signature: str
    z_scores: tuple[Standardised, ...] = field(repr=False, compare=False)
    by: str = ""
    level: Measurement = "interval"
    files: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document of `levelfield agreement --json`; an undefined number is None."""
        return {
            "files": list(self.files),
            "by": self.by or None,
            "level": self.level,
            "signature": self.signature,
            "groups": [g.to_dict() for g in self.groups],
            "worst": [d.to_dict() for d in self.worst],
        }

    def to_polars(self) -> pl.DataFrame:
        """One row an aspect, part and measure; of measures of two raters, one a pair.

        `value`, `low` and `high` are null where `undefined` or `no_interval` gives a reason.
        """
        rows = [
            {
                "aspect": g.aspect,
                "part": g.part,
                "measure": measure,
                "a": a or None,
                "b": b or None,
                **_document(estimate),
            }
            for g in self.groups
            for measure, a, b, estimate in g.estimates()
        ]
        return pl.DataFrame(rows, schema=_SCHEMA)

    def to_latex(self) -> str:
        """A booktabs table: Krippendorff's α and intraclass correlations, a row a group.

        A dash is an undefined value.
        """
        of_parts = [escape_latex(self.by.capitalize())] if self.by else []
        head = " & ".join(["Aspect", *of_parts, "$\\alpha$", "95\\,\\% interval", *_ICC, "items"])
        rows = (
            [
                escape_latex(g.aspect),
                *([escape_latex(g.part)] if self.by else []),
                _cell(g.alpha.value),
                "--"
                if g.alpha.why_no_interval
                else f"{_cell(g.alpha.low)} to {_cell(g.alpha.high)}",
                *(_cell(g.icc[name].value) for name in _ICC),
                f"{g.alpha.n:,}",
            ]
            for g in self.groups
        )
        caption = (
            f"Agreement of raters: Krippendorff's alpha ({self.level}) with its interval, and "
            "intraclass correlations of one rating and of the mean of k."
        )
        columns = "l" * (1 + len(of_parts)) + "r" * (3 + len(_ICC))
        return booktabs(columns, [head + " \\\\"], rows, caption, comments=[self.signature]) + "\n"


def _document(e: Estimate) -> dict[str, Any]:
    return e.to_dict(why_undefined="undefined", why_no_interval="no_interval")


def _cell(value: float) -> str:
    return f"{value:.3f}".replace("-", "$-$") if math.isfinite(value) else "--"


def _ends(e: Estimate) -> str:
    return "--" if e.why_no_interval else f"{_cell(e.low)} to {_cell(e.high)}"
