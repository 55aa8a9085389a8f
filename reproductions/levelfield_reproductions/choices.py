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
        otherwise="offline/minilm if the id names such a table",
        metavar="NAME",
    )
    pairs: bool = option(
        False, "Use pairs of text and rater for thesis.3 and .5 to .9, with ROUGE of raw texts."
    )
    execution: Execution = group(Execution(), without=_FIXED)


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions(Options):
    """Which metrics are compared with the rated sets, on how many texts, and where."""

    metrics: tuple[str, ...] = option(
        (),
        "Metric or family to measure (defaults only); may be given again.",
        flags=("--metric", "-m"),
        metavar="NAME",
        otherwise="all",
    )
    without: tuple[str, ...] = option(
        (),
        "Metric or family to leave out (defaults only); the report names it. May be given again.",
        metavar="METRIC",
    )
    most: int | None = option(
        None,
        "Maximum number of texts to measure of each set (defaults only): whole clusters, the same "
        "ones in each run.",
        least=FEWEST,
        expected=f"{FEWEST} texts of a set or more",
        otherwise="all",
        metavar="TEXTS",
    )
    execution: Execution = group(Execution(), without=_FIXED)
