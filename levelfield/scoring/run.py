"""`levelfield.score`: samples in, scores and their summaries out.

A sample's way to its value: `io.samples` reads it, `scoring.scorer.stream` passes its partition on,
`scoring.scorer.CachedScorer` computes the values that are not cached, `core.metric` guards the code
of the metric, and the metric scores it with its words or its model.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from levelfield.core.corpus import BY, GroupStates, is_corpus_metric
from levelfield.core.errors import UserError
from levelfield.core.metric import (
    CountsTexts,
    Metric,
    check_metric,
    guarded,
    part_names,
)
from levelfield.core.options import distributed, keywords
from levelfield.core.partitions import PARTITION, partitions
from levelfield.core.progress import Progress, Stages, no_stages, time_limit
from levelfield.core.sample import Sample
from levelfield.core.scores import PARTS_SCHEMA, Scores, concatenate
from levelfield.core.strings import json_text
from levelfield.io.opening import Texts, open_source
from levelfield.io.outputs import KINDS, FileHead
from levelfield.io.problems import printable
from levelfield.io.reading import ReadingOptions
from levelfield.io.samples import Census, Source
from levelfield.io.writing import STDOUT, atomic_writer
from levelfield.scoring.gallery import Gallery
from levelfield.scoring.joint import MEANS, Criterion, joint
from levelfield.scoring.languages import LanguageTally
from levelfield.scoring.metrics import (
    choose_metrics,
    joint_criteria,
    ready,
    required_fields,
)
from levelfield.scoring.options import Note, ScoreOptions
from levelfield.scoring.result import Grouping, ScoreResult, ScoreSummary
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.scorer import ScoredPartition, cached_scorer, stream
from levelfield.scoring.summary import (
    MetricSummary,
    adjusted,
    summarise,
    summarise_corpus,
)
from levelfield.stats.resampling import Resampling
from levelfield.workers.places import working_place

_MOST_NAMED = 5


def note_of_lost(path: str, signatures: Collection[str]) -> str:
    """Says which scores in a file have signatures that a run will not write there again.

    Returns:
        The metrics with their signatures, in words; empty if nothing is lost.
    """
    lost = {s: m for s, m in _signatures(path).items() if s not in signatures}
    if not lost:
        return ""
    named = [f"{metric} ({signature})" for signature, metric in lost.items()]
    more = [f"{len(lost) - _MOST_NAMED:,} more"] if len(lost) > _MOST_NAMED else []
    return (
        f"{printable(path)} is overwritten, and with it scores that this run does not compute: "
        f"{', '.join([*named[:_MOST_NAMED], *more])}; another --out keeps them"
    )


def _signatures(path: str) -> dict[str, str]:
    """Signature -> metric of the scores in a file; none of any other file."""
    place = Path(path)
    if path == STDOUT or not place.is_file():
        return {}
    signatures: dict[str, str] = {}
    seen: set[bytes] = set()
    try:
        if not KINDS["scores"](FileHead(place)):
            return {}
        with place.open("rb") as file:
            for line in file:
                # of a line like one before, all but the id and the value is known
                end = line[line.rfind(b'"signature": ') :]
                if end in seen:
                    continue
                seen.add(end)
                record = json.loads(line)
                signatures[str(record["signature"])] = str(record["metric"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass  # what comes after a broken line was no use before either
    return signatures


@keywords(ScoreOptions, ReadingOptions)
def score(
    texts: Texts,
    metrics: str | Metric | Sequence[str | Metric] = (),
    chosen: ScoreOptions | None = None,
    reading: ReadingOptions | None = None,
    *,
    stages: Stages = no_stages,
    note: Note = lambda _: None,
    **words: Any,
) -> ScoreResult:
    """Scores texts with one or more metrics, and compares the systems that wrote them.

    Does what `levelfield score` does, with the command's words and defaults.

    Args:
        texts: as for `load_samples`: a path as a `str` or `Path`; a data frame of polars or pandas;
            what `generate` returned; or a list: of strings, which are texts, of records, of
            `Sample`s, or of `Path`s.
        metrics: names of metrics and families, or metrics; none stands for `composite`, the aspects
            that the texts have the fields for.
        chosen: what is scored and how.
        reading: how files are read.
        stages: told of the progress of each stage: reading, counting, scoring.
        note: called with what is left out of a family or task, and why.
        words: options of `ScoreOptions` and `ReadingOptions`, instead of those there.

    Raises:
        LevelfieldError: what is wrong with a text, a metric, a model or an option.

    >>> result = score(["The court sat.", "The sun shone."], "diversity.distinct-1", cache=False)
    >>> result.n, result.scores["diversity.distinct-1"].values
    (2, array([0.75]))
    """
    scoring_words, reading_words = distributed(words, ScoreOptions, ReadingOptions)
    if metrics or chosen is None:
        scoring_words["metrics"] = listed(metrics)
    chosen = ScoreOptions.of(chosen, **scoring_words)
    source = open_source(texts, reading, **reading_words)
    scored: dict[str, list[Scores]] = {}

    def collect(partition: ScoredPartition) -> None:
        for scores in partition.scores:
            earlier = scored.setdefault(scores.metric, [])
            if earlier:
                _ = scores.parts  # of many texts, a frame takes a tenth of the memory of its rows
            earlier.append(scores)

    run = measure(
        source, chosen, files=paths_of(texts), gallery=Gallery(), each=collect, stages=stages,
        note=note,
    )  # fmt: skip
    values = {metric: concatenate(parts) for metric, parts in scored.items()}
    values |= {scores.metric: scores for scores in run.corpora}
    return ScoreResult(**vars(run), scores=values)


def listed(metrics: str | Metric | Sequence[str | Metric]) -> tuple[str | Metric, ...]:
    """Returns metrics as a tuple; a single one as a tuple of one, and for a class what it makes."""
    several = (metrics,) if isinstance(metrics, str | type) else metrics
    several = several if isinstance(several, Sequence) else (several,)
    return tuple(metric() if isinstance(metric, type) else metric for metric in several)


def paths_of(texts: Texts) -> tuple[str, ...]:
    """The files among what `score` is given."""
    if isinstance(texts, str | os.PathLike):
        return (os.fspath(texts),)
    if isinstance(texts, list | tuple):
        return tuple(os.fspath(item) for item in texts if isinstance(item, os.PathLike))
    return ()


def measure(
    source: Source,
    options: ScoreOptions,
    *,
    files: Sequence[str] = (),
    out: str | None = None,
    parts: str | None = None,
    gallery: Gallery | None = None,
    each: Callable[[ScoredPartition], object] = lambda _: None,
    stages: Stages = no_stages,
    note: Note = lambda _: None,
) -> ScoreSummary:
    """Streams samples through the metrics; only a partition of texts is in memory.

    Args:
        files: names for the summary.
        out, parts: where values and what they are made of are written, whole or not at all.
        gallery: chooses samples to show.
        each: called with every partition that is scored.
        stages, note: as for `score`.

    Raises:
        LevelfieldError: as for `score`.
        KeyboardInterrupt: says what is kept.
    """
    census = _checked(source, options, stages, note)
    plan = _plan(source, options, census, stages, note)
    if out and (lost := note_of_lost(out, plan.signatures)):
        note(lost)
    execution = options.execution
    named_parts = {m.name: names for m in plan.sample_metrics if (names := part_names(m))}
    table = RunTable(named_parts, draws=options.draws)
    notes: list[str] = [*source.notes]
    with contextlib.ExitStack() as stack:
        stack.enter_context(time_limit(execution.time_limit))
        out_file = stack.enter_context(atomic_writer(out)) if out else None
        parts_file = stack.enter_context(atomic_writer(parts)) if parts else None
        device = execution.loading.device
        executor = stack.enter_context(
            working_place(execution, plan.metrics, census.n, device, notes.append)
        )
        scorer = stack.enter_context(
            cached_scorer(notes, enabled=execution.cache, executor=executor)
        )
        shard = execution.part(math.ceil(census.n / PARTITION))
        n = max(0, min(shard.stop * PARTITION, census.n) - shard.start * PARTITION)
        if execution.shard:
            notes.append(_shard_note(execution.shard, n, census.n))
        title = plan.metrics[0].name if len(plan.metrics) == 1 else "scoring"
        progress = stack.enter_context(stages(title, n * len(plan.metrics)))
        languages = LanguageTally(plan.metrics, n)
        samples = itertools.islice(partitions(source), shard.start, shard.stop)
        for partition in stream(
            samples, plan.sample_metrics, plan.states, scorer, progress=progress
        ):
            groups = plan.grouping.groups(partition.samples)
            labels = plan.grouping.labels(partition.samples)
            corpora = {s.metric.name: s.names_of(partition.samples) for s in plan.states}
            table.add(partition.samples, groups, labels, corpora)
            languages.add(sample.text for sample in partition.samples)
            for scores in partition.scores:
                table.add_scores(scores, groups)
                _write_scores(scores, out_file)
                _write_parts(scores, parts_file)
            if gallery is not None:
                gallery.add(partition.samples, groups, partition.scores)
            each(partition)
        source.check_unchanged()
        corpus_scores = tuple(states.scores() for states in plan.states)
        for scores in corpus_scores:
            _write_scores(scores, out_file)
    notes += [*_cost_notes(plan.sample_metrics), *table.notes(), *languages.notes()]
    return ScoreSummary(
        n=len(table),
        files=tuple(files),
        grouping=plan.grouping,
        notes=tuple(notes),
        summaries=tuple(_summaries(table, plan, corpus_scores)),
        corpora=corpus_scores,
        parts=table.part_means(),
        task=options.task or "",
        gallery=gallery,
        resampling=plan.resampling,
        languages=languages.unread(),
    )


@dataclass(frozen=True)
class _Plan:
    """What a run scores.

    Attributes:
        metrics: all of them, those of samples and of corpora.
        sample_metrics: the metrics of samples.
        signatures: of the metrics.
        states: of the corpus metrics.
        criteria: content and style of a joint mean; none without one.
        grouping: what the rows of the table are.
        resampling: how intervals and tests are drawn.
    """

    metrics: Sequence[Metric]
    sample_metrics: Sequence[Metric]
    signatures: Sequence[str]
    states: Sequence[GroupStates]
    criteria: Sequence[Criterion]
    grouping: Grouping
    resampling: Resampling

    @property
    def split(self) -> set[str]:
        """The metrics whose means are split by label: those that read it, or all if none does."""
        control_metrics = {metric.name for metric in self.metrics if "control" in metric.requires}
        return control_metrics or {metric.name for metric in self.metrics}


def _checked(source: Source, options: ScoreOptions, stages: Stages, note: Note) -> Census:
    """Reads all texts, and counts what is in them.

    Raises:
        InputError: some can't be read.
    """
    with stages("reading", None) as progress:
        census = source.check(progress=progress, needed=required_fields(options))
    if census.thoughts:
        note(_thoughts_note(census.thoughts, census.n))
    return census


def _plan(
    source: Source, options: ScoreOptions, census: Census, stages: Stages, note: Note
) -> _Plan:
    """Chooses the metrics, and checks that they and the options fit the texts.

    Raises:
        LevelfieldError: what is wrong with a metric, a model or an option.
    """
    with time_limit(options.execution.time_limit):
        metrics = [
            _prepared(metric, source, census, stages)
            for metric in choose_metrics(options, census, note)
        ]
        signatures = ready(metrics, census.control)
    criteria = joint_criteria(options, metrics)
    grouping = Grouping.choose(options.by, census)
    if not grouping.compares:
        options.refuse(("family", "margin"), f"texts by {grouping.by}, which are not compared,")
    sample_metrics = [metric for metric in metrics if not is_corpus_metric(metric)]
    corpus_metrics = [metric for metric in metrics if is_corpus_metric(metric)]
    if not corpus_metrics:
        options.refuse(("corpus_by",), "metrics of single texts")
    states = [GroupStates(metric, _corpus_fields(options.corpus_by)) for metric in corpus_metrics]
    if states and options.execution.shard:
        raise UserError(
            f"--shard: {states[0].metric.name} has a value for a group of texts, and a shard has "
            "only some of them; measure it without --shard"
        )
    joint_names = [f"joint.{name}" for name in MEANS] if criteria else []
    resampling = options.resampling
    resampling.check_metrics([*(metric.name for metric in sample_metrics), *joint_names])
    return _Plan(metrics, sample_metrics, signatures, states, criteria, grouping, resampling)


def _corpus_fields(by: str | None) -> list[str] | None:
    """Returns what the texts of a corpus share; None leaves it to each metric.

    Raises:
        UserError: samples have no such field.
    """
    fields = None if by is None else [name for name in by.split(",") if name != "none"]
    if unknown := sorted(set(fields or ()) - set(BY)):
        raise UserError(f"--corpus-by {unknown[0]}: expected some of {', '.join(BY)}, or none")
    return fields


def _thoughts_note(thoughts: int, n: int) -> str:
    return (
        f"{thoughts:,} of {n:,} texts begin with a block <think>…</think>, which is measured as "
        'part of the text; --thoughts remove (in Python thoughts="remove") leaves it out'
    )


def _shard_note(shard: str, n: int, total: int) -> str:
    return (
        f"shard {shard}: {n:,} of {total:,} texts; the values of all shards, concatenated, are "
        "those of one run"
    )


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _write_scores(scores: Scores, out: TextIO | None) -> None:
    """Writes one record a line, as `scores.jsonl` has them."""
    if out is not None:
        for record in scores.records():
            out.write(_ENCODE(record) + "\n")


def _write_parts(scores: Scores, out: TextIO | None) -> None:
    """Writes what the values are made of, one part a line."""
    if out is not None:
        for row in scores.part_rows or ():
            named = dict(zip(PARTS_SCHEMA, row, strict=True))
            out.write(json_text({"metric": scores.metric, **named}) + "\n")


def _prepared(metric: Metric, source: Source, census: Census, stages: Stages) -> Metric:
    """The metric, after it has counted all texts if it does so."""
    if not isinstance(metric, CountsTexts):
        return metric
    with (
        stages("counting", census.n) as progress,
        guarded(metric, "failed to count the texts"),
    ):
        counted = metric.counting(_texts(source, progress))
    check_metric(counted, name=metric.name)
    return counted


def _texts(samples: Iterable[Sample], progress: Progress) -> Iterator[str]:
    for sample in samples:
        yield sample.text
        progress(1)


def _cost_notes(metrics: Sequence[Metric]) -> Iterator[str]:
    """Yields what the values of metrics have cost."""
    for metric in metrics:
        with guarded(metric, "can't report its costs"):
            cost = getattr(metric, "costs", None)
        if cost:
            yield f"{metric.name}: {cost}"


def _summaries(
    table: RunTable, plan: _Plan, corpus_scores: Sequence[Scores]
) -> Iterator[MetricSummary]:
    """Yields the summaries of the metrics of samples, of the joint means if there are any, and of
    the corpus metrics."""
    compare, resampling = plan.grouping.compares, plan.resampling
    summaries = summarise(table, compare=compare, split=plan.split, resampling=resampling)
    if plan.criteria:
        means = joint(table, *plan.criteria, compare=compare, resampling=resampling)
        summaries = adjusted([*summaries, *means], resampling)
    yield from summaries
    for scores in corpus_scores:
        groups, labels = table.rows_of_corpora(scores.metric)
        yield summarise_corpus(scores, groups, labels if scores.metric in plan.split else {})
