"""The options of the verbs of a study, as Python and `levelfield study` have them."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.core.limits import JOBS
from levelfield.core.options import Options, group, option
from levelfield.generation.contract import SearchOptions
from levelfield.io.reading import PathLike
from levelfield.scoring.options import Execution
from levelfield.stats.resampling import DEFAULT, Resampling


@dataclass(frozen=True, kw_only=True)
class SystemOptions(Options):
    """Which systems of a study are included."""

    only: tuple[str, ...] = option(
        (),
        "Name of a system to include, or of its table; may be given again.",
        metavar="SYSTEM",
        otherwise="all",
    )


@dataclass(frozen=True, kw_only=True)
class StudyCalibrateOptions(SearchOptions, SystemOptions):
    """Whose strengths are found, and how near they come to the budgets."""


@dataclass(frozen=True, kw_only=True)
class StudyMeasureOptions(SystemOptions):
    """Which texts of a study are measured, how and where."""

    execution: Execution = group(Execution())


@dataclass(frozen=True, kw_only=True)
class StudyRunOptions(StudyMeasureOptions):
    """How the systems of a study are asked, and their texts measured.

    Devices, workers and time limits are about measuring; a system has a time limit of its own in
    the study file.
    """

    jobs: int = option(
        1,
        "Number of cells to run at once; the cells of a technique run one after the other.",
        least=1,
        most=JOBS,
        flags=("--jobs", "-j"),
        metavar="N",
    )
    scores: bool = option(
        True,
        "Measure the texts after collecting them; false only collects them.",
        flag_help="Collect the texts and measure nothing.",
    )


@dataclass(frozen=True, kw_only=True)
class StudyAuditOptions(Options):
    """What the texts of a study are compared with."""

    training: tuple[PathLike, ...] = option(
        (),
        "File of texts that systems were trained on, in any format of samples; the audit searches "
        "the systems' texts for them. May be given again.",
        metavar="FILE",
        is_file=True,
    )


@dataclass(frozen=True, kw_only=True)
class StudyReportOptions(Options):
    """What the report of a study holds."""

    audit: bool = option(
        True,
        "Include the findings of the audit.",
        flag_help="Leave out the findings of the audit.",
    )
    resampling: Resampling = group(DEFAULT, without=("resamples", "permutations", "level"))
