"""Some texts of a study, so that a reader sees what every system wrote for the same request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levelfield.run.drawn import DRAWN, InputDraw
from levelfield.run.gallery import ShownSample
from levelfield.study.cells import Cell


def drawn_texts(cells: Sequence[Cell]) -> Mapping[str, list[list[ShownSample]]]:
    """Returns kind of control -> drawn requests, each with the texts of all systems.

    There are at most `DRAWN` texts of all kinds together, some of each kind.
    """
    kinds = list(dict.fromkeys(cell.key.control for cell in cells if cell.samples))
    draws = {kind: InputDraw[ShownSample](DRAWN // len(kinds)) for kind in kinds}
    for cell in cells:
        for sample in cell.samples:
            values = {m: of[sample.id] for m, of in cell.scores.items() if sample.id in of}
            draws[cell.key.control].offer(sample, ShownSample(sample, sample.system, values))
    return {kind: list(draw) for kind, draw in draws.items()}
