"""The options of what derives published numbers again, as Python and `levelfield reproduce` have
them."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.core.options import Options, choices, group, option
from levelfield.scoring.options import Execution

FEWEST = 20
"""So many values a metric needs; of fewer, a correlation says nothing."""

_FIXED = choices(Execution).keys() - {"workers", "ray"}
"""Published numbers and defaults are scored as they are, and values are kept."""


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """How tables of a paper are derived, and where their metrics are scored."""

    model: str = option(
        "",
        "Model for tables of a metric; without an id, or for all, such tables are derived only "
        "with a model.",
        blank=True,
        otherwise="offline/minilm where such a table is asked for",
        metavar="NAME",
    )
    pairs: bool = option(
        False, "Take pairs of text and rater for thesis.3 and .5 to .9, with ROUGE of raw texts."
    )
    execution: Execution = group(Execution(), without=_FIXED)


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions(Options):
    """Which metrics are compared with the rated sets, on how many texts, and where."""

    metrics: tuple[str, ...] = option(
        (),
        "Metric or family to measure, with defaults; may be given again.",
        flags=("--metric", "-m"),
        metavar="NAME",
        otherwise="all",
    )
    without: tuple[str, ...] = option(
        (),
        "Metric or family to leave out, with defaults; may be given again. The report names it.",
        metavar="METRIC",
    )
    most: int | None = option(
        None,
        "Measure at most this many texts of each set, with defaults: whole clusters, the same "
        "ones in each run.",
        least=FEWEST,
        expected=f"{FEWEST} texts of a set or more",
        otherwise="all",
        metavar="TEXTS",
    )
    execution: Execution = group(Execution(), without=_FIXED)
