"""Figures of a study's page: bars by value and dataset, ranks side by side, quality and cost.

Where there are more values than colours, bars keep the order of the legend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from levelfield.show.figures import (
    COLOURS,
    INK,
    MUTED,
    VARIABLES,
    names_beside,
    names_of_rows,
    plain_axes,
    series_mark,
    svg,
)
from levelfield.show.words import shown_name
from levelfield.study.aggregate.results import ControlSummary, Correspondence, TableEntry
from levelfield.study.observations import ALL, Measure

_LONGEST = 31
_MANY_TIMES = 5
_LETTER = 0.066  # inches a letter takes in the names of systems, generously


def value_colours(values: Sequence[str]) -> list[tuple[str, str]]:
    """Value and the variable of its colour in the bars, in order."""
    return [(v, f"var({VARIABLES[COLOURS[i % len(COLOURS)]]})") for i, v in enumerate(values)]


def error_of(e: TableEntry) -> tuple[float, float] | None:
    """What a bar's error shows: the interval, else the deviation; None if neither is known."""
    if not e.interval.why_no_interval:
        return e.interval.low, e.interval.high
    if math.isnan(e.deviation):
        return None
    return e.mean - e.deviation, e.mean + e.deviation


def value_bars(control: ControlSummary, measure: Measure, dataset: str) -> Markup:
    """One dataset: a bar for every system and value asked for, with its interval or deviation.

    Values that are too many to tell apart are one.

    Empty if there is nothing to draw.
    """
    values = control.values or (ALL,)
    drawn = {
        (row, k): e
        for row, system in enumerate(control.systems)
        for k, value in enumerate(values)
        if (e := control.entry(system, measure.name, dataset, value)) and e.mean == e.mean
    }
    if not drawn:
        return Markup("")
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(values))]
    step = 0.12 * len(values) + 0.14
    left = _width(control.systems)
    figure, axes = _axes(3.0 + left, 0.5 + step * len(control.systems), left)
    thick = 0.12 / step
    for (row, k), e in drawn.items():
        y = row + (k - (len(values) - 1) / 2) * thick
        axes.barh(y, e.mean, height=0.86 * thick, color=colours[k], linewidth=0)
        ends = error_of(e)
        if ends:
            axes.plot(ends, [y, y], color=INK, linewidth=0.9, solid_capstyle="butt")
    names_of_rows(axes, [_cut(system) for system in control.systems])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(control.systems) - 0.5, -0.5)
    if measure.percent:
        axes.set_xlim(0, 100)
    axes.set_xlabel(_axis(measure), color=INK, fontsize=8.5, parse_math=False)
    words = "; ".join(
        f"{shown_name(control.systems[row])}, {values[k]}: {e.mean:.1f}"
        for (row, k), e in drawn.items()
    )
    label = f"{measure.name} on {dataset} by requested value: {words}"
    return svg(figure, salt=f"bars/{control.control}/{measure.name}/{dataset}", label=label)


def rank_lines(pair: Correspondence, control: str) -> Markup:
    """Systems in the order of either measure, each with a line from place to place.

    Empty with fewer than two systems.
    """
    rows = pair.systems
    if len(rows) < 2:
        return Markup("")
    by_x = sorted(rows, key=lambda r: r.x_rank)
    by_y = sorted(rows, key=lambda r: (r.y_rank, r.x_rank))
    side = _width([r.system for r in rows], " 000.00 [00]")
    width = 1.2 + 2 * side
    height = 0.35 + 0.21 * len(rows)
    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-side, 1.2 + side)
    axes.set_ylim(len(rows) - 0.3, -1.2)
    place = {r.system: i for i, r in enumerate(by_y)}
    for i, r in enumerate(by_x):
        j = place[r.system]
        moved = r.x_rank != r.y_rank
        axes.plot(
            [0.05, 1.15],
            [i, j],
            "-o",
            color=COLOURS[1] if moved else COLOURS[0],
            linewidth=1.5 if moved else 1.0,
            markersize=3.2,
        )
        _text(axes, 0, i, f"{_cut(r.system)} {r.x:,.2f} [{r.x_rank}]", "right")
        _text(axes, 1.2, j, f"[{r.y_rank}] {r.y:,.2f} {_cut(r.system)}", "left")
    _text(axes, 0, -0.9, pair.x, "right", bold=True)
    _text(axes, 1.2, -0.9, pair.y, "left", bold=True)
    words = "; ".join(f"{shown_name(r.system)} {r.x_rank} and {r.y_rank}" for r in by_x)
    label = f"Ranks under {pair.x} and {pair.y}: {words}"
    return svg(figure, salt=f"ranks/{control}/{pair.x}/{pair.y}", label=label)


