"""Figures as inline SVG: text stays text, and equal summaries give equal bytes.

Figures are drawn in the light colours; `themed` turns these into the variables of `page.css`, which
has both modes. A series has a colour and a shape: no two of the first 64 have both alike, and
neighbours differ in both, so that a legend can be read with any colour vision and in print.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform, blended_transform_factory

from levelfield.core.arrays import Codes, Floats
from levelfield.core.direction import in_words
from levelfield.core.errors import UserError
from levelfield.core.strings import shortened
from levelfield.scoring.summary import GroupSummary, MetricSummary
from levelfield.show.words import best_first, shown_name

INK, MUTED, GRID, LEADER, CARD = "#1c1b19", "#6b665e", "#e6e2da", "#b9b3a8", "#fffefb"
DOT, MEAN = "#5b7fa6", "#143d66"
COLOURS = (
    "#0072b2", "#c85200", "#007d5c", "#b3589a", "#3d3d3d", "#a07400", "#3390c7", "#7a1f4b"
)  # fmt: skip
"""After Okabe and Ito (2008), each with a contrast of at least 3 to the card."""

VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    LEADER: "--leader",
    CARD: "--card",
    DOT: "--dot",
    MEAN: "--accent",
    **{colour: f"--series-{i}" for i, colour in enumerate(COLOURS, start=1)},
}
"""Colour of a figure -> its variable in `page.css`."""

_STYLE = re.compile(r'style="[^"]*"')
_COLOUR = re.compile("|".join(VARIABLES))


@dataclass(frozen=True)
class MarkShape:
    """A mark around the origin, as wide as 2.

    Attributes:
        lines: (points, 2) each.
        filled: whether they are outlines of what is filled.
    """

    lines: tuple[tuple[tuple[float, float], ...], ...]
    filled: bool

    @property
    def vertices(self) -> Floats:
        """(vertices, 2) of all lines."""
        return np.array([point for line in self.lines for point in line])

    @property
    def codes(self) -> Codes:
        """(vertices,) whether a vertex begins a line or goes on with it."""
        move, line_to = int(Path.MOVETO), int(Path.LINETO)
        return np.array([line_to if i else move for line in self.lines for i in range(len(line))])


def _outline(*points: tuple[float, float]) -> MarkShape:
    return MarkShape(((*points, points[0]),), True)


SHAPES = (
    MarkShape(
        (((0.0, 0.0), (0.0, 0.0)),), False
    ),  # a line without length and with round ends: a dot
    _outline((-1.1, -0.95), (1.1, -0.95), (0.0, 1.1)),
    _outline((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    MarkShape((((-1.0, -1.0), (1.0, 1.0)), ((-1.0, 1.0), (1.0, -1.0))), False),
    _outline((0.0, -1.25), (1.0, 0.0), (0.0, 1.25), (-1.0, 0.0)),
    MarkShape((((-1.2, 0.0), (1.2, 0.0)), ((0.0, -1.2), (0.0, 1.2))), False),
    _outline((-1.1, 0.95), (1.1, 0.95), (0.0, -1.1)),
    MarkShape((((-1.2, 0.5), (1.2, 0.5)), ((-1.2, -0.5), (1.2, -0.5))), False),
)


@dataclass(frozen=True)
class SeriesMark:
    """The colour and the shape of a series."""

    colour: str
    shape: MarkShape

    def svg(self) -> Markup:
        """Returns the mark for a legend."""
        paths = "".join(
            "M" + "L".join(f"{x:g} {-y:g}" for x, y in line) for line in self.shape.lines
        )
        colour = f"var({VARIABLES[self.colour]})"
        dot = self.shape is SHAPES[0]
        return Markup(
            '<svg class="mark" aria-hidden="true" viewBox="-1.5 -1.5 3 3"><path d="{}" '
            'style="fill: {}; stroke: {}; stroke-width: {}; stroke-linecap: round"/></svg>'
        ).format(
            paths,
            colour if self.shape.filled else "none",
            "none" if self.shape.filled else colour,
            2.2 if dot else 0.7,
        )

    def line(self, size: float) -> dict[str, Any]:
        """Returns how `Axes.plot` draws the series: its colour, and the mark at every point."""
        dot = self.shape is SHAPES[0]
        return {
            "color": self.colour,
            "marker": "o" if dot else Path(self.shape.vertices, self.shape.codes),
            "markersize": size,
            "markerfacecolor": self.colour if dot or self.shape.filled else "none",
            "markeredgewidth": 1.2 if not self.shape.filled and not dot else 0,
        }

    def draw(self, axes: Axes, x: Floats, y: Floats, *, size: float, alpha: float = 1.0) -> None:
        """Draws a mark at every place, all as one path: some bytes a mark, not an element each.

        The limits of the axes must be set.

        Args:
            size: in points.
        """
        centres = axes.transData.transform(np.column_stack([x, y]))
        vertices = centres[:, None] + self.shape.vertices * size / 2
        path = Path(vertices.reshape(-1, 2), np.tile(self.shape.codes, len(centres)))
        path.should_simplify = False  # it would drop lines without length, which is what dots are
        drawn: dict[str, Any] = (
            {"facecolor": self.colour, "linewidth": 0}
            if self.shape.filled
            else {"fill": False, "edgecolor": self.colour, "capstyle": "round"}
        )
        if not self.shape.filled:
            drawn["linewidth"] = size if self.shape is SHAPES[0] else size / 3
        axes.add_patch(PathPatch(path, transform=IdentityTransform(), alpha=alpha, **drawn))


def series_mark(i: int) -> SeriesMark:
    """Returns the mark of the series at an index, from 0."""
    n = len(SHAPES)
    return SeriesMark(COLOURS[i % len(COLOURS)], SHAPES[(i + i // n) % n])


def themed(svg: str) -> str:
    """Returns the figure with variables for its colours, each with the colour as its fallback."""

    def variables(style: re.Match[str]) -> str:
        return _COLOUR.sub(lambda c: f"var({VARIABLES[c[0]]}, {c[0]})", style[0])

    return _STYLE.sub(variables, svg)


MOST_POINTS = 2000
_WIDTH, _ROW, _FRAME, _NOTE = 4.05, 0.56, 0.55, 0.16  # inches
_LONGEST_NAME = 27


def means_figure(summary: MetricSummary) -> Markup:
    """The figure of `plot` as an element of a page; empty if no group has a value."""
    groups = _with_values(summary)
    if not groups:
        return Markup("")
    return svg(plot(summary), salt=summary.metric, label=_described(summary, groups))


def plot(summary: MetricSummary) -> Figure:
    """Draws the mean and interval of every group over its single values, the best group on top.

    Of more than `MOST_POINTS` values, the same number of every group is drawn at random, which the
    figure says.

    Args:
        summary: of a metric, such as `result["ctrleval.coherence"]`.

    Raises:
        UserError: no group has a value.
    """
    groups = _with_values(summary)
    if not groups:
        raise UserError(f"{summary.metric} has no values to draw")
    share = MOST_POINTS // len(groups)
    drawn = sum(min(share, len(group.points)) for group in groups)
    note = dots_note(drawn, sum(group.mean.n for group in groups))
    frame = _FRAME + (_NOTE if note else 0.0)
    height = frame + _ROW * len(groups)
    figure = Figure(figsize=(_WIDTH, height))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.03, (frame - 0.08) / height, 0.94, 1 - frame / height))
    jitter = np.random.default_rng(0)
    for row, group in enumerate(groups):
        _strip(axes, row, np.array(group.points[:share]), jitter)
        _mean_and_interval(axes, row, group)
        _label(axes, row, group)
    axes.set_ylim(len(groups) - 0.42, -0.58)
    axes.margins(x=0.03)
    axes.set_yticks([])
    axes.tick_params(axis="x", colors=MUTED, labelsize=8.5, length=3)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel(
        f"{summary.metric} ({in_words(summary.direction)})", color=INK, fontsize=9, parse_math=False
    )
    if note:
        figure.text(0.5, 0.04 / height, note, color=MUTED, fontsize=8, ha="center", va="bottom")
    return figure


def _with_values(summary: MetricSummary) -> list[GroupSummary]:
    """The groups that have values, the best first."""
    return [_finite_points(g) for g in best_first(summary) if g.mean.n > g.infinite]


def _finite_points(group: GroupSummary) -> GroupSummary:
    """The group without its infinite values, for which an axis has no place."""
    if not group.infinite:
        return group
    return replace(group, points=tuple(p for p in group.points if math.isfinite(p)))


def dots_note(drawn: int, values: int) -> str:
    """Says what the dots of a figure stand for, if not every value has one.

    >>> dots_note(2000, 1_000_000)
    'dots: a random 2,000 of 1,000,000'
    """
    return f"dots: a random {drawn:,} of {values:,}" if drawn < values else ""


def _strip(
    axes: Axes, row: int, values: npt.NDArray[np.float64], jitter: np.random.Generator
) -> None:
    """All single values of a group, spread a little."""
    y = row + 0.15 + jitter.uniform(-0.15, 0.15, size=values.size)
    dots(axes, values, y, colour=DOT, size=3.2 if values.size < 150 else 2.2, alpha=0.5)


_STROKE = 1e-10
"""Length of the stroke of a dot, as a share of the largest value: not zero, and too short for the
digits of an SVG."""


def dots(
    axes: Axes,
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    *,
    colour: str,
    size: float,
    alpha: float,
) -> None:
    """Draws many dots as one path: a few bytes a dot instead of an element each.

    A dot is a stroke with round ends that is too short to see. One of length 0 is a dot in SVG, but
    Agg, which draws PNG, leaves it out.
    """
    ends = np.repeat(np.column_stack([x, y]), 2, axis=0)
    ends[1::2] += _STROKE * np.maximum(np.ptp(ends, axis=0), np.abs(ends).max(axis=0, initial=0.0))
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], x.size))
    path.should_simplify = False  # it would drop lines of next to no length, which is what dots are
    axes.add_patch(
        PathPatch(
            path,
            fill=False,
            edgecolor=colour,
            alpha=alpha,
            linewidth=size,
            capstyle="round",
            snap=False,  # to whole pixels, where both ends meet again
        )
    )
    axes.update_datalim(ends)


def _mean_and_interval(axes: Axes, row: int, group: GroupSummary) -> None:
    mean = group.mean
    y = row + 0.15
    if not mean.why_no_interval:
        axes.plot(
            [mean.low, mean.high],
            [y, y],
            color=MEAN,
            linewidth=3,
            solid_capstyle="butt",
        )
    if not math.isfinite(mean.value):
        return
    axes.plot([mean.value], [y], "o", color=CARD, markersize=9)
    axes.plot([mean.value], [y], "o", color=MEAN, markersize=6.5)


def _label(axes: Axes, row: int, group: GroupSummary) -> None:
    """The name above its strip, so that a long one takes no width from the values."""
    name = shortened(shown_name(group.group), _LONGEST_NAME)
    n = f"n = {group.mean.n:,}" + (f", {group.undefined:,} undefined" * bool(group.undefined))
    n += f", {group.infinite:,} infinite" * bool(group.infinite)
    edges = blended_transform_factory(axes.transAxes, axes.transData)
    for x, text, color, size, side, weight in (
        (0, name, INK, 9.5, "left", "bold"),
        (1, n, MUTED, 8.5, "right", "normal"),
    ):
        axes.text(
            x,
            row - 0.3,
            text,
            transform=edges,
            color=color,
            fontsize=size,
            ha=side,
            va="center",
            weight=weight,
            parse_math=False,
        )


def plain_axes(axes: Axes) -> None:
    """Draws the left and lower edge of a plot and its grid, all of them muted."""
    axes.tick_params(colors=MUTED, labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def names_of_rows(axes: Axes, names: Sequence[str]) -> None:
    """Writes the name of each row to the left of a plot, in place of the labels of its ticks."""
    axes.set_yticks(range(len(names)), [""] * len(names))
    for row, name in enumerate(names):
        axes.text(
            -0.02, row, name, transform=axes.get_yaxis_transform(), ha="right",
            va="center", fontsize=8.5, color=INK, parse_math=False,
        )  # fmt: skip


def names_beside(axes: Axes, points: Sequence[tuple[float, float, str]], *, height: float) -> None:
    """Writes the name of every point beside the plot, with a line to it, so that none overlap.

    Args:
        points: x, y and name.
        height: of the axes in inches, whose limits must be set.
    """
    low, high = axes.get_ylim()
    heights = [(y - low) / (high - low) for _, y, _ in points]
    for (x, y, name), place in zip(points, apart(heights, 0.17 / height), strict=True):
        axes.annotate(
            name,
            (x, y),
            xytext=(1.05, place),
            textcoords="axes fraction",
            fontsize=8.5,
            color=INK,
            va="center",
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": LEADER,
                "linewidth": 0.6,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def apart(heights: Sequence[float], least: float) -> list[float]:
    """Heights moved as little as keeps neighbours `least` apart, pooling those that would touch.

    They stay within 0 and 1 if they fit.
    """
    order = np.argsort(heights, kind="stable")
    blocks: list[tuple[float, int]] = []  # centre, how many
    for h in np.asarray(heights, dtype=np.float64)[order]:
        blocks.append((float(h), 1))
        while len(blocks) > 1:
            (a, m), (b, n) = blocks[-2:]
            if b - a >= least * (m + n) / 2:
                break
            blocks[-2:] = [((a * m + b * n) / (m + n), m + n)]
    placed = [c + least * (i - (n - 1) / 2) for c, n in blocks for i in range(n)]
    top, bottom = 1.0, 0.0
    for i in reversed(range(len(placed))):
        placed[i] = top = min(placed[i], top)
        top -= least
    for i in range(len(placed)):
        placed[i] = bottom = max(placed[i], bottom)
        bottom += least
    places = [0.0] * len(placed)
    for index, y in zip(order.tolist(), placed, strict=True):
        places[index] = y
    return places


def _described(summary: MetricSummary, groups: Sequence[GroupSummary]) -> str:
    """Describes the figure for those who can't see it."""
    means = ", ".join(f"{shown_name(g.group)} {g.mean.value:.3g}" for g in groups)
    return f"Means of {summary.metric} with intervals over single values, best first: {means}"


def svg(figure: Figure, *, salt: str, label: str) -> Markup:
    """Returns a figure as an element of a page."""
    written = io.StringIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}),
        warnings.catch_warnings(),
    ):
        # the browser's fonts draw the names, so it does not matter what matplotlib's font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(
            written, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = written.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    # names of groups are equal in all figures, and nothing refers to them
    text = re.sub(r'<g id="[^"]*"', "<g", text).replace("xlink:href=", "href=")
    box = re.search(r'viewBox="[^"]*"', text)
    if box is None:
        raise RuntimeError("matplotlib wrote an SVG without a viewBox")
    # a hundredth of a point is finer than any screen
    text = re.sub(r'(?<= d=")[^"]*', lambda d: re.sub(r"(\.\d\d)\d+", r"\1", d[0]), themed(text))
    opening = Markup('<svg role="img" aria-label="{}" {}>').format(label, Markup(box.group()))
    return opening + Markup(text[text.index(">") + 1 :])
