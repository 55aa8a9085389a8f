"""The cells of one kind of control as arrays, with the choices that all its tables share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mode
from typing import Literal

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.core.errors import UserError
from levelfield.scoring.seeds import NO_SEED, SeededTexts
from levelfield.stats.resampling import Resampling
from levelfield.study.cells import Cell, value_name
from levelfield.study.observations import ALL, Observations, Observed, observe


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
        """The requested values; none if they are too many to distinguish."""
        return self.observations.values

    @property
    def draws_of_texts(self) -> tuple[str, ...]:
        """The systems whose texts each have a draw of their own."""
        cells = self.observations.cells
        return tuple(dict.fromkeys(c.key.system for c in cells if c.draws == "text"))

    @property
    def shared_seeds(self) -> Codes:
        """(texts,): the position of the seed that a text shares with others of its system, or
        `NO_SEED`."""
        shared = np.array([cell.draws == "run" for cell in self.observations.cells])
        return np.where(shared[self.observations.cell], self.codes("seed"), NO_SEED)

    def codes(self, axis: Literal["system", "dataset", "seed"]) -> Codes:
        """Returns (texts,): the position of a text's system, dataset or seed."""
        names: tuple[object, ...] = getattr(self, f"{axis}s")
        codes = [names.index(getattr(cell.key, axis)) for cell in self.observations.cells]
        return np.array(codes, dtype=np.intp)[self.observations.cell]


def dataset_weights(
    cells: Sequence[Cell], weights: Mapping[str, float] | None
) -> tuple[dict[str, float], str]:
    """Returns dataset -> weight, and where the weights come from, in words.

    Args:
        weights: the user's; None for the number of prompts, or equal weights if it is not known.

    Raises:
        UserError: a weight is missing or not above 0.
    """
    datasets = dict.fromkeys(cell.key.dataset for cell in cells)
    if weights is not None:
        for name in datasets:
            if not weights.get(name, 0) > 0:
                raise UserError(
                    f"weights: dataset '{name}' has {weights.get(name, 'none')}; "
                    "expected a number above 0 for every dataset"
                )
        return {name: float(weights[name]) for name in datasets}, "those of the study"
    sizes = {name: _prompts([c for c in cells if c.key.dataset == name]) for name in datasets}
    if all(sizes.values()):
        return {name: float(n) for name, n in sizes.items()}, "the number of their prompts"
    return dict.fromkeys(datasets, 1.0), "equal, since the number of prompts is unknown"


def _prompts(cells: Sequence[Cell]) -> int:
    """Returns the number of prompts: the number that most cells request per value, else the number
    seen.
    """
    sizes = []
    for cell in cells:
        values = {value_name(s.control) for s in cell.samples}
        values |= {v.value_asked for v in cell.groups} | {v.value for v in cell.rates}
        if cell.asked and values - {""}:
            sizes.append(round(cell.asked / len(values - {""})))
    return mode(sizes) if sizes else len({s.shared for c in cells for s in c.samples})


@dataclass(frozen=True)
class MeasuredTexts(SeededTexts):
    """The texts of a study that have a value of a measure; clusters are prompts, strata datasets.

    Attributes:
        cells: (texts,) codes.
        targets: (texts,) position of the requested value.
    """

    cells: Codes
    targets: Codes

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
        _, first = np.unique(observations.input, return_index=True)
        return cls(
            values=texts[rows],
            cells=observations.cell[rows],
            systems=control.codes("system")[rows],
            seeds=control.shared_seeds[rows],
            inputs=observations.input[rows],
            targets=observations.value[rows],
            clusters=observations.prompt[first],
            strata=control.codes("dataset")[first],
        )


def weights_of_mean(
    control: ControlData, o: Observed, texts: MeasuredTexts, positions: Sequence[int], value: str
) -> Floats:
    """Returns (texts,) weights with which a system's mean over cells is that of its texts.

    Args:
        o: the measure.
        texts: the texts that have a value of it.
        positions: of the cells.
        value: the requested value, or `ALL`.
    """
    chosen = np.isin(texts.cells, positions)
    if value != ALL:
        chosen &= texts.targets == control.values.index(value)
    n = np.bincount(texts.cells[chosen], minlength=len(control.cell_weights))
    text_weights = np.zeros(len(n))
    for i in np.flatnonzero(n).tolist():
        text_weights[i] = control.cell_weights[i] * len(o.cells[i, value]) / n[i]
    weights = np.where(chosen, text_weights[texts.cells], 0.0)
    return weights / weights.sum() if chosen.any() else weights
