"""Figures of the page of metrics against ratings: scatter plots and drift."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from levelfield.agree.drift import Drift
from levelfield.agree.evaluation import MetaEvaluation
from levelfield.core.arrays import Codes, Floats
from levelfield.core.strings import natural, shortened
from levelfield.show.figures import (
    DOT,
    GRID,
    INK,
    MUTED,
    SHAPES,
    SeriesMark,
    dots_note,
    names_beside,
    names_of_rows,
    plain_axes,
    series_mark,
    svg,
)
from levelfield.stats.system_means import means_of

MOST_POINTS = 1000
PLAIN = SeriesMark(DOT, SHAPES[0])


def scatter(evaluation: MetaEvaluation, metric: str, aspect: str, *, label: str) -> Markup:
    """What was correlated: the means of systems with their names, or samples, a dot each; with the
    least-squares line.

    Ratings that many samples share are spread a little. Of more samples than `MOST_POINTS`, that
    many are drawn at random, and the figure says so. Infinite values have no dot. Empty without a
    sample.
    """
    table = evaluation.table
    rows = table.rows(aspect, metric)
    rows = rows[np.isfinite(table.aspects[aspect][rows]) & np.isfinite(table.metrics[metric][rows])]
    if not rows.size:
        return Markup("")
    x, y = table.aspects[aspect][rows], table.metrics[metric][rows]
    if evaluation.level == "system":
        systems = table.groups("system")[rows]
        x, y = means_of(x, systems), means_of(y, systems)
        figure = _systems_scatter(np.unique(systems).tolist(), x, y, aspect)
    else:
        figure = _samples_scatter(x, y, rows, series(evaluation), aspect)
    return svg(figure, salt=f"{metric}/{aspect}", label=label)


def series(evaluation: MetaEvaluation) -> npt.NDArray[Any]:
    """(n,) what the dots of a sample are told apart by: its data set if these are the groups, else
    its system."""
    table = evaluation.table
    return table.groups("dataset") if evaluation.group == "dataset" else table.systems


def series_marks(names: Iterable[str]) -> dict[str, SeriesMark]:
    """Name -> its mark; a single one is a plain dot."""
    unique = sorted(set(names), key=natural)
    return {name: series_mark(i) if len(unique) > 1 else PLAIN for i, name in enumerate(unique)}


def _samples_scatter(
    x: Floats, y: Floats, rows: Codes, sample_series: npt.NDArray[Any], aspect: str
) -> Figure:
    shown = np.sort(np.random.default_rng(0).permutation(x.size)[:MOST_POINTS])
    note = dots_note(shown.size, x.size)
    figure, axes = _axes(3.1, 2.5, above=0.14 if note else 0.0)
    if note:
        axes.set_title(note, color=MUTED, fontsize=7.5, loc="right", pad=3)
    levels = np.unique(x)
    gap = float(np.diff(levels).min()) if 1 < levels.size < 40 else 0.0
    spread = x[shown] + np.random.default_rng(0).uniform(-0.3, 0.3, shown.size) * gap
    _fit(axes, x, y, np.concatenate([spread, x]), aspect)
    names = sample_series[rows][shown]
    for name, mark in series_marks(sample_series.tolist()).items():
        mine = names == name
        if np.any(mine):
            mark.draw(
                axes, spread[mine], y[shown][mine], size=4 if x.size < 300 else 3.2, alpha=0.55
            )
    return figure


def _systems_scatter(names: Sequence[str], x: Floats, y: Floats, aspect: str) -> Figure:
    right = 0.25 + 0.066 * max(len(shortened(name, 22)) for name in names)
    height = max(2.5, 0.6 + 0.17 * len(names))
    figure, axes = _axes(3.1 + right, height)
    axes.set_position((0.46 / (3.1 + right), 0.42 / height, 2.5 / (3.1 + right), 1 - 0.5 / height))
    _fit(axes, x, y, x, aspect)
    PLAIN.draw(axes, x, y, size=6)
    points = sorted(
        zip(x, y, (shortened(name, 22) for name in names), strict=True), key=lambda p: p[1]
    )
    names_beside(axes, points, height=height - 0.5)
    return figure


def _fit(axes: Axes, x: Floats, y: Floats, wide: Floats, aspect: str) -> None:
    """The least-squares line, in limits that hold all points."""
    axes.update_datalim(np.column_stack([wide, np.resize(y, wide.size)]))
    if np.unique(x).size > 1:
        slope, start = np.polyfit(x, y, 1)
        ends = np.array([x.min(), x.max()])
        axes.plot(ends, start + slope * ends, color=INK, linewidth=1.1)
    axes.margins(0.06)
    axes.autoscale_view()
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())
    axes.set_xlabel(f"rating: {shortened(aspect, 36)}", color=INK, fontsize=8.5, parse_math=False)


def quality_figure(drifts: Sequence[Drift], aspect: str) -> Markup:
    """Correlation of every metric on the four biased subsets, mean ± deviation of the draws."""
    mine = [d for d in drifts if d.aspect == aspect]
    figure, axes = _axes(3.6, 2.7)
    for i, d in enumerate(mine):
        subsets = d.by_quality.subsets
        places = np.arange(len(subsets)) + (i - (len(mine) - 1) / 2) * min(0.12, 0.5 / len(mine))
        _line(axes, places, [s.mean for s in subsets], [s.deviation for s in subsets], i)
    axes.set_xticks(range(4), ["lowest", "low", "high", "highest"])
    axes.set_xlabel("texts mostly from this quarter", color=INK, fontsize=8.5)
    numbers = "; ".join(
        f"{d.metric} " + ", ".join(f"{s.mean:.2f}" for s in d.by_quality.subsets) for d in mine
    )
    return svg(
        figure, salt=f"quality/{aspect}", label=f"Correlation by quality, {aspect}: {numbers}"
    )


def system_figure(drifts: Sequence[Drift], aspect: str) -> Markup:
    """Correlation of every metric on the texts of each system, with intervals."""
    mine = [d for d in drifts if d.aspect == aspect and d.by_system]
    if not mine:
        return Markup("")
    names = sorted({name for d in mine for name, _ in d.by_system}, key=natural)
    step = 0.1 * len(mine) + 0.16
    figure, axes = _axes(3.6, 0.5 + step * len(names))
    for i, d in enumerate(mine):
        mark, estimates = series_mark(i), dict(d.by_system)
        for row, name in enumerate(names):
            e = estimates.get(name)
            if e is None or math.isnan(e.value):
                continue
            y = row + (i - (len(mine) - 1) / 2) * (0.7 / max(1, len(mine)))
            if not e.why_no_interval:
                axes.plot([e.low, e.high], [y, y], color=mark.colour, linewidth=1.6)
            axes.plot([e.value], [y], **mark.line(5))
    names_of_rows(axes, [shortened(name, 14) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.set_position((0.27, axes.get_position().y0, 0.7, axes.get_position().height))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_xlabel("correlation", color=INK, fontsize=8.5)
    numbers = "; ".join(
        f"{d.metric} " + ", ".join(f"{name} {e.value:.2f}" for name, e in d.by_system) for d in mine
    )
    return svg(figure, salt=f"system/{aspect}", label=f"Correlation by system, {aspect}: {numbers}")


def evaluator_figure(drifts: Sequence[Drift], aspect: str) -> Markup:
    """Correlation against the share of evaluators used, mean ± deviation of the draws."""
    mine = [(i, d) for i, d in enumerate(d for d in drifts if d.aspect == aspect)]
    with_parts = [(i, d) for i, d in mine if d.by_evaluators is not None and d.by_evaluators.k]
    if not with_parts:
        return Markup("")
    figure, axes = _axes(3.6, 2.7)
    numbers = []
    for i, d in with_parts:
        e = d.by_evaluators
        assert e is not None
        _line(axes, np.array(e.k), [s.mean for s in e.spreads], [s.deviation for s in e.spreads], i)
        numbers.append(f"{d.metric} from {e.spreads[0].mean:.2f} to {e.spreads[-1].mean:.2f}")
    if max(e.k[-1] for _, d in with_parts if (e := d.by_evaluators)) > 12:
        axes.set_xscale("log")
        axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axes.minorticks_off()
    axes.set_xlabel("evaluators", color=INK, fontsize=8.5)
    return svg(
        figure,
        salt=f"evaluators/{aspect}",
        label=f"Correlation by number of evaluators, {aspect}: {'; '.join(numbers)}",
    )


def _line(
    axes: Axes,
    x: npt.NDArray[np.generic],
    means: Sequence[float],
    deviations: Sequence[float],
    index: int,
) -> None:
    mark = series_mark(index)
    low = [m - (0 if math.isnan(s) else s) for m, s in zip(means, deviations, strict=True)]
    high = [m + (0 if math.isnan(s) else s) for m, s in zip(means, deviations, strict=True)]
    axes.vlines(x, low, high, color=mark.colour, linewidth=1.3, alpha=0.7)
    axes.plot(x, means, linewidth=1.2, **mark.line(4.5))


def _axes(width: float, height: float, *, above: float = 0.0) -> tuple[Figure, Axes]:
    height += above
    figure = Figure(figsize=(width, height), dpi=72)  # that of SVG, in which marks are placed
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.15, 0.42 / height, 0.82, 1 - (0.5 + above) / height))
    plain_axes(axes)
    return figure, axes
