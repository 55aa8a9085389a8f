"""Number of items, and of raters per item, that the agreement of raters needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from levelfield.agree.sources import (
    Ratings,
    file_names,
    rating_table,
    ratings_on,
    read_ratings,
    split,
)
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.io.arguments import is_given
from levelfield.planning.design import RaterPlanOptions
from levelfield.planning.metrics import mean_reliability
from levelfield.planning.result import PlanColumn, SizePlan, rows_of, stated, too_many
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.power import fewest


def agreement_variance(agreement: float, raters: float, items: int) -> float:
    """Returns the variance of Krippendorff's α at the interval level, or of ICC(1,1).

    `2 (1 − ρ)² (1 + (k − 1) ρ)² / (k (k − 1) (n − 1))` for n independent items with k normal
    ratings each (Fisher 1925; Bonett 2002, equation 2).
    """
    rho, k = agreement, raters
    return 2 * (1 - rho) ** 2 * (1 + (k - 1) * rho) ** 2 / (k * (k - 1) * (items - 1))


def items_for_width(
    agreement: float, raters: float, width: float, *, design: float = 1.0, level: float = 0.95
) -> int | None:
    """Returns how many items give α an interval of this width.

    Args:
        design: variance of α, as a multiple of that of independent, normal items.

    >>> items_for_width(0.6, 3, 0.2)
    101
    """
    z = float(scipy.special.ndtri((1 + level) / 2))
    return fewest(
        lambda n: 2 * z * math.sqrt(design * agreement_variance(agreement, raters, n)) <= width, 3
    )


@dataclass(frozen=True)
class _Expected:
    """Agreement to expect on an aspect.

    Attributes:
        design: as for `items_for_width`.
        items, raters: of the pilot; 0 without one.
    """

    aspect: str
    agreement: float
    design: float = 1.0
    items: int = 0
    raters: float = 0.0


@keywords(RaterPlanOptions)
def plan_raters(
    ratings: Ratings = (), chosen: RaterPlanOptions | None = None, **words: Any
) -> SizePlan:
    """Plans the numbers of items and raters for an interval of the agreement of a given width.

    The items are those of `items_for_width`. The plan also has the reliability of the mean of all
    raters, with which a metric is compared (`mean_reliability`).

    Args:
        ratings: of a pilot, as for `agreement`; its α is taken as the true one, and the number of
            items is adjusted for an interval wider or narrower than that of independent, normal
            items. Without ratings, the agreement is required.
        chosen: what is planned.
        words: options of `RaterPlanOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: neither a pilot nor an agreement, or a pilot without an α.

    >>> plan_raters(agreement=0.6, raters=[3]).rows[0]["items"]
    101
    """
    chosen = RaterPlanOptions.of(chosen, **words)
    pilot = is_given(ratings)
    if not pilot:
        chosen.refuse(("format", "mapping", "aspects"), "plans without the ratings of a pilot")
    if pilot:
        pilots = list(_pilots(ratings, chosen))
    elif chosen.agreement is None:
        raise UserError("nothing to plan from: give the ratings of a pilot, or --agreement")
    else:
        pilots = [_Expected("", chosen.agreement)]
    columns = (
        *([PlanColumn("aspect", "aspect", str)] if pilot else []),
        PlanColumn("raters", "raters", repeated=True),
        PlanColumn("items", "items"),
        PlanColumn("ratings", "ratings"),
        PlanColumn("reliability", "reliability of the mean", float),
    )
    values = [
        [*([p.aspect] if pilot else []), k, n, None if n is None else n * k, reliability]
        for p in pilots
        for k in chosen.raters
        for n in [items_for_width(p.agreement, k, chosen.width, design=p.design)]
        for reliability in [mean_reliability(p.agreement, k)]
    ]
    return SizePlan(
        question="raters",
        caption=f"items that give Krippendorff's α a 95 % interval no wider than {chosen.width:g}",
        columns=columns,
        rows=rows_of(columns, values),
        assumptions={
            "pilot": [
                {
                    "aspect": p.aspect or None,
                    "agreement": p.agreement,
                    "design": p.design,
                    "items": p.items or None,
                    "raters": p.raters or None,
                }
                for p in pilots
            ]
        },
        notes=(
            *(
                f"{p.aspect}: α {p.agreement:.3f} of {p.items:,} items with {p.raters:.3g} "
                f"ratings; one item is worth {1 / p.design:.2g} independent, normal ones"
                for p in pilots
                if p.items
            ),
            *([too_many("items")] if any(None in row for row in values) else []),
        ),
        choices=stated(chosen, "width", "agreement"),
        files=file_names(ratings),
    )


def _pilots(ratings: Ratings, chosen: RaterPlanOptions) -> Iterator[_Expected]:
    reading = chosen.reading
    rated = read_ratings(ratings, format=reading.format, mapping=reading.mapping)
    z = float(scipy.special.ndtri(0.975))
    for aspect, ratings_of_aspect in split(
        ratings_on(rated.ratings, chosen.aspects), lambda r: r.aspect
    ).items():
        table = rating_table(ratings_of_aspect, rated.samples)
        e = krippendorff_alpha(table.values, clusters=table.clusters)
        if reason := e.why_undefined or e.why_no_interval:
            raise UserError(
                f"{aspect}: the pilot has no α with an interval: {reason}; give --agreement "
                "without a pilot, or choose aspects with --aspect"
            )
        counts = (~np.isnan(table.values)).sum(axis=1)
        raters = float(counts[counts > 1].mean())
        usual = agreement_variance(e.value, raters, e.n)
        if not usual:
            raise UserError(
                f"{aspect}: the raters of the pilot agree on everything; give --agreement"
            )
        design = ((e.high - e.low) / (2 * z)) ** 2 / usual
        agreement = e.value if chosen.agreement is None else chosen.agreement
        yield _Expected(aspect, agreement, design, e.n, raters)
