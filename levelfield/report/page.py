"""The page of a run: what was measured, what differs, and the parts of every value."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from levelfield.io import atomic_writer
from levelfield.meta.comparison import verdict
from levelfield.meta.scale import scale_of
from levelfield.meta.summary import MetricSummary
from levelfield.report import words
from levelfield.report.figures import means_figure
from levelfield.report.rows import rows, score_axes
from levelfield.report.texts import side_by_side
from levelfield.run.gallery import ShownSample, ValuePart
from levelfield.run.result import ScoreSummary
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.version import __version__

__all__ = ["ScorePage", "ShownSample", "ValuePart", "render", "score_page", "write_page"]

FEW_CLUSTERS = 20
"""Below this many clusters the page warns that intervals are too narrow."""


@dataclass(frozen=True)
class ScorePage:
    """The contents of a page.

    Attributes:
        title: the page's heading.
        created: when, as it should be read.
        n: how many samples were measured.
        summaries: one a metric, in the order to show them.
        samples: the samples to list; of a large run some hundreds at most.
        shown_how: how they were chosen if they are not all, e.g. `the first 300`.
        inputs: those of them that lie side by side, one group an input.
        grouped_by: what the groups are, in one word: system, dataset, sentiment.
        files: where the samples come from.
        command: how the page was made; empty if not from a command line.
        notes: what a reader must know of the values: on how many texts judges are divided, say.
        resampling: what the summaries were made with.
    """

    title: str
    created: str
    n: int
    summaries: Sequence[MetricSummary]
    samples: Sequence[ShownSample]
    shown_how: str = ""
    inputs: Sequence[Sequence[ShownSample]] = ()
    grouped_by: str = "system"
    files: Sequence[str] = ()
    command: str = ""
    notes: Sequence[str] = ()
    resampling: Resampling = field(default=DEFAULT)


def score_page(result: ScoreSummary, *, command: str = "") -> ScorePage:
    """The page of a run.

    Args:
        command: how the run was made; empty if not from a command line.
    """
    return ScorePage(
        title=f"levelfield: {result.task or ', '.join(s.metric for s in result.summaries)}",
        created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        n=result.n,
        summaries=result.summaries,
        samples=result.gallery.shown() if result.gallery else (),
        shown_how=result.gallery.how() if result.gallery else "",
        inputs=result.gallery.inputs() if result.gallery else (),
        grouped_by=result.grouping.name,
        files=result.files,
        command=command,
        notes=result.notes,
        resampling=result.resampling,
    )


def render(report: ScorePage) -> str:
    """The page as HTML. It loads nothing; every text of the report is escaped."""
    summaries = report.summaries
    comparisons = [(s, c) for s in summaries for c in s.comparisons]
    order = [g.group for g in words.best_first(summaries[0])] if summaries else []
    scales = {s.metric: scale_of(s) for s in summaries}
    systems = sorted({shown.sample.system for texts in report.inputs for shown in texts})
    intervals = [g.mean for s in summaries for g in s.groups if not g.mean.why_no_interval]
    fewest = min((i.clusters for i in intervals), default=FEW_CLUSTERS)
    html = _template().render(
        report=report,
        version=__version__,
        order=order,
        figures={s.metric: means_figure(s) for s in summaries},
        scales=scales,
        texts=side_by_side(report.inputs, order if set(systems) <= set(order) else systems, scales),
        numbers={shown.sample.id: i for i, shown in enumerate(report.samples)},
        comparisons=comparisons,
        compared=sum(c.p == c.p for _, c in comparisons),
        rows=rows(report.samples),
        axes=score_axes(report.samples),
        undefined=_undefined(report),
        fewest_clusters=fewest if fewest < FEW_CLUSTERS else None,
    )
    return html + "\n"


def write_page(path: str | os.PathLike[str], report: ScorePage) -> None:
    """Writes the page to a file, whole or not at all."""
    html = render(report)
    with atomic_writer(path) as file:
        file.write(html)


def _undefined(report: ScorePage) -> list[tuple[str, str, int, list[tuple[int, str]]]]:
    """Metric, reason, count, and those of the shown samples it holds for: row number, id."""
    places: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for number, shown in enumerate(report.samples):
        for metric, reason in shown.undefined.items():
            places.setdefault((metric, reason), []).append((number, shown.sample.id))
    return [
        (s.metric, reason, n, places.get((s.metric, reason), []))
        for s in report.summaries
        for reason, n in s.reasons.items()
    ]


def _breakable(name: str) -> Markup:
    """A metric's name that may be broken after its dots and hyphens."""
    whole = str(escape(name))
    return Markup(whole.replace(".", ".<wbr>").replace("-", "-<wbr>"))


def environment() -> Environment:
    """What the templates of every page share: escaping, and words for numbers."""
    templates = Environment(
        loader=PackageLoader("levelfield.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "breakable": _breakable,
        "name": words.shown_name,
        "count": words.count,
        "p": words.p_value,
        "best_first": words.best_first,
    }
    templates.globals |= {"nan": float("nan")}
    return templates


@cache
def _template() -> Template:
    pages = environment()
    pages.globals |= {
        "headline": words.headline,
        "ends": words.ends,
        "verdict": verdict,
    }
    return pages.get_template("page.html.j2")
