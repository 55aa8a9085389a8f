"""The cells of one kind of control as arrays, with the choices that all its tables share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.resampling import Resampling
from levelfield.study.cells import Cell
from levelfield.study.observations import ALL, Observations, observe


@dataclass(frozen=True)
class ControlData:
    """The observations of one kind of control.

    Attributes:
        observations: of the measures that have a value.
        valueless: names of the measures that have none.
        systems, datasets: in the order of first appearance.
        seeds: sorted.
        weights: dataset -> its weight.
        cell_weights: (cells,) the weight of each cell's dataset.
        positions: (system, dataset or `ALL`) -> positions of its cells.
        resampling: the level of intervals, and how tests are drawn.
    """

    observations: Observations
    valueless: tuple[str, ...]
    systems: tuple[str, ...]
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    weights: Mapping[str, float]
    cell_weights: Floats
    positions: Mapping[tuple[str, str], Sequence[int]]
    resampling: Resampling

    @classmethod
    def of(
        cls, cells: Sequence[Cell], weights: Mapping[str, float], resampling: Resampling
    ) -> ControlData:
        """Returns the data of the cells of one kind of control."""
        observations = observe(cells)
        observed = tuple(o for o in observations.observed if o.has_values)
        valueless = tuple(o.measure.name for o in observations.observed if not o.has_values)
        keys = [cell.key for cell in cells]
        positions: dict[tuple[str, str], list[int]] = {}
        for i, key in enumerate(keys):
            for dataset in (ALL, key.dataset):
                positions.setdefault((key.system, dataset), []).append(i)
        return cls(
            observations=replace(observations, observed=observed),
            valueless=valueless,
            systems=tuple(dict.fromkeys(key.system for key in keys)),
            datasets=tuple(dict.fromkeys(key.dataset for key in keys)),
            seeds=tuple(sorted({key.seed for key in keys})),
            weights=weights,
            cell_weights=np.array([weights[key.dataset] for key in keys]),
            positions=positions,
            resampling=resampling,
        )

    @property
    def seeds_of_systems(self) -> dict[str, int]:
        """System -> the number of its seeds."""
        keys = [cell.key for cell in self.observations.cells]
        return {s: len({key.seed for key in keys if key.system == s}) for s in self.systems}

    @property
    def values(self) -> tuple[str, ...]:
        """The values asked for; none if there are too many to tell apart."""
        return self.observations.values

    def dataset_codes(self, rows: Codes) -> Codes:
        """Returns the position of the dataset of each of these texts."""
        at = [self.datasets.index(cell.key.dataset) for cell in self.observations.cells]
        return np.array(at, dtype=np.intp)[self.observations.cell[rows]]
