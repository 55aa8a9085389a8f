"""Options of `levelfield plan`: what is planned, and from what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelfield.agree.design import (
    NOT_OF_RATINGS,
    aspects_option,
    joined_mapping,
    metrics_option,
)
from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.options import group as options_group
from levelfield.io.reading import ReadingOptions, columns

if TYPE_CHECKING:
    from levelfield.agree.sources import Ratings, Samples
else:
    Samples = Ratings = Sequence[Any] | Any


@dataclass(frozen=True, kw_only=True)
class PowerOptions(Options):
    """How sure a study is to be."""

    power: float = option(
        0.8, "Share of studies that show the difference.", above=0, below=1, metavar="P"
    )
    alpha: float = option(
        0.05, "Significance level, before any correction.", above=0, below=1, metavar="P"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power <= self.alpha:
            raise UserError(f"power={self.power:g}: expected more than alpha, {self.alpha:g}")


@dataclass(frozen=True, kw_only=True)
class SystemPlanOptions(PowerOptions):
    """A comparison of systems, from a pilot or from standard deviations.

    Raises:
        UserError: standard deviations that contradict each other.
    """

    samples: Samples = option(
        (),
        "File of the pilot's samples, for their systems, seeds and inputs; may be given again.",
        metavar="FILE",
        is_file=True,
    )
    mapping: Mapping[str, str] = option(
        {},
        "Field and the column that holds it, in any of the files: id=system+segment, "
        "metric.NAME=COLUMN; may be given again.",
        flags=("--map",),
        metavar="FIELD=COLUMN",
        read=columns,
    )
    metrics: tuple[str, ...] = metrics_option("Metric or family of the pilot to take")
    difference: float | None = option(
        None, "True difference between two systems that the study is to show.", above=0, metavar="X"
    )
    inputs: int | None = option(
        None,
        "Number of inputs for which the detectable difference is given.",
        least=2,
        otherwise="the pilot's, or 100",
        metavar="N",
    )
    seeds: tuple[int, ...] = option(
        (1, 2, 3, 5, 10),
        "Number of seeds per system to plan with; may be given again.",
        flags=("--seeds",),
        least=1,
        fewest=1,
        metavar="N",
    )
    systems: int | None = option(
        None,
        "Number of systems, all compared in pairs; the level is divided by the number of "
        "comparisons.",
        least=2,
        otherwise="the pilot's, or 2",
        metavar="N",
    )
    sd: float | None = option(
        None,
        "Standard deviation over inputs of the difference between two systems with one text each.",
        above=0,
        otherwise="the pilot's",
        metavar="X",
    )
    sd_texts: float | None = option(
        None,
        "Standard deviation over seeds of the texts of a system for one input; part of --sd.",
        least=0,
        otherwise="the pilot's, or 0",
        metavar="X",
    )
    sd_seeds: float | None = option(
        None,
        "Standard deviation over seeds of the mean of a system on very many inputs.",
        least=0,
        otherwise="the pilot's",
        metavar="X",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sd is not None and 2 * (self.sd_texts or 0) ** 2 > self.sd**2:
            raise UserError(
                f"sd_texts={self.sd_texts:g}: expected at most {self.sd / 2**0.5:.3g}, since the "
                f"texts of two systems are part of sd={self.sd:g}"
            )


@dataclass(frozen=True, kw_only=True)
class MetricPlanOptions(PowerOptions):
    """A metric held against people, from a pilot or from a stated correlation.

    Raises:
        UserError: correlations that no three variables have.
    """

    ratings: Ratings = option(
        (), "File of the pilot's ratings; may be given again.", metavar="FILE", is_file=True
    )
    mapping: Mapping[str, str] = joined_mapping()
    samples: Samples = option(
        (),
        "File of the pilot's samples, for their sources; may be given again.",
        metavar="FILE",
        is_file=True,
    )
    metrics: tuple[str, ...] = metrics_option("Metric or family of the pilot to take")
    aspects: tuple[str, ...] = aspects_option("Rated aspect of the pilot to take")
    lower_is_better: tuple[str, ...] = option(
        (),
        "Metric of the pilot for which lower is better: its sign is reversed; may be given again.",
        metavar="METRIC",
    )
    width: float = option(
        0.2, "Width of the 95 % interval of the correlation.", above=0, below=2, metavar="X"
    )
    r: float | None = option(
        None,
        "Expected correlation of the metric with people.",
        above=-1,
        below=1,
        otherwise="the pilot's",
        metavar="R",
    )
    against: float | None = option(
        None,
        "Correlation of another metric with the same people, from which the study is to "
        "distinguish that of the metric.",
        above=-1,
        below=1,
        metavar="R",
    )
    between: float = option(
        0.5, "Correlation of the two metrics with each other.", above=-1, below=1, metavar="R"
    )
    raters: tuple[int, ...] = option(
        (1, 2, 3, 5),
        "Number of raters per sample to plan with; may be given again.",
        flags=("--raters",),
        least=1,
        fewest=1,
        metavar="N",
    )
    agreement: float | None = option(
        None,
        "Reliability of one rating: Krippendorff's alpha, or ICC(1,1).",
        above=0,
        most=1,
        otherwise="the pilot's",
        metavar="X",
    )
    rated_by: int | None = option(
        None,
        "Number of raters per sample on which the expected correlation is based.",
        least=1,
        otherwise="the pilot's, or 1",
        metavar="N",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against is None:
            self.refuse(("between",), "plans without `against`, another metric,")
            return
        if self.r is None:
            raise UserError("against: needs r, the correlation of the metric itself")
        if self.r == self.against:
            raise UserError(f"against={self.against:g}: expected a number other than r")
        r, s, b = self.r, self.against, self.between
        if 1 - r * r - s * s - b * b + 2 * r * s * b <= 0:
            raise UserError(
                f"between={b:g}: no two metrics with correlations {r:g} and {s:g} with people "
                "have this correlation with each other"
            )


@dataclass(frozen=True, kw_only=True)
class RaterPlanOptions(Options):
    """Agreement of raters, from a pilot or from a stated agreement."""

    reading: ReadingOptions = options_group(ReadingOptions(), without=NOT_OF_RATINGS)
    aspects: tuple[str, ...] = aspects_option("Rated aspect of the pilot to take")
    width: float = option(
        0.2, "Width of the 95 % interval of Krippendorff's alpha.", above=0, below=2, metavar="X"
    )
    agreement: float | None = option(
        None,
        "Expected agreement: Krippendorff's alpha at the interval level, or ICC(1,1).",
        least=0,
        below=1,
        otherwise="the pilot's",
        metavar="X",
    )
    raters: tuple[int, ...] = option(
        (2, 3, 5, 10),
        "Number of raters per item to plan with; may be given again.",
        flags=("--raters",),
        least=2,
        fewest=1,
        metavar="N",
    )
