"""Costs of the systems of a study (Tables 14 and 15 of the study)."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np

from levelfield.study.aggregate.control import ControlData
from levelfield.study.aggregate.results import CostSummary
from levelfield.study.cells import passes_per_token
from levelfield.study.observations import ALL


def cost_summaries(control: ControlData) -> tuple[CostSummary, ...]:
    """Returns the costs of each system that has any."""
    summaries = []
    for system in control.systems:
        cells = [control.observations.cells[i] for i in control.positions[system, ALL]]
        costs = [cell.cost for cell in cells if cell.cost]
        if not costs:
            continue
        seconds = [c.wall_s / c.texts for c in costs if c.texts]
        counted = [(c.tokens, c.wall_s) for c in costs if c.tokens is not None and c.wall_s > 0]
        peaks = [c.peak_bytes for c in costs if c.peak_bytes is not None]
        tokens_per_second = (
            sum(t for t, _ in counted) / sum(s for _, s in counted) if counted else math.nan
        )
        summaries.append(
            CostSummary(
                system=system,
                seconds=fmean(seconds) if seconds else math.nan,
                deviation=float(np.std(seconds)) if seconds else math.nan,
                tokens_per_second=tokens_per_second,
                peak_bytes=max(peaks, default=None),
                cells=len(costs),
                passes_per_token=passes_per_token(costs),
            )
        )
    return tuple(summaries)
