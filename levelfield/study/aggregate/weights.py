"""Weights of datasets in means over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mode

from levelfield.core.errors import UserError
from levelfield.study.cells import Cell, value_name


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
    return dict.fromkeys(datasets, 1.0), "equal, since the number of prompts is not known"


def _prompts(cells: Sequence[Cell]) -> int:
    """Returns the number of prompts: what most cells asked for a value, else what was seen."""
    sizes = []
    for cell in cells:
        values = {value_name(s.control) for s in cell.samples}
        values |= {v.value_asked for v in cell.groups} | {v.value for v in cell.rates}
        if cell.asked and values - {""}:
            sizes.append(round(cell.asked / len(values - {""})))
    return mode(sizes) if sizes else len({s.shared for c in cells for s in c.samples})
