"""Scores the texts of a study, cell by cell.

A cell whose texts and metrics have not changed is not measured again; single values are in the
segment cache, too, so an interrupted cell goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from levelfield.core.class_file import FILE_MARK
from levelfield.core.continuation import without_thought
from levelfield.core.corpus import BY, CorpusMetric, GroupStates, is_corpus_metric
from levelfield.core.direction import Direction, direction_of
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.registry import create, matching
from levelfield.core.sample import Sample
from levelfield.core.scores import PARTS_SCHEMA, Scores
from levelfield.scoring.languages import LanguageTally
from levelfield.scoring.scorer import CachedScorer, stream
from levelfield.study.cells import CellKey, grouped, value_name
from levelfield.study.plan import Plan, check_fields
from levelfield.study.store import StudyStore


def metrics_of(plan: Plan, common: Mapping[str, Any]) -> list[Metric]:
    """Returns the metrics of a study, not loaded yet.

    Args:
        common: options that all metrics share (`device`, `dtype`, …); those that a metric does not
            have are not given to it.

    Raises:
        UserError: there is no such metric or option, or one is named twice.
    """
    by_name: dict[str, Metric] = {}
    for planned in plan.metrics:
        for metric in create(matching(planned.name), common, planned.options):
            if metric.name in by_name:
                raise UserError(f"{plan.file.name}: metric '{metric.name}' is asked for twice")
            by_name[metric.name] = metric
    check_fields(by_name.values(), plan.fields)
    return list(by_name.values())


def file_directions(metrics: Sequence[Metric]) -> dict[str, Direction]:
    """Returns metric -> direction of those that are classes in a file, which no reader may ask."""
    return {m.name: direction_of(m) for m in metrics if FILE_MARK in m.signature}


def measure(
    keys: Sequence[CellKey],
    store: StudyStore,
    metrics: Sequence[Metric],
    scorer: CachedScorer,
    *,
    progress: Progress = no_progress,
) -> int:
    """Scores the texts of every cell that has some; returns the number of cells measured.

    A metric that needs a field which no text of a cell has is left out there; `scorer.notes` says
    so. They also say which texts are in languages that the metrics do not read, and how many begin
    with a thought. `progress` counts every text under every metric.
    """
    done = texts = thoughts = 0
    spoken = LanguageTally(metrics, sum(r.answered for key in keys if (r := store.record(key))))
    signatures = {metric.name: metric.signature for metric in metrics}
    directions = file_directions(metrics)
    for key in keys:
        record = store.record(key)
        if record is None:
            continue
        samples = list(store.samples(key))
        stamp: dict[str, Any] = {
            "texts": record.fingerprint.texts,
            "made": record.when,
            "metrics": signatures,
        }
        if directions:
            stamp["directions"] = directions
        if store.measured(key) == stamp:
            progress(len(samples) * len(metrics))
            continue
        texts += len(samples)
        thoughts += sum(without_thought(s.text, s.prompt) != s.text for s in samples)
        spoken.add(sample.text for sample in samples)
        fitting = []
        for metric in metrics:
            lacking = sorted(f for f in metric.requires if not any(getattr(s, f) for s in samples))
            if samples and lacking and lacking != ["text"]:
                note = f"{metric.name} is left out where no text has a {lacking[0]}: {key.control}"
                scorer.notes += [note] if note not in scorer.notes else []
                progress(len(samples))
            else:
                fitting.append(metric)
        store.write_measured(key, stamp, _values(samples, fitting, scorer, progress))
        done += 1
    scorer.notes += spoken.notes()
    if thoughts:
        scorer.notes += [
            f"{thoughts:,} of {texts:,} texts begin with a block <think>…</think>, which is "
            "measured as part of the text; the step strip-thought in `postprocess` removes it"
        ]
    return done


def _values(
    samples: Sequence[Sample], metrics: Sequence[Metric], scorer: CachedScorer, progress: Progress
) -> Mapping[str, Iterable[Mapping[str, Any]]]:
    """Returns the files of a cell's values: name -> records."""
    # one metric after the other goes through the whole cell, so that each model is loaded once
    scores = [
        partition.scores[0]
        for metric in metrics
        if not is_corpus_metric(metric)
        for partition in stream(partitions(samples), [metric], (), scorer, progress=progress)
    ]
    groups: list[dict[str, Any]] = []
    for metric in metrics:
        if is_corpus_metric(metric):
            groups += _group_records(metric, samples, scorer, progress)
    return {
        "scores.jsonl": (r for s in scores for r in s.records()),
        "parts.jsonl": (r for s in scores for r in _part_records(s)),
        "groups.jsonl": groups,
    }


def _group_records(
    metric: CorpusMetric, samples: Sequence[Sample], scorer: CachedScorer, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Yields a record per requested value, or one for the cell if the metric takes all together."""
    apart = "control" in getattr(metric, "by", BY)
    by_value = grouped(samples, lambda sample: value_name(sample.control) if apart else "")
    for value_asked, members in by_value.items():
        states = GroupStates(metric, ())
        for _ in stream(partitions(members), (), [states], scorer, progress=progress):
            pass
        for record in states.scores().records():
            yield {**record, "id": "", "value_asked": value_asked, "n": len(members)}


def _part_records(scores: Scores) -> Iterator[dict[str, Any]]:
    for row in scores.part_rows or ():
        # JSON has no NaN: an evaluator without a score says so by null
        named = zip(PARTS_SCHEMA, row, strict=True)
        finite = {k: None if v != v else v for k, v in named}
        yield {"metric": scores.metric, **finite}
