"""`levelfield reproduce defaults`: every metric, with its defaults, against the ratings here."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from levelfield.agree.correlate import Correlation, correlations
from levelfield.agree.join import join, merged_columns
from levelfield.agree.sources import read_ratings, read_scores
from levelfield.core.errors import LevelfieldError, first_line
from levelfield.core.metric import Metric, MetricError
from levelfield.core.options import keywords
from levelfield.core.progress import Stages, no_stages
from levelfield.core.registry import create, installed, matching, metric_class
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io.fields import FIELDS
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.scoring import options
from levelfield.scoring.metrics import lacks_offline
from levelfield.scoring.options import Note
from levelfield.scoring.result import ScoreResult
from levelfield.scoring.run import score
from levelfield.stats.clusters import coded
from levelfield.stats.estimands import Statistic
from levelfield.stats.estimate import finite
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.workers.places import one_cluster
from levelfield_reproductions.agreement import (
    LeftOut,
    MetricAgreement,
    SetAgreement,
    no_text_has,
)
from levelfield_reproductions.choices import FEWEST, DefaultsOptions
from levelfield_reproductions.defaults_page import page
from levelfield_reproductions.rated import PREFIX, RatedSet, rated_sets

STATISTICS: tuple[Statistic, ...] = ("pearson", "spearman")

_COLUMNS = columns_of(
    "set roles metric is_default:bool aspect statistic value:float low:float high:float n:int "
    "undefined:int signature"
)


@dataclass(frozen=True)
class DefaultsReport(Framed):
    """Agreement of metrics, with their defaults, with the ratings on this machine.

    Attributes:
        command: makes it again, on a machine with the same sets and models.
    """

    sets: tuple[SetAgreement, ...]
    command: str
    resampling: Resampling = DEFAULT

    _entries = (
        "command interval=resampling.level resamples=resampling.resamples seed=resampling.seed "
        "sets=_sets"
    )

    @property
    def _sets(self) -> list[dict[str, Any]]:
        return [_document(agreement) for agreement in self.sets]

    def _frame(self) -> FrameRows:
        """Returns one row per set, metric, aspect and statistic; null if undefined."""
        rows = [
            (
                *(agreement.rated.id, ", ".join(agreement.rated.roles), m.metric, m.is_default),
                *(aspect, statistic, finite(e.value), finite(e.low), finite(e.high)),
                *(c.n, c.undefined, m.signature),
            )
            for agreement in self.sets
            for m in agreement.metrics
            for aspect, c in m.of_aspects.items()
            for statistic, e in c.estimates.items()
        ]
        return _COLUMNS, [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    def to_markdown(self) -> str:
        """Returns the page of the docs, the same bytes for the same values."""
        return page(self.sets, self.command, self.resampling)


@keywords(DefaultsOptions)
def agreement_of_defaults(
    id: str = PREFIX,
    chosen: DefaultsOptions | None = None,
    *,
    stages: Stages = no_stages,
    note: Note = lambda _: None,
    **words: Any,
) -> DefaultsReport:
    """Scores the rated sets on this machine with the metrics' defaults, and correlates.

    A metric is scored if its value is of one text, its defaults have all they need on this machine
    without a network, and the set has its fields. Values are kept in the cache, so a second run,
    or one that was interrupted, goes on from there.

    Args:
        id: `defaults`, `defaults.SET` or `defaults.SET.PART`.
        chosen: which metrics, on how many texts, and where.
        stages: receives the progress of each metric on each set.
        note: called with notes on a run.
        words: choices of `DefaultsOptions` by name.

    Raises:
        UserError: there is no such set or metric, or an option does not accept its value.
        FetchError: a file on this machine is not as published.

    >>> report = agreement_of_defaults("defaults.ctrleval", metrics=["ctrleval"])  # doctest: +SKIP
    >>> report.to_polars()  # doctest: +SKIP
    """
    chosen = DefaultsOptions.of(chosen, **words)
    rated = rated_sets(id)
    names = _members(chosen.metrics) or [*installed()]
    spared = [name for name in _members(chosen.without) if name in names]
    command = ["levelfield reproduce", id.lower(), *(f"--metric {m}" for m in chosen.metrics)]
    command += [f"--without {name}" for name in chosen.without]
    command += [] if chosen.most is None else [f"--most {chosen.most}"]
    noted: set[str] = set()

    def note_once(line: str) -> None:
        if line not in noted:
            noted.add(line)
            note(line)

    def run(samples: Sequence[Sample], names: Sequence[str], *, stages: Stages) -> ScoreResult:
        result = score(
            samples,
            names,
            by="none",
            execution=chosen.execution,
            stages=stages,
            note=note_once,
        )
        for line in result.notes:
            note_once(line)
        return result

    with one_cluster(chosen.execution.ray):
        sets = [_agreement(each, names, spared, chosen.most, stages, run) for each in rated]
    return DefaultsReport(tuple(sets), " ".join(command))


def _members(names: Sequence[str]) -> list[str]:
    """Returns the metrics that these names of metrics and families stand for, each once."""
    return list(dict.fromkeys(member for name in names for member in matching(name)))


def _agreement(
    rated: RatedSet,
    names: Sequence[str],
    without: Sequence[str],
    most: int | None,
    stages: Stages,
    run: Callable[..., ScoreResult],
) -> SetAgreement:
    if gap := rated.gap():
        return SetAgreement(rated, gap)
    every = rated.samples()
    samples = drawn(every, rated.cluster, most)
    unfit = {name: LeftOut(name, "without", "left out by --without") for name in without}
    for name in names:
        if name not in unfit and (reason := _unfit(name, samples)):
            unfit[name] = reason
    left_out = [*unfit.values()]
    scored: list[Scores] = []
    fitting = [name for name in names if name not in unfit]
    # in one run, the members of a family share what their models make of a text
    for family, members in groupby(fitting, key=lambda name: name.partition(".")[0]):
        values, failed = _scored(samples, list(members), _named(rated.id, family, stages), run)
        scored += values
        left_out += failed
    agreements, few = _compared(samples, scored, rated)
    return SetAgreement(
        rated,
        aspects=tuple(dict.fromkeys(aspect for s in samples for aspect in s.ratings)),
        texts=len(samples),
        every=len(every),
        clusters=len({rated.cluster(sample) for sample in samples}),
        metrics=tuple(sorted(agreements, key=lambda m: (not m.is_default, m.metric))),
        left_out=tuple(sorted([*left_out, *few], key=lambda entry: entry.metric)),
    )


def _scored(
    samples: Sequence[Sample],
    names: Sequence[str],
    stages: Stages,
    run: Callable[..., ScoreResult],
) -> tuple[list[Scores], list[LeftOut]]:
    """Returns the values of metrics, and those that failed; one that fails leaves the others
    alone."""
    try:
        result = run(samples, names, stages=stages)
    except LevelfieldError as error:
        if len(names) == 1:
            return [], [LeftOut(names[0], "failed", first_line(error))]
        scored: list[Scores] = []
        failed: list[LeftOut] = []
        for name in names:
            values, failure = _scored(samples, [name], stages, run)
            scored += values
            failed += failure
        return scored, failed
    return [*result.scores.values()], []


def _compared(
    samples: Sequence[Sample], scored: Sequence[Scores], rated: RatedSet
) -> tuple[list[MetricAgreement], list[LeftOut]]:
    """Returns every metric with its correlations, and those that have too few values."""
    metric_correlations = _correlated(samples, scored, rated)
    run_by_default = defaults_of_score()
    agreements: list[MetricAgreement] = []
    few: list[LeftOut] = []
    for scores in scored:
        enough = {c.aspect: c for c in metric_correlations[scores.metric] if c.n >= FEWEST}
        if enough:
            agreements.append(
                MetricAgreement(
                    scores.metric,
                    scores.signature,
                    scores.metric in run_by_default,
                    scores.direction == "lower",
                    dict(Counter(scores.undefined.values()).most_common()),
                    enough,
                )
            )
        else:
            defined = len(samples) - len(scores.undefined)
            reason = f"{defined:,} of {len(samples):,} texts have a value"
            few.append(LeftOut(scores.metric, "few", reason))
    return agreements, few


def defaults_of_score() -> Collection[str]:
    """Returns the metrics that `levelfield score FILE` runs when none is named."""
    families: Sequence[str] = options.DEFAULT
    return {metric for name in families for metric in matching(name)}


def drawn(
    samples: Sequence[Sample], cluster: Callable[[Sample], str], most: int | None
) -> Sequence[Sample]:
    """Returns whole clusters with `most` samples at most, in the order of the samples.

    Clusters are taken as they fit, by a hash of their names: as good as at random, and the same
    for any order of the samples.
    """
    if most is None or len(samples) <= most:
        return samples

    def drawing(name: str) -> bytes:
        return hashlib.blake2b(name.encode()).digest()

    sizes = Counter(map(cluster, samples))
    clusters: set[str] = set()
    free = most
    for name in sorted(sizes, key=drawing):
        if sizes[name] <= free:
            clusters.add(name)
            free -= sizes[name]
    return [sample for sample in samples if cluster(sample) in clusters]


def _unfit(name: str, samples: Sequence[Sample]) -> LeftOut | None:
    """Returns why a metric can't be scored on these samples; loads no model."""

    def metric() -> Metric:
        [instance] = create([name], {}, {})
        return instance

    if getattr(metric_class(name), "level", "") == "corpus":
        return LeftOut(name, "many texts", "its value is of many texts")
    attributes = {attribute for sample in samples for attribute in sample.control}
    try:
        lacks = lacks_offline(metric, attributes)
    except MetricError as error:  # of a third party's metric, which need not stop the others
        lacks = first_line(error)
    if lacks:
        return LeftOut(name, "lacking", lacks)
    instance = metric()
    if instance.level == "corpus":  # a factory says so of what it makes only
        return LeftOut(name, "many texts", "its value is of many texts")
    lacking = [
        f for f in FIELDS if f in instance.requires and not any(getattr(s, f) for s in samples)
    ]
    if lacking:
        return LeftOut(name, "field", no_text_has(lacking))
    return None


