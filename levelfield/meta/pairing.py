"""Which values of a run answer the same input."""

from __future__ import annotations

import math

import numpy as np

from levelfield.core.arrays import Codes, Floats, Hashes
from levelfield.meta.seeds import SeededTexts
from levelfield.meta.tally import NONE, SystemTable
from levelfield.stats.clusters import coded


class Pairing:
    """Which rows of a table answer the same input."""

    def __init__(self, table: SystemTable) -> None:
        self._rows = np.flatnonzero(table.inputs != NONE)
        inputs = table.inputs[self._rows]
        of_input, first, code = np.unique(inputs, return_index=True, return_inverse=True)
        shared = table.clusters[self._rows][first]
        self.clusters: Hashes = np.where(shared == NONE, of_input, shared)  # (inputs,)
        self._seeds = None if table.seeds is None else table.seeds[self._rows]
        self._shape = (of_input.size, len(table.names))
        self._cell = code * len(table.names) + table.groups[self._rows]
        self.texts: Codes = np.bincount(self._cell, minlength=math.prod(self._shape)).reshape(
            self._shape
        )  # (inputs, systems)
        self.why_empty = (
            "no input has a value from every system"
            if np.any(self.texts.all(axis=1))
            else "no shared inputs"
        )

    def seeded(self, values: Floats, group: int | None = None) -> SeededTexts | None:
        """The texts of all groups, or those of one that have a value, each with its seed.

        None if no text of the run has a seed.
        """
        if self._seeds is None:
            return None
        rows = np.arange(self._rows.size)
        if group is not None:
            use = ~np.isnan(values[self._rows]) & (self._cell % self._shape[1] == group)
            rows = np.flatnonzero(use)
        inputs, systems = np.divmod(self._cell[rows], self._shape[1])
        return SeededTexts(
            values=values[self._rows[rows]],
            systems=systems,
            seeds=self._seeds[rows],
            inputs=inputs,
            clusters=coded(self.clusters)[1],
            strata=np.zeros(self._shape[0], np.intp),
        )

    def lacking(self, values: Floats) -> Codes:
        """(inputs, systems): how many texts of a system on an input are undefined."""
        undefined = self._cell[np.isnan(values[self._rows])]
        return np.bincount(undefined, minlength=math.prod(self._shape)).reshape(self._shape)

    def means(self, values: Floats) -> Floats:
        """(inputs, systems): mean of the defined values of a system on an input; NaN if none."""
        v = values[self._rows]
        defined = ~np.isnan(v)
        cells = math.prod(self._shape)
        sums = np.bincount(self._cell[defined], weights=v[defined], minlength=cells)
        counts = np.bincount(self._cell[defined], minlength=cells)
        means = np.full(cells, np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means.reshape(self._shape)
