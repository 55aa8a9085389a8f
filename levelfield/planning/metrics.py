"""Number of rated samples, and of raters, that a metric's agreement with people needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from levelfield.agree.compare import MetricComparison, compare
from levelfield.agree.correlate import correlation_within, parts_from, within_systems
from levelfield.agree.join import RatedScores, join, merged_columns, note_of_groups
from levelfield.agree.sources import ManyScores, file_names, rating_table, read_all
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.io import Rated
from levelfield.io.arguments import is_given
from levelfield.io.tables import NONE
from levelfield.planning.design import MetricPlanOptions
from levelfield.planning.result import PlanColumn, SizePlan, rows_of, stated, too_many
from levelfield.scoring.standing import three_decimals
from levelfield.stats.dependent import williams
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.power import fewest, t_power
from levelfield.stats.resampling import DEFAULT

_FEWEST = 4
"""The fewest samples whose correlation has an interval and a test."""

_LEVEL = 0.95


def mean_reliability(single: float, k: float) -> float:
    """Returns the reliability of the mean of k ratings, `k ρ / (1 + (k − 1) ρ)` (Spearman and
    Brown).

    >>> round(mean_reliability(0.4, 3), 3)
    0.667
    """
    return k * single / (1 + (k - 1) * single)


def samples_for_width(r: float, width: float, *, level: float = _LEVEL) -> int | None:
    """Returns how many independent samples give Pearson's r an interval of this width.

    The interval is Fisher's, `tanh(atanh r ± z / √(n − 3))`.

    >>> samples_for_width(0.5, 0.2), samples_for_width(0.9, 0.2)
    (219, 20)
    """
    z = float(scipy.special.ndtri((1 + level) / 2))

    def narrow(n: int) -> bool:
        middle, half = math.atanh(r), z / math.sqrt(n - 3)
        return math.tanh(middle + half) - math.tanh(middle - half) <= width

    return fewest(narrow, _FEWEST)


def samples_for_correlation(r: float, *, power: float, alpha: float) -> int | None:
    """Returns how many independent samples show that r is not 0; None for r = 0.

    The t test of n samples rejects where |r| exceeds a critical r_c. Fisher's z of r is about
    normal with mean atanh r + r / (2 (n − 1)) and variance 1 / (n − 3) (Fisher 1921), so that the
    power is about `Φ((atanh r + r / (2 (n − 1)) − atanh r_c) √(n − 3))`.

    >>> samples_for_correlation(0.3, power=0.8, alpha=0.05)
    85
    """
    size = abs(r)

    def shows(n: int) -> bool:
        t = float(scipy.special.stdtrit(n - 2, 1 - alpha / 2))
        critical = math.atanh(t / math.sqrt(t * t + n - 2))
        mean = math.atanh(size) + size / (2 * (n - 1))
        return float(scipy.special.ndtr((mean - critical) * math.sqrt(n - 3))) >= power

    return fewest(shows, _FEWEST) if r else None


def samples_for_difference(
    r_a: float, r_b: float, r_ab: float, *, power: float, alpha: float
) -> int | None:
    """Returns how many independent samples show that two metrics differ in their correlation with
    the same ratings, by the noncentrality of Williams' test (`stats.dependent.williams`)."""
    return fewest(lambda n: t_power(williams(r_a, r_b, r_ab, n).t, n - 3, alpha) >= power, _FEWEST)


@dataclass(frozen=True)
class _Expected:
    """What is expected of a metric on an aspect.

    Attributes:
        r: its correlation with the mean of `rated_by` raters.
        agreement: reliability of one rating; NaN if it is not known.
        design: variance of the correlation, as a multiple of that of independent samples.
        n: samples of the pilot; 0 without one.
        within: r of the pilot within its systems; NaN of fewer than two.
        parted: whether that is another than r of all samples together (`parts_from`).
    """

    metric: str
    aspect: str
    r: float
    rated_by: float
    agreement: float
    design: float = 1.0
    n: int = 0
    within: float = math.nan
    parted: bool = False

    def share(self, raters: int) -> float:
        """Returns the correlation with the mean of other raters, over that with these."""
        if math.isnan(self.agreement):
            return 1.0
        now, then = (mean_reliability(self.agreement, k) for k in (self.rated_by, raters))
        return math.sqrt(then / now)

    def samples(self, independent: int | None) -> int | None:
        """Returns how many samples are worth as many independent ones."""
        return None if independent is None else math.ceil(3 + (independent - 3) * self.design)


