"""`levelfield.compare`: which system is better, every two on the inputs that both answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from levelfield.core.direction import higher_is_better
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.scores import Scores
from levelfield.io.opening import load_samples
from levelfield.io.tables import Table, TableColumn
from levelfield.scoring.comparison import Comparison, conclusion, grounds
from levelfield.scoring.result import Grouping, ScoreSummary, comparison_documents
from levelfield.scoring.score import Texts, score
from levelfield.scoring.sensitivity import SHARE
from levelfield.scoring.standing import Scale, p_value
from levelfield.scoring.summary import MetricSummary, summarise
from levelfield.scoring.tally import RunTally
from levelfield.stats.multiplicity import adjustment
from levelfield.stats.resampling import DEFAULT, Family, Resampling

_SYSTEMS = Grouping("system")


@dataclass(frozen=True)
class SystemComparisons:
    """Every two systems under every metric.

    Attributes:
        n: texts.
        summaries: one a metric, with means and comparisons; p is adjusted over those of its family.
        resampling: how intervals and tests are drawn.
    """

    n: int
    summaries: tuple[MetricSummary, ...]
    resampling: Resampling = DEFAULT

    def __iter__(self) -> Iterator[tuple[MetricSummary, Comparison]]:
        """Every comparison with the metric that it is under."""
        for summary in self.summaries:
            for comparison in summary.comparisons:
                yield summary, comparison

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: the comparisons of `levelfield score --json`, each with its verdict."""
        return {
            "n": self.n,
            "family": self.resampling.family,
            "metrics": [
                {
                    "metric": s.metric,
                    "signature": s.signature,
                    "higher_is_better": higher_is_better(s.direction),
                    "comparisons": [
                        {**document, "verdict": conclusion(c, s.direction)}
                        for c, document in zip(
                            s.comparisons, comparison_documents(s.comparisons), strict=True
                        )
                    ],
                }
                for s in self.summaries
            ],
        }

    def to_polars(self) -> pl.DataFrame:
        """One row a metric and pair of systems."""
        rows = [
            {"metric": metric["metric"], **comparison}
            for metric in self.to_dict()["metrics"]
            for comparison in metric["comparisons"]
        ]
        return pl.DataFrame(rows, schema=_SCHEMA)

    def to_latex(self) -> str:
        """A booktabs table: a row a metric and pair of systems."""
        write = Scale(3, scientific=False)
        names = [TableColumn(name, words=True) for name in ("metric", "a", "b")]
        numbers = ("n", "a − b", "low", "high", "d_z", "p", "detectable")
        table = Table(
            [*names, *(TableColumn(name) for name in numbers)],
            [
                [
                    s.metric,
                    c.a,
                    c.b,
                    f"{c.inputs:,}",
                    *map(write, (c.difference, c.low, c.high, c.effect)),
                    p_value(c.p_adjusted),
                    write(c.detectable),
                ]
                for s, c in self
            ],
            caption=f"systems on {grounds(c for _, c in self)}; "
            f"p by {adjustment(self.resampling.family)}; "
            f"{100 * self.resampling.level:g} % intervals, not adjusted; "
            f"detectable: where no difference is shown, the one that {SHARE} of such studies show",
            signatures=[s.signature for s in self.summaries],
        )
        return table.to_latex()


_SCHEMA = {
    "metric": pl.String,
    "a": pl.String,
    "b": pl.String,
    "inputs": pl.Int64,
    "left_out": pl.Int64,
    "clusters": pl.Int64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "effect": pl.Float64,
    "p": pl.Float64,
    "p_adjusted": pl.Float64,
    "lowest": pl.Float64,
    "highest": pl.Float64,
    "tipping_a": pl.Float64,
    "tipping_b": pl.Float64,
    "unpaired": pl.Boolean,
    "detectable": pl.Float64,
    "margin": pl.Float64,
    "p_alike": pl.Float64,
    "note": pl.String,
    "verdict": pl.String,
}


def compare(
    texts: Texts | ScoreSummary,
    metrics: str | Metric | Sequence[str | Metric] = (),
    *,
    scores: Sequence[Scores] = (),
    seed: int = 0,
    family: Family = "metric",
    margin: Mapping[str, float] = {},
    **options: Any,
) -> SystemComparisons:
    """Compares systems on equal inputs: paired tests, p adjusted over each family.

    Args:
        texts: as for `score`; or what `score` returned, whose comparisons are taken as they are.
        metrics: what to compare them by, as for `score`.
        scores: or values of the same samples that are there already.
        seed: of resampling.
        family: the comparisons that p is adjusted over: those of a `metric`, or of the `run`, by
            Holm; or of the run for the false discovery rate, `fdr`.
        margin: metric, family or `all` -> a difference that is too small to matter; verdicts say
            whether two systems are alike within it.
        options: as for `score`; with `scores`, how the texts are read.

    Raises:
        UserError: there are fewer than two systems, or the scores are of other samples.

    >>> sources, rewrites = ("court sit", "sun shine"), ("The court sits.", "The sun shines.")
    >>> texts = [
    ...     {"text": text, "source": source, "references": [rewrite], "system": system}
    ...     for source, rewrite in zip(sources, rewrites)
    ...     for system, text in (("copies", source), ("rewrites", rewrite))
    ... ]
    >>> for metric, c in compare(texts, "chrf.references", cache=False):
    ...     print(f"{metric.metric}: {c.a} - {c.b} = {c.difference:.1f}, n = {c.inputs}")
    chrf.references: copies - rewrites = -43.4, n = 2
    """
    if isinstance(texts, ScoreSummary):
        if texts.grouping.by != _SYSTEMS.by:
            raise UserError(f"these scores are grouped by {texts.grouping.by}; score by='system'")
        return _compared(texts.n, texts.summaries, texts.resampling)
    if not scores:
        result = score(
            texts, metrics, by="system", seed=seed, family=family, margin=margin, **options
        )
        return _compared(result.n, result.summaries, result.resampling)
    resampling = Resampling(seed=seed, family=family, margin=margin)
    tally = RunTally()
    for sample in load_samples(texts, **options):
        tally.add(sample, _SYSTEMS.group(sample))
    for metric_scores in scores:
        tally.add_scores(metric_scores)
    try:
        summaries = summarise(tally, resampling=resampling)
    except ValueError as error:
        raise UserError(f"scores of other samples: {error}") from error
    resampling.check_metrics([s.metric for s in summaries])
    return _compared(len(tally), summaries, resampling)


def _compared(
    n: int, summaries: Sequence[MetricSummary], resampling: Resampling
) -> SystemComparisons:
    systems = {group.group for summary in summaries for group in summary.groups}
    if len(systems) < 2:
        raise UserError(
            f"texts of one system only ('{', '.join(systems)}') can't be compared; "
            "name the system of each text"
        )
    return SystemComparisons(n, tuple(summaries), resampling)