def quality_and_cost(control: ControlSummary, measure: Measure) -> Markup:
    """Mean against seconds per text (logarithmic); lines join names beside the plot with dots.

    Empty if no system has both.
    """
    points = [
        (c.seconds, e, c.system)
        for c in control.costs
        if c.seconds > 0 and (e := control.entry(c.system, measure.name)) and e.mean == e.mean
    ]
    if not points:
        return Markup("")
    points.sort(key=lambda p: p[1].mean if measure.direction == "lower" else -p[1].mean)
    right = _width([s for *_, s in points]) + 0.1
    height = max(2.6, 0.6 + 0.19 * len(points))
    figure = Figure(figsize=(3.3 + right, height))
    FigureCanvasSVG(figure)
    w = 3.3 + right
    axes = figure.add_axes((0.52 / w, 0.45 / height, 2.55 / w, 1 - 0.6 / height))
    plain_axes(axes)
    axes.set_xscale("log")
    for seconds, e, _ in points:
        ends = error_of(e)
        if ends:
            axes.plot([seconds, seconds], ends, color=MUTED, linewidth=1)
        axes.plot([seconds], [e.mean], "o", color=COLOURS[0], markersize=5)
    axes.margins(0.08)
    times = [s for s, *_ in points]
    if max(times) < 3 * min(times):
        middle = math.sqrt(max(times) * min(times))
        axes.set_xlim(middle / 4, middle * 4)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.minorticks_off()
    names_beside(axes, [(x, e.mean, _cut(s)) for x, e, s in points], height=height - 0.6)
    axes.set_xlabel("seconds per text", color=INK, fontsize=8.5)
    axes.set_ylabel(_axis(measure), color=INK, fontsize=8.5, parse_math=False)
    words = "; ".join(f"{shown_name(s)} {e.mean:.1f} at {x:.3g} s" for x, e, s in points)
    return svg(
        figure,
        salt=f"cost/{control.control}/{measure.name}",
        label=f"{measure.name} against seconds per text: {words}",
    )


def frontier(levels: Sequence[ControlSummary], control: Measure, price: Measure) -> Markup:
    """A line a system through its means under two measures at each budget, from the lowest on.

    A system without a strength is one mark. Names appear next to the highest budget. Empty if no
    system has both means.

    Args:
        levels: the tables of one kind of control, the lowest budget first.
        control: upwards.
        price: from left to right; logarithmic where the highest mean is many times the lowest.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for level in levels:
        for system in level.systems:
            x, y = (level.entry(system, m.name) for m in (price, control))
            if x and y and math.isfinite(x.mean) and math.isfinite(y.mean):
                line = lines.setdefault(system, [])
                if (x.mean, y.mean) not in line:
                    line.append((x.mean, y.mean))
    if not lines:
        return Markup("")
    right = _width(list(lines)) + 0.1
    width, height = 4.3 + right, max(3.4, 0.6 + 0.19 * len(lines))
    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.52 / width, 0.45 / height, 3.55 / width, 1 - 0.6 / height))
    plain_axes(axes)
    for i, line in enumerate(lines.values()):
        axes.plot(*zip(*line, strict=True), linewidth=1.2, **series_mark(i).line(4.5))
    prices = [x for line in lines.values() for x, _ in line]
    if min(prices) > 0 and max(prices) > _MANY_TIMES * min(prices):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.margins(0.06)
    names_beside(axes, [(*line[-1], _cut(s)) for s, line in lines.items()], height=height - 0.6)
    axes.set_xlabel(_axis(price), color=INK, fontsize=8.5, parse_math=False)
    axes.set_ylabel(_axis(control), color=INK, fontsize=8.5, parse_math=False)
    words = "; ".join(
        f"{shown_name(s)} {', '.join(f'{y:.1f} at {x:.3g}' for x, y in line)}"
        for s, line in lines.items()
    )
    return svg(
        figure,
        salt=f"frontier/{levels[0].control}/{control.name}/{price.name}",
        label=f"{control.name} against {price.name}, from the lowest budget on: {words}",
    )


def _axis(measure: Measure) -> str:
    return f"{measure.name}{', %' if measure.percent else ''}"


def _axes(width: float, height: float, left: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    axes = figure.add_axes(
        (left / width, 0.42 / height, 1 - (left + 0.15) / width, 1 - 0.46 / height)
    )
    plain_axes(axes)
    axes.grid(axis="y", visible=False)
    return figure, axes


def _text(axes: Axes, x: float, y: float, text: str, side: str, *, bold: bool = False) -> None:
    axes.text(
        x, y, text, ha=side, va="center", fontsize=8.5, color=INK,
        weight="bold" if bold else "normal", parse_math=False,
    )  # fmt: skip


def _width(names: Sequence[str], more: str = "") -> float:
    """Inches that the longest of these names takes."""
    return 0.15 + _LETTER * max(len(_cut(n)) + len(more) for n in names)


def _cut(name: str) -> str:
    """Long names lose their middle, since those of one family often differ at the end only."""
    name = shown_name(name)
    half = (_LONGEST - 1) // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}"
