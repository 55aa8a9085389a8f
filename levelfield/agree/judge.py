"""Whether a judge's scores may stand in for a rater's ratings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from levelfield.agree.join import text_metrics
from levelfield.agree.sources import RatingTable, rating_table, ratings_on, split
from levelfield.core.documents import Document
from levelfield.io import Rated, ScoreColumn
from levelfield.io.tables import Table, TableColumn
from levelfield.scoring.standing import three_decimals
from levelfield.stats.alternative_annotator import (
    FEWEST,
    PASSES,
    AnnotatorTest,
    alternative_annotator_test,
)
from levelfield.stats.estimate import Estimate


@dataclass(frozen=True)
class JudgeTest(Document):
    """The alternative annotator test of one metric on one aspect.

    Attributes:
        metric, signature: of the judge.
        aspect: its name.
        epsilon: what the judge's lower cost is worth.
        raters: names, by the column that `test` has.
        test: the result.
        off_scale: whether the judge gives values outside the range of the ratings.
    """

    metric: str
    signature: str
    aspect: str
    epsilon: float
    raters: tuple[str, ...]
    test: AnnotatorTest
    off_scale: bool

    _entries = (
        "metric signature aspect epsilon winning_rate=test.winning_rate advantage=test.advantage "
        "passed=_passed items=test.items left_out=test.left_out raters=_raters "
        "undefined=why_undefined?"
    )

    @property
    def _passed(self) -> bool | None:
        return self.passed if self.test.raters else None

    @property
    def _raters(self) -> list[dict[str, Any]]:
        return [
            {**asdict(r), "rater": self.raters[r.rater], "won": r.won} for r in self.test.raters
        ]

    @property
    def passed(self) -> bool:
        """Whether the judge may stand in for at least half of the raters."""
        return self.test.winning_rate >= PASSES

    @property
    def why_undefined(self) -> str:
        """Why there is no result; empty if there is one."""
        return "" if self.test.raters else f"no rater with {FEWEST} items that others rated"

    def estimates(self) -> Iterator[tuple[str, Estimate]]:
        """Name of the measure, and its value; it has no interval."""
        for name, value in (
            ("winning rate", self.test.winning_rate),
            ("advantage", self.test.advantage),
        ):
            reason = self.why_undefined or "the test has none"
            yield name, Estimate(
                value, math.nan, math.nan, self.test.items, self.test.items,
                self.why_undefined, reason,
            )  # fmt: skip

    def notes(self) -> Iterator[str]:
        """What a reader must know of the result."""
        if self.off_scale:
            yield (
                f"{self.metric} has values outside the range of the ratings on {self.aspect}: a "
                "judge is tested on the raters' scale"
            )
        if self.test.raters and self.test.left_out:
            yield (
                f"{self.metric}, {self.aspect}: {self.test.left_out:,} raters are not tested, with "
                f"fewer than {FEWEST} items that others rated"
            )
        if len(self.test.raters) == 2:
            yield f"{self.metric}, {self.aspect}: two raters have no consensus; use three"


def judge_tests(
    columns: Sequence[ScoreColumn],
    rated: Rated,
    *,
    aspects: Sequence[str] = (),
    metrics: Sequence[str] = (),
    epsilon: float,
    nominal: bool = False,
) -> tuple[JudgeTest, ...]:
    """Tests every metric on every aspect.

    Args:
        columns: scores of judges, on the scale of the raters; infinite ones count as missing.
        aspects, metrics: those to test, all if empty.
        epsilon, nominal: as for `alternative_annotator_test`.

    Raises:
        UserError: an aspect or a metric that is not there, or scores of groups alone.
    """
    named = {column.metric: column for column in columns}
    chosen, _ = text_metrics(named, metrics, lambda: {r.id for r in rated.ratings})
    tables = {
        aspect: rating_table(ratings)
        for aspect, ratings in split(ratings_on(rated.ratings, aspects), lambda r: r.aspect).items()
    }
    return tuple(
        _test(column, aspect, table, epsilon, nominal=nominal)
        for aspect, table in tables.items()
        for column in columns
        if column.metric in chosen
    )


def _test(
    column: ScoreColumn, aspect: str, table: RatingTable, epsilon: float, *, nominal: bool
) -> JudgeTest:
    judge = np.array([column.values.get(id, math.nan) for id, _ in table.items])
    judge[~np.isfinite(judge)] = np.nan
    low, high = np.nanmin(table.values), np.nanmax(table.values)
    return JudgeTest(
        metric=column.metric,
        signature=column.signature,
        aspect=aspect,
        epsilon=epsilon,
        raters=table.raters,
        test=alternative_annotator_test(judge, table.values, epsilon=epsilon, nominal=nominal),
        off_scale=bool(np.any((judge < low) | (judge > high))),
    )


def judge_table(tests: Sequence[JudgeTest]) -> Table:
    """Returns a row an aspect and metric."""
    rows = [
        [
            t.aspect,
            t.metric,
            three_decimals(t.test.winning_rate),
            three_decimals(t.test.advantage),
            f"{len(t.test.raters):,}",
            f"{t.test.items:,}",
            ("yes" if t.passed else "not shown") if t.test.raters else t.why_undefined,
        ]
        for t in tests
    ]
    heads = (TableColumn("judge", words=True), *map(TableColumn, ("ω", "ρ", "raters", "items")))
    return Table(
        [TableColumn("aspect", words=True), *heads, TableColumn("may replace a rater", words=True)],
        rows,
        caption=f"alternative annotator test, ε = {tests[0].epsilon:g}",
        legend=["ω: share of raters won", "ρ: share of items on which the judge is as close to the "
                "others as a rater"],
    )  # fmt: skip
