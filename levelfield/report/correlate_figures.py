"""Figures of the page of metrics against ratings: scatter plots and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from levelfield.meta.drift import Drift
from levelfield.meta.join import RatedScores
from levelfield.report.figures import dots, svg

MOST_POINTS = 1000
COLOURS = ("#2f6299", "#b5532a", "#3d7d56", "#8a5aa3", "#a8862b", "#3f8f97", "#b04a74", "#6a6f3a")
"""Of the systems in order, each dark enough on the card; further ones are grey."""
OTHER = "#8b867d"
SINGLE = "#5b7fa6"
_INK, _MUTED, _GRID = "#1c1b19", "#6b665e", "#e6e2da"


def colours(systems: Sequence[str]) -> dict[str, str]:
    """System -> colour; a single, or unnamed, system has none of its own."""
    if len(systems) < 2:
        return dict.fromkeys(systems, SINGLE)
    return {s: COLOURS[i] if i < len(COLOURS) else OTHER for i, s in enumerate(systems)}


def scatter(table: RatedScores, metric: str, aspect: str, *, label: str) -> Markup:
    """Metric against rating, a dot a sample, with the least-squares line.

    Ratings that many samples share are spread a little. Of more than `MOST_POINTS` samples an even
    share of the sorted ids is drawn. Empty without a sample.
    """
    rows = table.rows(aspect, metric)
    if not rows.size:
        return Markup("")
    x, y = table.aspects[aspect][rows], table.metrics[metric][rows]
    figure, axes = _axes(3.1, 2.5)
    shown = np.unique(
        np.linspace(0, rows.size - 1, min(rows.size, MOST_POINTS)).round().astype(int)
    )
    levels = np.unique(x)
    gap = float(np.diff(levels).min()) if 1 < levels.size < 40 else 0.0
    rng = np.random.default_rng(0)
    at = x[shown] + rng.uniform(-0.3, 0.3, shown.size) * gap
    colour = colours(sorted(set(table.systems.tolist())))
    systems = table.systems[rows][shown]
    for system in sorted(set(systems.tolist())):
        mine = systems == system
        size = 3.4 if rows.size < 300 else 2.6
        dots(axes, at[mine], y[shown][mine], colour=colour[system], size=size, alpha=0.5)
    if levels.size > 1:
        slope, start = np.polyfit(x, y, 1)
        ends = np.array([x.min(), x.max()])
        axes.plot(ends, start + slope * ends, color=_INK, linewidth=1.1)
    axes.margins(0.06)
    axes.set_xlabel(f"rating: {_cut(aspect)}", color=_INK, fontsize=8.5, parse_math=False)
    return svg(figure, salt=f"{metric}/{aspect}", label=label)


def quality_figure(drifts: Sequence[Drift], aspect: str) -> Markup:
    """Correlation of every metric on the four biased subsets, mean ± deviation of the draws."""
    mine = [d for d in drifts if d.aspect == aspect]
    figure, axes = _axes(3.6, 2.7)
    for i, d in enumerate(mine):
        subsets = d.by_quality.subsets
        at = np.arange(len(subsets)) + (i - (len(mine) - 1) / 2) * min(0.12, 0.5 / len(mine))
        _line(axes, at, [s.mean for s in subsets], [s.deviation for s in subsets], i)
    axes.set_xticks(range(4), ["lowest", "low", "high", "highest"])
    axes.set_xlabel("texts mostly of this quarter", color=_INK, fontsize=8.5)
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
    names = sorted({name for d in mine for name, _ in d.by_system})
    step = 0.1 * len(mine) + 0.16
    figure, axes = _axes(3.6, 0.5 + step * len(names))
    for i, d in enumerate(mine):
        colour, of = _colour(i), dict(d.by_system)
        for row, name in enumerate(names):
            e = of.get(name)
            if e is None or math.isnan(e.value):
                continue
            y = row + (i - (len(mine) - 1) / 2) * (0.7 / max(1, len(mine)))
            if not e.why_no_interval:
                axes.plot([e.low, e.high], [y, y], color=colour, linewidth=1.6)
            axes.plot([e.value], [y], "o", color=colour, markersize=4.5)
    axes.set_yticks(range(len(names)), [""] * len(names))
    for row, name in enumerate(names):
        axes.text(
            -0.02, row, _cut(name, 14), transform=axes.get_yaxis_transform(), ha="right",
            va="center", fontsize=8.5, color=_INK, parse_math=False,
        )  # fmt: skip
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color=_MUTED, linewidth=0.8)
    axes.set_position((0.27, axes.get_position().y0, 0.7, axes.get_position().height))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=_GRID, linewidth=0.7)
    axes.set_xlabel("correlation", color=_INK, fontsize=8.5)
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
    axes.set_xlabel("evaluators", color=_INK, fontsize=8.5)
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
    colour = _colour(index)
    low = [m - (0 if math.isnan(s) else s) for m, s in zip(means, deviations, strict=True)]
    high = [m + (0 if math.isnan(s) else s) for m, s in zip(means, deviations, strict=True)]
    axes.vlines(x, low, high, color=colour, linewidth=1.3, alpha=0.7)
    axes.plot(x, means, "-o", color=colour, linewidth=1.2, markersize=3.6)


def _colour(index: int) -> str:
    return COLOURS[index] if index < len(COLOURS) else OTHER


def metric_colours(metrics: Sequence[str]) -> list[tuple[str, str]]:
    """Metric and its colour in the drift figures, in order."""
    return [(metric, _colour(i)) for i, metric in enumerate(metrics)]


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.15, 0.42 / height, 0.82, 1 - 0.5 / height))
    axes.tick_params(colors=_MUTED, labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_MUTED)
    axes.grid(color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def _cut(name: str, most: int = 36) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
