"""The seeds of a study as a sample: contrasts of systems, and what is said of their seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.seeds import Contrast, contrast
from levelfield.study.aggregate.control import ControlData
from levelfield.study.observations import ALL, Observed


@dataclass(frozen=True)
class MeasuredTexts:
    """The texts that have a value of a measure.

    Attributes:
        values: (texts,) defined.
        cells, systems, seeds, inputs: (texts,) codes.
        asked: (texts,) position of the value asked for.
        prompts, datasets: (inputs,) codes.
    """

    values: Floats
    cells: Codes
    systems: Codes
    seeds: Codes
    inputs: Codes
    asked: Codes
    prompts: Codes
    datasets: Codes

    @classmethod
    def of(
        cls, control: ControlData, texts: Floats, positions: Sequence[int] | None = None
    ) -> MeasuredTexts:
        """Returns the texts with a value, of all cells or of those at these positions."""
        observations = control.observations
        rows = np.flatnonzero(~np.isnan(texts))
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
            prompts=observations.prompt[first],
            datasets=control.dataset_codes(first),
        )

    def seeds_of(self, system: int) -> int:
        """Returns the number of a system's seeds."""
        return len(np.unique(self.seeds[self.systems == system]))

    def mean(self, weights: Floats) -> Contrast | None:
        """Returns the mean of one system with these weights, (texts,)."""
        rows = np.flatnonzero(weights)
        if not rows.size:
            return None
        texts = _Texts(self.values[rows], weights[rows], self.seeds[rows], self.inputs[rows])
        return self._contrast([texts])

    def difference(
        self, a: int, b: int, omega: Floats, filled: tuple[float, float]
    ) -> Contrast | None:
        """Returns the difference of two systems.

        Args:
            a, b: the systems.
            omega: (inputs,) weight of each input, which a system's texts for it share.
            filled: the values of a's and of b's texts for an input that has weight and no value.
        """
        if not omega.any():
            return None
        of_a, of_b = (self._texts(s, omega, v) for s, v in zip((a, b), filled, strict=True))
        return self._contrast([of_a, of_b._replace(weights=-of_b.weights)])

    def _texts(self, system: int, omega: Floats, filled: float) -> _Texts:
        own = np.flatnonzero((self.systems == system) & (omega[self.inputs] > 0))
        seeds = np.unique(self.seeds[own]) if own.size else np.zeros(1, np.intp)
        n = np.bincount(self.inputs[own], minlength=len(omega))
        lacking = np.repeat(np.flatnonzero((omega > 0) & (n == 0)), len(seeds))
        inputs = np.concatenate([self.inputs[own], lacking])
        n = np.bincount(inputs, minlength=len(omega))
        return _Texts(
            values=np.concatenate([self.values[own], np.full(lacking.size, filled)]),
            weights=omega[inputs] / n[inputs],
            seeds=np.concatenate([self.seeds[own], np.resize(seeds, lacking.size)]),
            inputs=inputs,
        )

    def _contrast(self, of_systems: Sequence[_Texts]) -> Contrast | None:
        values, weights, seeds, inputs = map(np.concatenate, zip(*of_systems, strict=True))
        return contrast(
            values,
            weights,
            systems=np.repeat(range(len(of_systems)), [t.values.size for t in of_systems]),
            seeds=seeds,
            inputs=inputs,
            clusters=self.prompts[inputs],
            strata=self.datasets[inputs],
        )


class _Texts(NamedTuple):
    """Texts of one system, (texts,) each."""

    values: Floats
    weights: Floats
    seeds: Codes
    inputs: Codes


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


def seeds_in_words(seeds: Mapping[str, int]) -> str:
    """Returns how many seeds each system has.

    >>> seeds_in_words({"a": 3, "b": 1}), seeds_in_words({"a": 1, "b": 1})
    ('a 3 seeds, b one seed', 'one seed each')
    """
    if len(set(seeds.values())) == 1 and len(seeds) > 1:
        n = next(iter(seeds.values()))
        return f"{n} seeds each" if n > 1 else "one seed each"
    return ", ".join(f"{s} {n} seeds" if n > 1 else f"{s} one seed" for s, n in seeds.items())
