"""`levelfield.compare`: which system is better, pair by pair on the inputs that both answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.options import distributed, keywords
from levelfield.core.progress import Stages, no_stages
from levelfield.core.registry import is_metric
from levelfield.core.scores import Scores
from levelfield.io.arguments import is_given, items_of
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.opening import Texts, load_samples, open_source
from levelfield.io.reading import ReadingOptions
from levelfield.io.samples import Source
from levelfield.io.tables import Table, TableColumn
from levelfield.scoring.comparison import Comparison, conclusion, grounds
from levelfield.scoring.logs import are_logs, compare_logs, is_equal
from levelfield.scoring.options import DEFAULT as DEFAULT_METRICS
from levelfield.scoring.options import CompareOptions, Note, ScoreOptions
from levelfield.scoring.result import (
    Grouping,
    ScoreResult,
    ScoreSummary,
    scores_within,
)
from levelfield.scoring.run import listed, measure, paths_of
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.sensitivity import SHARE
from levelfield.scoring.standing import p_value, three_decimals
from levelfield.scoring.summary import MetricSummary, summarise
from levelfield.stats.multiplicity import adjustment
from levelfield.stats.resampling import DEFAULT, Resampling

if TYPE_CHECKING:
    pass


_SYSTEMS = Grouping("system")

ManyScores = Scores | ScoreResult | Iterable[Scores] | Mapping[str, Scores]


@dataclass(frozen=True, repr=False)
class SystemComparisons(Framed):
    """Every two systems under every metric.

    Attributes:
        n: texts.
        summaries: one a metric, with means and comparisons; p is adjusted over those of its family.
        resampling: how intervals and tests are drawn.
        notes: what a reader must know, such as which samples one of two logs has alone.
        stated: metric and system -> the mean that the system's log states.
        parts: metric of a data set -> that of the group of data sets which has its samples, too.
    """

    n: int
    summaries: tuple[MetricSummary, ...]
    resampling: Resampling = DEFAULT
    notes: tuple[str, ...] = ()
    stated: Mapping[tuple[str, str], float] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)

    _entries = "n family=resampling.family notes metrics=_metrics"

    def __iter__(self) -> Iterator[tuple[MetricSummary, Comparison]]:
        """Every comparison with the metric that it is under."""
        for summary in self.summaries:
            for comparison in summary.comparisons:
                yield summary, comparison

    @property
    def equal_to_stated(self) -> int:
        """How many means are those that logs state."""
        return sum(
            is_equal(group.mean.value, stated)
            for s in self.summaries
            for group in s.groups
            if (stated := self.stated.get((s.metric, group.group))) is not None
        )

    @property
    def _metrics(self) -> list[dict[str, Any]]:
        """The comparisons of `levelfield score --json`, each with its verdict, and the means of the
        systems."""
        return [
            {
                "metric": s.metric,
                **({"part_of": self.parts[s.metric]} if s.metric in self.parts else {}),
                "signature": s.signature,
                "higher_is_better": s.higher_is_better,
                "systems": [
                    {**group.to_dict(), "stated": self.stated.get((s.metric, group.group))}
                    for group in s.groups
                ],
                "comparisons": [
                    {**c.to_dict(), "verdict": conclusion(c, s.direction)} for c in s.comparisons
                ],
            }
            for s in self.summaries
        ]

    def _drawn(self) -> Sequence[Table]:
        return [self.table()]

    def _frame(self) -> FrameRows:
        """One row a metric and pair of systems."""
        rows = [
            {"metric": metric["metric"], **comparison}
            for metric in self._metrics
            for comparison in metric["comparisons"]
        ]
        return _COLUMNS, rows

    def table(self) -> Table:
        """A row a metric and pair of systems."""
        write = three_decimals
        names = [TableColumn(name, words=True) for name in ("metric", "a", "b")]
        numbers = ("n", "a − b", "low", "high", "d_z", "p", "detectable")
        return Table(
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
            f"detectable: if no difference is shown, the one that {SHARE} of such studies show",
            notes=self.notes,
            signatures=[s.signature for s in self.summaries],
        )


_COLUMNS = columns_of(
    "metric a b inputs:int left_out:int clusters:int difference:float low:float high:float "
    "effect:float p:float p_adjusted:float lowest:float highest:float tipping_a:float "
    "tipping_b:float unpaired:bool detectable:float margin:float p_alike:float note verdict"
)


@keywords(CompareOptions, ReadingOptions)
def compare(
    texts: Texts | ScoreSummary,
    metrics: str | Metric | Sequence[str | Metric] = (),
    chosen: CompareOptions | None = None,
    reading: ReadingOptions | None = None,
    *,
    scores: ManyScores = (),
    stages: Stages = no_stages,
    note: Note = lambda _: None,
    **words: Any,
) -> SystemComparisons:
    """Compares systems on equal inputs: paired tests, p adjusted over each family.

    Logs of other programs that hold scores of their samples are compared by these, paired by
    sample: `compare([Path("a.eval"), Path("b.eval")])`.

    Args:
        texts: as for `score`; or what `score` returned, whose comparisons are taken as they are:
            it accepts no options, as they were chosen with `score`.
        metrics: what to compare them by, as for `score`; of logs, the names of scores that they
            hold. None stands for all scores of logs, else for `composite`.
        chosen: what is compared and how.
        reading: how files are read.
        scores: values of the same samples that are there already: `Scores`, several of them, or
            what `score` returned.
        stages, note: as for `score`.
        words: options of `CompareOptions` and `ReadingOptions`, instead of those there.

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
    compare_options, reading_options = distributed(words, CompareOptions, ReadingOptions)
    if metrics or chosen is None:
        compare_options["metrics"] = listed(metrics)
    chosen = CompareOptions.of(chosen, **compare_options)
    reading = ReadingOptions.of(reading, **reading_options)
    if isinstance(texts, ScoreSummary):
        _refuse(chosen, reading, {**words, "metrics": metrics, "scores": scores})
        if texts.grouping.by != _SYSTEMS.by:
            raise UserError(
                f"these scores are grouped by {texts.grouping.by}; score with by='system'"
            )
        return _compared(texts.n, texts.summaries, texts.resampling, texts.notes)
    if is_given(scores):
        chosen.accept_only((*_OF_RESAMPLING, "draws"), "scores that are there already")
        return _by_scores(texts, scores, chosen.scoring, reading)
    source = open_source(texts, reading)
    if (names := _logged_scores(chosen)) is not None and are_logs(source):
        chosen.accept_only((*_OF_RESAMPLING, "metrics", "direction", "cache"), "scores of logs")
        if reading.thoughts != "keep":
            raise UserError(
                "--thoughts applies to texts that are scored; these logs are compared by the "
                "scores that they contain"
            )
        return _by_logs(source, names, chosen)
    if chosen.direction:
        raise UserError("--direction applies to scores of logs; metrics have their own")
    result = measure(
        source.with_ids("file") if len(source.inputs) > 1 else source,
        chosen.scoring.replace(by="system"),
        files=paths_of(texts),
        stages=stages,
        note=note,
    )
    return _compared(result.n, result.summaries, result.resampling, result.notes)


