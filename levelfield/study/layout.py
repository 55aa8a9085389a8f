"""Layouts of study folders that other tools wrote, found by entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.extensions import Extensible
from levelfield.io.problems import shown
from levelfield.study.cells import Cell


@dataclass(frozen=True)
class StudyLayout:
    """How a folder with the texts and results of a study is read.

    Attributes:
        recognises: whether a folder is in this layout.
        cells: returns the cells of a folder, sorted by key; raises UserError where there are none.
        weights: returns the weight of each dataset in means over datasets; None where they are not
            known.
    """

    recognises: Callable[[Path], bool]
    cells: Callable[[Path], list[Cell]]
    weights: Callable[[Sequence[Cell]], Mapping[str, float] | None]


LAYOUTS: Mapping[str, StudyLayout] = Extensible("levelfield.study_layouts", StudyLayout, {})
"""The installed layouts by name."""


def layout_of(folder: Path) -> StudyLayout:
    """Returns the layout that a folder is in; the first installed one where none recognises it.

    Raises:
        UserError: no layout is installed.
    """
    layouts = list(LAYOUTS.values())
    if not layouts:
        raise UserError(
            f"{shown(str(folder))} is a folder, and no layout of study folders is installed; name "
            "a study file, or install levelfield-reproductions, which reads the layout of the "
            "published study"
        )
    return next((layout for layout in layouts if layout.recognises(folder)), layouts[0])
