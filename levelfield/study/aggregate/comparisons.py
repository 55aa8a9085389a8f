"""Comparisons of systems, paired on equal requests and corrected for their number.

With two seeds or more of either system that its texts share, prompts and seeds are samples
(`stats.seeds.contrast`). With one, the signs of whole prompts are flipped, and a verdict is about
these runs; where each text has a draw of its own, prompts are the sample and seeds repeat them.
"""

from __future__ import annotations

import math

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.scoring.comparison import (
    Comparison,
    ValuesOfSystems,
    adjusted_comparisons,
    compared_systems,
    undefined_ends,
)
from levelfield.scoring.unpaired import SeparateTexts
from levelfield.stats.shares import votes_of
from levelfield.study.aggregate.control import ControlData, MeasuredTexts
from levelfield.study.observations import ALL, Observed


def comparisons(control: ControlData) -> dict[str, tuple[Comparison, ...]]:
    """Returns measure -> the comparisons of all pairs of systems.

    Measures known for whole cells only, and single judges, are not compared.
    """
    compared = {
        o.measure.name: o
        for o in control.observations.observed
        if o.texts is not None and o.measure.kind != "judge"
    }
    if len(control.systems) < 2:
        return {}
    measure_comparisons = compared_systems(
        (_values_of_systems(control, o) for o in compared.values()), control.resampling
    )
    adjusted = adjusted_comparisons(measure_comparisons, control.resampling, list(compared))
    return dict(zip(compared, adjusted, strict=True))


def _values_of_systems(control: ControlData, observed: Observed) -> ValuesOfSystems:
    observations = control.observations
    means, texts, lacking = _by_input(control, observed)
    _, first = np.unique(observations.input, return_index=True)
    values = np.asarray(observed.texts)
    unit = 100 if observed.measure.percent else 1
    return ValuesOfSystems(
        names=control.systems,
        values=means,
        texts=texts,
        lacking=lacking,
        clusters=observations.prompt[first],
        seeded=MeasuredTexts.of(control, values, measured=_measured(control, observed)),
        why_empty=lambda *_: "no request has a value from both",
        ends=undefined_ends(values, unit),
        votes=votes_of(values[~np.isnan(values)] / unit),
        unit=unit,
        separate=lambda: _separate(control, observed),
        strata=control.codes("dataset")[first],
        weights=np.array([control.weights[d] for d in control.datasets]),
        datasets=control.datasets,
    )


def _separate(control: ControlData, observed: Observed) -> SeparateTexts:
    observations = control.observations
    rows = np.flatnonzero(_measured(control, observed))
    values = max(1, len(control.values))
    return SeparateTexts(
        values=np.asarray(observed.texts)[rows],
        systems=control.codes("system")[rows],
        seeds=control.shared_seeds[rows],
        inputs=observations.input[rows],
        clusters=observations.prompt[rows],
        strata=(control.codes("dataset") * values + observations.value)[rows],
    )


def _measured(control: ControlData, observed: Observed) -> Bools:
    """Returns (texts,): whether a text is of a cell that was measured."""
    cells = len(control.observations.cells)
    measured = np.array([(i, ALL) in observed.cells for i in range(cells)])
    return np.asarray(measured[control.observations.cell])


def _by_input(control: ControlData, observed: Observed) -> tuple[Floats, Codes, Codes]:
    """Returns (inputs, systems): the mean over a system's texts for an input, NaN without a value;
    how many it has that were measured, and how many of those have none."""
    observations = control.observations
    texts = np.asarray(observed.texts)
    shape = (int(observations.input.max(initial=-1)) + 1, len(control.systems))
    places = observations.input * shape[1] + control.codes("system")
    defined = ~np.isnan(texts)
    all_texts, with_value = (
        np.bincount(places[rows], minlength=math.prod(shape)).reshape(shape)
        for rows in (_measured(control, observed), defined)
    )
    sums = np.bincount(places[defined], texts[defined], math.prod(shape)).reshape(shape)
    with np.errstate(invalid="ignore"):
        means = sums / with_value
    return means, all_texts, all_texts - with_value
