"""Which values of a run answer the same input."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping

import numpy as np

from levelfield.core.arrays import Codes, Floats, Hashes
from levelfield.core.sample import INPUT_FIELDS, wanted_name
from levelfield.meta.seeds import SeededTexts
from levelfield.meta.tally import NONE, Input, SystemTable
from levelfield.stats.clusters import coded


class Pairing:
    """Which rows of a table answer the same input."""

    def __init__(self, table: SystemTable) -> None:
        self._rows = np.flatnonzero(table.inputs != NONE)
        inputs = table.inputs[self._rows]
        of_input, first, code = np.unique(inputs, return_index=True, return_inverse=True)
        shared = table.clusters[self._rows][first]
        self.clusters: Hashes = np.where(shared == NONE, of_input, shared)  # (inputs,)
        self._cluster = coded(self.clusters)[1]
        self._seeds = None if table.seeds is None else table.seeds[self._rows]
        self._shape = (of_input.size, len(table.names))
        self._cell = code * len(table.names) + table.groups[self._rows]
        self.texts: Codes = np.bincount(self._cell, minlength=math.prod(self._shape)).reshape(
            self._shape
        )  # (inputs, systems)
        self._names = table.names
        self._examples = table.examples

    def why_empty(self, a: str, b: str) -> str:
        """Why two systems have no input in common on which they can be compared.

        Systems are compared on what all of them answered, so others may be the reason.
        """
        if np.any(self.texts.all(axis=1)):
            return "no input has a value from every system"
        pairs = [(a, b), *itertools.combinations(self._names, 2)]
        apart = (pair for pair in pairs if not self._share_inputs(*pair))
        pair = next(apart, None)
        if pair is None:
            return "no shared inputs: every two systems have some, but none is of all systems"
        return f"no shared inputs: {_difference(*pair, self._examples)}"

    def _share_inputs(self, a: str, b: str) -> bool:
        columns = [self._names.index(a), self._names.index(b)]
        return bool(np.any(self.texts[:, columns].all(axis=1)))

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
            clusters=self._cluster,
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


_SHOWN = 40
"""Characters of a field that a message shows."""


def _difference(a: str, b: str, examples: Mapping[str, Input]) -> str:
    """The first field in which an input of one system differs from one of the other."""
    without = [name for name in (a, b) if name not in examples]
    if without:
        return f"texts of {' and '.join(without)} name no {', '.join(INPUT_FIELDS[1:])}"
    parts = zip(INPUT_FIELDS, examples[a], examples[b], strict=True)
    differing = [(field, x, y) for field, x, y in parts if x != y]
    (field, x, y), *others = sorted(differing, key=lambda part: part[0] == "dataset")
    names = ", ".join(name for name, *_ in others)
    also = f"; {names} {'differs' if len(others) == 1 else 'differ'} as well" if others else ""
    return f"{a} has {_shown(field, x)}, {b} has {_shown(field, y)}{also}"


def _shown(field: str, value: object) -> str:
    if not value:
        return f"no {field}"
    if isinstance(value, tuple):
        items = [
            f"{item[0]}={wanted_name(item[1])}" if field == "control" else item for item in value
        ]
        value = " / ".join(items)
    text = str(value)
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 2].rstrip() + " …"
    return f"{field} {json.dumps(text, ensure_ascii=False)}"