_OF_RESAMPLING = ("seed", "family", "margin")


def _refuse(chosen: CompareOptions, reading: ReadingOptions, options: Mapping[str, object]) -> None:
    """Refuses options for a result, whose comparisons are there already."""
    subject = "results of score, which has these options itself,"
    for name, value in options.items():
        if is_given(value):
            raise UserError(f"{name}: {subject} do not accept this option")
    chosen.accept_only((), subject)
    reading.accept_only((), subject)


def _logged_scores(chosen: CompareOptions) -> list[str] | None:
    """Returns the scores to compare logs by, none for all; None where metrics are asked for."""
    metrics = chosen.scoring.metrics
    if metrics == DEFAULT_METRICS:
        return []
    names = [name for name in metrics if isinstance(name, str) and not is_metric(name)]
    return names if len(names) == len(metrics) else None


def _by_logs(source: Source, names: Sequence[str], chosen: CompareOptions) -> SystemComparisons:
    resampling = chosen.scoring.resampling
    logged = compare_logs(source, scores=names, directions=chosen.direction, resampling=resampling)
    return SystemComparisons(
        logged.n, logged.summaries, resampling, logged.notes, logged.stated, logged.parts
    )


def _by_scores(
    texts: Texts, scores: ManyScores, scoring: ScoreOptions, reading: ReadingOptions
) -> SystemComparisons:
    several = items_of(scores, "scores", (Scores,), convert=scores_within)
    if any(not isinstance(item, Scores) for item in several):
        raise UserError("scores: expected Scores, which say which end is better")
    resampling = scoring.resampling
    run = RunTable(draws=scoring.draws)
    samples = load_samples(texts, reading)
    run.add(samples, _SYSTEMS.groups(samples))
    for metric_scores in several:
        run.add_scores(metric_scores)
    try:
        summaries = summarise(run, resampling=resampling)
    except ValueError as error:
        raise UserError(f"scores of other samples: {error}") from error
    resampling.check_metrics([s.metric for s in summaries])
    return _compared(len(run), summaries, resampling)


def _compared(
    n: int,
    summaries: Sequence[MetricSummary],
    resampling: Resampling,
    notes: Sequence[str] = (),
) -> SystemComparisons:
    systems = {group.group for summary in summaries for group in summary.groups}
    if len(systems) < 2:
        raise UserError(
            f"texts of one system only ('{', '.join(systems)}') can't be compared; "
            "name the system of each text"
        )
    return SystemComparisons(n, tuple(summaries), resampling, tuple(notes))
