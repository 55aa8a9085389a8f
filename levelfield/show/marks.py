"""Colours of figures, which follow the page's light or dark mode, and marks that tell series apart.

Figures are drawn in the light colours; `themed` turns these into the variables of `page.css`, which
has both modes. A series has a colour and a shape: no two of the first 64 have both alike, and
neighbours differ in both, so that a legend can be read with any colour vision and in print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform

from levelfield.core.arrays import Codes, Floats

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
        """The mark for a legend."""
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
        """How `Axes.plot` draws the series: its colour, and the mark at every point."""
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
        at = axes.transData.transform(np.column_stack([x, y]))
        vertices = at[:, None] + self.shape.vertices * size / 2
        path = Path(vertices.reshape(-1, 2), np.tile(self.shape.codes, len(at)))
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
    """The mark of the series at a place, from 0."""
    n = len(SHAPES)
    return SeriesMark(COLOURS[i % len(COLOURS)], SHAPES[(i + i // n) % n])


def themed(svg: str) -> str:
    """The figure with variables for its colours, which stand behind them where there are none."""

    def variables(style: re.Match[str]) -> str:
        return _COLOUR.sub(lambda c: f"var({VARIABLES[c[0]]}, {c[0]})", style[0])

    return _STYLE.sub(variables, svg)