@keywords(MetricPlanOptions)
def plan_metrics(
    scores: ManyScores = (), chosen: MetricPlanOptions | None = None, **words: Any
) -> SizePlan:
    """Plans the number of rated samples, and of raters, that a metric's agreement with people
    needs.

    Needed are samples for an interval of `width` (`samples_for_width`), for a correlation that is
    shown not to be 0 (`samples_for_correlation`), and for one that is told from another metric's
    (`samples_for_difference`). With k raters instead of j, r is `√(ρ_k / ρ_j)` times as large, ρ_k
    being the reliability of the mean of k ratings (`mean_reliability`).

    Of a pilot, r is Pearson's, and samples count by as much as its interval, which draws whole
    sources, is wider or narrower than that of independent samples. Every two of its metrics are
    told apart as `levelfield correlate` does: the squared standard error of the difference falls as
    samples are added, and the level is α over the number of comparisons on the aspect.

    Args:
        scores: of a pilot, with `ratings`; without any, r has to be stated.
        chosen: what is planned.
        words: options of `MetricPlanOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: neither a pilot nor a correlation, or a pilot without a correlation.

    >>> plan = plan_metrics(r=0.4, raters=[1])
    >>> plan.rows[0]["samples_for_width"], plan.rows[0]["samples_for_correlation"]
    (273, 46)
    """
    chosen = MetricPlanOptions.of(chosen, **words)
    pilots: list[_Expected] = []
    pairs: list[MetricComparison] = []
    left_out: list[str] = []
    pilot = is_given(scores)
    if pilot and not is_given(chosen.ratings):
        raise UserError("the scores of a pilot need its ratings; give --ratings FILE")
    if not pilot:
        pilot_options = ("ratings", "mapping", "samples", "metrics", "aspects", "lower_is_better")
        chosen.refuse(pilot_options, "plans without the scores of a pilot")
    if pilot:
        columns, rated, samples = read_all(
            scores, chosen.ratings, chosen.samples, format=None, mapping=chosen.mapping
        )
        table = join(
            merged_columns(columns), rated,
            aspects=chosen.aspects, metrics=chosen.metrics, flip=chosen.lower_is_better,
            samples=samples,
        )  # fmt: skip
        left_out = note_of_groups(table.of_groups)
        pilots = list(_expected(table, rated, chosen))
        pairs = list(compare(table, alpha=chosen.alpha).comparisons)
        if not pilots:
            raise UserError("no metric of the pilot has a correlation with ratings")
    elif chosen.r is None:
        raise UserError("nothing to plan from: give the scores of a pilot with --ratings, or --r")
    else:
        pilots = [_Expected("", "", chosen.r, chosen.rated_by or 1, chosen.agreement or math.nan)]
    columns_of_plan = _columns(chosen, named=pilot, pairs=bool(pairs))
    metric_rows = [row for p in pilots for row in _rows(p, chosen)]
    pair_rows = [_pair_row(c, pairs, chosen) for c in pairs]
    values = [
        [row.get(column.key) for column in columns_of_plan]
        for row in itertools.chain(metric_rows, pair_rows)
    ]
    return SizePlan(
        question="metrics",
        caption=(
            f"samples for a 95 % interval of r no wider than {chosen.width:g}, to show that r is "
            f"not 0, and to tell two metrics apart ({100 * chosen.power:g} % power, "
            f"α = {chosen.alpha:g})"
        ),
        columns=columns_of_plan,
        rows=rows_of(columns_of_plan, values),
        assumptions={
            "pilot": [
                {
                    "metric": p.metric or None,
                    "aspect": p.aspect or None,
                    "r": p.r,
                    "rated_by": p.rated_by,
                    "agreement": None if math.isnan(p.agreement) else p.agreement,
                    "design": p.design,
                    "samples": p.n or None,
                    "r_within_systems": None if math.isnan(p.within) else p.within,
                }
                for p in pilots
            ]
        },
        notes=(
            *_notes(pilots, pairs, chosen),
            *_why_none(metric_rows, pair_rows, pairs, chosen),
            *left_out,
        ),
        choices=stated(chosen, "width", "power", "alpha", "r", "agreement", "rated_by")
        | (stated(chosen, "against", "between") if chosen.against is not None else {}),
        files=(*file_names(scores), *file_names(chosen.ratings), *file_names(chosen.samples)),
    )


def _columns(chosen: MetricPlanOptions, *, named: bool, pairs: bool) -> tuple[PlanColumn, ...]:
    names = [PlanColumn("metric", "metric", str), PlanColumn("aspect", "aspect", str, True)]
    return (
        *(names if named else []),
        PlanColumn("raters", "raters", repeated=True),
        PlanColumn("r", "r, or difference" if pairs else "r", float),
        PlanColumn("samples_for_width", "for the width"),
        PlanColumn("samples_for_correlation", "r not 0"),
        *(
            [PlanColumn("samples_for_difference", "told apart")]
            if pairs or chosen.against is not None
            else []
        ),
    )


def _rows(p: _Expected, chosen: MetricPlanOptions) -> Iterator[dict[str, Any]]:
    for raters in chosen.raters:
        share = p.share(raters)
        if math.isnan(p.agreement) and raters != chosen.raters[0]:
            return
        r = p.r * share
        if abs(r) >= 1:
            continue
        certainty = {"power": chosen.power, "alpha": chosen.alpha}
        apart = None
        if chosen.against is not None and not p.metric:
            apart = samples_for_difference(r, chosen.against * share, chosen.between, **certainty)
        yield {
            "metric": p.metric,
            "aspect": p.aspect,
            "raters": None if math.isnan(p.agreement) else raters,
            "r": r,
            "samples_for_width": p.samples(samples_for_width(r, chosen.width)),
            "samples_for_correlation": p.samples(samples_for_correlation(r, **certainty)),
            "samples_for_difference": apart,
        }


