"""How metrics are held against ratings, and raters against each other: the options of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from levelfield.core.errors import UserError
from levelfield.core.limits import SEED
from levelfield.core.options import Options, option
from levelfield.core.options import group as options_group
from levelfield.io.reading import PathLike, ReadingOptions, columns
from levelfield.stats.estimands import (
    SOFT_ACCURACY,
    Measurement,
    Statistic,
    Systems,
    TieChoice,
)
from levelfield.stats.resampling import Correction, Resampling

if TYPE_CHECKING:
    from levelfield.agree.sources import ManyScores, Samples
else:
    Samples, ManyScores = Sequence[Any] | Any, Any

CorrelationLevel = Literal["segment", "system"]
GroupBy = Literal["all", "system", "source", "dataset"]
CompareBy = Literal["pearson", "spearman"]

NOT_OF_RATINGS = (
    "label_names",
    "source_file",
    "reference_files",
    "control",
    "system",
    "prompt",
    "thoughts",
    "ids",
)
"""Options of reading that files of ratings have no use for."""


def aspects_option(noun: str = "Rated aspect to use") -> Any:
    """Declares the rated aspects that a command takes."""
    return option(
        (), f"{noun}; may be given again.", flags=("--aspect",), metavar="NAME", otherwise="all"
    )


def metrics_option(noun: str = "Metric or family to use") -> Any:
    """Declares the metrics that a command takes of files of scores."""
    return option(
        (), f"{noun}; may be given again.", flags=("--metric", "-m"), metavar="NAME",
        otherwise="all",
    )  # fmt: skip


def joined_mapping() -> Any:
    """Declares the columns of files of scores, ratings and samples."""
    return option(
        {},
        "Field and the column that holds it, in any of the files: id=system+segment, "
        "ratings.ASPECT=COLUMN, metric.NAME=COLUMN; may be given again.",
        flags=("--map",),
        metavar="FIELD=COLUMN",
        read=columns,
    )


@dataclass(frozen=True, kw_only=True)
class JoinOptions(Options):
    """Which scores and ratings are put side by side."""

    mapping: Mapping[str, str] = joined_mapping()
    reading: ReadingOptions = options_group(ReadingOptions(), without=("mapping", *NOT_OF_RATINGS))
    samples: Samples = option(
        (),
        "File of samples, for their systems and sources; may be given again.",
        metavar="FILE",
        is_file=True,
    )
    aspects: tuple[str, ...] = aspects_option()
    metrics: tuple[str, ...] = metrics_option()


@dataclass(frozen=True, kw_only=True)
class CorrelateOptions(JoinOptions):
    """What is correlated with ratings, and how.

    Raises:
        UserError: options that contradict each other.
    """

    lower_is_better: tuple[str, ...] = option(
        (),
        "Metric for which lower is better: its sign is reversed; may be given again.",
        metavar="METRIC",
    )
    level: CorrelationLevel = option(
        "segment", "Correlate samples (segment), or the means of systems (system)."
    )
    group: GroupBy = option(
        "all", "Correlate all samples together, or within each group and average."
    )
    systems: Systems = option(
        "like-these",
        "Make intervals and tests hold for systems like these, which are resampled as sources "
        "are, or for these systems alone.",
    )
    statistics: tuple[Statistic, ...] = option(
        (),
        "Statistic to compute; may be given again.",
        flags=("--statistic",),
        otherwise=f"all but {SOFT_ACCURACY}",
    )
    ties: TieChoice = option(
        "held-out",
        "Choose the threshold of calibrated accuracy on other pairs than it is applied to, or on "
        "the same pairs (acc*eq of WMT).",
    )
    compare: CompareBy = option("pearson", "Compare metrics by this correlation.")
    perm_both: bool = option(
        False,
        "Compare metrics by exchanging whole systems and whole sources (PERM-BOTH of Deutsch, Dror "
        "and Roth 2021) instead.",
    )
    correction: Correction = option(
        "holm", "Correction of p for the number of comparisons in a family."
    )
    family: Literal["aspect", "run"] = option(
        "aspect", "Comparisons that p is adjusted over: those on an aspect, or all."
    )
    alpha: float = option(
        0.05,
        "Significance level: a p below it counts as a difference.",
        above=0,
        below=1,
        metavar="P",
    )
    drift: bool = option(False, "Correlate within systems and within levels of quality as well.")
    parts: PathLike | None = option(
        None,
        "File of `score --parts`, to correlate by number of evaluators as well.",
        metavar="FILE",
        is_file=True,
    )
    resampling: Resampling = options_group(Resampling(), without=("level", "family", "margin"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level == "system" and self.group != "all":
            raise UserError("--level system compares means of systems; it does not accept --group")
        if self.level == "segment" and SOFT_ACCURACY in self.statistics:
            raise UserError(
                f"--statistic {SOFT_ACCURACY} compares means of systems; it requires --level system"
            )
        if self.perm_both and (self.level, self.group, self.systems) != (
            "segment", "all", "like-these",
        ):  # fmt: skip
            raise UserError(
                "--perm-both exchanges systems and sources of all samples together; it accepts "
                "neither --level system nor --group nor --systems these"
            )


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(JoinOptions):
    """Which means are estimated, and which texts are to be rated next."""

    next: int = option(
        0, "Number of texts to draw for rating next, by their scores.", least=0, metavar="N"
    )
    strata: int = option(
        4, "Number of strata of a draw: parts of a system by score.", least=1, most=20, metavar="N"
    )
    seed: int = option(0, "Seed of the draw.", least=0, most=SEED, metavar="N")


@dataclass(frozen=True, kw_only=True)
class StrengthOptions(Options):
    """Which comparisons strengths are estimated from, and how."""

    mapping: Mapping[str, str] = option(
        {},
        "Field (a, b, better, aspect, rater, prompt) and the column that holds it; may be given "
        "again.",
        flags=("--map",),
        metavar="FIELD=COLUMN",
        read=columns,
    )
    format: str | None = option(
        None, "Format of the files.", metavar="NAME", otherwise="detected from content and suffix"
    )
    samples: Samples = option(
        (),
        "File of the compared samples, for their systems and prompts; may be given again.",
        metavar="FILE",
        is_file=True,
    )
    aspects: tuple[str, ...] = aspects_option("Aspect to use")
    cluster: Literal["prompt", "rater"] = option(
        "prompt",
        "Make intervals hold for other prompts (and these raters), or for other raters (and these "
        "prompts).",
    )


@dataclass(frozen=True, kw_only=True)
class AgreementOptions(Options):
    """Whose agreement is measured, and how.

    Raises:
        UserError: metrics of a judge without a judge.
    """

    reading: ReadingOptions = options_group(ReadingOptions(), without=NOT_OF_RATINGS)
    samples: Samples = option(
        (),
        "File of the compared samples, if the ratings are choices that do not name their systems; "
        "may be given again.",
        metavar="FILE",
        is_file=True,
    )
    aspects: tuple[str, ...] = aspects_option()
    by: str = option(
        "",
        "Field whose values are analysed one by one: survey, dataset, system, control.ATTRIBUTE or "
        "another.",
        metavar="FIELD",
    )
    level: Measurement = option(
        "interval", "Level of measurement, for α and κ: names, ranks, or a scale."
    )
    worst: int = option(
        10, "Number of items with the largest disagreement to list.", least=0, metavar="N"
    )
    judge: ManyScores | None = option(
        None,
        "File of a judge's scores, on the raters' scale, to test whether it may replace a rater.",
        metavar="SCORES",
        is_file=True,
    )
    metrics: tuple[str, ...] = metrics_option("Metric or family of --judge to test")
    epsilon: float = option(
        0.1,
        "Share of items by which a judge may be worse than a rater, since it costs less: 0.2 for "
        "experts, 0.15 for trained raters, 0.1 for others.",
        least=0,
        below=1,
        metavar="SHARE",
    )
    seed: int = option(0, "Seed of resampling.", least=0, most=SEED, metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metrics and self.judge is None:
            raise UserError("--metric selects scores of --judge, and there are none")