def _named(id: str, family: str, stages: Stages) -> Stages:
    """Stages that say which set and family the work is of."""
    return lambda stage, total: stages(f"{id} {family if stage == 'scoring' else stage}", total)


def _correlated(
    samples: Sequence[Sample], scored: Sequence[Scores], rated: RatedSet
) -> Mapping[str, list[Correlation]]:
    """Returns metric -> its correlation with every aspect; higher is always more agreement."""
    if not scored:
        return {}
    table = join(
        merged_columns(read_scores(scored)),
        read_ratings(samples, format=None, mapping={}),
        flip=[scores.metric for scores in scored if scores.direction == "lower"],
    )
    if rated.shared:
        _, clusters = coded([rated.cluster(table.samples[id]) for id in table.ids])
        table = replace(table, clusters=clusters)
    results = correlations(table, systems="these", wanted=STATISTICS)
    results.sort(key=lambda c: c.metric)
    return {metric: list(group) for metric, group in groupby(results, key=lambda c: c.metric)}


def _document(agreement: SetAgreement) -> dict[str, Any]:
    rated = agreement.rated
    document: dict[str, Any] = {
        "id": rated.id,
        "title": rated.title,
        "roles": list(rated.roles),
        "why": rated.why,
        "here": agreement.gap is None,
    }
    if agreement.gap:
        return document | {"command": agreement.gap.command, "missing": list(agreement.gap.files)}
    return document | {
        "texts": agreement.texts,
        "of": agreement.every,
        "clusters": agreement.clusters,
        "metrics": [
            {
                "metric": m.metric,
                "signature": m.signature,
                "is_default": m.is_default,
                "lower_is_better": m.turned,
                "undefined": dict(m.undefined),
                "aspects": [_correlation(c) for c in m.of_aspects.values()],
            }
            for m in agreement.metrics
        ],
        "left_out": [asdict(entry) for entry in agreement.left_out],
    }


def _correlation(c: Correlation) -> dict[str, Any]:
    return {
        "aspect": c.aspect,
        "n": c.n,
        "undefined": c.undefined,
        "statistics": {s: e.to_dict() for s, e in c.estimates.items()},
    }
