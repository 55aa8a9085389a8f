"""Agreement of the judges of an attribute (Figure 3 of the study)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.stats.correlation import pearson
from levelfield.stats.kappa import kappa_of_labels
from levelfield.stats.measures import why_undefined
from levelfield.study.aggregate.results import JudgeAgreement
from levelfield.study.observations import ALL, Observations, Observed


def agreements(observations: Observations) -> tuple[JudgeAgreement, ...]:
    """Returns the agreement of each attribute that two judges or more judge.

    Empty outputs are left out: they are wrong under every judge, and none has read them.
    """
    by_name = {o.measure.name: o for o in observations.observed}
    return tuple(
        _agreement(attribute, judges, by_name, ~observations.empty)
        for attribute, judges in observations.attributes.items()
        if len(judges) > 1
    )


def _agreement(
    attribute: str, judges: tuple[str, ...], by_name: Mapping[str, Observed], read: Bools
) -> JudgeAgreement:
    texts = [by_name[j].texts if j in by_name else None for j in judges]
    of_texts = [t[read] for t in texts if t is not None]
    of_rates = len(of_texts) < len(texts)
    columns = _rates(judges, by_name) if of_rates else of_texts
    pairs = [[_kappa_r_n(x, y, of_rates) for y in columns] for x in columns]
    return JudgeAgreement(
        attribute=attribute,
        judges=judges,
        kappa=tuple(tuple(kappa for kappa, _, _ in row) for row in pairs),
        r=tuple(tuple(r for _, r, _ in row) for row in pairs),
        n=tuple(tuple(n for _, _, n in row) for row in pairs),
        of_rates=of_rates,
    )


def _rates(judges: Sequence[str], by_name: Mapping[str, Observed]) -> list[Floats]:
    """Returns each judge's rates by cell and value asked for, or by cell where no value is told."""
    cells = {j: by_name[j].cells if j in by_name else {} for j in judges}
    places = dict.fromkeys(place for of_judge in cells.values() for place in of_judge)
    single = [place for place in places if place[1] != ALL] or list(places)
    return [
        np.array([fmean(rates) if (rates := of.get(place)) else math.nan for place in single])
        for of in cells.values()
    ]


def _kappa_r_n(x: Floats, y: Floats, of_rates: bool) -> tuple[float, float, int]:
    """κ, r and n of two judges where both judged.

    Undefined (NaN): fewer than two texts, or one of them finds all right or all wrong (κ: both of
    them, alike).
    """
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    r = math.nan if why_undefined("pearson", x, y) else pearson(x, y)
    kappa = math.nan if of_rates or x.size < 2 else kappa_of_labels(x > 0, y > 0)
    return kappa, r, int(x.size)
