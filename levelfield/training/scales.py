"""Scales of composite scores: mean and standard deviation of every component on reference text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.metric import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.metrics.composite.base import Component, CompositeMetric
from levelfield.metrics.composite.scales import MeasuredScale, StandardScale, scales_text
from levelfield.training.reference import Reference

DIGITS = 4
"""Significant digits of a scale."""

_LABELLED = 2
"""Every second intact passage is read with labels: relevance is dear."""

HEADER = """\
Scales of composite scores (docs/composite.md): mean and standard deviation of each component on
reference text, made by `levelfield train scales`. `component` is what determines its values, n the
number of values; `texts` names the passages, intact and degraded, by a digest."""


def measure_scales(
    metrics: Iterable[CompositeMetric], reference: Reference, *, progress: Progress = no_progress
) -> list[MeasuredScale]:
    """Returns the scale of every component of composite aspects.

    Coherence and consistency are measured on all texts; attribute relevance, which is dear, on
    every second one of the intact ones, each with every label of the attribute in turn.

    Args:
        progress: called with the number of texts that a component has read.

    Raises:
        UserError: a component has no spread.
    """
    return [
        scale
        for metric in metrics
        for component in metric.components()
        for scale in _scales(metric, component, _texts(component, reference), progress)
    ]


def texts_read(metrics: Iterable[CompositeMetric], reference: Reference) -> int:
    """Returns the number of texts that `measure_scales` has its components read."""
    return sum(
        len(_texts(component, reference)) for metric in metrics for component in metric.components()
    )


def write_scales(scales: Sequence[MeasuredScale], reference: Reference, seed: int) -> str:
    """Returns the file of scales, the same bytes for the same scales."""
    facts = {
        "sources": list(reference.sources),
        "intact": len(reference.intact),
        "degraded": len(reference.degraded),
        "seed": seed,
        "texts": reference.digest,
    }
    return scales_text(HEADER, facts, scales)


def _texts(component: Component, reference: Reference) -> list[Sample]:
    if not component.attribute:
        return list(reference.texts)
    return [
        replace(sample, id=f"{sample.id} {label}", control={component.attribute: label})
        for sample in reference.intact[::_LABELLED]
        for label in component.labels
    ]


def _scales(
    metric: CompositeMetric, component: Component, samples: Sequence[Sample], progress: Progress
) -> Iterator[MeasuredScale]:
    part = f"{metric.name.removeprefix('composite.')}: {component.ingredient.part}"
    if component.attribute:
        part += f" of {component.attribute}"
    values = np.concatenate([*_values(component, samples, progress), np.empty(0)])
    wanted = np.array([sample.control.get(component.attribute, "") for sample in samples])
    for label, key in component.keys.items():
        own = values[wanted == label] if label else values
        of = f"{part} {label}" if label else part
        yield MeasuredScale(key, of, *_scale(own[~np.isnan(own)], of))


def _scale(values: Floats, part: str) -> tuple[int, StandardScale]:
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    if not sd > 0:
        raise UserError(f"{part}: {len(values)} values without any spread; no scale can be made")
    return len(values), StandardScale(_rounded(float(values.mean())), _rounded(sd))


def _values(
    component: Component, samples: Sequence[Sample], progress: Progress
) -> Iterator[Floats]:
    for partition in partitions(samples):
        yield component.metric.score(partition).values
        progress(len(partition))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
