"""What a run scores and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from levelfield.core.direction import Direction
from levelfield.core.errors import UserError
from levelfield.core.options import Options, group, option
from levelfield.io.reading import pairs
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.stats.resampling import DEFAULT as RESAMPLING
from levelfield.stats.resampling import Draws, Resampling
from levelfield.workers.place_options import WorkPlace

if TYPE_CHECKING:
    from levelfield.scoring.summary import MetricSummary


@dataclass(frozen=True)
class ScoringTask:
    """What is scored unless the user says more.

    Attributes:
        name: as in `--task NAME`.
        metrics: metrics and families that are always scored.
        criteria: criterion -> families of the metrics that measure it.
        words: options that hold unless the user says otherwise, as `METRIC:NAME`.
        content: the metrics of content for the joint mean, the first one that there is.
        style: the metric of style in it.
    """

    name: str
    metrics: tuple[str, ...]
    criteria: Mapping[str, tuple[str, ...]]
    words: Mapping[str, str]
    content: tuple[str, ...]
    style: str

    def criterion(self, metric: str) -> str | None:
        """What a metric measures; None if that is not known."""
        for criterion, families in self.criteria.items():
            if any(metric == f or metric.startswith(f"{f}.") for f in families):
                return criterion
        return None

    def columns(self, summaries: Sequence[MetricSummary]) -> Iterator[tuple[str, MetricSummary]]:
        """Criterion and summary, in the order of the criteria."""
        for criterion in self.criteria:
            for summary in summaries:
                if self.criterion(summary.metric) == criterion:
                    yield criterion, summary

    def defaults(self, chosen: Iterable[str]) -> dict[str, str]:
        """The task's options, without those that the user's own options replace."""
        return {
            word: value
            for word, value in self.words.items()
            if not any(_covers(other, word) for other in chosen)
        }


def _covers(chosen: str, word: str) -> bool:
    """Whether one `METRIC:NAME` is of all metrics that another is of, and of the same option."""
    (owner, _, option), (metric, _, same) = chosen.rpartition(":"), word.rpartition(":")
    return option == same and (not owner or metric == owner or metric.startswith(f"{owner}."))


TASKS: Mapping[str, ScoringTask] = {
    "style-transfer": ScoringTask(
        name="style-transfer",
        metrics=(
            "bleu",
            "bertscore",
            "control.average",
            "fluency.infilling-perplexity",
            "style.degenerate",
        ),
        criteria={
            "content": (
                "bleu",
                "corpus-bleu",
                "chrf",
                "corpus-chrf",
                "meteor",
                "rouge-1",
                "rouge-2",
                "rouge-l",
                "bertscore",
                "wmd",
                "mover",
                "cosine",
                "bleurt",
                "comet",
                "bartscore",
                "keywords",
            ),
            "style": ("control",),
            "fluency": ("fluency", "style.perplexity"),
            "both": ("joint",),
            "no rewrite": ("style.degenerate",),
        },
        words={
            "bertscore:model": "offline/minilm",
            "control:judges": "linear,offline",
            "fluency.infilling-perplexity:model": "offline/infill-expert",
        },
        content=("bleu.references", "bleu.source"),
        style="control.average",
    ),
}


if TYPE_CHECKING:
    from levelfield.core.metric import Metric

    Named = str | Metric
else:
    Named = Any

Note = Callable[[str], object]
"""Called with a line that the user should know at once."""

DEFAULT = ("composite",)
"""What is measured where neither a metric nor a task is named: the members of the family that the
samples have the fields for."""


@dataclass(frozen=True, kw_only=True)
class Execution(WorkPlace):
    """How and where texts are scored.

    Raises:
        UserError: there can't be such a place.
    """

    loading: Loading = group(AS_USUAL)
    time_limit: float | None = option(
        None,
        "Seconds that one call of a metric (at most 64 texts) may take before the run ends. The "
        "limit works only in the main thread of a process, and not on Windows.",
        above=0,
        most=10**8,
        metavar="SECONDS",
    )
    cache: bool = option(
        True,
        "Read values from the cache and write new ones to it; false computes every value again.",
        flag_help="Compute all values again: neither read from the cache nor write to it.",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options):
    """What `levelfield score` scores and how.

    Raises:
        UserError: options that contradict each other.
    """

    metrics: tuple[Named, ...] = option(
        (),
        "Score with a metric, a family, or PATH.py:CLASS; may be given again.",
        flags=("--metric", "-m"),
        metavar="NAME",
        otherwise="composite",
    )
    task: str | None = option(
        None, "Score with the metrics that belong to a task.", among=tuple(sorted(TASKS))
    )
    content: str | None = option(
        None,
        "Use this metric for content in the joint mean of content and style, with --task.",
        metavar="METRIC",
    )
    model: str | None = option(
        None,
        "Model of every metric that has one: a hub name (NAME or NAME@REVISION), a folder, "
        "offline/minilm or offline/smollm2.",
        metavar="NAME",
    )
    options: Mapping[str, Any] = option(
        {},
        "Option of all metrics that have it, or of one metric or family; may be given again.",
        flags=("--option", "-o"),
        metavar="[METRIC:]NAME=VALUE",
    )
    by: str | None = option(
        None,
        "Group by system, dataset, seed, control, control.ATTR or none.",
        metavar="FIELD",
    )
    corpus_by: str | None = option(
        None,
        "Comma-separated fields that the texts of one value of a corpus metric share, or none.",
        metavar="FIELDS",
        otherwise="system,dataset,seed,control",
    )
    execution: Execution = group(Execution())
    draws: Draws = option(
        "run",
        "Unit that the seed of a text draws for: run, all texts of a run together, so that seeds "
        "are a sample of runs; or text, each text by itself, as techniques of levelfield do, so "
        "that texts of several seeds repeat their input.",
    )
    resampling: Resampling = group(RESAMPLING, without=("resamples", "permutations", "level"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.metrics and not self.task:
            object.__setattr__(self, "metrics", DEFAULT)
        if self.content and not self.task:
            raise UserError("--content needs --task")
        if self.task and self.model is not None:
            raise UserError(
                f"--task {self.task} has models of several kinds; name the metric: --option "
                f"bertscore:model={self.model}"
            )

    @property
    def scoring_task(self) -> ScoringTask | None:
        """The task, if any."""
        return TASKS[self.task] if self.task else None


_OF_RUNS = ("task", "content", "by", "corpus_by")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """What `levelfield compare` compares and how.

    Raises:
        UserError: a direction is neither `higher` nor `lower`.
    """

    scoring: ScoreOptions = group(ScoreOptions(), without=_OF_RUNS)
    direction: Mapping[str, Direction] = option(
        {},
        "Score of logs and the end that is better, higher or lower, if the logs do not say; may be "
        "given again.",
        metavar="SCORE=END",
        read=partial(pairs, "--direction"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for score, direction in self.direction.items():
            if direction not in ("higher", "lower"):
                raise UserError(
                    f"direction of {score}: expected higher or lower, the end that is better; "
                    "found "
                    f"{direction}"
                )
