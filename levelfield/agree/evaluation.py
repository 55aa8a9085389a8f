"""Meta-evaluation: any number of metrics against any number of rated aspects, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from levelfield.agree.compare import Comparisons, compare
from levelfield.agree.correlate import (
    SUBJECTS,
    SYSTEMS,
    Correlation,
    correlation_table,
    correlations,
    parts_from,
    within_systems,
)
from levelfield.agree.design import (
    CompareBy,
    CorrelateOptions,
    CorrelationLevel,
    GroupBy,
)
from levelfield.agree.drift import Drift, drift, load_parts
from levelfield.agree.join import RatedScores, join, merged_columns
from levelfield.agree.sources import ManyScores, Ratings, file_names, read_all
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.signature import signature
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.tables import Table
from levelfield.stats.estimands import STATISTICS, Statistic, Systems, TieChoice
from levelfield.stats.estimate import Estimate, finite
from levelfield.stats.resampling import DEFAULT, Correction, Resampling

_MEANS: Mapping[GroupBy, str] = {
    "all": "samples together",
    "system": "mean over systems",
    "source": "mean over sources",
    "dataset": "mean over data sets",
}

_COLUMNS = columns_of(
    "metric aspect group statistic value:float low:float high:float corrected:float n:int "
    "clusters:int why_undefined why_no_interval note"
)


@dataclass(frozen=True, repr=False)
class MetaEvaluation(Framed):
    """Agreement of metrics with ratings, and which metric agrees better.

    Attributes:
        table: the scores and ratings.
        correlations: as `correlate` orders them.
        comparisons: of the metrics; empty for a single one.
        drifts: empty if they were not asked for.
        level, group, by, correction, alpha, resampling, systems, ties, perm_both: as for
            `correlations` and `compare`.
        scores, ratings: the files that they come from.
        within: beside correlations of all samples together, the means over systems of that by which
            metrics are compared; empty elsewhere, and of one system.
    """

    table: RatedScores
    correlations: Sequence[Correlation]
    comparisons: Comparisons
    drifts: Sequence[Drift]
    level: CorrelationLevel
    group: GroupBy
    by: CompareBy
    correction: Correction
    alpha: float
    resampling: Resampling
    systems: Systems = "like-these"
    ties: TieChoice = "held-out"
    perm_both: bool = False
    scores: tuple[str, ...] = ()
    ratings: tuple[str, ...] = ()
    within: Sequence[Correlation] = ()

    _entries = (
        "scores ratings signature *_size only_scored=table.only_scored "
        "only_rated=table.only_rated same_text=table.same_text notes=table.notes level group "
        "systems=_population speaks_of metrics=table.signatures raters=table.raters correlations "
        "within_systems=within? comparisons=_verdicts rankings=comparisons.rankings drift=drifts"
    )

    @property
    def what(self) -> str:
        """What is correlated, in words."""
        if self.level == "segment":
            return f"{_MEANS[self.group]}; {self.speaks_of}"
        return f"means of systems; {self.speaks_of}"

    @property
    def of_like_systems(self) -> bool:
        """Whether samples are correlated, and numbers speak of systems like these."""
        like = self.systems == "like-these" and self.table.has_systems
        return like and self.level == "segment"

    @property
    def speaks_of(self) -> str:
        """What intervals and tests speak of, in words."""
        if self.level == "system":
            return f"intervals and tests: {SYSTEMS[self.systems]}"
        subject = SUBJECTS[self.systems] if self.table.has_systems else "texts like these"
        return f"intervals and tests: {subject}"

    @property
    def signature(self) -> str:
        """Every choice of this run that could change a number."""
        r = self.resampling
        return signature(
            "correlate",
            {
                "level": self.level,
                "group": self.group,
                "systems": self.systems if self.table.has_systems else "none",
                **({"ties": self.ties} if self.ties != "held-out" else {}),
                "flip": ",".join(sorted(self.table.flipped)) or "none",
                "interval": f"{r.level:g}",
                "resamples": r.resamples,
                "compare": self.by,
                **({"test": "perm-both"} if self.perm_both else {}),
                "permutations": r.permutations,
                "correction": self.correction,
                "family": "aspect" if r.family == "metric" else "run",
                "seed": r.seed,
            },
        )

    @property
    def has_row_per_group(self) -> bool:
        """Whether each group has correlations of its own, beside their mean."""
        return self.level == "segment" and self.group in ("system", "dataset")

    def rows(self) -> list[Correlation]:
        """One row a metric and aspect: the mean where there are groups."""
        return [c for c in self.correlations if self.group == "all" or c.is_mean or c.systems]

    def within_of(self, metric: str, aspect: str) -> Estimate | None:
        """The correlation within systems, shown next to that of all samples together."""
        return next(
            (c.estimates[self.by] for c in self.within if (c.metric, c.aspect) == (metric, aspect)),
            None,
        )

    def parted(self, aspect: str) -> list[str]:
        """The metrics whose correlation within systems is another than that of all samples."""
        return [
            c.metric
            for c in self.rows()
            if c.aspect == aspect
            and self.by in c.estimates
            and (inside := self.within_of(c.metric, aspect)) is not None
            and parts_from(inside, c.estimates[self.by])
        ]

    @property
    def _size(self) -> dict[str, int]:
        table = self.table
        return {"n": len(table.ids), "clusters": np.unique(table.clusters).size}

    @property
    def _population(self) -> Systems | None:
        return self.systems if self.table.has_systems else None

    @property
    def _verdicts(self) -> list[dict[str, Any]]:
        return [c.to_dict(self.alpha) for c in self.comparisons.comparisons]

    def _frame(self) -> FrameRows:
        """One row a metric, aspect, group and statistic.

        `corrected` is r without the noise of the systems' means, at system level; null elsewhere.
        `group` is null for a mean over groups; `value`, `low` and `high` are null where
        `why_undefined` or `why_no_interval` gives a reason.
        """
        rows = [
            {
                "metric": c.metric,
                "aspect": c.aspect,
                "group": c.group or None,
                "statistic": statistic,
                **estimate.to_dict(),
                "corrected": finite(c.corrected) if statistic == "pearson" else None,
            }
            for c in self.correlations
            for statistic, estimate in c.estimates.items()
        ]
        return _COLUMNS, rows

    def to_latex(self, statistics: Sequence[Statistic] = ("pearson", "spearman", "kendall")) -> str:
        """A booktabs table, metric × (aspect × statistic), the best of a column in bold."""
        return self._table(statistics).to_latex() + "\n"

    def _drawn(self) -> Sequence[Table]:
        return [self._table(("pearson", "spearman", "kendall"))]

    def _table(self, statistics: Sequence[Statistic]) -> Table:
        return correlation_table(
            self.rows(),
            statistics,
            signature=self.signature,
            subject=self.what,
            within=self.within,
        )


PARTED = (
    "all samples together and samples within systems do not agree alike: differences between "
    "systems make up the former; --group system has the latter"
)
"""What is said where the two correlations part."""


def evaluate(
    table: RatedScores,
    *,
    level: CorrelationLevel = "segment",
    group: GroupBy = "all",
    systems: Systems = "like-these",
    wanted: Sequence[Statistic] = STATISTICS,
    ties: TieChoice = "held-out",
    by: CompareBy = "pearson",
    perm_both: bool = False,
    correction: Correction = "holm",
    alpha: float = 0.05,
    with_drift: bool = False,
    parts: Mapping[str, pl.DataFrame] | None = None,
    resampling: Resampling = DEFAULT,
) -> MetaEvaluation:
    """Runs `correlations`, `compare` and, on request, `drift` with the same choices."""
    return MetaEvaluation(
        table=table,
        correlations=correlations(
            table,
            level=level,
            group=group,
            systems=systems,
            wanted=wanted,
            ties=ties,
            resampling=resampling,
        ),
        comparisons=compare(
            table,
            level=level,
            group=group,
            systems=systems,
            by=by,
            perm_both=perm_both,
            correction=correction,
            alpha=alpha,
            resampling=resampling,
        ),
        drifts=drift(table, parts=parts, resampling=resampling) if with_drift or parts else (),
        within=(
            within_systems(table, by, systems=systems, resampling=resampling)
            if level == "segment" and group == "all"
            else ()
        ),
        level=level,
        group=group,
        by=by,
        correction=correction,
        alpha=alpha,
        resampling=resampling,
        systems=systems,
        ties=ties,
        perm_both=perm_both,
    )


@keywords(CorrelateOptions)
def correlate(
    scores: ManyScores,
    ratings: Ratings,
    chosen: CorrelateOptions | None = None,
    **words: Any,
) -> MetaEvaluation:
    """Measures how far metrics agree with people's ratings, and which agrees best.

    Args:
        scores: files that `levelfield score` or another program wrote, as `load_scores` reads
            them, data frames or records of such rows, what `score` returned, or `Scores`. The
            same metric under two signatures becomes two metrics, named after the files.
        ratings: files of samples with ratings or of one rating a row, data frames or records of
            them, what `load_ratings` returns, or samples with ratings.
        chosen: what is correlated, and how.
        words: options of `CorrelateOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: a name that is not there, no id in common, or a grouping that the samples do
            not allow.

    >>> evaluation = correlate("scores.jsonl", "texts.jsonl", group="system")  # doctest: +SKIP
    >>> evaluation.to_polars()  # doctest: +SKIP
    """
    chosen = CorrelateOptions.of(chosen, **words)
    columns, rated, samples = read_all(
        scores, ratings, chosen.samples, format=chosen.reading.format, mapping=chosen.mapping
    )
    table = join(
        merged_columns(columns),
        rated,
        aspects=chosen.aspects,
        metrics=chosen.metrics,
        flip=chosen.lower_is_better,
        samples=samples,
    )
    del columns, rated, samples  # the table has what is needed of them
    metric_parts = load_parts(chosen.parts) if chosen.parts else None
    if metric_parts is not None and not set(metric_parts) & set(table.metrics):
        raise UserError(
            f"{chosen.parts}: holds parts of {', '.join(metric_parts)}, "
            f"and none of {', '.join(table.metrics)}"
        )
    evaluation = evaluate(
        table,
        level=chosen.level,
        group=chosen.group,
        systems=chosen.systems,
        wanted=chosen.statistics or STATISTICS,
        ties=chosen.ties,
        by=chosen.compare,
        perm_both=chosen.perm_both,
        correction=chosen.correction,
        alpha=chosen.alpha,
        with_drift=chosen.drift,
        parts=metric_parts,
        resampling=chosen.resampling.replace(
            family="metric" if chosen.family == "aspect" else "run"
        ),
    )
    return replace(evaluation, scores=file_names(scores), ratings=file_names(ratings))
