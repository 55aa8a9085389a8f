"""The texts of a study with their seeds, and the weights of its means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.meta.seeds import SeededTexts
from levelfield.study.aggregate.control import ControlData
from levelfield.study.observations import ALL, Observed


@dataclass(frozen=True)
class MeasuredTexts(SeededTexts):
    """The texts of a study that have a value of a measure; clusters are prompts, strata datasets.

    Attributes:
        cells: (texts,) codes.
        asked: (texts,) position of the value asked for.
    """

    cells: Codes
    asked: Codes

    @classmethod
    def of(
        cls,
        control: ControlData,
        texts: Floats,
        positions: Sequence[int] | None = None,
        *,
        measured: Bools | None = None,
    ) -> MeasuredTexts:
        """Returns the texts with a value, of all cells or of those at these positions.

        Args:
            measured: (texts,) which texts, those without a value included.
        """
        observations = control.observations
        rows = np.flatnonzero(~np.isnan(texts) if measured is None else measured)
        if positions is not None:
            rows = rows[np.isin(observations.cell[rows], positions)]
        keys = [cell.key for cell in observations.cells]
        cells = observations.cell[rows]
        _, first = np.unique(observations.input, return_index=True)
        return cls(
            values=texts[rows],
            cells=cells,
            systems=np.array([control.systems.index(k.system) for k in keys], np.intp)[cells],
            seeds=np.array([control.seeds.index(k.seed) for k in keys], np.intp)[cells],
            inputs=observations.input[rows],
            asked=observations.value[rows],
            clusters=observations.prompt[first],
            strata=control.dataset_codes(first),
        )


def weights_of_mean(
    control: ControlData,
    o: Observed,
    texts: MeasuredTexts,
    positions: Sequence[int],
    value: int,
) -> Floats:
    """Returns (texts,) weights with which a system's mean over cells is that of its texts.

    Args:
        o: the measure.
        texts: those that have a value of it.
        positions: of the cells.
        value: 0 for all values of the control together, else 1 and the position of one.
    """
    name = (ALL, *control.values)[value]
    chosen = np.isin(texts.cells, positions)
    if value:
        chosen &= texts.asked == value - 1
    n = np.bincount(texts.cells[chosen], minlength=len(control.cell_weights))
    of_cells = np.zeros(len(n))
    for i in np.flatnonzero(n).tolist():
        of_cells[i] = control.cell_weights[i] * len(o.cells[i, name]) / n[i]
    weights = np.where(chosen, of_cells[texts.cells], 0.0)
    return weights / weights.sum() if chosen.any() else weights