def _pair_row(
    c: MetricComparison, pairs: list[MetricComparison], chosen: MetricPlanOptions
) -> dict[str, Any]:
    """Returns the row of two metrics of a pilot, whose difference is taken as true."""
    level = chosen.alpha / sum(p.aspect == c.aspect for p in pairs)
    d, se, K = c.swapped.difference, c.swapped.se, c.swapped.clusters
    needed = None
    if d and se > 0:
        clusters = fewest(
            lambda k: t_power(d / se * math.sqrt(k / K), k - 1, level) >= chosen.power, _FEWEST
        )
        needed = None if clusters is None else math.ceil(clusters * c.n / K)
    return {
        "metric": f"{c.a} − {c.b}",
        "aspect": c.aspect,
        "r": d,
        "samples_for_difference": needed,
    }


def _expected(table: RatedScores, rated: Rated, chosen: MetricPlanOptions) -> Iterator[_Expected]:
    inside = {
        (c.metric, c.aspect): c.estimates["pearson"]
        for c in within_systems(table, "pearson", systems="these")
    }
    for aspect in table.aspects:
        ratings = rating_table([r for r in rated.ratings if r.aspect == aspect])
        counts = (~np.isnan(ratings.values)).sum(axis=1)
        single = chosen.agreement
        if single is None:
            single = krippendorff_alpha(ratings.values).value
        single = single if single > 0 else math.nan
        for metric in table.metrics:
            c = correlation_within(table, metric, aspect, None, "", ("pearson",), DEFAULT)
            e = c.estimates["pearson"]
            if e.why_undefined or e.why_no_interval or abs(e.value) >= 1 or e.n < _FEWEST:
                continue
            ends = np.clip([e.low, e.high], -1 + 1e-9, 1 - 1e-9)
            half = float(np.diff(np.arctanh(ends))[0]) / 2
            design = (half / float(scipy.special.ndtri((1 + _LEVEL) / 2))) ** 2 * (e.n - 3)
            within = inside.get((metric, aspect))
            yield _Expected(
                metric,
                aspect,
                e.value if chosen.r is None else chosen.r,
                float(chosen.rated_by or counts.mean()),
                single,
                design,
                e.n,
                math.nan if within is None else within.value,
                within is not None and parts_from(within, e),
            )


def _notes(
    pilots: list[_Expected], pairs: list[MetricComparison], chosen: MetricPlanOptions
) -> Iterator[str]:
    for p in pilots:
        if p.n:
            r, within = map(three_decimals, (p.r, p.within))
            inside = (
                ""
                if math.isnan(p.within)
                else f" of all samples together, {within} within systems,"
            )
            yield (
                f"{p.metric}, {p.aspect}: r {r}{inside} with {p.rated_by:.3g} raters, "
                f"{p.n:,} samples; one sample is worth {1 / p.design:.2g} independent ones"
            )
            if p.parted and chosen.r is None:
                yield (
                    f"{p.metric}, {p.aspect}: planned is r of all samples together, which "
                    f"differences between systems make up; --r {p.within:.3g} plans that within "
                    "systems"
                )
    if any(math.isnan(p.agreement) for p in pilots):
        yield "raters are not planned: their agreement is unknown; give --agreement"
    untested: dict[str, list[str]] = {}
    for c in pairs:
        if c.swapped.why_undefined:
            untested.setdefault(c.swapped.why_undefined, []).append(f"{c.a} − {c.b}")
    for reason, names in untested.items():
        yield f"{', '.join(dict.fromkeys(names))}: not planned: {reason}"
    if any(not c.swapped.why_undefined for c in pairs):
        m = max(sum(c.aspect == p.aspect for c in pairs) for p in pilots)
        over = f", at α = {chosen.alpha:g} over {m:,} comparisons" if m > 1 else ""
        yield f"two metrics: the difference of the pilot is taken as the true one{over}"


def _why_none(
    metric_rows: Sequence[Mapping[str, Any]],
    pair_rows: Sequence[Mapping[str, Any]],
    pairs: Sequence[MetricComparison],
    chosen: MetricPlanOptions,
) -> Iterator[str]:
    """Yields the reasons for rows without a number."""
    if any(row["r"] == 0 for row in metric_rows):
        yield f"{NONE} : an r of 0 is never shown not to be 0"
    if (
        any(row["r"] and row["samples_for_correlation"] is None for row in metric_rows)
        or any(row["samples_for_width"] is None for row in metric_rows)
        or any(
            row["samples_for_difference"] is None and not row["metric"]
            for row in metric_rows
            if chosen.against is not None
        )
        or any(
            row["samples_for_difference"] is None and c.swapped.difference and c.swapped.se > 0
            for row, c in zip(pair_rows, pairs, strict=True)
        )
    ):
        yield too_many("samples")
