"""Tasks: metrics that belong together, and one table of systems over their criteria."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from levelfield.cli.terminal import console

if TYPE_CHECKING:
    from levelfield.meta.summary import GroupSummary, MetricSummary


@dataclass(frozen=True)
class Task:
    """What is scored unless the user says more.

    Attributes:
        metrics: metrics and families that are always scored.
        criteria: criterion -> families of the metrics that measure it.
        words: options that hold unless the user says otherwise, as `METRIC:NAME`.
        content: the metrics of content for the joint mean, the first one that there is.
        style: the metric of style in it.
    """

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

    def usual(self, said: Iterable[str]) -> dict[str, str]:
        """The options that hold beside those that the user said, which go before them."""
        return {
            word: value
            for word, value in self.words.items()
            if not any(_covers(other, word) for other in said)
        }


def _covers(said: str, word: str) -> bool:
    """Whether one `METRIC:NAME` is of all metrics that another is of, and of the same option."""
    (whose, _, option), (of, _, same) = said.rpartition(":"), word.rpartition(":")
    return option == same and (not whose or of == whose or of.startswith(f"{whose}."))


TASKS: Mapping[str, Task] = {
    "style-transfer": Task(
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


def print_task(task: Task, summaries: Sequence[MetricSummary], grouped_by: str) -> None:
    """One table on stdout: a row a system, a column a metric, under the criterion it measures."""
    columns = list(_columns(task, summaries))
    table = Table(escape(grouped_by), "n", box=None, pad_edge=False, collapse_padding=True)
    table.columns[1].justify = "right"
    shown = ""
    for criterion, s in columns:
        measure, _, member = s.metric.rpartition(".")
        above = criterion if criterion != shown else ""
        arrow = "↑" if s.higher_is_better else "↓"
        table.add_column(
            f"{above}\n{escape(measure)}\n{escape(_SHORT.get(member, member))} {arrow}",
            justify="right",
        )
        shown = criterion
    rows = [{group.group: group for group in s.groups} for _, s in columns]
    for name in dict.fromkeys(name for of in rows for name in of):
        n = next(of[name].n for of in rows if name in of)
        # a corpus whose texts are in several rows is in none of them
        table.add_row(Text(name), f"{n:,}", *(_cell(of.get(name)) for of in rows))
    out = console()
    out.print(table)
    said = "means, and under them half of the 95 % interval's width; –: no value, see below for why"
    out.print(Text(said, "dim"))
    out.print()


_SHORT = {
    "references": "refs",
    "infilling-perplexity": "perplexity",
    "corpus-perplexity": "corpus-ppl",
    "degenerate": "share",
}


def _columns(task: Task, summaries: Sequence[MetricSummary]) -> Iterator[tuple[str, MetricSummary]]:
    """The summaries in the order of the criteria that they measure."""
    for criterion in task.criteria:
        for s in summaries:
            if task.criterion(s.metric) == criterion:
                yield criterion, s


def _cell(group: GroupSummary | None) -> Text:
    if group is None or not math.isfinite(group.mean.value):
        return Text("–")
    mean = group.mean
    digits = 1 if abs(mean.value) >= 10 else 2
    shown = Text(f"{mean.value:.{digits}f}")
    if math.isfinite(mean.low):
        shown.append(f"\n±{(mean.high - mean.low) / 2:.{digits}f}", "dim")
    return shown
