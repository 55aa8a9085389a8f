"""Tasks: metrics that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    (whose, _, option), (of, _, same) = chosen.rpartition(":"), word.rpartition(":")
    return option == same and (not whose or of == whose or of.startswith(f"{whose}."))


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
